"""What the decoder is fed in training: the reference, or its own output."""

from __future__ import annotations

import torch
from torch import Tensor

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
    if own is None or not bool(own[:, 1:].any()):
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
