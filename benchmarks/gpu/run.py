"""What can be seen only on a GPU, in sections of at most two minutes, the most important ones first.

    python benchmarks/gpu/run.py                          # all, within ten minutes: make gpu
    python benchmarks/gpu/run.py training searches        # these: make gpu SECTIONS="training searches"
    python benchmarks/gpu/run.py --rehearse               # do these scripts work? Small sizes on the CPU

Needs an NVIDIA GPU, torch and triton; other packages that are missing are named, and taken from a folder of wheels
(--wheels). regard need not be installed. Every section is a process of its own, whose results are written row by row,
so that one that fails or is ended loses nothing. The report is written after each section, from all sections that were
ever run into the same output (results are kept in a JSON file beside it). The exit status is 0 if all held, 1 if
something did not, 2 where nothing could be tried.
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import packages

HERE = Path(__file__).parent
PATHS = [str(HERE.parents[1] / each) for each in ("src", "benchmarks", "benchmarks/peers", "tests")]
sys.path += PATHS
TOTAL, LIMIT, SLOWER = 590, 120, 5
"""Seconds of all sections and of most; how many times as long a section may take in a rehearsal."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the report.

    Args:
        title: its heading.
        function: MODULE.FUNCTION, which fills a result at a place.
        seconds: its limit, after which it is ended.
        arguments: further ones of the function.
    """

    title: str
    function: str
    seconds: float = LIMIT
    arguments: tuple[Any, ...] = ()


def presets(*names: str) -> Section:
    """Training steps of presets."""
    return Section(f"Training steps of presets: {', '.join(names)}", "training.presets", LIMIT, names)


SECTIONS = {
    "training": Section("Training steps of the recipe g2p-en", "training.recipe"),
    "searches": Section("Searches with the recipe g2p-en", "searches.recipe", 90),
    "kernels": Section("Triton kernels beside the chip's limits", "kernels.section"),
    "cases-models": Section("Cases of bench.py beside plain torch: models", "beside_plain.models"),
    "cases-operations": Section("Cases of bench.py beside plain torch: operations", "beside_plain.operations"),
    "transformer": Section("A Transformer's training beside nn.Transformer, compiled", "beside_plain.transformer"),
    "parity-mechanisms": Section("Mechanisms: as on the CPU?", "parity.mechanisms"),
    "parity-decoders": Section("Decoders and their gradients: as on the CPU?", "parity.decoders"),
    "parity-searches": Section("Searches and free runs of all decoders: as on the CPU?", "parity.searches"),
    "parity-parts": Section("Operations, losses, layers, encoders: as on the CPU?", "parity.parts"),
    "tests": Section("Tests that need a GPU", "suite.section"),
    "tasks-texts": Section(
        "Tasks by the command line",
        "tasks.section",
        LIMIT,
        ("text_to_text", "language_modelling", "labelling", "documents"),
    ),
    "tasks-signals": Section(
        "Tasks by the command line", "tasks.section", LIMIT, ("image_to_text", "text_to_speech", "forecasting")
    ),
    "presets-pairs": presets("translation-transformer", "translation-rnn", "copying"),
    "presets-signals": presets("formulas", "captioning", "forecasting"),
    "presets-speech": presets("speech", "speech-22k"),
    "presets-texts": presets("language-model", "labelling", "documents"),
    "presets-words": presets("g2p", "g2p-transformer", "text-to-text", "no-attention"),
    "presets-forms": presets("inflection", "inflection-transformer", "autoencoder", "transliteration"),
    "outputs": Section("Searches and free runs of presets, from inputs to outputs", "searches.presets"),
}
"""In the order of their importance, as the time of all together is limited."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a figure should be, and what it was when this first ran on a GPU."""

    figure: str
    least: float
    unit: str
    before: str


TARGETS = (
    Target("training of g2p-en at its default batch, float32", 400_000, "symbols/s", "110,000"),
    Target("training of g2p-en, bfloat16 beside float32", 1.0, "×", "0.70"),
    Target("decoder's pass in bfloat16 beside plain torch", 4.0, "×", "0.44"),
    Target("beam of 5 over 512 words", 60_000, "words/s", "15,000"),
    Target("greedy beside a beam of 5", 1.0, "×", "0.65"),
    Target("a step of a search in a half format beside a copy", 0.8, "of its rate", "0.11"),
    Target("additive energies, forward, beside hyperbolic tangents only", 0.6, "of their rate", "0.46"),
    Target("synthesis of speech, sentences", 1, "/s", "failed"),
    Target("the slowest case beside plain torch, float32", 1.0, "×", "0.20"),
    Target("the slowest case beside plain torch, bfloat16", 1.0, "×", "0.22"),
    Target("translation-transformer beside nn.Transformer compiled", 1.0, "×", "not measured"),
)


def unsupported_reason(*, rehearse: bool) -> str | None:
    """Why nothing can be tried, or None."""
    if (reason := packages.unsupported_reason()) is not None:
        return reason
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

    place, section = places.rehearsal() if rehearse else places.gpu(), SECTIONS[name]
    result = places.Result(place=places.describe(place), output=output)
    result.save()
    module, _, function = section.function.partition(".")
    getattr(__import__(module), function)(place, result, *section.arguments)
    result.save()


def outcome(name: str, seconds: float, *, rehearse: bool) -> dict[str, Any]:
    """A section in a process of its own; all processes that it started end with it."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "result.json"
        command = [sys.executable, str(HERE / "run.py"), "--work", name, "--output", str(output)]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), *PATHS])),
        }
        if rehearse:
            command.append("--rehearse")
            environment |= {"OMP_NUM_THREADS": "1", **({"TRITON_INTERPRET": "1"} if name == "kernels" else {})}
        start, failures = time.monotonic(), []
        with (Path(folder) / "log").open("w+", encoding="utf-8", errors="replace") as log:
            process = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, env=environment, start_new_session=True
            )
            try:
                status = process.wait(max(seconds, 1))
                if status:
                    failures.append(f"ended with status {status}")
            except subprocess.TimeoutExpired:
                failures.append(f"ended after {seconds:.0f} seconds; what there was by then follows")
            finally:
                _end(process)
            log.seek(0)
            printed = log.read().strip()
        print(printed, file=sys.stderr, flush=True)
        result: dict[str, Any] = {"parts": [], "failures": [], "figures": {}, "summary": "", "place": ""}
        if output.exists():
            result = json.loads(output.read_text(encoding="utf-8"))
        if failures:
            result["parts"].append("\n".join(f"    {line}" for line in printed.splitlines()[-12:]))
        spent = time.monotonic() - start
    return {**result, "failures": failures + result["failures"], "seconds": spent, "date": f"{datetime.date.today()}"}


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def report(results: Mapping[str, dict[str, Any]]) -> str:
    """The Markdown of all results."""
    from speed.report import table

    targets = []
    for target in TARGETS:
        found = [result["figures"][target.figure] for result in results.values() if target.figure in result["figures"]]
        reached = ("yes" if min(found) >= target.least else "**no**") if found else ""
        shown = _digits(min(found)) if found else "not measured"
        targets.append([target.figure, f"≥ {_digits(target.least)} {target.unit}", shown, target.before, reached])
    rows, machines = [], dict[str, list[str]]()
    for name, result in results.items():
        state = "failed" if result["failures"] else "held"
        rows.append([name, state, f"{result['seconds']:.0f}", result["date"], result["summary"]])
        machines.setdefault(result["place"] or "unknown", []).append(name)
    parts = ["# On a GPU", table(["target", "wanted", "found", "before", "reached"], targets)]
    parts.append(table(["section", "outcome", "seconds", "date", "figures"], rows))
    if missing := [name for name in SECTIONS if name not in results]:
        parts.append(f"Not run yet: {', '.join(missing)}.")
    parts += [f"{', '.join(names)}: {machine}." for machine, names in machines.items()]
    parts.append(f"    python benchmarks/gpu/run.py {' '.join(results)}")
    for name, result in results.items():
        parts.append(f"## {SECTIONS[name].title}")
        parts += [f"**Failed**: {failure}" for failure in result["failures"]]
        parts += [part if isinstance(part, str) else table(part["head"], part["rows"]) for part in result["parts"]]
    return "\n\n".join(parts) + "\n"


def _digits(figure: float) -> str:
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.3g}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "sections", nargs="*", metavar="SECTION", help=f"of {', '.join(SECTIONS)}; all if none is given"
    )
    parser.add_argument("--output", type=Path, help="bench/gpu.md, or bench/gpu-rehearsal.md")
    parser.add_argument("--total", type=float, default=TOTAL, help="seconds for all sections together")
    parser.add_argument("--wheels", type=Path, help="a folder of wheels of packages that are missing")
    parser.add_argument("--rehearse", action="store_true", help="small sizes on the CPU: do these scripts work?")
    parser.add_argument("--work", choices=SECTIONS, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    output = options.output or Path("bench") / f"gpu{'-rehearsal' * options.rehearse}.md"
    if options.work:
        work(options.work, rehearse=options.rehearse, output=output)
        return 0
    if unknown := set(options.sections) - set(SECTIONS):
        parser.error(f"there is no section {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    with tempfile.TemporaryDirectory() as folder:
        if options.wheels is not None:
            packages.unpack(options.wheels, Path(folder))
        reason = unsupported_reason(rehearse=options.rehearse)
        if reason is not None:
            print(reason, file=sys.stderr)
            return 2
        if lacking := packages.optional():
            print(packages.named(lacking), file=sys.stderr, flush=True)
        return run(options.sections or list(SECTIONS), output, total=options.total, rehearse=options.rehearse)


def run(names: Sequence[str], output: Path, *, total: float, rehearse: bool) -> int:
    """Runs sections as long as there is time; writes the report after each."""
    end, store, held = time.monotonic() + total, output.with_suffix(".json"), True
    output.parent.mkdir(parents=True, exist_ok=True)
    for name in names:
        section, left = SECTIONS[name], end - time.monotonic()
        limit = section.seconds * (SLOWER if rehearse else 1)
        if left < 20:
            print(f"no time is left for {name}", file=sys.stderr, flush=True)
            held = False
            continue
        seconds = min(left, limit)
        print(f"{section.title}: at most {seconds:.0f} s", file=sys.stderr, flush=True)
        result = outcome(name, seconds, rehearse=rehearse)
        held = held and not result["failures"]
        kept: dict[str, Any] = json.loads(store.read_text(encoding="utf-8")) if store.exists() else {}
        kept[name] = result
        kept = {name: kept[name] for name in SECTIONS if name in kept}
        store.write_text(json.dumps(kept), encoding="utf-8")
        output.write_text(report(kept), encoding="utf-8")
    print(output)
    return int(not held)


if __name__ == "__main__":
    sys.exit(main())
