"""The cross-entropy of what a decoder says, with and without its log-probabilities."""

from __future__ import annotations

from typing import TypeGuard

from torch import Tensor, nn

from regard.errors import UnsupportedError
from regard.layers import TokenHead
from regard.losses import cross_entropy
from regard.models.contract import DecoderOutput
from regard.shapes import Bool, Int


def is_plain(head: nn.Module) -> TypeGuard[TokenHead]:
    """Whether the loss of a head's features needs no log-probabilities."""
    return isinstance(head, TokenHead) and head.is_plain


def cross_entropy_of(
    output: DecoderOutput, targets: Int[Tensor, "B T"], mask: Bool[Tensor, "B T"] | None, *, smoothing: float
) -> tuple[Tensor, Tensor]:
    """The sums of `losses.cross_entropy` for log-probabilities that are there."""
    if output.log_probabilities is None:
        raise UnsupportedError("Values have no cross-entropy: this decoder is continuous. Compare its values instead.")
    return cross_entropy(output.log_probabilities, targets, mask, smoothing=smoothing)
