"""The decoder's inputs in training: the reference, or the decoder's own output."""

from __future__ import annotations

from torch import Tensor

from regard.decoding import Feed
from regard.losses import cross_entropy
from regard.models import Decoder, DecoderOutput, fed_outputs, feeds_back
from regard.shapes import Bool, Int


def forced_outputs(
    decoder: Decoder,
    memory: object,
    inputs: Tensor,
    feedback: Bool[Tensor, "B T"] | None = None,
    *,
    feed: Feed | None = None,
    alignment: bool = False,
) -> DecoderOutput:
    """The outputs of all steps of a decoder that gets its own last output wherever `feedback` is True.

    Without `feedback` this is teacher forcing, `decoder.forward`. With it the steps are taken one by one
    (`models.fed_outputs`).

    Args:
        memory, inputs, feed, alignment: as in `fed_outputs`.
        feedback: (B, T) bool; None for teacher forcing.
    """
    if not feeds_back(feedback):
        return decoder.forward(inputs, memory, alignment=alignment)
    return fed_outputs(decoder, memory, inputs, feedback, feed=feed, alignment=alignment)


def forced_cross_entropy(
    decoder: Decoder,
    memory: object,
    inputs: Int[Tensor, "B T"],
    targets: Int[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
    feedback: Bool[Tensor, "B T"] | None = None,
    *,
    smoothing: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """The sums of `losses.cross_entropy` of forced outputs, by the decoder's `cross_entropy` if it can be used.

    Args:
        memory, inputs, feedback: as in `forced_outputs`.
        targets, mask, smoothing: as in `losses.cross_entropy`.
    """
    summed = None if feeds_back(feedback) else getattr(decoder, "cross_entropy", None)
    if summed is not None:
        loss, likelihood = summed(inputs, memory, targets, mask, smoothing=smoothing)
        return loss, likelihood
    output = forced_outputs(decoder, memory, inputs, feedback)
    assert output.log_probabilities is not None
    return cross_entropy(output.log_probabilities, targets, mask, smoothing=smoothing)
