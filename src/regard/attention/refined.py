"""Attention whose energies are corrected by its coverage and by that of the layer before."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import torch
from torch import Generator, Tensor, nn

from regard import tree
from regard.attention.contract import Attended, MechanismState, Memory, StepInputs, Tree
from regard.attention.interface import AbstractComposite
from regard.attention.mechanism import Mechanism
from regard.attention.memory import widened
from regard.attention.sizes import check_grid, check_query
from regard.errors import ShapeError, UnsupportedError
from regard.layers import MaskedBatchNorm, recorders
from regard.ops.eligibility import kernel_reason
from regard.shapes import Bool, Float, describe, merge_rows, num_hypotheses

RefinementNorm = Literal["batch", "none"]
"""The normalisation of the corrections of energies."""


class Correction(nn.Module):
    """R = U · relu(F * a + b): corrections of energies from coverage a, the sums of the weights of earlier steps.

    Args:
        num_channels: C, the maps of coverage.
        num_heads: H, the corrections of each cell.
        size: the number of filters F.
        kernel_size: their width in each dimension, an odd number.
        dimensions: 2 for the cells of an image, 1 for a sequence.
        norm: `batch` normalises each head's corrections over the real cells and steps of a batch (`MaskedBatchNorm`),
            as in the authors' code, so that training depends on the composition of batches; or `none`.

    Raises:
        UnsupportedError: for another norm, an even width or another number of dimensions.

    Source: Zhao & Gao 2022 (arXiv 2207.04410), equation 8.
    """

    def __init__(
        self,
        num_channels: int,
        num_heads: int,
        *,
        size: int = 32,
        kernel_size: int = 5,
        dimensions: Literal[1, 2] = 2,
        norm: RefinementNorm = "none",
    ) -> None:
        super().__init__()
        if kernel_size < 1 or kernel_size % 2 == 0:
            raise UnsupportedError(f"kernel_size={kernel_size} must be odd, so that a filter has a centre.")
        if dimensions not in (1, 2):
            raise UnsupportedError(f"dimensions={dimensions!r} must be 1 (sequences) or 2 (images).")
        if norm not in get_args(RefinementNorm):
            raise UnsupportedError(f"norm={norm!r} must be one of {', '.join(get_args(RefinementNorm))}.")
        self.num_channels = num_channels
        self.num_heads = num_heads
        self.dimensions = dimensions
        kind = nn.Conv2d if dimensions == 2 else nn.Conv1d
        self.convolution = kind(num_channels, size, kernel_size, padding=kernel_size // 2)
        self.projection = nn.Conv1d(size, num_heads, 1, bias=False)
        self.norm = MaskedBatchNorm(num_heads) if norm == "batch" else None

    def forward(
        self,
        coverage: Float[Tensor, "R C S"],
        grid: tuple[int, int] | None = None,
        mask: Bool[Tensor, "R S"] | None = None,
    ) -> Float[Tensor, "R H S"]:
        """The corrections.

        Args:
            coverage: sums of weights, 0 at padding.
            grid: (h, w), with S = h·w; only read with two dimensions.
            mask: True at the positions that a batch norm counts; all if None.

        Raises:
            ShapeError: for two dimensions without a grid, or another number of channels.
        """
        if coverage.shape[1] != self.num_channels:
            raise ShapeError(
                f"coverage must have C={self.num_channels} channels.\n" + describe({"coverage": ("R C S", coverage)})
            )
        if coverage.shape[0] == 0 or coverage.shape[2] == 0:
            return coverage.new_zeros(coverage.shape[0], self.num_heads, coverage.shape[2])
        if self.dimensions == 2:
            grid = _required(grid)
            check_grid(grid, coverage.mT)
            coverage = coverage.unflatten(2, grid)
        hidden = self.convolution(coverage).relu().flatten(2)
        corrections: Tensor = self.projection(hidden)
        return corrections if self.norm is None else self.norm(corrections.mT, mask).mT


@dataclass(frozen=True, slots=True)
class RefinedMemory:
    """The memory of a refined attention.

    Args:
        attention: the mechanism's memory.
        grid: (B, 0, h, w), without elements: its shape holds the grid, since memories consist of tensors.
    """

    attention: Memory
    grid: Tensor | None


@dataclass(frozen=True, slots=True)
class RefinedState:
    """The state of a refined attention.

    Args:
        attention: the mechanism's state.
        coverage: (R, C, S), the sums of the weights of earlier steps: the previous layer's, then the mechanism's.
    """

    attention: MechanismState
    coverage: Float[Tensor, "R C S"]


class Refined(AbstractComposite):
    """The weights softmax(e - R), with e the energies of another mechanism and R corrections from coverage.

    The coverage of step t has up to two groups of maps, one map for each head: the sums over the steps before t of the
    uncorrected weights softmax(e) of this attention (self-coverage), and of the corrected weights of the previous
    layer's attention (cross-coverage). Neither depends on this attention's corrections, so all steps of a training pass
    are computed at once. Step t depends on no later step.

    Args:
        attention: a mechanism that is not recurrent and whose weights are normalised.
        previous_heads: the heads of the previous layer's attention, if its coverage is read; 0 without.
        own: whether self-coverage is read.
        size, kernel_size, dimensions, norm: as in `Correction`.

    Raises:
        UnsupportedError: for neither of the two coverages, or a mechanism that cannot be refined.

    Source: Zhao & Gao 2022 (arXiv 2207.04410), sections 3.3 and 3.4.

    >>> from regard.attention import multi_head
    >>> sizes = {"query_size": 4, "memory_size": 6, "size": 4, "num_heads": 2}
    >>> attention = Refined(multi_head(**sizes), previous_heads=2, size=3, kernel_size=3)
    >>> memory = attention.prepare(torch.randn(1, 6, 6), grid=(2, 3))
    >>> attended, _ = attention(torch.randn(1, 5, 4), memory, previous=torch.full((1, 2, 5, 6), 1 / 6), alignment=True)
    >>> attended.alignment.shape
    torch.Size([1, 2, 5, 6])
    """

    sources = ("zhao2022comer",)

    def __init__(
        self,
        attention: Mechanism,
        *,
        previous_heads: int = 0,
        own: bool = True,
        size: int = 32,
        kernel_size: int = 5,
        dimensions: Literal[1, 2] = 2,
        norm: RefinementNorm = "none",
    ) -> None:
        super().__init__()
        if not isinstance(attention, Mechanism):
            raise UnsupportedError(f"Only a Mechanism can be refined; got {type(attention).__name__}.")
        if not own and not previous_heads:
            raise UnsupportedError("A refinement reads self-coverage (own), cross-coverage (previous_heads) or both.")
        reasons = {
            "it is recurrent": attention.is_recurrent,
            "its weights are drawn at random": attention.is_random,
            "its window multiplies weights by a gain": attention.window.has_gain,
            "its energies do not decide its weights": not attention.is_normalised,
        }
        if reason := next((reason for reason, holds in reasons.items() if holds), None):
            raise UnsupportedError(f"This attention cannot be refined: {reason}.")
        self.attention = attention
        self.previous_heads = previous_heads
        self.own = own
        channels = previous_heads + attention.num_heads * own
        self.correction = Correction(
            channels, attention.num_heads, size=size, kernel_size=kernel_size, dimensions=dimensions, norm=norm
        )

    @property
    def context_size(self) -> int:
        return self.attention.context_size

    @property
    def num_heads(self) -> int:
        """H."""
        return self.attention.num_heads

    @property
    def inner(self) -> tuple[Mechanism]:
        return (self.attention,)

    @property
    def is_recurrent(self) -> bool:
        return True

    @property
    def trains_differently(self) -> bool:
        return self.correction.norm is not None or self.attention.trains_differently

    def prepare(
        self, values: Tree, *, mask: Tree = None, lengths: Tree = None, grid: tuple[int, int] | None = None
    ) -> RefinedMemory:
        """The memory of the mechanism, and the grid; arguments as in `Mechanism.prepare`.

        Raises:
            ShapeError: without a grid of h·w = S cells, if corrections have two dimensions.
        """
        memory = self.attention.prepare(values, mask=mask, lengths=lengths, grid=grid)
        if self.correction.dimensions == 2:
            _required(grid)
        if grid is None:
            return RefinedMemory(memory, None)
        return RefinedMemory(memory, values.new_empty(len(values), 0, *grid, dtype=torch.bool))

    def extend(self, memory: Tree, values: Tree, *, mask: Tree = None) -> Tree:
        """Not supported, as the state depends on the number of positions."""
        raise UnsupportedError(
            "The memory of a refined attention cannot grow: its coverage depends on the number of positions. Prepare "
            "the whole memory first."
        )

    def initial_state(self, memory: RefinedMemory, num_hypotheses: int = 1) -> RefinedState:
        state = self.attention.initial_state(memory.attention, num_hypotheses)
        like = memory.attention.read
        channels = self.correction.num_channels
        return RefinedState(state, like.new_zeros(len(state.position), channels, memory.attention.num_positions))

    def step(
        self,
        query: Float[Tensor, "R Q"],
        memory: RefinedMemory,
        state: RefinedState,
        *,
        inputs: Tensor | None = None,
        alignment: bool = False,
        generator: Generator | None = None,
        previous: Float[Tensor, "R G S"] | None = None,
    ) -> tuple[Attended, RefinedState]:
        """One step; `previous` are the weights of the previous layer's attention in this step, if they are read."""
        steps, after = self(
            query[:, None],
            memory,
            state,
            inputs=None if inputs is None else inputs[:, None],
            alignment=alignment,
            generator=generator,
            previous=None if previous is None else previous[:, :, None],
        )
        weights = None if steps.alignment is None else steps.alignment[:, :, 0]
        auxiliary = tree.map(lambda leaf: leaf[:, 0], steps.auxiliary)
        return Attended(steps.context[:, 0], weights, auxiliary), after

    def forward(
        self,
        queries: Float[Tensor, "R T Q"],
        memory: RefinedMemory,
        state: RefinedState | None = None,
        *,
        inputs: Tensor | None = None,
        alignment: bool = False,
        generator: Generator | None = None,
        previous: Float[Tensor, "R G T S"] | None = None,
        real: Bool[Tensor, "R T"] | None = None,
    ) -> tuple[Attended, RefinedState]:
        """All steps at once; agrees with the loop of `step`.

        Args:
            previous: the weights of the previous layer's attention, if they are read.
            real: False at steps of padding: they get no corrections, and a batch norm does not count them.

        Raises:
            ShapeError: for weights of the previous layer that are missing or of another shape.
        """
        attention = self.attention
        check_query(queries, attention.query_size, sequence=True)
        wide = widened(memory, queries)
        if wide is not memory:
            memory, state = wide, widened(state, queries)
        rows, steps = queries.shape[:2]
        sources = memory.attention
        if state is None:
            state = self.initial_state(memory, num_hypotheses(rows, sources.num_sentences))
        shape = rows, self.previous_heads, steps, sources.num_positions
        if self.previous_heads and (previous is None or previous.shape != shape):
            shown = "" if previous is None else "\n" + describe({"previous": ("R H T S", previous)})
            raise ShapeError(
                f"Cross-coverage reads the weights of the previous layer: give previous=(R, H, T, S) = {shape}.{shown}"
            )
        if steps == 0:
            empty = queries.new_zeros(rows, self.num_heads, 0, sources.num_positions) if alignment else None
            return Attended(queries.new_zeros(rows, 0, self.context_size), empty), state
        position = (state.attention.position[:, None] + torch.arange(steps, device=queries.device)).flatten()
        # the steps of a row are further hypotheses of its sentence: R·T rows
        step_inputs = StepInputs(
            merge_rows(queries), sources, position, None if inputs is None else merge_rows(inputs), generator
        )
        allowed, _ = attention._allowed(step_inputs, None, None)
        energies, _ = attention.score(step_inputs, None)  # (R·T, H, S)
        if allowed.log_prior is not None:
            energies = energies + allowed.log_prior

        # a_t = a_0 + Σ_{u<t} of the weights of step u, (R, T, C, S): the previous layer's, then softmax(e)
        maps = [] if previous is None or not self.previous_heads else [previous.transpose(1, 2)]
        if self.own:
            uncorrected, _, _ = attention.alignment(energies, allowed.support, step_inputs, None)
            maps.append(uncorrected.unflatten(0, (rows, steps)))
        before, coverage = sums_before(state.coverage.to(maps[0].dtype), *maps)
        corrections = self._corrections(merge_rows(before), memory, real)

        weights, _, auxiliary = attention.alignment(energies - corrections, allowed.support, step_inputs, None)
        context = attention.read(weights, step_inputs).unflatten(0, (rows, steps))
        weights = weights.unflatten(0, (rows, steps)).transpose(1, 2)
        if recorders.wanted(attention):
            recorders.report(attention, weights)
        after = RefinedState(replace(state.attention, position=state.attention.position + steps), coverage)
        auxiliary = tree.map(lambda leaf: leaf.unflatten(0, (rows, steps)), auxiliary)
        return Attended(context, weights if alignment else None, auxiliary), after

    def _corrections(
        self, coverage: Float[Tensor, "RT C S"], memory: RefinedMemory, real: Bool[Tensor, "R T"] | None
    ) -> Float[Tensor, "RT H S"]:
        """R of all rows and steps, 0 at steps of padding."""
        grid = None if memory.grid is None else (memory.grid.shape[2], memory.grid.shape[3])
        mask = None
        if self.correction.norm is not None and memory.attention.mask is not None:
            mask = memory.attention.mask.repeat_interleave(len(coverage) // max(len(memory.attention.mask), 1), 0)
        selects = real is not None and real.is_cpu and not torch.compiler.is_compiling()
        if real is None or (selects and bool(real.all())):
            corrections: Tensor = self.correction(coverage, grid, mask)
            return corrections
        steps = real.flatten()
        if not selects:  # the number of real steps must not decide shapes
            if self.correction.norm is not None:
                mask = steps[:, None].expand(-1, coverage.shape[2]) if mask is None else mask & steps[:, None]
            return self.correction(coverage, grid, mask).masked_fill(~steps[:, None, None], 0)
        index = steps.nonzero()[:, 0]
        some = self.correction(coverage[index], grid, None if mask is None else mask[index])
        return some.new_zeros(len(coverage), *some.shape[1:]).index_copy(0, index, some)


def _required(grid: tuple[int, int] | None) -> tuple[int, int]:
    if grid is None:
        raise ShapeError(
            "A refinement of two dimensions needs the grid of the cells: give Encoded(grid=(h, w)), or build it with "
            "dimensions=1 for a sequence."
        )
    return grid


def sums_before(
    first: Float[Tensor, "R C S"], *maps: Float[Tensor, "R T _ S"]
) -> tuple[Float[Tensor, "R T C S"], Float[Tensor, "R C S"]]:
    """The sums before each step, a_t = a_0 + Σ_{u<t} x_u, and the sum after the last one.

    Args:
        first: a_0.
        maps: x, in one part or several, which are concatenated to C maps.
    """
    if first.is_cpu and kernel_reason(first, *maps) is None and first.dtype == maps[0].dtype:
        before, after = _SumsBefore.apply(first, *maps)  # type: ignore[no-untyped-call]
        return before, after
    return sums_in_torch(first, *maps)


def sums_in_torch(first: Tensor, *maps: Tensor) -> tuple[Tensor, Tensor]:
    """`sums_before` in torch's operations."""
    x = torch.cat(maps, 2) if len(maps) > 1 else maps[0]
    sums = torch.cat([first[:, None].to(x.dtype), x], 1).cumsum(1)
    return sums[:, :-1], sums[:, -1]


class _SumsBefore(torch.autograd.Function):
    """`sums_in_torch` step by step, without saved tensors: the gradient of x_u is the sum of those of all later a_t.

    Each step adds contiguous memory, while torch's `cumsum` has long strides, copies before and after it and two flips
    in its backward pass.
    """

    @staticmethod
    def forward(ctx: Any, first: Tensor, *maps: Tensor) -> tuple[Tensor, Tensor]:
        ctx.widths = [x.shape[2] for x in maps]
        rows, steps = maps[0].shape[:2]
        before, after = first.new_empty(rows, steps, *first.shape[1:]), torch.empty_like(first)
        for t in range(steps):
            if t == 0:
                before[:, 0] = first
            target = before[:, t + 1] if t + 1 < steps else after
            for piece, sums, x in zip(
                target.split(ctx.widths, 1), before[:, t].split(ctx.widths, 1), maps, strict=True
            ):
                torch.add(sums, x[:, t], out=piece)
        return before, after

    @staticmethod
    def backward(ctx: Any, grad_before: Tensor, grad_after: Tensor) -> Any:
        if torch.is_grad_enabled():  # create_graph: in torch's operations, so that it can be differentiated again
            tail = torch.cat([grad_before[:, 1:], grad_after[:, None]], 1).flip(1).cumsum(1).flip(1)
            return tail[:, 0] + grad_before[:, 0], *tail.split(ctx.widths, 2)
        grad, steps = torch.empty_like(grad_before), grad_before.shape[1]
        grad[:, -1] = grad_after
        for t in range(steps - 1, 0, -1):
            torch.add(grad[:, t], grad_before[:, t], out=grad[:, t - 1])
        return grad[:, 0] + grad_before[:, 0], *grad.split(ctx.widths, 2)
