"""Loops over a decoder's steps: teacher-forced, fed its own outputs, and the replacement of `step` in searches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeGuard, TypeVar

import torch
from torch import Generator, Tensor

from regard import tree
from regard.attention.contract import Tree
from regard.layers import recorders
from regard.models.contract import Decoder, DecoderOutput
from regard.ops.over_steps import Loop
from regard.shapes import Bool, Int, is_trusted

OutcomeT = TypeVar("OutcomeT")


def take_steps(
    step: Callable[..., tuple[OutcomeT, Any]], state: Any, *sequences: Tensor, alignments: str = "alignment"
) -> OutcomeT:
    """The outcomes of all steps, each leaf (B, T, …), computed within a `Loop`.

    Args:
        step: from the inputs of a step (B, …), one of each sequence, and a state to an outcome and the next state.
        state: before the first step.
        sequences: (B, T, …). For T = 0 a step of zeros determines types and sizes.
        alignments: the outcome's field of weights, (B, H, S) of a step, which become (B, H, T, S).
    """
    length, outcomes = sequences[0].shape[1], []
    if not length:
        sequences = tuple(x.new_zeros(len(x), 1, *x.shape[2:]) for x in sequences)
    with Loop(), recorders.joined() if length else recorders.silent():
        for inputs in zip(*(x.unbind(1) for x in sequences), strict=True):
            outcome, state = step(*inputs, state)
            outcomes.append(outcome)
    whole: Any = tree.map(lambda *leaves: torch.stack(leaves, 1)[:, :length], *outcomes)
    weights = tree.map(lambda leaf: leaf.transpose(1, 2), getattr(whole, alignments))
    return replace(whole, **{alignments: weights})


def outputs_of_steps(
    decoder: Decoder, inputs: Tensor, memory: Tree, *, alignment: bool, generator: Generator | None
) -> DecoderOutput:
    """The outputs of a loop of a decoder's `step`, teacher-forced from inputs (B, T, …)."""

    def step(x: Tensor, state: Tree) -> tuple[DecoderOutput, Tree]:
        return decoder.step(x, memory, state, alignment=alignment, generator=generator)

    return take_steps(step, decoder.initial_state(memory), inputs, alignments="alignments")


def feeds_back(feedback: Bool[Tensor, "B T"] | None) -> TypeGuard[Tensor]:
    """Whether any output is fed back; the first column has no effect. True if values may not be read (`trusted`)."""
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
    """The outputs of a loop of steps, in which the decoder's last output replaces the reference where `feedback` is
    True.

    The most probable token is fed back, without a gradient. Values are fed back with their gradient, so that a row of
    True gives the loss of the free run; a `feed` that detaches them cuts the gradient.

    Args:
        memory: `decoder.prepare(encoded)`.
        inputs: (B, T) ids, [BOS] + the reference without its last symbol; or (B, T, I) values, the last observation and
            the reference without its last step, in the form that `feed` returns.
        feedback: its first column has no effect, because there is no output yet.
        feed: computes the next inputs from values, as in `decoding.free_run`; the values themselves if None.
        alignment: whether the outputs have alignments (B, H, T, S) and the choices of hard attention.
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
                is_fed = feedback[:, t] if inputs.dim() == 2 else feedback[:, t, None]
                fed = torch.where(is_fed, _fed_back(outputs[-1], rows, t, feed), inputs[:, t])
            output, state = decoder.step(fed, memory, state, alignment=alignment, generator=generator)
            outputs.append(output)
    whole = tree.map(lambda *steps: torch.stack(steps, 1), *outputs)
    return replace(whole, alignments=tree.map(lambda weights: weights.transpose(1, 2), whole.alignments))


def _fed_back(
    output: DecoderOutput, rows: Int[Tensor, " B"], step: int, feed: Callable[[Tensor, Tensor, int], Tensor] | None
) -> Tensor:
    """The next step's inputs from a step's output: ids (B,) or values (B, I)."""
    if output.values is None:
        assert output.log_probabilities is not None
        return output.log_probabilities.detach().argmax(-1)
    return output.values if feed is None else feed(output.values, rows, step)


def for_search(decoder: Any, memory: Tree, rows: int) -> tuple[Any, Tree]:
    """The object whose `step` a search of about `rows` rows calls, and its memory.

    A decoder's class may define a method of this name. Otherwise, or if the instance has its own `step`, these are the
    decoder and its memory.
    """
    method = getattr(type(decoder), "for_search", None)
    if method is None or "step" in getattr(decoder, "__dict__", {}):
        return decoder, memory
    replacement: tuple[Any, Tree] = method(decoder, memory, rows)
    return replacement
