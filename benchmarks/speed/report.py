"""The measurements as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from speed.case import OURS, PLAIN
from speed.clock import Quartiles, ratio
from speed.gate import Error, worst
from speed.growth import Sweep
from speed.machine import Rates
from speed.measurement import Measurement

Row = Sequence[object]


def table(head: Row, rows: Iterable[Row]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(str(cell) for cell in line)} |" for line in lines)


def times(measured: Iterable[Measurement]) -> str:
    """The times of every side of every case, and how much faster ours is; without times if the gate failed."""
    head = ["case", "threads", "way", "ms", "quartiles", "regard is faster", "quartiles", "aim"]
    return table(head, (row for measurement in measured for row in _timed(measurement)))


def _timed(measurement: Measurement) -> Iterator[Row]:
    if not measurement.passes:
        name, error = worst(measurement.errors)
        yield [
            measurement.case.name,
            "",
            f"**failed the gate**: {name} is {error.share:.2g} × as far off as allowed",
            *5 * [""],
        ]
        return
    for count, sides in measurement.seconds.items():
        for side, seconds in sides.items():
            ms = Quartiles.of([1000 * s for s in seconds])
            row: list[object] = [
                measurement.case.name,
                count,
                side,
                _short(ms.median),
                _quartiles(ms),
            ]
            if side == OURS:
                yield [*row, "", "", ""]
                continue
            faster = ratio(seconds, sides[OURS])
            yield [*row, f"{_short(faster.median)} ×", _quartiles(faster), _aim(measurement, side, faster.median)]


def _aim(measurement: Measurement, side: str, faster: float) -> str:
    for aim in measurement.case.aims:
        if aim.rival == side and measurement.is_full:
            target = f"≥ {aim.speed:g} ×" if aim.speed >= 1 else f"≤ {1 / aim.speed:.2g} × its time"
            return f"{target}: {'met' if faster >= aim.speed else 'not met'}"
    return ""


def gates(measured: Iterable[Measurement]) -> str:
    """Each case in words, its sizes, and its worst result."""
    rows = []
    for measurement in measured:
        name, error = worst(measurement.errors)
        sizes = " ".join(f"{letter}{size}" for letter, size in measurement.sizes.items())
        errors = f"{error.ours:.1e}", f"{error.plain:.1e}", f"{error.share:.2f}"
        rows.append([measurement.case.name, measurement.case.what, sizes, len(measurement.errors), name, *errors])
    head = ["case", "what", "sizes", "results", "worst", "error", "plain's error", "share of the allowed error"]
    return table(head, rows)


def limits(measured: Iterable[Measurement], rates: Mapping[int, Rates]) -> str:
    """The counted work, the least time for it at the rates of this machine, and how many times that ours takes."""
    rows = []
    for measurement in measured:
        if measurement.case.work is None:
            continue
        work = measurement.case.work(**measurement.sizes)
        for count, sides in measurement.seconds.items():
            least = rates[count].seconds(work)
            above = Quartiles.of(sides[OURS]).median / least
            counted = f"{work.operations / 1e9:.3f}", f"{work.traffic / 1e6:.2f}"
            rows.append([measurement.case.name, count, *counted, _short(1000 * least), f"{_short(above)} ×"])
    return table(["case", "threads", "GFLOP", "MB", "least ms", "regard takes"], rows)


def memories(measured: Iterable[Measurement]) -> str:
    """Peak memory beyond inputs, results and gradients."""
    rows = []
    for measurement in measured:
        if not measurement.bytes:
            continue
        ours, plain = measurement.bytes[OURS], measurement.bytes.get(PLAIN)
        share = f"{100 * ours / plain:.1f} %" if plain else ""
        rows.append(
            [
                measurement.case.name,
                f"{ours / 1e6:.1f}",
                f"{plain / 1e6:.1f}" if plain else "",
                share,
                _memory_aim(measurement),
            ]
        )
    return table(["case", "regard MB", "plain MB", "share", "aim"], rows)


def _memory_aim(measurement: Measurement) -> str:
    ours, plain, case = measurement.bytes[OURS], measurement.bytes.get(PLAIN), measurement.case
    if not measurement.is_full:
        return ""
    if case.share is not None and plain:
        return f"≤ {100 * case.share:.0f} %: {'met' if ours <= case.share * plain else 'not met'}"
    if case.megabytes is not None:
        return f"≤ {case.megabytes:.0f} MB: {'met' if ours <= 1e6 * case.megabytes else 'not met'}"
    return ""


def accuracy(results: Mapping[float, Mapping[str, Error]]) -> str:
    """Errors by scale: ours, the plain formula's, and and ours as a share of the allowed error."""
    names = list(next(iter(results.values())))
    head = ["scale", *(f"{name}: regard / plain / share" for name in names)]
    rows = []
    for scale, errors in results.items():
        rows.append([f"{scale:g}", *(f"{e.ours:.1e} / {e.plain:.1e} / {e.share:.2f}" for e in errors.values())])
    return table(head, rows)


def growth(grown: Mapping[Sweep, Mapping[str, Mapping[int, Quartiles]]]) -> str:
    """Medians in ms as each size grows."""
    rows = []
    for sweep, sides in grown.items():
        others = " ".join(f"{letter}{size}" for letter, size in sweep.others.items() if letter != sweep.letter)
        for side, quartiles in sides.items():
            costs = (f"{value}: {_short(1000 * each.median)}" for value, each in quartiles.items())
            rows.append([sweep.case, sweep.letter, others, side, ", ".join(costs)])
    return table(["case", "grows", "the others", "way", "ms"], rows)


def rates(measured: Mapping[int, Rates]) -> str:
    """What the machine does per second."""
    rows = ([count, f"{r.operations / 1e9:.0f}", f"{r.traffic / 1e9:.1f}"] for count, r in measured.items())
    return table(["threads", "GFLOP/s of a product, 1024 wide", "GB/s of a copy, read and written"], rows)


def _short(x: float) -> str:
    """Three significant digits."""
    return f"{x:.0f}" if x >= 100 else f"{x:.3g}"


def _quartiles(quartiles: Quartiles) -> str:
    return f"{_short(quartiles.low)} to {_short(quartiles.high)}"
