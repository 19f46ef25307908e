"""Triton kernels of additive energies: errors against float64, times beside the plain formula and the chip's limits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import Any

import torch
from place import FORMATS, HALVES, Place, Result, activity, rates, short
from speed import CASES, Case, Work, arithmetic
from speed.case import OURS, PLAIN
from speed.cases.energies import PRODUCT, contest
from speed.clock import Quartiles, ratio, turns
from speed.gate import judge, worst

from regard import ops
from regard.ops.choose import Implementation

TRITON = "triton"
SLOPE = 0.1
SIZES = {"additive": {"B": 16, "T": 128, "S": 256}, "additive-forward": {"B": 16, "T": 128, "S": 256}}
SIZES["additive-step"] = {"B": 512, "T": 1, "S": 256, "D": 512}
TINY = {"B": 1, "T": 3, "S": 4, "D": 5}


def section(place: Place, result: Result) -> None:
    """The chip's rates; errors and times of the operation in every format; times of its kernels one by one."""
    limits = {dtype: rates(place, dtype) for dtype in FORMATS}
    head = f"TFLOP/s of a product, {place.width} wide", f"GB/s of a copy of {place.megabytes} MB, read and written"
    add = result.table("format", *head)
    for dtype, limit in limits.items():
        add(short(dtype), f"{limit.operations / 1e12:.1f}", f"{limit.traffic / 1e9:.0f}")
    triton = implementation()
    reason = triton.unsupported_reason() if place.is_full else None if find_spec(TRITON) else "triton is not installed"
    if reason is not None:
        result.failures.append(f"the kernels cannot be used: {reason}")
        return
    tangents = tangent_rate(place)
    is_tf32 = torch.backends.cuda.matmul.allow_tf32
    result.parts.append(
        f"float32 products are {'TF32' if is_tf32 else 'true float32, not TF32'}. Powers of two, each one operation of "
        f"the units that also make hyperbolic tangents: {tangents / 1e9:,.0f} thousand million a second."
    )
    if place.is_full:
        shapes = (1, 2, 4), (1, 3, 4), 4
        explanation = ops.explain("additive_energies", *(torch.zeros(s, device=place.device) for s in shapes))
        if f"{TRITON}: taken" not in explanation:
            result.failures.append(f"a GPU takes other kernels: {explanation}")
    columns = "kernels", "form", "sizes", "format", "worst", "error", "plain's", "share of what is allowed", "ms"
    more = "plain ms", "faster", "quartiles", "GB/s", "of a copy", "GFLOP/s", "of a float32 product"
    add, held, count = result.table(*columns, *more, "of tangents"), 0, 0
    for case in cases(place, triton.function):
        for dtype in FORMATS:
            row, count = measured(place, case, dtype, limits[torch.float32], result, tangents), count + 1
            held += row[8] != ""
            add(*row)
            result.summary = f"{held} of {count} rows within the gate"
    result.parts.append(
        "Half formats are computed in float32. Operations and bytes are the least that the operation needs, as "
        "`benchmarks/speed/arithmetic.py` counts them, bytes as they are stored; a tangent counts 6 forward and 10 "
        "backward. Of tangents: the time of the least number of them, beside the time of all kernels."
    )
    single_kernels(place, limits[torch.float32], result)


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


def measured(place: Place, case: Case, dtype: torch.dtype, limit: Any, result: Result, tangents: float) -> list[object]:
    """A row of the table: the gate; then, if it holds, the time."""
    sizes = dict(case.sizes)
    kernels, _, form = case.name.partition("; ")
    name, error = worst(judge(case, sizes, dtype))
    shown = " ".join(f"{letter}{size}" for letter, size in sizes.items())
    row: list[object] = [kernels, form, shown, short(dtype), name, f"{error.ours:.1e}", f"{error.plain:.1e}"]
    row.append(f"{error.share:.2f}")
    if not error.passes:
        result.failures.append(
            f"{kernels}, {form}, {short(dtype)}: {name} is {error.ours:.2e} off, {error.allowed:.2e} allowed"
        )
        return [*row, *[""] * 9]
    sides = case.contest(dtype, sizes).sides
    seconds = turns(sides, rounds=place.rounds, turn=place.turn, clock=place.clock)
    plain = min(
        (name for name in sides if name in (PLAIN, PRODUCT)), key=lambda name: Quartiles.of(seconds[name]).median
    )
    faster, spent = ratio(seconds[plain], seconds[OURS]), Quartiles.of(seconds[OURS]).median
    assert case.work is not None
    work = case.work(**sizes)
    # bytes as they are stored
    work = Work(work.operations, work.traffic * dtype.itemsize / 4)
    if kernels == CASES["additive-step"].what and dtype in HALVES:
        result.least("a step of a search in a half format beside a copy", work.traffic / spent / limit.traffic)
    share = ""
    if kernels == CASES["additive-forward"].what and form == "tanh" and place.is_full:
        fastest = num_tangents(sizes) / tangents
        share = f"{fastest / activity(place, sides[OURS]).seconds:.0%}"
        if dtype == torch.float32:
            name = "additive energies, forward, beside hyperbolic tangents only"
            result.least(name, fastest / activity(place, sides[OURS]).seconds)
    row += [f"{1e3 * spent:.3g}", f"{1e3 * Quartiles.of(seconds[plain]).median:.3g}", f"{faster.median:.2f} ×"]
    return [*row, f"{faster.low:.2f} to {faster.high:.2f}", *against(work, spent, limit), share]


def num_tangents(sizes: Mapping[str, int]) -> int:
    """The tangents of a forward pass."""
    return sizes["B"] * sizes["T"] * sizes["S"] * sizes["D"]


def tangent_rate(place: Place) -> float:
    """Powers a second of a kernel that makes nothing else."""
    from powers import powers_of_two

    programs, width, steps = (4096, 1024, 1024) if place.is_full else (1, 16, 2)
    x = torch.rand(programs * width, device=place.device)
    call = {"powers": lambda: powers_of_two[(programs,)](x, steps, width)}
    seconds = turns(call, rounds=place.rounds, turn=place.turn, clock=place.clock)["powers"]
    return programs * width * steps / Quartiles.of(seconds).median


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


def single_kernels(place: Place, limit: Any, result: Result) -> None:
    """The time of each kernel by torch's profiler, for tanh in float32."""
    calls = 10 if place.is_full else 1
    case = next(iter(cases(place, implementation().function)))
    sizes = dict(case.sizes)
    ours = case.contest(torch.float32, sizes).sides[OURS]
    ours()
    place.clock()
    kinds = torch.profiler.ProfilerActivity
    with torch.profiler.profile(activities=[kinds.CUDA if place.is_full else kinds.CPU]) as profile:
        for _ in range(calls):
            ours()
        place.clock()
    works = work_of(**sizes)
    spent = seconds_of(profile.key_averages(), works)
    shown = " ".join(f"{letter}{size}" for letter, size in sizes.items())
    result.parts.append(f"Single kernels, in a forward and backward pass of {shown}, by torch's profiler:")
    head = "kernel", "launches a pass", "µs a pass", "GB/s", "of a copy", "GFLOP/s", "of a float32 product"
    add = result.table(*head)
    for name, work in works.items():
        if name in spent:
            launches, seconds = spent[name]
            add(name, launches / calls, f"{1e6 * seconds / calls:.1f}", *against(work, seconds / calls, limit))
        elif place.is_full:
            result.failures.append(f"the profiler saw nothing of {name}")


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
