"""The cross-entropy of a decoder's outputs, with and without its log-probabilities."""

from __future__ import annotations

from torch import Tensor, nn

from regard.errors import UnsupportedError
from regard.layers import TokenHead
from regard.losses import cross_entropy
from regard.models.contract import DecoderOutput
from regard.shapes import Bool, Float, Int


def cross_entropy_by(
    head: nn.Module,
    features: Float[Tensor, "B T D"],
    targets: Int[Tensor, "B T"],
    mask: Bool[Tensor, "B T"] | None,
    *,
    smoothing: float,
) -> tuple[Tensor, Tensor]:
    """The sums of `losses.cross_entropy` of what a head makes of features; a `TokenHead` needs no log-probabilities."""
    if isinstance(head, TokenHead):
        return head.cross_entropy(features, targets, mask, smoothing=smoothing)
    return cross_entropy(head(features), targets, mask, smoothing=smoothing)


def cross_entropy_of(
    output: DecoderOutput, targets: Int[Tensor, "B T"], mask: Bool[Tensor, "B T"] | None, *, smoothing: float
) -> tuple[Tensor, Tensor]:
    """The sums of `losses.cross_entropy` from log-probabilities."""
    if output.log_probabilities is None:
        raise UnsupportedError(
            "This decoder is continuous, and values have no cross-entropy. Compare its values with the targets instead."
        )
    return cross_entropy(output.log_probabilities, targets, mask, smoothing=smoothing)
