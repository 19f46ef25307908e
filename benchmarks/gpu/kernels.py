"""Every Triton kernel: its errors against float64, its time against the plain formula and against the chip's limits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from place import FORMATS, Place, Result, rates, short
from speed import CASES, Case, Work, arithmetic
from speed.case import OURS, PLAIN
from speed.cases.energies import PRODUCT, contest
from speed.clock import Quartiles, ratio, turns
from speed.gate import judge, worst
from speed.report import table

from regard import ops
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
    reason = triton.refuse() if place.is_full else None
    if reason is not None:
        result.failures.append(f"the kernels cannot be used: {reason}")
        return result
    if place.is_full:
        explanation = ops.explain(
            "additive_energies", *(torch.zeros(s, device=place.device) for s in ((1, 2, 4), (1, 3, 4), 4))
        )
        if f"{TRITON}: taken" not in explanation:
            result.failures.append(f"a GPU takes other kernels: {explanation}")
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
        "Half formats are computed in float32. Operations and bytes are the least that the operation needs, as "
        "`benchmarks/speed/arithmetic.py` counts them; a tangent counts 6 forward and 10 backward.",
        *single_kernels(place, limits[torch.float32], result),
    ]
    passed = len([row for row in rows if row[8] != ""])
    result.figures = f"{passed} of {len(rows)} rows within the gate"
    return result


def implementation() -> Implementation:
    """The implementation of additive energies in Triton."""
    implementations = ops.IMPLEMENTATIONS["additive_energies"]
    return next(implementation for implementation in implementations if implementation.name == TRITON)


def cases(place: Place, ours: Callable[..., Any]) -> Iterable[Case]:
    """The cases of additive energies, with tanh and with a rectifier, that measure the kernels."""
    for name, sizes in SIZES.items():
        case = CASES[name]
        backward = name == "additive"
        for slope in (None, SLOPE):
            make = partial(contest, backward=backward, ours=ours, slope=slope)
            form = "tanh" if slope is None else "leaky_relu"
            drawn = {**sizes, "D": sizes.get("D", 512)} if place.is_full else {**TINY, "T": min(TINY["T"], sizes["T"])}
            # the gate computes the plain formula in float64, so a part of the batch is enough
            gate = {"B": min(4, drawn["B"])}
            named = replace(case, name=f"{case.what}; {form}", make=make, gate=gate, quick={})
            yield place.case(named, **drawn)


def measured(place: Place, case: Case, dtype: torch.dtype, limit: Any, result: Result) -> list[object]:
    """A row of the table: the gate; then, if it holds, the time."""
    sizes = dict(case.sizes)
    kernels, _, form = case.name.partition("; ")
    name, error = worst(judge(case, sizes, dtype))
    shown = " ".join(f"{letter}{size}" for letter, size in sizes.items())
    row: list[object] = [
        kernels,
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
            f"{kernels}, {form}, {short(dtype)}: {name} is {error.ours:.2e} off, {error.allowed:.2e} allowed"
        )
        return [*row, *[""] * 8]
    sides = case.contest(dtype, sizes).sides
    seconds = turns(sides, rounds=place.rounds, turn=place.turn, clock=place.clock)
    plain = min(
        (name for name in sides if name in (PLAIN, PRODUCT)), key=lambda name: Quartiles.of(seconds[name]).median
    )
    faster, spent = ratio(seconds[plain], seconds[OURS]), Quartiles.of(seconds[OURS]).median
    assert case.work is not None
    row += [f"{1e3 * spent:.3g}", f"{1e3 * Quartiles.of(seconds[plain]).median:.3g}", f"{faster.median:.2f} ×"]
    return [*row, f"{faster.low:.2f} to {faster.high:.2f}", *against(case.work(**sizes), spent, limit)]


def against(work: Work, seconds: float, limit: Any) -> list[str]:
    """Bytes and operations a second, each with its share of the chip's."""
    traffic, operations = work.traffic / seconds, work.operations / seconds
    shares = f"{traffic / limit.traffic:.0%}", f"{operations / limit.operations:.0%}"
    return [digits(traffic / 1e9), shares[0], digits(operations / 1e9), shares[1]]


def digits(number: float) -> str:
    """A number with three digits or more."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def work_of(B: int, T: int, S: int, D: int) -> dict[str, Work]:
    """The least work of each kernel's launches in a forward and backward pass."""
    inputs, energies = 4 * (B * T * D + B * S * D), 4 * B * T * S
    forward = arithmetic.tangents(B * T, S, D, backward=False)
    backward = arithmetic.tangents(B * T, S, D, backward=True) - forward
    return {
        "powers_kernel": Work(2 * inputs / 4, 2 * inputs),
        "energies_kernel": Work(forward, inputs + energies),
        "rows_kernel": Work(backward, 2 * inputs + energies),
    }


def single_kernels(place: Place, limit: Any, result: Result) -> list[str]:
    """The time of each kernel by torch's profiler, for tanh in float32."""
    calls = 10 if place.is_full else 1
    case = next(iter(cases(place, implementation().function)))
    sizes = dict(case.sizes)
    ours = case.contest(torch.float32, sizes).sides[OURS]
    ours()
    place.clock()
    activities = [torch.profiler.ProfilerActivity.CPU]
    if place.device.type == "cuda":
        activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        for _ in range(calls):
            ours()
        place.clock()
    works = work_of(**sizes)
    spent = seconds_of(profile.key_averages(), works)
    rows = []
    for name, work in works.items():
        if name not in spent:
            if place.is_full:
                result.failures.append(f"the profiler saw nothing of {name}")
            continue
        launches, seconds = spent[name]
        rows.append([name, launches / calls, f"{1e6 * seconds / calls:.1f}", *against(work, seconds / calls, limit)])
    if not rows:
        return ["No times of single kernels: the profiler saw none."]
    head = ["kernel", "launches a pass", "µs a pass", "GB/s", "of a copy", "GFLOP/s", "of a float32 product"]
    shown = " ".join(f"{letter}{size}" for letter, size in sizes.items())
    return [f"Single kernels, in a forward and backward pass of {shown}, by torch's profiler:", table(head, rows)]


def seconds_of(events: Iterable[Any], names: Iterable[str]) -> Mapping[str, tuple[int, float]]:
    """Launches and seconds on the device, by the name with which the kernel's begins."""
    kernels = list(names)
    totals: dict[str, tuple[int, float]] = {}
    for event in events:
        name = next((name for name in kernels if event.key.startswith(name)), None)
        if name is not None and event.device_time_total:
            launches, seconds = totals.get(name, (0, 0.0))
            totals[name] = launches + event.count, seconds + event.device_time_total / 1e6
    return totals
