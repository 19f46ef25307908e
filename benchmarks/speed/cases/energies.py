"""Additive energies: in training, in a step of a search, and at sizes where no T·S·D tensor fits into memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from regard import ops
from speed import arithmetic
from speed.case import OURS, PLAIN, Aim, Answer, Case, Contest, draw, with_gradients
from speed.gate import Error, errors

Operation = Callable[[Tensor, Tensor, Tensor], Tensor]
PRODUCT = "plain, a product with v"
SCALES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
SIZES = {"B": 4, "T": 40, "S": 50, "D": 512}


def drawn(dtype: torch.dtype, scale: float, B: int, T: int, S: int, D: int) -> list[Tensor]:
    """Query, keys and v: the same float32 numbers, in any dtype."""
    tensors = [scale * draw(B, T, D), scale * draw(B, S, D, seed=1), draw(D, seed=2) / D**0.5]
    return [x.float().to(dtype) for x in tensors]


def with_product(query: Tensor, keys: Tensor, v: Tensor) -> Tensor:
    """The plain formula as it is usually written, with a product with v instead of a sum."""
    return torch.tanh(query[:, :, None] + keys[:, None]) @ v


def forward(operation: Operation, inputs: Sequence[Tensor]) -> Answer:
    """Energies without gradients."""
    with torch.no_grad():
        return {"energies": operation(*inputs)}


def forward_backward(operation: Operation, inputs: Sequence[Tensor], probe: Tensor) -> Answer:
    """Energies, and the gradients of their sum weighted by the probe."""
    names = ("grad_query", "grad_keys", "grad_v")
    leaves = {name: x.detach().requires_grad_() for name, x in zip(names, inputs)}
    return with_gradients("energies", operation(*leaves.values()), leaves, probe)


def contest(
    dtype: torch.dtype,
    *,
    backward: bool = True,
    scale: float = 1.0,
    ours: Callable[..., Tensor] = ops.additive_energies,
    slope: float | None = None,
    B: int,
    T: int,
    S: int,
    D: int,
) -> Contest:
    """All ways to compute the energies; the plain ways are the reference and, for tanh, the same with a product.

    Args:
        ours: the operation that is judged.
        slope: of a leaky rectifier instead of tanh; None for tanh.
    """
    inputs = drawn(dtype, scale, B, T, S, D)
    probe = draw(B, T, S, seed=3).float().to(dtype)
    query, keys, v, weights = (x.abs() for x in (*inputs, probe))
    most = 1.0 if slope is None else float(query.max() + keys.max())
    terms = {
        "energies": most * float(v.sum()),
        "grad_query": float(weights.sum(2).max() * v.max()),
        "grad_keys": float(weights.sum(1).max() * v.max()),
        "grad_v": most * float(weights.sum()),
    }
    plain = ops.IMPLEMENTATIONS["additive_energies"][-1].function
    form: dict[str, Any] = {} if slope is None else {"activation": "leaky_relu", "slope": slope}
    ways: dict[str, Operation] = {
        OURS: partial(ours, **form),
        **({PRODUCT: with_product} if slope is None else {}),
        PLAIN: partial(plain, **form),
    }
    job: Callable[..., Answer] = partial(forward_backward, probe=probe) if backward else forward
    return Contest({name: partial(job, way, inputs) for name, way in ways.items()}, terms=terms)


def grad_scale(
    scales: Sequence[float] = SCALES, sizes: Mapping[str, int] = SIZES, dtype: torch.dtype = torch.float32
) -> dict[float, dict[str, Error]]:
    """Errors of energies and of the three gradients, for each standard deviation of query and keys."""
    results, lengths = {}, dict[str, Any](sizes)
    for scale in scales:
        exact, rough = (contest(kind, backward=True, scale=scale, **lengths) for kind in (torch.float64, dtype))
        results[scale] = errors(rough.sides[OURS](), [rough.sides[PLAIN]()], exact.sides[PLAIN](), exact.terms)
    return results


_QUICK = {"B": 4}
_TRAINING = {"B": 32, "T": 40, "S": 50, "D": 512}

ENERGIES = (
    Case(
        "additive",
        "additive energies, forward and backward",
        contest,
        _TRAINING,
        _QUICK,
        aims=(Aim(PLAIN, 15),),
        work=partial(arithmetic.energies, backward=True),
        measures_memory=True,
        share=0.03,
    ),
    Case(
        "additive-forward",
        "additive energies, forward",
        partial(contest, backward=False),
        _TRAINING,
        _QUICK,
        aims=(Aim(PLAIN, 15),),
        work=arithmetic.energies,
    ),
    Case(
        "additive-step",
        "additive energies, one step of a search",
        partial(contest, backward=False),
        {"B": 64, "T": 1, "S": 20, "D": 256},
        _QUICK,
        aims=(Aim(PLAIN, 4),),
        work=arithmetic.energies,
    ),
    Case(
        "additive-long",
        "additive energies of long sequences, forward and backward",
        contest,
        {"B": 8, "T": 1000, "S": 1000, "D": 256},
        {"B": 2, "T": 100, "S": 100},
        gate={"B": 1, "T": 200, "S": 1000},
        untimed=(PRODUCT, PLAIN),
        work=partial(arithmetic.energies, backward=True),
        measures_memory=True,
        megabytes=150,
    ),
)
