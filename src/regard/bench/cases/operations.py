"""Every other operation that has several implementations: what is taken first against the reference."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from regard import ops
from regard.bench.case import OURS, PLAIN, Answer, Case, Contest
from regard.testing.cases.draws import draw, probabilities

Inputs = Callable[..., tuple[Any, ...]]


def contest(dtype: torch.dtype, *, operation: str, inputs: Inputs, **sizes: int) -> Contest:
    """Forward and backward by every implementation; ours is the public operation itself."""
    given = tuple(x.float().to(dtype) if _is_floating(x) else x for x in inputs(**sizes))

    def job(function: Callable[..., Tensor]) -> Answer:
        leaves = [x.detach().requires_grad_() if _is_floating(x) else x for x in given]
        result = function(*leaves)
        probe = draw(*result.shape, seed=9).float().to(dtype)
        wanted = [x for x in leaves if _is_floating(x)]
        found = torch.autograd.grad(result, wanted, probe)
        return {"result": result.detach(), **{f"by input {i}": gradient for i, gradient in enumerate(found)}}

    *_, reference = ops.IMPLEMENTATIONS[operation]
    sides = {OURS: partial(job, getattr(ops, operation)), PLAIN: partial(job, reference.function)}
    largest = max(float(x.abs().max()) for x in given if _is_floating(x))
    return Contest(sides, terms={"result": largest}, shares_terms=True)


def _is_floating(x: Any) -> bool:
    return isinstance(x, Tensor) and x.is_floating_point()


def _case(operation: str, what: str, inputs: Inputs, **sizes: int) -> Case:
    make = partial(contest, operation=operation, inputs=inputs)
    return Case(operation.replace("_", "-"), what, make, sizes, {name: min(size, 16) for name, size in sizes.items()})


OPERATIONS = (
    _case(
        "entmax",
        "1.5-entmax of energies, forward and backward",
        lambda R, S: (3 * draw(R, S),),
        R=1280,
        S=50,
    ),
    _case(
        "masked_softmax",
        "softmax over a third of the positions, forward and backward",
        lambda R, S: (draw(R, S), draw(R, S, seed=1) > 0.4),
        R=3200,
        S=50,
    ),
    _case(
        "expected_monotonic_alignment",
        "expected monotonic alignment of a step, forward and backward",
        lambda R, S: (probabilities(R, S), torch.softmax(draw(R, S, seed=1), -1)),
        R=64,
        S=200,
    ),
    _case(
        "moving_chunk_softmax",
        "softmax over chunks that look back to the first position, forward and backward",
        lambda R, S: (torch.softmax(draw(R, 1, S), -1), draw(R, 1, S, seed=1), None, None),
        R=64,
        S=200,
    ),
)
