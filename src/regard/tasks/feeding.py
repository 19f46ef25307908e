"""The decoder's inputs in training: the reference, or the decoder's own output."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeGuard

import torch
from torch import Tensor

from regard import tree
from regard.decoding import Feed
from regard.losses import cross_entropy
from regard.models import Decoder, DecoderOutput
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

    Without `feedback` this is teacher forcing, `decoder.forward`. With it the steps are taken one by one. Of tokens the
    most probable one is fed back, and no gradient flows through that choice. Values are fed back with their gradient,
    so that with a row of True the loss is that of the free run; a `feed` that detaches them cuts it.

    Args:
        memory: `decoder.prepare(encoded)`.
        inputs: (B, T) ids, [BOS] + the reference without its last symbol; or (B, T, I) values, of the last observation
            and the reference without its last step, as `feed` would make them.
        feedback: (B, T) bool; its first column has no effect, because there is no output yet.
        feed: for values, as in `free_run`: makes the next inputs from them; they are the values themselves if None.
        alignment: whether the outputs have alignments (B, H, T, S), and what hard attention chose.

    Source: Bengio et al. 2015 (arXiv 1506.03099); with whole rows True, training in free-running mode.
    """
    if not _feeds(feedback):
        return decoder.forward(inputs, memory, alignment=alignment)
    state = decoder.initial_state(memory)
    fed = inputs[:, 0]
    rows = torch.arange(len(inputs), device=inputs.device)
    outputs: list[DecoderOutput] = []
    for t in range(inputs.shape[1]):
        if t > 0:
            fed = _choose(feedback[:, t], _fed_back(outputs[-1], rows, t, feed), inputs[:, t])
        output, state = decoder.step(fed, memory, state, alignment=alignment)
        outputs.append(output)
    whole = tree.map(lambda *steps: torch.stack(steps, 1), *outputs)
    return replace(whole, alignments=tree.map(lambda weights: weights.transpose(1, 2), whole.alignments))


def _fed_back(output: DecoderOutput, rows: Int[Tensor, " B"], step: int, feed: Feed | None) -> Tensor:
    """What a step's output makes of the next step's inputs: ids (B,) or values (B, I)."""
    if output.values is None:
        assert output.log_probabilities is not None
        return output.log_probabilities.detach().argmax(-1)
    return output.values if feed is None else feed(output.values, rows, step)


def _choose(feedback: Bool[Tensor, " B"], fed_back: Tensor, reference: Tensor) -> Tensor:
    """Inputs of a step: what is fed back, where it is, and the reference elsewhere."""
    return torch.where(feedback if reference.dim() == 1 else feedback[:, None], fed_back, reference)


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
