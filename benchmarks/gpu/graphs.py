"""The fused decoder's steps as CUDA graphs, against the same steps launched one by one: numbers and time.

The decoders are those that feed their output back: others attend to all steps in one operation, and have no loop to
record.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from place import Place, Result, milliseconds

from regard.bench import CASES
from regard.bench.case import OURS, PLAIN
from regard.bench.clock import ratio, turns
from regard.bench.gate import judge, worst
from regard.bench.report import table
from regard.models.fused.graphs import RECORDERS

LOOP = "launched one by one"
SIZES = ({}, {"B": 2, "T": 40, "S": 5}, {"B": 16, "T": 50, "S": 50}, {"B": 256})
CALLS = 4
"""Calls of one shape, which is recorded in the second one, as its backward pass is."""


@contextmanager
def one_by_one() -> Iterator[None]:
    """Within the block nothing is recorded or replayed."""
    recorders = dict(RECORDERS)
    RECORDERS.clear()
    try:
        yield
    finally:
        RECORDERS.update(recorders)


@contextmanager
def counted(kind: str) -> Iterator[Counter[str]]:
    """Counts what is recorded and replayed on a type of device."""
    counts: Counter[str] = Counter()
    recorder = RECORDERS[kind]

    class Counting(recorder):  # type: ignore[valid-type, misc]
        def record(self, work: Any) -> Any:
            result, replay = super().record(work)
            counts["recorded"] += 1

            def counting() -> None:
                counts["replayed"] += 1
                replay()

            return result, counting

    RECORDERS[kind] = Counting
    try:
        yield counts
    finally:
        if kind in RECORDERS:  # it is gone when recording failed
            RECORDERS[kind] = recorder


def section(place: Place) -> Result:
    """Decoders over narrow and wide memories, in several sizes."""
    result, rows, gains = Result(), [], []
    kind = place.device.type
    if kind not in RECORDERS:
        result.failures.append(f"nothing is recorded on {kind}")
        return result
    with warnings.catch_warnings(record=True) as warned, counted(kind) as counts:
        warnings.simplefilter("always", RuntimeWarning)
        for name in ("decoder", "decoder-wide-memory"):
            for changes in SIZES if place.is_full else ({},):
                case = place.case(CASES[name], **changes)
                sizes = place.sizes(case)
                before = Counter(counts)
                error_name, error = worst(judge(case, sizes, calls=CALLS))
                recorded, replayed = (counts[event] - before[event] for event in ("recorded", "replayed"))
                shown = " ".join(f"{letter}{size}" for letter, size in sizes.items())
                row: list[object] = [name, shown, recorded, replayed, error_name, f"{error.share:.2f}"]
                if not error.passes:
                    result.failures.append(f"{name}, {shown}: {error_name} is {error.ours:.2e} off")
                if not recorded or not replayed:
                    result.failures.append(f"{name}, {shown}: {recorded} recordings, {replayed} replays")
                rows.append([*row, *timed(place, case.contest(torch.float32, sizes).sides, gains)])
    # a failed capture is only a warning to users; here it fails the section
    result.failures += [str(warning.message) for warning in warned if "recorded" in str(warning.message)]
    head = [
        "case",
        "sizes",
        "recordings",
        "replays",
        "worst",
        "share of what is allowed",
        "ms",
        f"ms {LOOP}",
        "plain ms",
    ]
    result.parts.append(table([*head, f"faster than {LOOP}", "quartiles"], rows))
    result.figures = f"{min(gains):.2f} to {max(gains):.2f} × as fast as {LOOP}"
    return result


def timed(place: Place, sides: Any, gains: list[float]) -> list[str]:
    """Milliseconds of graphs, of the loop and of the plain decoder, and how much faster graphs are than the loop."""

    def loop() -> Any:
        with one_by_one():
            return sides[OURS]()

    # recorded before the clock starts
    for _ in range(CALLS):
        sides[OURS]()
    contestants = {OURS: sides[OURS], LOOP: loop, PLAIN: sides[PLAIN]}
    seconds = turns(contestants, rounds=place.rounds, turn=place.turn, clock=place.clock)
    gain = ratio(seconds[LOOP], seconds[OURS])
    gains.append(gain.median)
    return [
        *(milliseconds(times) for times in seconds.values()),
        f"{gain.median:.2f} ×",
        f"{gain.low:.2f} to {gain.high:.2f}",
    ]
