"""Laws of numerics: true gradients, half types, extreme energies."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import torch
from torch import Tensor

from regard.attention import AbstractScore
from regard.testing.assertion import require, require_finite
from regard.testing.subject import StepResults, Subject, SubjectSources, require_close_results

LENGTHS = (3, 2)
STEPS = 2
HALF = {torch.bfloat16: 0.05, torch.float16: 0.01}


def gradients_are_those_of_finite_differences(subject: Subject) -> None:
    """`torch.autograd.gradcheck` in float64 for queries, values and every parameter, at once and in the loop."""
    subject = convert(subject, torch.float64)
    sources = subject.sources(LENGTHS).replace_padding(0.0).require_grad()
    queries = subject.queries(len(LENGTHS), STEPS)
    if subject.mechanism.uses_query:
        queries.requires_grad_()

    def see(queries: Tensor, *values: Tensor) -> tuple[Tensor, ...]:
        memory = subject.prepare(dataclasses.replace(sources, values=values[: len(sources.values)]))
        outputs = subject.loop(memory, queries)
        constant = 0 * values[0].sum()  # weights without a gradient (hardmax) must be flat
        alignments = [weights if weights.requires_grad else weights + constant for weights in outputs.alignments]
        return outputs.contexts, *alignments, subject.at_once(memory, queries).contexts

    tensors = (queries, *sources.values, *subject.mechanism.parameters())
    try:
        torch.autograd.gradcheck(see, tensors, fast_mode=True)
    except RuntimeError as error:
        raise AssertionError(f"gradcheck: {error}") from error


def half_types_are_close_to_float32(subject: Subject) -> None:
    """bfloat16 and float16 have the results of float32 from the same numbers, to their precision."""
    for dtype, tolerance in HALF.items():
        half = convert(subject, dtype)
        expected = _see(convert(half, torch.float32), half)
        actual = _see(half)
        require(actual.contexts.dtype == dtype, f"the context of {dtype} numbers is {actual.contexts.dtype}.")
        require_close_results(actual, expected, f"{dtype} numbers", tolerance)


def extreme_energies_stay_finite(subject: Subject) -> None:
    """Large parameters, queries and values give no NaN and no infinity, neither forward nor backward."""
    for dtype, scale in {torch.float64: 1e3, torch.float32: 1e3, torch.bfloat16: 8.0, torch.float16: 8.0}.items():
        large = convert(subject, dtype)
        with torch.no_grad():
            for parameter in large.mechanism.parameters():
                parameter.mul_(scale)
        sources = large.sources(LENGTHS, scale=scale).require_grad()
        queries = large.queries(len(LENGTHS), STEPS, scale=scale).requires_grad_()
        _require_finite_results(large, sources, queries, f"large energies in {dtype}")


def autocast_changes_no_more_than_rounding(subject: Subject) -> None:
    """Under autocast on a CPU results and gradients are near float32; memories may be used inside and outside of it."""
    single = convert(subject, torch.float32)
    queries = single.queries(len(LENGTHS), STEPS)

    def see(prepares: torch.dtype | None, steps: torch.dtype | None) -> tuple[StepResults, StepResults]:
        sources = single.sources(LENGTHS).require_grad()
        with _autocast(prepares):
            memory = single.prepare(sources)
        with _autocast(steps):
            results = single.loop(memory, queries), single.at_once(memory, queries, alignment=False)
        loss = sum(result.contexts.float().sum() for result in results)
        for gradient in single.gradients(torch.as_tensor(loss), *sources.values):
            require_finite(gradient, f"a gradient of a memory of {prepares} that is used in {steps}")
        return results

    expected = see(None, None)
    for dtype, tolerance in HALF.items():
        for prepares, steps in ((dtype, dtype), (dtype, None), (None, dtype)):
            what = f"a memory of {prepares} that is used in {steps}"
            for actual, single_result in zip(see(prepares, steps), expected, strict=True):
                require_close_results(actual, single_result, what, 2 * tolerance)


def _autocast(dtype: torch.dtype | None) -> torch.autocast:
    return torch.autocast("cpu", dtype=dtype, enabled=dtype is not None)


def half_types_stay_finite_with_thousandfold_energies(subject: Subject) -> None:
    """bfloat16 and float16 stay finite, forward and backward, if every energy is a thousand times as large."""
    for dtype in HALF:
        large = convert(subject, dtype)
        for part in large.mechanism.modules():
            if isinstance(part, AbstractScore) and not part.is_log_density:
                part.register_forward_hook(_a_thousandfold)
        sources = large.sources(LENGTHS).require_grad()
        queries = large.queries(len(LENGTHS), STEPS).requires_grad_()
        _require_finite_results(large, sources, queries, f"a thousandfold energies in {dtype}")


def _require_finite_results(subject: Subject, sources: SubjectSources, queries: Tensor, what: str) -> None:
    """Forward and backward."""
    outputs = subject.loop(subject.prepare(sources), queries)
    require_finite(outputs.contexts, f"the context of {what}")
    for weights in outputs.alignments:
        require_finite(weights, f"the alignment of {what}")
    loss = sum((weights.sum() for weights in outputs.alignments), start=outputs.contexts.mean())
    for gradient in subject.gradients(loss, queries, *sources.values):
        require_finite(gradient, f"a gradient of {what}")


def _a_thousandfold(score: Any, arguments: Any, result: tuple[Tensor, Any]) -> tuple[Tensor, Any]:
    energies, state = result
    reach = torch.finfo(energies.dtype).max
    return (energies.float() * 1000).clamp(-reach, reach).to(energies.dtype), state


def convert(subject: Subject, dtype: torch.dtype) -> Subject:
    """The subject with a copy of its mechanism in another type."""
    return dataclasses.replace(subject, mechanism=copy.deepcopy(subject.mechanism).to(dtype), dtype=dtype)


def _see(subject: Subject, like: Subject | None = None) -> StepResults:
    """The results of a subject for the inputs of `like`, so that rounding of inputs does not count."""
    like = subject if like is None else like
    sources = like.sources(LENGTHS)
    values: Any = tuple(v.to(subject.dtype) for v in sources.values)
    memory = subject.prepare(dataclasses.replace(sources, values=values))
    return subject.loop(memory, like.queries(len(LENGTHS), STEPS).to(subject.dtype))
