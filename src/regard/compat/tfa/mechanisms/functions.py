"""The functions beside the mechanisms: hardmax, a product in logarithms, and the alignments of monotonic attention."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from regard import ops
from regard.errors import ShapeError, UnsupportedError
from regard.ops.monotonic.clipped import clipped_product
from regard.shapes import Float, describe

MonotonicMode = Literal["recursive", "parallel", "hard"]


def hardmax(logits: Float[Tensor, "*rows S"], name: str | None = None) -> Float[Tensor, "*rows S"]:
    """1 at the largest number of the last axis, the first of equal ones, 0 elsewhere; there is no gradient.

    A row of −∞ only is all zeros (`ops.hardmax`); the original has a 1 at its first position.

    Args:
        logits: any rank of 1 or more.
        name: without effect.

    >>> hardmax(torch.tensor([[1.0, 2.0, 2.0]]))
    tensor([[0., 1., 0.]])
    """
    return ops.hardmax(logits)


def safe_cumprod(
    x: Float[Tensor, "*rows"], axis: int = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None
) -> Float[Tensor, "*rows"]:
    """The cumulative product exp(Σ log x), with x clipped to the smallest normal number of its type … 1.

    Args:
        x: numbers in [0, 1].
        axis: along which.
        exclusive: the product of the numbers before each one, so that it begins with 1.
        reverse: from the end to the beginning.
        name: without effect.

    >>> safe_cumprod(torch.tensor([0.5, 0.5, 1.0]), exclusive=True)
    tensor([1.0000, 0.5000, 0.2500])
    """
    return clipped_product(x, axis, exclusive=exclusive, reverse=reverse)


def monotonic_attention(
    p_choose_i: Float[Tensor, "R S"], previous_attention: Float[Tensor, "R S"], mode: MonotonicMode
) -> Float[Tensor, "R S"]:
    """The alignment of a reader that stops at position j with probability p_j when it arrives there.

    Args:
        p_choose_i: p, (R, S).
        previous_attention: the alignment of the step before, (R, S); before the first step, 1 at the first position.
        mode: `recursive`, the exact expectation (`ops.expected_monotonic_alignment`); `parallel`, the published form
            that loses mass in long sources (`ops.clipped_monotonic_alignment`); `hard`, for p of 0 or 1 and a previous
            alignment of one position: the first chosen position that is not before it.

    Raises:
        UnsupportedError: for another mode.
        ShapeError: if p and the previous alignment differ in shape.

    >>> monotonic_attention(torch.tensor([[1.0, 0.0, 1.0]]), torch.tensor([[0.0, 1.0, 0.0]]), "hard")
    tensor([[0., 0., 1.]])
    """
    check_mode(mode)
    if p_choose_i.shape != previous_attention.shape:
        raise ShapeError(
            "p_choose_i and previous_attention must have the same shape.\n"
            + describe({"p_choose_i": ("R S", p_choose_i), "previous_attention": ("R S", previous_attention)})
        )
    if mode == "recursive":
        return ops.expected_monotonic_alignment(p_choose_i, previous_attention)
    if mode == "parallel":
        return ops.clipped_monotonic_alignment(p_choose_i, previous_attention)
    return first_choice(p_choose_i, previous_attention)


def first_choice(choose: Float[Tensor, "*rows S"], previous: Float[Tensor, "*rows S"]) -> Float[Tensor, "*rows S"]:
    """p'_j Π_{l < j} (1 - p'_l) with p'_j = p_j Σ_{k ≤ j} previous_k: a reader that begins at the first position."""
    start = torch.zeros_like(previous)
    start[..., :1] = 1
    return ops.expected_monotonic_alignment(choose * previous.cumsum(-1), start)


def check_mode(mode: str) -> None:
    """Refuses a mode of monotonic attention that does not exist."""
    if mode not in get_args(MonotonicMode):
        raise UnsupportedError(f"mode={mode!r} must be one of {', '.join(map(repr, get_args(MonotonicMode)))}.")
