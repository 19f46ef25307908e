"""Every Triton kernel: errors against float64, time against the plain formula, both against the chip's limits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from place import FORMATS, Place, Result, rates, short

from regard import ops
from regard.bench import CASES, Case, Work, arithmetic
from regard.bench.case import OURS, PLAIN
from regard.bench.cases.energies import PRODUCT, contest
from regard.bench.clock import Spread, ratio, turns
from regard.bench.gate import judge, worst
from regard.bench.report import table
from regard.ops.choose import Implementation

TRITON = "triton"
SLOPE = 0.1
SIZES = {"additive": {"B": 16, "T": 128, "S": 256}, "additive-forward": {"B": 16, "T": 128, "S": 256}}
SIZES["additive-step"] = {"B": 512, "T": 1, "S": 256, "D": 512}
TINY = {"B": 1, "T": 3, "S": 4, "D": 5}


def section(place: Place) -> Result:
    """Errors and times of the operation in every format, then times of its kernels one by one."""
    result = Result()
    triton = implementation()
    absent = triton.refuse() if place.is_full else None
    if absent is not None:
        result.failures.append(f"the kernels cannot be used: {absent}")
        return result
    if place.is_full:
        taken = ops.explain(
            "additive_energies", *(torch.zeros(s, device=place.device) for s in ((1, 2, 4), (1, 3, 4), 4))
        )
        if f"{TRITON}: taken" not in taken:
            result.failures.append(f"a GPU takes other kernels: {taken}")
    limits = {dtype: rates(place, dtype) for dtype in FORMATS}
    rows = []
    for case in cases(place, triton.function):
        for dtype in FORMATS:
            rows.append(measured(place, case, dtype, limits[torch.float32], result))
    head = [
        "kernels",
        "form",
        "sizes",
        "format",
        "worst",
        "error",
        "plain's",
        "share of what is allowed",
        "ms",
        "plain ms",
    ]
    head += ["faster", "quartiles", "GB/s", "of a copy", "GFLOP/s", "of a float32 product"]
    result.parts += [
        table(head, rows),
        "Half formats are computed in float32. Operations and bytes are those that the job cannot do without, as "
        "`regard.bench.arithmetic` counts them; a tangent counts 6 forward and 10 backward.",
        *alone(place, limits[torch.float32], result),
    ]
    passed = len([row for row in rows if row[8] != ""])
    result.figures = f"{passed} of {len(rows)} rows within the gate"
    return result


def implementation() -> Implementation:
    """That of additive energies in Triton."""
    return next(one for one in ops.IMPLEMENTATIONS["additive_energies"] if one.name == TRITON)


def cases(place: Place, ours: Callable[..., Any]) -> Iterable[Case]:
    """Those of additive energies, with the kernels as ours, and as rectifiers."""
    for name, sizes in SIZES.items():
        case = CASES[name]
        backward = name == "additive"
        for slope in (None, SLOPE):
            make = partial(contest, backward=backward, ours=ours, slope=slope)
            form = "tanh" if slope is None else "leaky_relu"
            wanted = {**sizes, "D": sizes.get("D", 512)} if place.is_full else {**TINY, "T": min(TINY["T"], sizes["T"])}
            # Gates need float64 on the plain way, so a part of the batch is enough.
            gate = {"B": min(4, wanted["B"])}
            named = replace(case, name=f"{case.what}; {form}", make=make, gate=gate, quick={})
            yield place.case(named, **wanted)


def measured(place: Place, case: Case, dtype: torch.dtype, limit: Any, result: Result) -> list[object]:
    """A row: the gate; then, if it holds, the time."""
    sizes = dict(case.sizes)
    what, _, form = case.name.partition("; ")
    found = judge(case, sizes, dtype)
    name, error = worst(found)
    shown = " ".join(f"{letter}{size}" for letter, size in sizes.items())
    row: list[object] = [
        what,
        form,
        shown,
        short(dtype),
        name,
        f"{error.ours:.1e}",
        f"{error.plain:.1e}",
        f"{error.share:.2f}",
    ]
    if not error.passes:
        result.failures.append(
            f"{what}, {form}, {short(dtype)}: {name} is {error.ours:.2e} off, {error.allowed:.2e} allowed"
        )
        return [*row, *[""] * 8]
    sides = case.contest(dtype, sizes).sides
    seconds = turns(sides, rounds=place.rounds, turn=place.turn, clock=place.clock)
    plain = min((name for name in sides if name in (PLAIN, PRODUCT)), key=lambda name: Spread.of(seconds[name]).median)
    faster, spent = ratio(seconds[plain], seconds[OURS]), Spread.of(seconds[OURS]).median
    assert case.work is not None
    row += [f"{1e3 * spent:.3g}", f"{1e3 * Spread.of(seconds[plain]).median:.3g}", f"{faster.median:.2f} ×"]
    return [*row, f"{faster.low:.2f} to {faster.high:.2f}", *against(case.work(**sizes), spent, limit)]


def against(work: Work, seconds: float, limit: Any) -> list[str]:
    """Bytes and operations a second, each with its share of the chip's."""
    traffic, operations = work.traffic / seconds, work.operations / seconds
    shares = f"{traffic / limit.traffic:.0%}", f"{operations / limit.operations:.0%}"
    return [digits(traffic / 1e9), shares[0], digits(operations / 1e9), shares[1]]


def digits(number: float) -> str:
    """Three at least."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def work_of(B: int, T: int, S: int, D: int) -> dict[str, Work]:
    """What the launches of each kernel in a forward and backward pass cannot do without."""
    inputs, energies = 4 * (B * T * D + B * S * D), 4 * B * T * S
    forward = arithmetic.tangents(B * T, S, D, backward=False)
    backward = arithmetic.tangents(B * T, S, D, backward=True) - forward
    return {
        "powers_kernel": Work(2 * inputs / 4, 2 * inputs),
        "energies_kernel": Work(forward, inputs + energies),
        "rows_kernel": Work(backward, 2 * inputs + energies),
    }


def alone(place: Place, limit: Any, result: Result) -> list[str]:
    """Time of each kernel by torch's profiler, tanh in float32."""
    calls = 10 if place.is_full else 1
    case = next(iter(cases(place, implementation().function)))
    sizes = dict(case.sizes)
    ours = case.contest(torch.float32, sizes).sides[OURS]
    ours()
    place.clock()
    watched = [torch.profiler.ProfilerActivity.CPU]
    if place.device.type == "cuda":
        watched = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=watched) as profile:
        for _ in range(calls):
            ours()
        place.clock()
    needed = work_of(**sizes)
    spent = seconds_of(profile.key_averages(), needed)
    rows = []
    for name, work in needed.items():
        if name not in spent:
            if place.is_full:
                result.failures.append(f"the profiler saw nothing of {name}")
            continue
        launches, seconds = spent[name]
        rows.append([name, launches / calls, f"{1e6 * seconds / calls:.1f}", *against(work, seconds / calls, limit)])
    if not rows:
        return ["Nothing of single kernels: the profiler saw none."]
    head = ["kernel", "launches a pass", "µs a pass", "GB/s", "of a copy", "GFLOP/s", "of a float32 product"]
    shown = " ".join(f"{letter}{size}" for letter, size in sizes.items())
    return [f"Kernels alone, in a forward and backward pass of {shown}, by torch's profiler:", table(head, rows)]


def seconds_of(events: Iterable[Any], names: Iterable[str]) -> Mapping[str, tuple[int, float]]:
    """Launches and seconds on the device, by the name that the kernel's begins with."""
    wanted = list(names)
    found: dict[str, tuple[int, float]] = {}
    for event in events:
        name = next((name for name in wanted if event.key.startswith(name)), None)
        if name is not None and event.device_time_total:
            launches, seconds = found.get(name, (0, 0.0))
            found[name] = launches + event.count, seconds + event.device_time_total / 1e6
    return found
