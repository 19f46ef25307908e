"""Functions of the mechanisms: hardmax, a product in logarithms, monotonic alignments, and users' own functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

import torch
from torch import Tensor

from regard import ops
from regard.attention import AbstractAlignment, HardmaxAlignment, Mechanism, SoftmaxAlignment, SparsemaxAlignment
from regard.attention.contract import StepInputs, Tree
from regard.errors import ShapeError, UnsupportedError
from regard.ops.monotonic import clipped_product
from regard.shapes import Bool, Float, describe

MonotonicMode = Literal["recursive", "parallel", "hard"]


def hardmax(logits: Float[Tensor, "*rows S"], name: str | None = None) -> Float[Tensor, "*rows S"]:
    """1 at the largest number of the last axis, the first of equal ones, 0 elsewhere, without a gradient.

    A row of −∞ is all zeros (`ops.hardmax`); the original has a 1 at its first position.

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
        axis: of the product.
        exclusive: the product of the preceding numbers, which begins with 1.
        reverse: from the end to the beginning.
        name: without effect.

    >>> safe_cumprod(torch.tensor([0.5, 0.5, 1.0]), exclusive=True)
    tensor([1.0000, 0.5000, 0.2500])
    """
    return clipped_product(x, axis, exclusive=exclusive, reverse=reverse)


def monotonic_attention(
    p_choose_i: Float[Tensor, "R S"], previous_attention: Float[Tensor, "R S"], mode: MonotonicMode
) -> Float[Tensor, "R S"]:
    """The monotonic alignment with the probability p_j of stopping at position j when it is reached.

    Args:
        p_choose_i: p, (R, S).
        previous_attention: the previous alignment, (R, S); before the first step, 1 at the first position.
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
    """p'_j Π_{l < j} (1 - p'_l) with p'_j = p_j Σ_{k ≤ j} previous_k, from the first position on."""
    start = torch.zeros_like(previous)
    start[..., :1] = 1
    return ops.expected_monotonic_alignment(choose * previous.cumsum(-1), start)


def check_mode(mode: str) -> None:
    """Refuses an unknown mode of monotonic attention."""
    if mode not in get_args(MonotonicMode):
        raise UnsupportedError(f"mode={mode!r} must be one of {', '.join(map(repr, get_args(MonotonicMode)))}.")


ProbabilityFunction = Callable[[Float[Tensor, "R S"]], Float[Tensor, "R S"]]

NAMED: dict[str, tuple[Callable[[], AbstractAlignment], ProbabilityFunction]] = {
    "softmax": (SoftmaxAlignment, ops.masked_softmax),
    "hardmax": (HardmaxAlignment, ops.hardmax),
    "sparsemax": (SparsemaxAlignment, ops.sparsemax),
}
"""Alignments and their functions by `probability_fn`; tensorflow-addons has no name for the last."""


class FunctionAlignment(AbstractAlignment):
    """α = function(e), with one value as the energy of positions outside the support.

    Args:
        function: from energies (R, S) to weights of the same shape.
        mask_value: the value; the smallest number of the energies' type if None, as in tensorflow-addons.
    """

    is_normalised = False

    def __init__(self, function: ProbabilityFunction, mask_value: float | None = None) -> None:
        super().__init__()
        self.function = function
        self.mask_value = mask_value

    def forward(
        self, energies: Float[Tensor, "R H S"], support: Bool[Tensor, "R G S"] | None, inputs: StepInputs, state: Tree
    ) -> tuple[Float[Tensor, "R H S"], Tree, Tree]:
        if support is not None:
            lowest = torch.finfo(energies.dtype).min
            energies = energies.masked_fill(~support, lowest if self.mask_value is None else self.mask_value)
        scores = energies.flatten(0, 1)
        weights = self.function(scores)
        if not isinstance(weights, Tensor) or weights.shape != (
            energies.shape[0] * energies.shape[1],
            energies.shape[2],
        ):
            raise ShapeError(
                f"probability_fn must return weights of the shape {tuple(scores.shape)} of its scores; "
                f"got {tuple(weights.shape) if isinstance(weights, Tensor) else type(weights).__name__}."
            )
        return weights.view_as(energies), state, None


def with_function(
    mechanism: Mechanism, function: str | ProbabilityFunction, mask_value: float | None = None
) -> Mechanism:
    """The mechanism with the weights of another function, as `checked_function` returns it.

    Args:
        mask_value: as in `FunctionAlignment`; with None padding has a weight of 0.
    """
    alignment: AbstractAlignment
    if not isinstance(function, str):
        alignment = FunctionAlignment(function, mask_value)
    else:
        made, computed = NAMED[function]
        alignment = made() if mask_value is None else FunctionAlignment(computed, mask_value)
    return Mechanism(mechanism.score, alignment, mechanism.read, mechanism.window)


def checked_function(function: str | ProbabilityFunction | None) -> str | ProbabilityFunction:
    """A probability function or its name; softmax if None.

    Raises:
        UnsupportedError: for an unknown name.
    """
    function = function or "softmax"
    if isinstance(function, str) and function not in NAMED:
        names = ", ".join(map(repr, NAMED))
        raise UnsupportedError(
            f"probability_fn={function!r} must be one of {names}, or a function of the scores (R, S)."
        )
    return function
