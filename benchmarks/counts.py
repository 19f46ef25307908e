"""How much code there is, and through how many files one step goes, beside another version of regard.

    git worktree add ../regard-before 8c3fd0f
    python benchmarks/counts.py --before ../regard-before

Rules of counting:

- lines are all lines of `src/**/*.py`;
- a function refuses or explains by name if its name contains `refus`, `ineligib`, `explain`, `objection` or
  `unsupported_reason`, or is `paths` of a model; by docstring if that begins with Why, By what or Refuses. Its lines
  are those from its first decorator to its end;
- a compiled loop is a function with a decorator `compiled`, `njit`, `jit` or `guvectorize` of numba;
- a file is entered by a call if a function of it is called, in a second call of the same, so that nothing is counted
  that happens once. Calls are made on a CPU, with masks and in float32; an optimiser step is what `regard train` does
  for a batch: forward, loss, backward, clipping, optimiser.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()
NAMES = ("refus", "ineligib", "explain", "objection", "unsupported", "_reason")
OPENINGS = ("Why ", "By what ", "Refuses ")
COMPILERS = {"compiled", "njit", "jit", "guvectorize"}
Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(path: Path) -> list[Function]:
    """All functions and methods of a file."""
    return [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, Function)]


def refuses_by_name(function: Function, folder: str) -> bool:
    is_paths = function.name == "paths" and folder == "models"
    return is_paths or any(name in function.name.lower() for name in NAMES)


def refuses_by_docstring(function: Function, folder: str) -> bool:
    return (ast.get_docstring(function) or "").startswith(OPENINGS)


def length(function: Function) -> int:
    first = min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])
    return (function.end_lineno or function.lineno) - first + 1


def is_compiled(function: Function) -> bool:
    called = (node.func if isinstance(node, ast.Call) else node for node in function.decorator_list)
    names = [(ast.unparse(node).rpartition(".")) for node in called]
    return any(name in COMPILERS and not home.startswith("triton") for home, _, name in names)


def files(checkout: Path) -> Iterator[tuple[Path, str]]:
    """The files of a checkout, each with the folder of the package that it is in."""
    source = checkout / "src" / "regard"
    for path in sorted(source.rglob("*.py")):
        yield path, path.relative_to(source).parts[0]


def read(checkout: Path) -> dict[str, int]:
    """What can be counted without running anything, by name."""
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path, _ in files(checkout)}
    owned = [(function, folder) for path, folder in files(checkout) for function in functions(path)]
    named, opened = (
        [length(function) for function, folder in owned if refuses(function, folder)]
        for refuses in (refuses_by_name, refuses_by_docstring)
    )
    return {
        "lines of src": sum(lines.values()),
        "lines of ops, layers and models": sum(
            lines[path] for path, folder in files(checkout) if folder in ("ops", "layers", "models")
        ),
        "files": len(lines),
        "files under 30 lines": sum(count < 30 for count in lines.values()),
        "functions that refuse or explain, by name": len(named),
        "lines of them": sum(named),
        "functions that refuse or explain, by docstring": len(opened),
        "lines of these": sum(opened),
        "compiled loops": sum(is_compiled(function) for function, _ in owned),
    }


def places(checkout: Path) -> list[tuple[str, int, int]]:
    """The files with functions that refuse or explain: name, functions, lines; the most lines first."""
    rows = []
    for path, folder in files(checkout):
        found = [
            length(function)
            for function in functions(path)
            if refuses_by_name(function, folder) or refuses_by_docstring(function, folder)
        ]
        if found:
            rows.append((str(path.relative_to(checkout / "src" / "regard")), len(found), sum(found)))
    return sorted(rows, key=lambda row: (-row[2], row[0]))


def entered(call: Callable[[], object]) -> int:
    """How many files of regard a second call enters."""
    import threading

    import regard

    root, names = str(Path(regard.__file__).parent), set[str]()

    def note(frame: Any, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(root):
            names.add(frame.f_code.co_filename)

    call()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return len(names)


def calls() -> Iterator[tuple[str, Callable[[], object]]]:
    """The steps whose files are counted, by name."""
    import tempfile

    import torch
    from preset_cases import Training, built
    from preset_data import path_of

    from regard import attention, layers, models

    torch.manual_seed(0)
    mask = torch.arange(7) < torch.tensor([7, 4])[:, None]
    mechanism = attention.bahdanau(query_size=8, memory_size=8, size=8)
    memory = mechanism.prepare(torch.randn(2, 7, 8), mask=mask)
    state, query = mechanism.initial_state(memory), torch.randn(2, 8)
    yield "Mechanism.step (additive)", lambda: mechanism.step(query, memory, state)

    embedding, head = layers.TokenEmbedding(9, 8), layers.TokenHead(8, 9)
    encoder = models.RecurrentEncoder(embedding, layers.RecurrentStack(8, 8))
    stack = layers.RecurrentStack(models.RecurrentDecoder.input_size(8, 8, attention=mechanism), 8)
    bridge = models.Bridge(encoder.stack, stack, "dense")
    recurrent = models.RecurrentDecoder(embedding, stack, head, bridge, attention=mechanism)
    encoded = encoder.encode(torch.randint(3, 9, (2, 7)), mask)
    yield "decoder step (recurrent)", step(recurrent, encoded)
    transformer = models.transformer_decoder(embedding, head, memory_size=8, num_layers=2, num_heads=2)
    yield "decoder step (Transformer)", step(transformer, encoded)
    tacotron = models.tacotron2(9).decoder.eval()
    yield "decoder step (Tacotron 2)", step(tacotron, models.Encoded(torch.randn(2, 7, 512), mask))

    with tempfile.TemporaryDirectory() as folder:
        for preset in ("text-to-text", "translation-transformer", "speech"):
            yield f"optimiser step ({preset})", Training(*built(preset, path_of(preset, Path(folder))), 1)


def step(decoder: Any, encoded: Any) -> Callable[[], object]:
    """A call that makes a decoder's first step, without gradients."""
    import torch

    with torch.no_grad():
        memory = decoder.prepare(encoded)
        state = decoder.initial_state(memory)
    inputs = decoder.first_inputs(memory) if hasattr(decoder, "first_inputs") else torch.tensor([1, 2])

    @torch.no_grad()
    def call() -> object:
        return decoder.step(inputs, memory, state)

    return call


def serve() -> None:
    """Prints how many files each step enters, as JSON."""
    with redirect_stdout(sys.stderr):
        found = {name: entered(call) for name, call in calls()}
    print(json.dumps(found))


def run(checkout: Path) -> dict[str, int]:
    """How many files each step enters in a version, in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, HERE, "--serve"], env=environment, check=True, stdout=subprocess.PIPE, text=True
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))


def table(columns: dict[str, dict[str, int]]) -> str:
    """A table in Markdown with a column for each version."""
    first = next(iter(columns.values()))
    rows = [["", *columns], ["---", *["---:"] * len(columns)]]
    rows += [[name, *(f"{values[name]:,}" for values in columns.values())] for name in first]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, nargs="?", default=HERE.parents[1], help="default: this one")
    parser.add_argument("--before", type=Path, help="a checkout of another version")
    parser.add_argument("--read-only", action="store_true", help="run no steps")
    parser.add_argument("--places", type=int, default=0, metavar="N", help="also the N files that refuse most")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve()
        return
    checkouts = {"before": options.before} if options.before else {}
    checkouts["now"] = options.checkout
    columns = {name: read(path) | ({} if options.read_only else run(path)) for name, path in checkouts.items()}
    print(table(columns))
    for name, count, lines in places(options.checkout)[: options.places]:
        print(f"{name}: {count} functions, {lines} lines")


if __name__ == "__main__":
    main()
