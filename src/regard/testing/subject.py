"""The subject of the laws of attention: a mechanism, its sizes, and random sources and queries for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from regard import tree
from regard.testing.assertion import require_close


@dataclass(frozen=True)
class SubjectSources:
    """One batch of sources: for each memory values (B, S, M) and a mask (B, S)."""

    values: tuple[Tensor, ...]
    masks: tuple[Tensor, ...]

    def replace_padding(self, number: float) -> SubjectSources:
        """The same sources with another number in the padding."""
        return replace(
            self, values=tuple(v.masked_fill(~m[..., None], number) for v, m in zip(self.values, self.masks))
        )

    def require_grad(self) -> SubjectSources:
        """The same sources as leaves of a new graph."""
        return replace(self, values=tuple(v.detach().clone().requires_grad_() for v in self.values))


@dataclass(frozen=True)
class StepResults:
    """The results of T steps: contexts (R, T, V), alignments (R, H, T, S) of each memory, and the final state."""

    contexts: Tensor
    alignments: tuple[Tensor, ...]
    state: Any
    auxiliary: Any = None


@dataclass(frozen=True)
class Subject:
    """A mechanism under test, with one memory or, like `Parallel`, several.

    Sentence b is the same in any batch, drawn from its own seed.
    """

    mechanism: Any
    query_size: int
    memory_sizes: tuple[int, ...]
    several: bool
    input_size: int | None = None
    key_size: int | None = None
    dtype: torch.dtype = torch.float64
    tolerance: float = 1e-10

    def draw(self, *shape: int, seed: int) -> Tensor:
        """Normal numbers of the subject's type."""
        generator = torch.Generator().manual_seed(seed)
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(self.dtype)

    def sources(
        self, lengths: Sequence[int], *, sentences: Sequence[int] | None = None, padding: int = 0, scale: float = 1.0
    ) -> SubjectSources:
        """Sources of these lengths; memory i is i positions longer, so that widths differ. Padding holds 77.

        Args:
            lengths: a number for each sentence; 0 is legal for a single memory.
            sentences: the sentences (seeds) of the rows; 0, 1, … if None.
            padding: further columns of padding.
            scale: a factor on the values.
        """
        sentences = range(len(lengths)) if sentences is None else sentences
        values, masks = [], []
        for index, size in enumerate(self.memory_sizes):
            longer = [length + index if length else 0 for length in lengths]
            width = max(longer, default=0) + padding
            rows = torch.full((len(longer), width, size), 77.0, dtype=self.dtype)
            for row, (sentence, length) in enumerate(zip(sentences, longer)):
                rows[row, :length] = self.draw(length, size, seed=1000 * (sentence + 1) + index) * scale
            values.append(rows)
            masks.append(torch.arange(width) < torch.tensor(longer, dtype=torch.long)[:, None])
        return SubjectSources(tuple(values), tuple(masks))

    def queries(self, rows: int | Sequence[int], steps: int, *, scale: float = 1.0) -> Tensor:
        """Queries (R, T, Q), of these rows (seeds); a row has the same queries in any batch."""
        seeds = range(rows) if isinstance(rows, int) else rows
        size = self.query_size if self.mechanism.uses_query else 0
        queries = [self.draw(steps, size, seed=7_000_000 + seed) * scale for seed in seeds]
        return torch.stack(queries) if queries else torch.zeros(0, steps, size, dtype=self.dtype)

    def inputs(self, queries: Tensor) -> Tensor | None:
        """Inputs (R, T, F), computed from the queries; None for mechanisms without inputs."""
        if self.input_size is None:
            return None
        ones = queries.new_ones(queries.shape[-1], self.input_size)
        return torch.sin(queries @ ones + torch.arange(self.input_size))

    def keys(self, sources: SubjectSources) -> Tensor | None:
        """Keys (B, S, M2), computed from the values; None for mechanisms without separate keys.

        Their padding is that of the values, without a gradient.
        """
        if self.key_size is None:
            return None
        values, real = sources.values[0], sources.masks[0][..., None]
        keys = torch.sin(values.masked_fill(~real, 0) @ self.draw(self.memory_sizes[0], self.key_size, seed=9))
        return torch.where(real, keys, values[..., :1].detach())

    def prepare(self, sources: SubjectSources, *, masked: bool = True) -> Any:
        """The memory of sources."""
        mask = self.argument(sources.masks) if masked else None
        return self.mechanism.prepare(self.argument(sources.values), mask=mask, **self.key_options(sources))

    def argument(self, tensors: tuple[Tensor, ...]) -> Any:
        """The tensors of memories as an argument: a tuple of several, the only one without a tuple."""
        return tensors if self.several else tensors[0]

    def key_options(self, sources: SubjectSources) -> dict[str, Tensor | None]:
        """The argument `keys` of `prepare` and `extend`, if the mechanism has it."""
        return {} if self.key_size is None else {"keys": self.keys(sources)}

    def loop(self, memory: Any, queries: Tensor, *, num_hypotheses: int = 1, state: Any = None) -> StepResults:
        """The loop of `step` over queries (R, T, Q)."""
        state = self.mechanism.initial_state(memory, num_hypotheses) if state is None else state
        inputs, steps = self.inputs(queries), []
        for t in range(queries.shape[1]):
            attended, state = self.mechanism.step(
                queries[:, t], memory, state, inputs=None if inputs is None else inputs[:, t], alignment=True
            )
            steps.append(attended)
        alignments = zip(*(as_tuple(attended.alignment) for attended in steps))
        return StepResults(
            torch.stack([attended.context for attended in steps], 1),
            tuple(torch.stack(weights, 2) for weights in alignments),
            state,
            tree.map(lambda *leaves: torch.stack(leaves, 1), *(attended.auxiliary for attended in steps)),
        )

    def at_once(self, memory: Any, queries: Tensor, *, state: Any = None, alignment: bool = True) -> StepResults:
        """`forward` over queries (R, T, Q)."""
        attended, state = self.mechanism(queries, memory, state, inputs=self.inputs(queries), alignment=alignment)
        return StepResults(attended.context, as_tuple(attended.alignment), state, attended.auxiliary)

    def gradients(self, loss: Tensor, *tensors: Tensor) -> list[Tensor]:
        """Gradients of tensors and then of all parameters; zeros where the loss does not depend on them."""
        leaves = [*tensors, *self.mechanism.parameters()]
        if not loss.requires_grad:
            return [torch.zeros_like(x) for x in leaves]
        gradients = torch.autograd.grad(loss, leaves, retain_graph=True, allow_unused=True)
        return [torch.zeros_like(x) if g is None else g for x, g in zip(leaves, gradients)]

    def probe(self, outputs: StepResults, row: int, lengths: Sequence[int]) -> Tensor:
        """A number that depends on all results of a row; the same function in any batch."""
        context = outputs.contexts[row]
        total = (context * self.draw(*context.shape, seed=5)).sum()
        for weights, length in zip(outputs.alignments, lengths):
            real = weights[row, ..., :length]
            total = total + (real * self.draw(*real.shape, seed=6)).sum()
        return total


def as_tuple(alignment: Any) -> tuple[Tensor, ...]:
    """The alignments of one memory or of several as a tuple; empty for None."""
    if alignment is None:
        return ()
    return alignment if isinstance(alignment, tuple) else (alignment,)


def require_close_results(actual: StepResults, expected: StepResults, what: str, tolerance: float) -> None:
    """Requires the same contexts and alignments."""
    require_close(actual.contexts, expected.contexts, f"the context of {what}", tolerance)
    for ours, theirs in zip(actual.alignments, expected.alignments, strict=True):
        require_close(ours, theirs, f"the alignment of {what}", tolerance)
