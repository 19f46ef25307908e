"""What can be seen only on a GPU: tests, kernels, training and decoding, within ten minutes.

    python benchmarks/gpu/run.py --output bench/gpu.md

Needs an NVIDIA GPU, torch, triton and a few packages more, which it names where they are missing; regard need not be
installed: from a checkout, PYTHONPATH=src is enough. Every section runs in a process of its own with a limit of time,
so that one that fails or hangs does not lose the others; the report is written after each. The exit status is 0 if all
held, 1 if something did not, 2 where nothing could be tried.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent))  # the package speed
NEEDED = {
    "torch": "torch",
    "numpy": "numpy",
    "pydantic": "pydantic",
    "yaml": "pyyaml",
    "typer": "typer",
    "rich": "rich",
    "safetensors": "safetensors",
    "jaxtyping": "jaxtyping",
}
"""By the name that is imported, the package. Without triton all but the kernels can be tried."""
TOTAL = 590


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the report.

    Args:
        title: its heading.
        function: MODULE.FUNCTION, from a place to a result.
        seconds: its limit, after which it is ended.
    """

    title: str
    function: str
    seconds: float


SECTIONS = {
    "chip": Section("The chip's limits", "chip.section", 60),
    "kernels": Section("Triton kernels", "kernels.section", 140),
    "training": Section("Training steps of the recipe g2p-en", "recipe.training", 80),
    "decoding": Section("Decoding with the recipe g2p-en", "recipe.decoding", 80),
    "tests": Section("Tests that need a GPU", "suite.section", 150),
    "compiled": Section("Training steps with training.compile", "recipe.compiled", 150),
    "compiled-bfloat16": Section("Training steps with training.compile, bfloat16", "recipe.compiled_bfloat16", 150),
}
"""In the order of their importance, as the time of all together is limited."""


def absent(needed: Mapping[str, str] = NEEDED) -> list[str]:
    """Packages that are not installed."""
    return [package for name, package in needed.items() if find_spec(name) is None]


def refuse(*, rehearse: bool) -> str | None:
    """Why nothing can be tried, or None."""
    packages = absent()
    if find_spec("regard") is None:
        return "regard cannot be imported. Set PYTHONPATH=src, or install it: pip install -e ."
    if packages:
        return f"These packages are missing: {', '.join(packages)}. Install them: pip install {' '.join(packages)}"
    import torch

    if not rehearse and not torch.cuda.is_available():
        return (
            f"There is no GPU that torch {torch.__version__} can use, so nothing was measured. This needs a machine "
            "with an NVIDIA GPU and a build of torch with CUDA (--rehearse tries the scripts on the CPU)."
        )
    return None


def work(name: str, *, rehearse: bool, output: Path) -> None:
    """A section in this process; its result as JSON into a file."""
    import place as places

    place = places.rehearsal() if rehearse else places.gpu()
    module, _, function = SECTIONS[name].function.partition(".")
    result = getattr(__import__(module), function)(place)
    output.write_text(json.dumps({**asdict(result), "place": places.describe(place)}), encoding="utf-8")


def outcome(name: str, seconds: float, *, rehearse: bool) -> dict[str, Any]:
    """A section in a process of its own; all processes that it started end with it."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "result.json"
        command = [sys.executable, str(HERE / "run.py"), "--section", name, "--output", str(output)]
        environment = dict(os.environ)
        if rehearse:
            command.append("--rehearse")
            environment |= {"TRITON_INTERPRET": "1"} if name == "kernels" else {}
        start = time.monotonic()
        failures = []
        with (Path(folder) / "log").open("w+", encoding="utf-8", errors="replace") as log:
            process = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, env=environment, start_new_session=True
            )
            try:
                status = process.wait(max(seconds, 1))
                if status:
                    failures.append(f"ended with status {status}")
            except subprocess.TimeoutExpired:
                failures.append(f"ended after {seconds:.0f} seconds")
            finally:
                _end(process)
            log.seek(0)
            printed = log.read().strip()
        print(printed, file=sys.stderr, flush=True)
        spent = time.monotonic() - start
        if output.exists():
            result: dict[str, Any] = json.loads(output.read_text(encoding="utf-8"))
            failures += result["failures"]
        else:
            last = "\n".join(f"    {line}" for line in printed.splitlines()[-12:])
            result = {"parts": [last] if last else [], "figures": "", "place": ""}
    return {**result, "failures": failures, "seconds": spent}


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def report(results: Mapping[str, dict[str, Any]], command: str) -> str:
    """The Markdown of the results so far."""
    from speed.report import table

    place = next((result["place"] for result in results.values() if result["place"]), "the machine is not known")
    rows = []
    for name, result in results.items():
        state = "failed" if result["failures"] else "held"
        rows.append([SECTIONS[name].title, state, f"{result['seconds']:.0f}", result["figures"]])
    parts = ["# On a GPU", f"    {command}", f"{datetime.date.today()}. {place}."]
    parts.append(table(["section", "outcome", "seconds", "figures"], rows))
    for name, result in results.items():
        parts.append(f"## {SECTIONS[name].title}")
        parts += [f"**Failed**: {failure}" for failure in result["failures"]] + result["parts"]
    return "\n\n".join(parts) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("bench/gpu.md"))
    parser.add_argument("--sections", default=",".join(SECTIONS), help="names with commas between")
    parser.add_argument("--seconds", type=float, default=TOTAL, help="for all sections together")
    parser.add_argument("--rehearse", action="store_true", help="small sizes on the CPU: do these scripts work?")
    parser.add_argument("--section", choices=SECTIONS, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.section:
        work(options.section, rehearse=options.rehearse, output=options.output)
        return 0
    reason = refuse(rehearse=options.rehearse)
    if reason is not None:
        print(reason, file=sys.stderr)
        return 2
    names = [name for name in options.sections.split(",") if name]
    if unknown := set(names) - set(SECTIONS):
        parser.error(f"there is no section {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    sections = "" if names == list(SECTIONS) else f" --sections {options.sections}"
    command = "python benchmarks/gpu/run.py" + sections + " --rehearse" * options.rehearse
    end = time.monotonic() + options.seconds
    results: dict[str, dict[str, Any]] = {}
    options.output.parent.mkdir(parents=True, exist_ok=True)
    for name in names:
        left = end - time.monotonic()
        print(f"{SECTIONS[name].title}: at most {min(left, SECTIONS[name].seconds):.0f} s", file=sys.stderr, flush=True)
        if left < 5:
            results[name] = {"parts": [], "figures": "", "place": "", "seconds": 0, "failures": ["no time was left"]}
        else:
            results[name] = outcome(name, min(left, SECTIONS[name].seconds), rehearse=options.rehearse)
        options.output.write_text(report(results, command), encoding="utf-8")
    print(options.output)
    return int(any(result["failures"] for result in results.values()))


if __name__ == "__main__":
    sys.exit(main())
