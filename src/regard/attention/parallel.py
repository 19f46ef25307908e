"""Attention to several memories in the same step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Generator, Tensor, nn

from regard import tree
from regard.attention.contract import Attended, MechanismState, Memory
from regard.attention.interface import AbstractComposite
from regard.attention.mechanism import Mechanism
from regard.errors import ShapeError
from regard.layers import recorders
from regard.shapes import Bool, Float, num_hypotheses


class Parallel(AbstractComposite):
    """Several mechanisms with the same query, each with its own memory, and one combined context.

    The contexts are concatenated. With a `combination` this mechanism, whose memory size is their common width, attends
    to them with the same query instead (hierarchical attention over sources).

    Values, masks, lengths, memories, states and alignments are tuples with one entry for each mechanism. With a
    combination the alignments have a further entry, (R, H, number of mechanisms), in which a source without positions
    has weight 0.

    Source: Zoph & Knight 2016 (aclanthology N16-1004) for two sources; combination: Libovický & Helcl 2017
    (arXiv 1704.06567), section 3.2.
    """

    sources = ("zoph2016",)

    def __init__(self, mechanisms: Sequence[Mechanism], *, combination: Mechanism | None = None) -> None:
        super().__init__()
        self.mechanisms = cast(Sequence[Mechanism], nn.ModuleList(mechanisms))
        self.combination = combination
        sizes = [mechanism.context_size for mechanism in mechanisms]
        if combination is not None and len(set(sizes)) > 1:
            raise ShapeError(f"With a combination all contexts must have the same width; the mechanisms read {sizes}.")
        if combination is not None and combination.is_recurrent:
            raise ShapeError("A combination attends to new contexts in every step, so it must not be recurrent.")

    @property
    def context_size(self) -> int:
        if self.combination is not None:
            return self.combination.context_size
        return sum(mechanism.context_size for mechanism in self.mechanisms)

    @property
    def inner(self) -> list[Mechanism]:
        return [*self.mechanisms, *([self.combination] if self.combination is not None else [])]

    def prepare(
        self,
        values: Sequence[Tensor],
        *,
        keys: Sequence[Tensor | None] | None = None,
        mask: Sequence[Tensor | None] | None = None,
        lengths: Sequence[Tensor | None] | None = None,
        grid: Sequence[tuple[int, int] | None] | None = None,
    ) -> tuple[Memory, ...]:
        """The memories of the mechanisms; arguments are tuples of those of `Mechanism.prepare`."""
        arguments = self._one_each(values=values, keys=keys, mask=mask, lengths=lengths, grid=grid)
        return tuple(mechanism.prepare(**part) for mechanism, part in zip(self.mechanisms, arguments))

    def extend(
        self,
        memory: tuple[Memory, ...],
        values: Sequence[Tensor],
        *,
        keys: Sequence[Tensor | None] | None = None,
        mask: Sequence[Tensor | None] | None = None,
    ) -> tuple[Memory, ...]:
        arguments = self._one_each(memory=memory, values=values, keys=keys, mask=mask)
        return tuple(mechanism.extend(**part) for mechanism, part in zip(self.mechanisms, arguments))

    def _one_each(self, **arguments: Sequence[Any] | None) -> list[dict[str, Any]]:
        """The arguments of each mechanism by name."""
        count = len(self.mechanisms)
        for name, entries in arguments.items():
            if entries is not None and len(entries) != count:
                raise ShapeError(f"{name} must be a tuple of {count}, one for each mechanism; got {len(entries)}.")
        return [
            {name: None if entries is None else entries[i] for name, entries in arguments.items()} for i in range(count)
        ]

    def initial_state(self, memory: tuple[Memory, ...], num_hypotheses: int = 1) -> tuple[MechanismState, ...]:
        return tuple(
            mechanism.initial_state(part, num_hypotheses)
            for mechanism, part in zip(self.mechanisms, memory, strict=True)
        )

    def step(
        self,
        query: Float[Tensor, "R Q"],
        memory: tuple[Memory, ...],
        state: tuple[MechanismState, ...],
        *,
        inputs: Tensor | None = None,
        alignment: bool = False,
        generator: Generator | None = None,
    ) -> tuple[Attended, tuple[MechanismState, ...]]:
        options: dict[str, Any] = {"inputs": inputs, "alignment": alignment, "generator": generator}
        results = [
            mechanism.step(query, part, before, **options)
            for mechanism, part, before in zip(self.mechanisms, memory, state, strict=True)
        ]
        return self._combine(query, memory, results, alignment)

    def forward(
        self,
        queries: Float[Tensor, "R T Q"],
        memory: tuple[Memory, ...],
        state: tuple[MechanismState, ...] | None = None,
        *,
        inputs: Tensor | None = None,
        alignment: bool = False,
        generator: Generator | None = None,
    ) -> tuple[Attended, tuple[MechanismState, ...]]:
        options: dict[str, Any] = {"inputs": inputs, "alignment": alignment, "generator": generator}
        if state is None:
            state = self.initial_state(memory, num_hypotheses(queries.shape[0], tree.rows(memory)))
        results = [
            mechanism(queries, part, before, **options)
            for mechanism, part, before in zip(self.mechanisms, memory, state, strict=True)
        ]
        return self._combine(queries, memory, results, alignment)

    def _combine(
        self,
        query: Tensor,
        memories: tuple[Memory, ...],
        results: list[tuple[Attended, MechanismState]],
        alignment: bool,
    ) -> tuple[Attended, tuple[MechanismState, ...]]:
        attended, states = zip(*results, strict=True)
        alignments = tuple(each.alignment for each in attended) if alignment else None
        auxiliary = tuple(each.auxiliary for each in attended)
        if self.combination is None:
            context = torch.cat([each.context for each in attended], -1)
            return Attended(context, alignments, auxiliary), states
        rows = query.shape[:-1]
        flat = query.flatten(0, -2)
        contexts = torch.stack([each.context.flatten(0, -2) for each in attended], 1)
        memory = self.combination.prepare(contexts, mask=_not_empty(memories, len(flat)))

        def by_step(weights: Tensor) -> Tensor:
            """(R·T, H, 1, M) as (R, H, T, M)."""
            return weights[:, :, 0].unflatten(0, (rows[0], -1)).transpose(1, 2)

        with recorders.changed(by_step):
            joint, _ = self.combination.step(flat, memory, self.combination.initial_state(memory), alignment=alignment)
        if alignments is not None:
            weights = joint.alignment.unflatten(0, rows)
            alignments = (*alignments, weights.transpose(1, 2) if len(rows) == 2 else weights)
        return Attended(joint.context.unflatten(0, rows), alignments, auxiliary), states


def _not_empty(memories: tuple[Memory, ...], num_rows: int) -> Bool[Tensor, "R M"]:
    """Whether each memory has a position that the row may attend to."""
    columns = [
        memory.read.new_full((memory.num_sentences,), memory.num_positions > 0, dtype=torch.bool)
        if memory.mask is None
        else memory.mask.any(1)
        for memory in memories
    ]
    stacked = torch.stack(columns, 1)
    return stacked.repeat_interleave(num_rows // max(len(stacked), 1), 0)
