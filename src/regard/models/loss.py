"""The cross-entropy of a decoder's outputs, with and without its log-probabilities."""

from __future__ import annotations

from typing import TypeGuard

from torch import Tensor, nn

from regard.errors import UnsupportedError
from regard.layers import TokenHead
from regard.losses import cross_entropy
from regard.models.contract import DecoderOutput
from regard.shapes import Bool, Int


def is_plain(head: nn.Module) -> TypeGuard[TokenHead]:
    """Whether the loss can be computed from the head's inputs, without log-probabilities."""
    return isinstance(head, TokenHead) and head.is_plain


def cross_entropy_of(
    output: DecoderOutput, targets: Int[Tensor, "B T"], mask: Bool[Tensor, "B T"] | None, *, smoothing: float
) -> tuple[Tensor, Tensor]:
    """The sums of `losses.cross_entropy` from log-probabilities."""
    if output.log_probabilities is None:
        raise UnsupportedError(
            "This decoder is continuous, and values have no cross-entropy. Compare its values with the targets instead."
        )
    return cross_entropy(output.log_probabilities, targets, mask, smoothing=smoothing)
