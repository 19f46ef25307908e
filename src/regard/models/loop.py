"""The loop over a decoder's steps in training, and what takes them in a search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import torch
from torch import Generator, Tensor

from regard import tree
from regard.attention.contract import Tree
from regard.layers import recorders
from regard.models.contract import Decoder, DecoderOutput
from regard.ops.over_steps import Loop

OutcomeT = TypeVar("OutcomeT")


def take_steps(
    step: Callable[..., tuple[OutcomeT, Any]], state: Any, *sequences: Tensor, alignments: str = "alignment"
) -> OutcomeT:
    """The outcomes of all steps, each leaf (B, T, …), within a `Loop`.

    Args:
        step: from the inputs of a step (B, …), one of each sequence, and a state to an outcome and the next state.
        state: before the first step.
        sequences: (B, T, …); of none (T = 0) a step of zeros is taken, whose outcome has the types and sizes.
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
    taken: OutcomeT = replace(whole, **{alignments: weights})
    return taken


def outputs_of_steps(
    decoder: Decoder, inputs: Tensor, memory: Tree, *, alignment: bool, generator: Generator | None
) -> DecoderOutput:
    """The outputs of a loop of a decoder's `step`, teacher-forced from inputs (B, T, …)."""

    def step(x: Tensor, state: Tree) -> tuple[DecoderOutput, Tree]:
        return decoder.step(x, memory, state, alignment=alignment, generator=generator)

    return take_steps(step, decoder.initial_state(memory), inputs, alignments="alignments")


def for_search(decoder: Any, memory: Tree, rows: int) -> tuple[Any, Tree]:
    """What takes the steps of a search of about so many rows, and the memory for it.

    A decoder's class may have a method of this name; without it, or where the instance has a `step` of its own, the
    decoder and its memory are taken as they are.
    """
    method = getattr(type(decoder), "for_search", None)
    if method is None or "step" in getattr(decoder, "__dict__", {}):
        return decoder, memory
    taken: tuple[Any, Tree] = method(decoder, memory, rows)
    return taken
