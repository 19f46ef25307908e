"""The decoder's inputs in training: the reference, or the decoder's own output."""

from __future__ import annotations

from typing import TypeGuard

import torch
from torch import Tensor

from regard.losses import cross_entropy
from regard.models import Decoder, DecoderOutput
from regard.shapes import Bool, Int


def forced_outputs(
    decoder: Decoder, memory: object, inputs: Int[Tensor, "B T"], feedback: Bool[Tensor, "B T"] | None = None
) -> DecoderOutput:
    """Log-probabilities of all steps of a decoder that gets its own last output wherever `feedback` is True.

    Without `feedback` this is teacher forcing, `decoder.forward`. With it the steps are taken one by one, and the
    output that is fed back is the most probable token; no gradient flows through that choice.

    Args:
        memory: `decoder.prepare(encoded)`.
        inputs: (B, T) ids: [BOS] + the reference without its last symbol.
        feedback: (B, T) bool; its first column has no effect, because there is no output yet.

    Source: Bengio et al. 2015 (arXiv 1506.03099); with whole rows True, training in free-running mode.
    """
    if not _feeds(feedback):
        return decoder.forward(inputs, memory)
    state = decoder.initial_state(memory)
    fed = inputs[:, 0]
    outputs: list[Tensor] = []
    for t in range(inputs.shape[1]):
        if t > 0:
            fed = torch.where(feedback[:, t], outputs[-1].detach().argmax(-1), inputs[:, t])
        output, state = decoder.step(fed, memory, state)
        assert output.log_probabilities is not None
        outputs.append(output.log_probabilities)
    return DecoderOutput(log_probabilities=torch.stack(outputs, 1))


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
    summed = None if _feeds(feedback) else getattr(decoder, "cross_entropy", None)
    if summed is not None:
        loss, likelihood = summed(inputs, memory, targets, mask, smoothing=smoothing)
        return loss, likelihood
    output = forced_outputs(decoder, memory, inputs, feedback)
    assert output.log_probabilities is not None
    return cross_entropy(output.log_probabilities, targets, mask, smoothing=smoothing)


def _feeds(feedback: Tensor | None) -> TypeGuard[Tensor]:
    """Whether any output is fed back."""
    return feedback is not None and bool(feedback[:, 1:].any())
