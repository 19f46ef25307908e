"""What was measured, as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from regard.bench.case import OURS, PLAIN
from regard.bench.clock import Spread, ratio
from regard.bench.gate import Error, worst
from regard.bench.growth import Sweep
from regard.bench.machine import Rates
from regard.bench.measurement import Measurement

Row = Sequence[object]


def table(head: Row, rows: Iterable[Row]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(str(cell) for cell in line)} |" for line in lines)


def times(measured: Iterable[Measurement]) -> str:
    """Every side of every case, with how much faster ours is; what failed the gate has no times."""
    head = ["case", "threads", "way", "ms", "quartiles", "regard is faster", "quartiles", "aim"]
    return table(head, (row for one in measured for row in _timed(one)))


def _timed(one: Measurement) -> Iterator[Row]:
    if not one.passes:
        name, error = worst(one.errors)
        yield [
            one.case.name,
            "",
            f"**failed the gate**: {name} is {error.share:.2g} × as far off as allowed",
            *5 * [""],
        ]
        return
    for count, sides in one.seconds.items():
        for side, seconds in sides.items():
            spent = Spread.of([1000 * s for s in seconds])
            row: list[object] = [one.case.name, count, side, _short(spent.median), _quartiles(spent)]
            if side == OURS:
                yield [*row, "", "", ""]
                continue
            faster = ratio(seconds, sides[OURS])
            yield [*row, f"{_short(faster.median)} ×", _quartiles(faster), _aim(one, side, faster.median)]


def _aim(one: Measurement, side: str, faster: float) -> str:
    for aim in one.case.aims:
        if aim.rival == side and one.is_full:
            wanted = f"≥ {aim.speed:g} ×" if aim.speed >= 1 else f"≤ {1 / aim.speed:.2g} × its time"
            return f"{wanted}: {'met' if faster >= aim.speed else 'not met'}"
    return ""


def gates(measured: Iterable[Measurement]) -> str:
    """What each case is, its sizes, and how near its worst result is to failing."""
    rows = []
    for one in measured:
        name, error = worst(one.errors)
        sizes = " ".join(f"{letter}{size}" for letter, size in one.sizes.items())
        errors = f"{error.ours:.1e}", f"{error.plain:.1e}", f"{error.share:.2f}"
        rows.append([one.case.name, one.case.what, sizes, len(one.errors), name, *errors])
    head = ["case", "what", "sizes", "results", "worst", "error", "plain's error", "share of what is allowed"]
    return table(head, rows)


def limits(measured: Iterable[Measurement], rates: Mapping[int, Rates]) -> str:
    """Counted work, the least time it can take at this machine's rates, and how far above that ours is."""
    rows = []
    for one in measured:
        if one.case.work is None:
            continue
        work = one.case.work(**one.sizes)
        for count, sides in one.seconds.items():
            least = rates[count].seconds(work)
            above = Spread.of(sides[OURS]).median / least
            counted = f"{work.operations / 1e9:.3f}", f"{work.traffic / 1e6:.2f}"
            rows.append([one.case.name, count, *counted, _short(1000 * least), f"{_short(above)} ×"])
    return table(["case", "threads", "GFLOP", "MB", "least ms", "regard takes"], rows)


def memories(measured: Iterable[Measurement]) -> str:
    """Peaks beyond inputs, results and gradients."""
    rows = []
    for one in measured:
        if not one.bytes:
            continue
        ours, plain = one.bytes[OURS], one.bytes.get(PLAIN)
        share = f"{100 * ours / plain:.1f} %" if plain else ""
        rows.append([one.case.name, f"{ours / 1e6:.1f}", f"{plain / 1e6:.1f}" if plain else "", share, _room(one)])
    return table(["case", "regard MB", "plain MB", "share", "aim"], rows)


def _room(one: Measurement) -> str:
    ours, plain, case = one.bytes[OURS], one.bytes.get(PLAIN), one.case
    if not one.is_full:
        return ""
    if case.share is not None and plain:
        return f"≤ {100 * case.share:.0f} %: {'met' if ours <= case.share * plain else 'not met'}"
    if case.megabytes is not None:
        return f"≤ {case.megabytes:.0f} MB: {'met' if ours <= 1e6 * case.megabytes else 'not met'}"
    return ""


def accuracy(found: Mapping[float, Mapping[str, Error]]) -> str:
    """Errors by scale: ours, the plain formula's, and ours as a share of what is allowed."""
    names = list(next(iter(found.values())))
    head = ["scale", *(f"{name}: regard / plain / share" for name in names)]
    cells = {
        scale: [f"{e.ours:.1e} / {e.plain:.1e} / {e.share:.2f}" for e in errors.values()]
        for scale, errors in found.items()
    }
    return table(head, ([f"{scale:g}", *row] for scale, row in cells.items()))


def growth(grown: Mapping[Sweep, Mapping[str, Mapping[int, Spread]]]) -> str:
    """Medians in milliseconds as each size grows."""
    rows = []
    for sweep, sides in grown.items():
        others = " ".join(f"{letter}{size}" for letter, size in sweep.others.items() if letter != sweep.letter)
        for side, spreads in sides.items():
            costs = (f"{value}: {_short(1000 * spread.median)}" for value, spread in spreads.items())
            rows.append([sweep.case, sweep.letter, others, side, ", ".join(costs)])
    return table(["case", "grows", "the others", "way", "ms"], rows)


def rates(found: Mapping[int, Rates]) -> str:
    """What the machine does a second."""
    rows = ([count, f"{r.operations / 1e9:.0f}", f"{r.traffic / 1e9:.1f}"] for count, r in found.items())
    return table(["threads", "GFLOP/s of a product, 1024 wide", "GB/s of a copy, read and written"], rows)


def _short(x: float) -> str:
    """Three significant digits."""
    return f"{x:.0f}" if x >= 100 else f"{x:.3g}"


def _quartiles(spread: Spread) -> str:
    return f"{_short(spread.low)} to {_short(spread.high)}"
