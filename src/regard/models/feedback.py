"""The steps of a decoder in training that is fed its own output in place of the reference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeGuard

import torch
from torch import Generator, Tensor

from regard import tree
from regard.models.contract import Decoder, DecoderOutput
from regard.ops.over_steps import Loop
from regard.shapes import Bool, Int, is_trusted


def feeds_back(feedback: Bool[Tensor, "B T"] | None) -> TypeGuard[Tensor]:
    """Whether any output is fed back: after the last step there is nothing to feed, and before the first no output.

    Where values are not to be read, any may be.
    """
    return feedback is not None and feedback.shape[1] > 1 and (is_trusted() or bool(feedback[:, 1:].any()))


def fed_outputs(
    decoder: Decoder,
    memory: object,
    inputs: Tensor,
    feedback: Bool[Tensor, "B T"],
    *,
    feed: Callable[[Tensor, Tensor, int], Tensor] | None = None,
    alignment: bool = False,
    generator: Generator | None = None,
) -> DecoderOutput:
    """The outputs of all steps of a decoder, taken one by one, that gets its own last output where `feedback` is True.

    Of tokens the most probable one is fed back, and no gradient flows through that choice. Values are fed back with
    their gradient, so that with a row of True the loss is that of the free run; a `feed` that detaches them cuts it.

    Args:
        memory: `decoder.prepare(encoded)`.
        inputs: (B, T) ids, [BOS] + the reference without its last symbol; or (B, T, I) values, of the last observation
            and the reference without its last step, as `feed` would make them.
        feedback: its first column has no effect, because there is no output yet.
        feed: for values, as in `decoding.free_run`: makes the next inputs from them; they are the values themselves if
            None.
        alignment: whether the outputs have alignments (B, H, T, S), and what hard attention chose.
        generator: for attention that draws random numbers.

    Source: Bengio et al. 2015 (arXiv 1506.03099); with whole rows True, training in free-running mode.
    """
    state = decoder.initial_state(memory)
    fed = inputs[:, 0]
    rows = torch.arange(len(inputs), device=inputs.device)
    outputs: list[DecoderOutput] = []
    with Loop():
        for t in range(inputs.shape[1]):
            if t > 0:
                fed = _choose(feedback[:, t], _fed_back(outputs[-1], rows, t, feed), inputs[:, t])
            output, state = decoder.step(fed, memory, state, alignment=alignment, generator=generator)
            outputs.append(output)
    whole = tree.map(lambda *steps: torch.stack(steps, 1), *outputs)
    return replace(whole, alignments=tree.map(lambda weights: weights.transpose(1, 2), whole.alignments))


def _fed_back(
    output: DecoderOutput, rows: Int[Tensor, " B"], step: int, feed: Callable[[Tensor, Tensor, int], Tensor] | None
) -> Tensor:
    """What a step's output makes of the next step's inputs: ids (B,) or values (B, I)."""
    if output.values is None:
        assert output.log_probabilities is not None
        return output.log_probabilities.detach().argmax(-1)
    return output.values if feed is None else feed(output.values, rows, step)


def _choose(feedback: Bool[Tensor, " B"], fed_back: Tensor, reference: Tensor) -> Tensor:
    """Inputs of a step: what is fed back, where it is, and the reference elsewhere."""
    return torch.where(feedback if reference.dim() == 1 else feedback[:, None], fed_back, reference)
