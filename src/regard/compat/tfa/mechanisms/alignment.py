"""Weights by a function of one's own, as `probability_fn` of `tf.contrib.seq2seq`."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from regard import ops
from regard.attention import AbstractAlignment, HardmaxAlignment, Mechanism, SoftmaxAlignment, SparsemaxAlignment
from regard.attention.contract import Look, Tree
from regard.errors import ShapeError, UnsupportedError
from regard.shapes import Bool, Float

ProbabilityFunction = Callable[[Float[Tensor, "R S"]], Float[Tensor, "R S"]]

NAMED: dict[str, tuple[Callable[[], AbstractAlignment], ProbabilityFunction]] = {
    "softmax": (SoftmaxAlignment, ops.masked_softmax),
    "hardmax": (HardmaxAlignment, ops.hardmax),
    "sparsemax": (SparsemaxAlignment, ops.sparsemax),
}
"""The alignments that `probability_fn` names, and what they compute; tensorflow-addons has no name for the last."""


class FunctionAlignment(AbstractAlignment):
    """α = function(e), with the energies of positions outside the support replaced by one value.

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
        self, energies: Float[Tensor, "R H S"], support: Bool[Tensor, "R G S"] | None, look: Look, leaf: Tree
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
        return weights.view_as(energies), leaf, None


def with_function(
    mechanism: Mechanism, function: str | ProbabilityFunction, mask_value: float | None = None
) -> Mechanism:
    """The mechanism with the weights of another function, as `checked_function` returns it.

    Args:
        mask_value: as in `FunctionAlignment`; None leaves padding out, which gives it a weight of 0.
    """
    alignment: AbstractAlignment
    if not isinstance(function, str):
        alignment = FunctionAlignment(function, mask_value)
    else:
        made, computed = NAMED[function]
        alignment = made() if mask_value is None else FunctionAlignment(computed, mask_value)
    return Mechanism(mechanism.score, alignment, mechanism.read, mechanism.window)


def checked_function(function: str | ProbabilityFunction | None) -> str | ProbabilityFunction:
    """The name of a probability function, softmax if None, or a function itself.

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
