"""Speed, memory and errors of regard on this machine, compared with the plain implementation of the same computation.

    python benchmarks/bench.py --threads 1,2 --output bench/speed.md
    python benchmarks/bench.py additive entmax --quick

Both take turns within one process. Results and gradients are first checked against float64, and wrong ones are not
timed. Pictures of how cost grows are written beside the output. The exit status is 1 if a check failed.
"""

from __future__ import annotations

import argparse
import datetime
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from speed import growth, machine, report
from speed.cases import CASES
from speed.cases.energies import SIZES, grad_scale
from speed.measurement import FULL, QUICK, Effort, Measurement, measure

from regard.config.spelling import suggestion
from regard.errors import RegardError
from regard.training.device import threads as use_threads

ERRORS, GROWTH = "errors", "growth"
NAMES = (*CASES, ERRORS, GROWTH)
Say = Callable[[str], None]


def run(
    names: Sequence[str] = (),
    *,
    threads: Sequence[int] = (1,),
    quick: bool = False,
    pictures: Path | None = None,
    say: Say = lambda line: None,
) -> tuple[str, bool]:
    """Measures and reports.

    Args:
        names: names of cases, `errors` or `growth`; all if empty.
        threads: the numbers of threads; each case is timed with each of them.
        quick: small sizes and few rounds, to see whether it works, not how fast it is.
        pictures: pictures of growth are drawn to `<pictures>_<case>.svg`; none if None.
        say: called with a line about each step.

    Returns:
        The report in Markdown, and whether everything passed its gate.

    Raises:
        RegardError: for an unknown name.
    """
    for name in names:
        if name not in NAMES:
            raise RegardError(f"There is no case {name!r}; {suggestion(name, NAMES)}")
    chosen = list(names) or list(NAMES)
    counts = tuple(dict.fromkeys(threads))
    effort = QUICK if quick else FULL
    parts = [f"{datetime.date.today()}, {machine.describe()}", "## The machine's rates"]
    rates = {}
    for count in counts:
        say(f"rates with {count} threads")
        with use_threads(count):
            rates[count] = machine.measure_rates(rounds=effort.rounds)
    parts.append(report.rates(rates))
    measured = []
    for case in (CASES[name] for name in chosen if name in CASES):
        say(f"{case.name}: {case.what}")
        measured.append(measure(case, counts, effort))
    if measured:
        parts += _cases(measured, rates, effort)
    passes = all(measurement.passes for measurement in measured)
    if ERRORS in chosen:
        say("errors over scales of the inputs")
        results = grad_scale(sizes={**SIZES, **({"D": 64} if quick else {})})
        passes = passes and all(error.passes for errors in results.values() for error in errors.values())
        parts += ["## Errors of additive energies by the scale of the inputs", report.accuracy(results)]
    if GROWTH in chosen:
        parts += _growth(counts[0], effort, pictures, say)
    return "\n\n".join(parts) + "\n", passes


def _cases(measured: Sequence[Measurement], rates: Mapping[int, machine.Rates], effort: Effort) -> list[str]:
    title = f"## Time: medians of {effort.rounds} turns" + (
        ", quick: small sizes and few rounds, which prove nothing" * effort.quick
    )
    parts = [title, report.times(measured), "## The gate", report.gates(measured)]
    if any(measurement.case.work and measurement.seconds for measurement in measured):
        parts += ["## Compared with the least time for the counted work", report.limits(measured, rates)]
    if any(measurement.bytes for measurement in measured):
        parts += [
            "## Memory at the peak beyond inputs, results and gradients, one thread",
            report.memories(measured),
        ]
    return parts


def _growth(count: int, effort: Effort, pictures: Path | None, say: Say) -> list[str]:
    grown: dict[growth.Sweep, Any] = {}
    sweeps = growth.QUICK if effort.quick else growth.SWEEPS
    with use_threads(count):
        for sweep in sweeps:
            say(f"{sweep.case} as {sweep.letter} grows")
            grown[sweep] = growth.measure(sweep, rounds=min(effort.rounds, 7), turn=effort.turn / 4)
    parts = [f"## Cost as sizes grow, threads {count}", report.growth(grown)]
    for case in dict.fromkeys(sweep.case for sweep in sweeps) if pictures is not None else ():
        assert pictures is not None
        path = pictures.with_name(f"{pictures.name}_{case}.svg")
        growth.draw(path, CASES[case].what, {sweep: sides for sweep, sides in grown.items() if sweep.case == case})
        parts.append(f"![{case}: milliseconds as each size grows]({path.name})")
    return parts


def thread_counts(text: str) -> list[int]:
    """Numbers of threads, from the command line."""
    words = text.split(",")
    if not all(word.strip().isdigit() and 1 <= int(word) <= 1024 for word in words):
        raise argparse.ArgumentTypeError(f"{text!r}: give numbers from 1 to 1024 separated by commas, for example 1,2")
    return [int(word) for word in words]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs what the command line asks for, and returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(NAMES)}; all if none is given")
    parser.add_argument("--threads", type=thread_counts, default=[1], metavar="N,N", help="numbers of threads")
    parser.add_argument("--quick", action="store_true", help="small sizes and few rounds, as a test")
    parser.add_argument("--output", type=Path, help="a Markdown file instead of stdout")
    options = parser.parse_args(arguments)
    pictures = None if options.output is None else options.output.with_suffix("")
    try:
        text, passes = run(
            options.cases,
            threads=options.threads,
            quick=options.quick,
            pictures=pictures,
            say=lambda line: print(line, file=sys.stderr, flush=True),
        )
    except RegardError as error:
        parser.error(str(error))
    words = ["python benchmarks/bench.py", *options.cases, f"--threads {','.join(map(str, options.threads))}"]
    text = f"# Speed\n\n    {' '.join(words)}{' --quick' * options.quick}\n\n{text}"
    if options.output is None:
        print(text, end="")
    else:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(text, encoding="utf-8")
    return int(not passes)


if __name__ == "__main__":
    sys.exit(main())
