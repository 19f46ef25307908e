"""The output layer and the loss of a training step."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from regard import ops
from speed import arithmetic
from speed.case import OURS, PLAIN, Answer, Case, Contest, draw, draw_integers, with_gradients

LIBRARY = "plain, torch's cross_entropy"


def contest(dtype: torch.dtype, *, M: int, D: int, N: int, smoothing: float = 0.0) -> Contest:
    """The mean loss of M rows and its gradients; padding and the beginning are never predicted."""
    tensors = {"grad_features": draw(M, D), "grad_weight": draw(N, D, seed=1) / D**0.5, "grad_bias": draw(N, seed=2)}
    inputs = {name: x.float().to(dtype).requires_grad_() for name, x in tensors.items()}
    targets = draw_integers(2, N, M)
    never = torch.arange(N) < 2

    def ours(features: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return ops.linear_cross_entropy(features, weight, bias, targets, None, never, smoothing=smoothing)[0]

    def formula(features: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        *_, reference = ops.IMPLEMENTATIONS["linear_cross_entropy"]
        return reference.function(features, weight, bias, targets, None, never, smoothing=smoothing)[0]

    def library(features: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        logits = F.linear(features, weight, bias.masked_fill(never, float("-inf")))
        return F.cross_entropy(logits, targets, reduction="sum")

    def job(way: Callable[..., Tensor]) -> Answer:
        return with_gradients("loss", way(*inputs.values()) / M, inputs)

    ways = {OURS: ours, **({} if smoothing else {LIBRARY: library}), PLAIN: formula}
    return Contest({name: partial(job, way) for name, way in ways.items()}, shares_terms=True)


OUTPUT = (
    Case(
        "linear-cross-entropy",
        "output layer and loss, forward and backward",
        contest,
        {"M": 1280, "D": 256, "N": 5000},
        {"M": 32, "D": 16, "N": 50},
        work=arithmetic.output,
        measures_memory=True,
    ),
    Case(
        "linear-cross-entropy-smoothed",
        "output layer and smoothed loss, forward and backward",
        partial(contest, smoothing=0.1),
        {"M": 1280, "D": 256, "N": 5000},
        {"M": 32, "D": 16, "N": 50},
        work=arithmetic.output,
    ),
)
