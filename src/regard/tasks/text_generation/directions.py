"""Outputs in both directions: one decoder learns every target from left to right and from right to left.

The begin symbol tells the directions apart. From left to right it is the usual one, from right to left the end symbol,
which is never an input otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard.data.text import BOS, EOS, PAD
from regard.decoding import Hypothesis, join_directions, penalty_of
from regard.errors import InputError
from regard.shapes import Bool, Int
from regard.tasks.text_generation.constraints import reversed_constraints

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from regard.tasks.text_generation.model import AbstractWriter, SearchRequest
    from regard.tasks.text_generation.source import EncodedSources

BEGINS = BOS, EOS
"""The begin symbols of left to right and of right to left, for a decoder that has learned both."""


def reversed_targets(
    targets: Int[Tensor, "B T"], mask: Bool[Tensor, "B T"]
) -> tuple[Int[Tensor, "B T"], Int[Tensor, "B T"]]:
    """The inputs and the targets of the other direction.

    Args:
        targets: ids with the end symbol last, from left to right.
        mask: True at real ones, the end symbols included.

    >>> targets = torch.tensor([[5, 6, 7, EOS], [8, EOS, PAD, PAD]])
    >>> inputs, outputs = reversed_targets(targets, targets != PAD)
    >>> inputs.tolist() == [[EOS, 7, 6, 5], [EOS, 8, PAD, PAD]]
    True
    >>> outputs.tolist() == [[7, 6, 5, EOS], [8, EOS, PAD, PAD]]
    True
    """
    steps = torch.arange(targets.shape[1], device=targets.device)
    last = mask.sum(1, keepdim=True) - 1  # the position of the end symbol
    outputs = targets.gather(1, torch.where(steps < last, last - 1 - steps, steps))
    begin = torch.full_like(targets[:, :1], BEGINS[1])
    return torch.cat([begin, outputs[:, :-1]], 1).masked_fill(~mask, PAD), outputs


def joint_hypotheses(
    model: AbstractWriter[Any, Any], request: SearchRequest[Any], batch: NDArray[Any], encoded: EncodedSources
) -> list[list[Hypothesis]]:
    """The best hypotheses of a batch of inputs by both directions, in reading order.

    Each direction is searched with the whole beam, and its hypotheses are also scored by the other (`join_directions`).
    Alignments are those of the direction of the search.

    Args:
        model: writes from left to right, and has learned both directions.
    """
    decoding, constraints = request.decoding, request.constraints
    for index, each in enumerate(constraints or ()):
        if each.prefix:
            raise InputError(index, "constraints: joint also writes from right to left, so no output has a prefix.")
    search = decoding.model_copy(update={"num_best": max(decoding.beam, decoding.num_best)})
    forward = replace(request, decoding=search)
    backward = forward if constraints is None else replace(forward, constraints=reversed_constraints(constraints))
    left_to_right = model._searched(forward, batch, encoded)
    right_to_left = model.directed("right_to_left")._searched(backward, batch, encoded)
    # the weights of the other direction are not compared
    penalty = penalty_of(decoding.model_copy(update={"coverage_penalty": "none"}))
    options: dict[str, Any] = {"bos": BEGINS, "penalty": penalty, "num_best": decoding.num_best}
    return join_directions(left_to_right, right_to_left, model.module.decoder, encoded.memory, **options)


def different_directions(models: Sequence[AbstractWriter[Any, Any]]) -> list[str]:
    """A line about models that have learned different directions; none if all are equal."""
    if len({model.trained_direction for model in models}) == 1:
        return []
    return [f"target: the direction: {', '.join(f'{model.name} {model.trained_direction}' for model in models)}"]
