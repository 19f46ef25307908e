"""Everything, or what was asked for, from the machine's rates to the report."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.bench import growth, machine, report
from regard.bench.accuracy import SIZES, grad_scale
from regard.bench.cases import CASES
from regard.bench.measurement import FULL, QUICK, Effort, Measurement, measure
from regard.config.spelling import did_you_mean, nearest
from regard.errors import RegardError

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
        names: of cases, `errors` or `growth`; all when there are none.
        threads: each case is timed with each of these.
        quick: small sizes and few rounds: whether it works, not how fast it is.
        pictures: where pictures of growth go: `<pictures>_<case>.svg`; None draws none.
        say: told what is being done.

    Returns:
        The report in Markdown, and whether everything passed its gate.

    Raises:
        RegardError: for a name that is not known.
    """
    for name in names:
        if name not in NAMES:
            near = nearest(name, NAMES)
            hint = did_you_mean(near) if near else f"there are {', '.join(NAMES)}"
            raise RegardError(f"There is no case {name!r}; {hint}")
    wanted = list(names) or list(NAMES)
    counts = tuple(dict.fromkeys(threads))
    effort = QUICK if quick else FULL
    parts = [f"{datetime.date.today()}, {machine.describe()}", "## The machine's rates"]
    rates = {}
    for count in counts:
        say(f"rates with {count} threads")
        with machine.threads(count):
            rates[count] = machine.measure_rates(rounds=effort.rounds)
    parts.append(report.rates(rates))
    measured = []
    for case in (CASES[name] for name in wanted if name in CASES):
        say(f"{case.name}: {case.what}")
        measured.append(measure(case, counts, effort))
    if measured:
        parts += _cases(measured, rates, effort)
    passes = all(one.passes for one in measured)
    if ERRORS in wanted:
        say("errors over scales of the inputs")
        found = grad_scale(sizes={**SIZES, **({"D": 64} if quick else {})})
        passes = passes and all(error.passes for errors in found.values() for error in errors.values())
        parts += ["## Errors of additive energies by the scale of the inputs", report.accuracy(found)]
    if GROWTH in wanted:
        parts += _growth(counts[0], effort, pictures, say)
    return "\n\n".join(parts) + "\n", passes


def _cases(measured: Sequence[Measurement], rates: Mapping[int, machine.Rates], effort: Effort) -> list[str]:
    title = f"## Time: medians of {effort.rounds} turns" + (
        ", quick: sizes and rounds that prove nothing" * effort.quick
    )
    parts = [title, report.times(measured), "## The gate", report.gates(measured)]
    if any(one.case.work and one.seconds for one in measured):
        parts += ["## Beside the least time that the counted work can take", report.limits(measured, rates)]
    if any(one.bytes for one in measured):
        parts += [
            "## Memory at the peak beyond inputs, results and gradients, one thread",
            report.memories(measured),
        ]
    return parts


def _growth(count: int, effort: Effort, pictures: Path | None, say: Say) -> list[str]:
    grown: dict[growth.Sweep, Any] = {}
    sweeps = growth.QUICK if effort.quick else growth.SWEEPS
    with machine.threads(count):
        for sweep in sweeps:
            say(f"{sweep.case} as {sweep.letter} grows")
            grown[sweep] = growth.measure(sweep, rounds=min(effort.rounds, 7), turn=effort.turn / 4)
    parts = [f"## Cost as sizes grow, threads {count}", report.growth(grown)]
    for case in dict.fromkeys(sweep.case for sweep in sweeps) if pictures is not None else ():
        from regard.bench import figures  # needs matplotlib

        assert pictures is not None
        path = pictures.with_name(f"{pictures.name}_{case}.svg")
        figures.draw(path, CASES[case].what, {s: found for s, found in grown.items() if s.case == case})
        parts.append(f"![{case}: milliseconds as each size grows]({path.name})")
    return parts
