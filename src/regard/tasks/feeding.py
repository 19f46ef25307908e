"""What the decoder is fed in training: the reference, or its own output."""

from __future__ import annotations

from typing import TypeGuard

import torch
from torch import Tensor

from regard.losses import cross_entropy
from regard.models import Decoder, DecoderOutput
from regard.shapes import Bool, Int


def forced_outputs(
    decoder: Decoder, memory: object, inputs: Int[Tensor, "B T"], own: Bool[Tensor, "B T"] | None = None
) -> DecoderOutput:
    """Log-probabilities of all steps, where the decoder is fed its own last output wherever `own` says so.

    Without `own` this is teacher forcing, `decoder.forward`. With it the steps are taken one by one, and the own
    output is the most probable token; no gradient flows through the choice.

    Args:
        memory: `decoder.prepare(encoded)`.
        inputs: (B, T) ids: [BOS] + the reference without its last.
        own: (B, T) bool; its first column does not matter, as there is no output yet.

    Source: Bengio et al. 2015 (arXiv 1506.03099); with whole rows True, training in free-running mode.
    """
    if not _feeds(own):
        return decoder.forward(inputs, memory)
    state = decoder.initial_state(memory)
    fed = inputs[:, 0]
    said: list[Tensor] = []
    for t in range(inputs.shape[1]):
        if t > 0:
            fed = torch.where(own[:, t], said[-1].detach().argmax(-1), inputs[:, t])
        output, state = decoder.step(fed, memory, state)
        assert output.log_probabilities is not None
        said.append(output.log_probabilities)
    return DecoderOutput(log_probabilities=torch.stack(said, 1))


def forced_cross_entropy(
    decoder: Decoder,
    memory: object,
    inputs: Int[Tensor, "B T"],
    targets: Int[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
    own: Bool[Tensor, "B T"] | None = None,
    *,
    smoothing: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """The sums of `losses.cross_entropy` of forced outputs, by a verb of the decoder's own where that can be.

    Args:
        memory, inputs, own: as in `forced_outputs`.
        targets, mask, smoothing: as in `losses.cross_entropy`.
    """
    summed = None if _feeds(own) else getattr(decoder, "cross_entropy", None)
    if summed is not None:
        loss, likelihood = summed(inputs, memory, targets, mask, smoothing=smoothing)
        return loss, likelihood
    output = forced_outputs(decoder, memory, inputs, own)
    assert output.log_probabilities is not None
    return cross_entropy(output.log_probabilities, targets, mask, smoothing=smoothing)


def _feeds(own: Tensor | None) -> TypeGuard[Tensor]:
    """Whether any own output is fed."""
    return own is not None and bool(own[:, 1:].any())
