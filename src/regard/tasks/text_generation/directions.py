"""Outputs in both directions: one decoder learns each from left to right and from right to left.

The directions differ in the begin symbol. From left to right it is the usual one, from right to left the end symbol,
which is never fed to a decoder otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard.config.texts import TextDecodingConfig
from regard.data.text import BOS, EOS, PAD
from regard.decoding import Hypothesis, join_directions, penalty_of
from regard.decoding import search as run_search
from regard.errors import InputError
from regard.shapes import Bool, Int

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from regard.tasks.text_generation.model import AbstractWriter, Asked
    from regard.tasks.text_generation.source import Loaded

BEGINS = BOS, EOS
"""The begin symbols of left to right and of right to left, for a decoder that has learned both."""


def turned_round(
    targets: Int[Tensor, "B T"], mask: Bool[Tensor, "B T"]
) -> tuple[Int[Tensor, "B T"], Int[Tensor, "B T"]]:
    """The inputs and the targets of the other direction.

    Args:
        targets: ids with the end symbol last, from left to right.
        mask: True at real ones, the end symbols included.

    >>> targets = torch.tensor([[5, 6, 7, EOS], [8, EOS, PAD, PAD]])
    >>> inputs, turned = turned_round(targets, targets != PAD)
    >>> inputs.tolist() == [[EOS, 7, 6, 5], [EOS, 8, PAD, PAD]]
    True
    >>> turned.tolist() == [[7, 6, 5, EOS], [8, EOS, PAD, PAD]]
    True
    """
    steps = torch.arange(targets.shape[1], device=targets.device)
    last = mask.sum(1, keepdim=True) - 1  # the place of the end symbol
    turned = targets.gather(1, torch.where(steps < last, last - 1 - steps, steps))
    begin = torch.full_like(targets[:, :1], BEGINS[1])
    return torch.cat([begin, turned[:, :-1]], 1).masked_fill(~mask, PAD), turned


def joint_hypotheses(
    model: AbstractWriter[Any, Any],
    asked: Asked[Any],
    batch: NDArray[Any],
    loaded: Loaded,
    decoding: TextDecodingConfig,
    alignment: bool,
) -> list[list[Hypothesis]]:
    """The best hypotheses of some inputs by both directions, in the order in which they are read.

    Each direction is searched with the whole beam; what it finds is scored by the other one, too (`join_directions`).

    Args:
        model: writes from left to right, and has learned both directions.
        loaded: their memory, which both directions read.
        alignment: whether hypotheses have their alignments, those of the direction that found them.
    """
    from regard.tasks.text_generation.constraints import backwards

    search = decoding.model_copy(update={"num_best": max(decoding.beam, decoding.num_best)})
    constraints = asked.constraints
    for index, each in enumerate(constraints or ()):
        if each.prefix:
            raise InputError(index, "constraints: joint also writes from right to left, so no output has a prefix.")
    turned = replace(asked, constraints=None if constraints is None else backwards(constraints))
    found = []
    for writer, given in ((model, asked), (model.directed("right_to_left"), turned)):
        text = [partial(writer._written, given.sources[i]) for i in batch]
        hypotheses = run_search(**writer._arguments(given, batch, loaded, search, alignment), text=text)
        found.append(
            [
                writer._kept(given, int(i), each, own, search, alignment)
                for i, each, own in zip(batch, hypotheses, loaded.own, strict=True)
            ]
        )
    # the weights of the other direction are not compared
    penalty = penalty_of(decoding.model_copy(update={"coverage_penalty": "none"}))
    options: dict[str, Any] = {"bos": BEGINS, "penalty": penalty, "num_best": decoding.num_best}
    left_to_right, right_to_left = found
    return join_directions(left_to_right, right_to_left, model.module.decoder, loaded.memory, **options)


def begin_symbol(trained: str, is_reversed: bool) -> int:
    """The first input of a decoder.

    Args:
        trained: the directions that it has learned (`data.target.direction`).
        is_reversed: whether it writes from right to left now.
    """
    return BEGINS[1] if trained == "both" and is_reversed else BEGINS[0]


def orders(models: Sequence[AbstractWriter[Any, Any]]) -> str | None:
    """A line about models that have learned other directions, or None where all are equal."""
    found = [f"{model.name} {model.trained_direction}" for model in models]
    if len({model.trained_direction for model in models}) == 1:
        return None
    return f"target: the direction: {', '.join(found)}"
