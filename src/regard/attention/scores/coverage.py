"""Coverage scores: content, and the sum of the earlier weights of each position or of the cells around it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from regard.attention.contract import AbstractContentScore, Attended, Memory, Source, StepInputs, Tree
from regard.attention.memory import first_alignment
from regard.attention.scores.additive import AdditiveScore
from regard.layers.module_weights import filters_of
from regard.ops import over_steps
from regard.shapes import Float


class CoverageScore(AbstractContentScore):
    """e_ij = vᵀ tanh(W q_i + U h_j + w c_ij + b),  c_i = Σ_{i' < i} α_i'.

    Coverage has no upper bound: a position that had all the weight in two steps has c = 2. The authors' code leaves the
    term out of the first step, which equals c = 0.

    Args:
        query_size, memory_size: Q and M.
        size: width of the hidden layer, all heads together; each head has its own coverage and its own w.
        first_alignment: the initial sum: `zeros`, or weights `uniform` over the source (ESPnet).

    Source: See, Liu & Manning 2017 (arXiv 1704.04368), section 2.3 (W_s, W_h, w_c, b_attn there).
    """

    sources = ("see2017",)

    is_recurrent = True
    ignores_context = True

    def __init__(
        self,
        query_size: int,
        memory_size: int,
        size: int,
        *,
        num_heads: int = 1,
        first_alignment: Literal["zeros", "uniform"] = "zeros",
    ) -> None:
        super().__init__(AdditiveScore(query_size, memory_size, size, num_heads=num_heads, bias=True))
        self.first_alignment: Literal["zeros", "uniform"] = first_alignment
        self.coverage_projection = nn.Parameter(torch.empty(num_heads, size // num_heads))
        bound = (6 / (1 + size // num_heads)) ** 0.5
        nn.init.uniform_(self.coverage_projection, -bound, bound)

    def initial(self, memory: Memory, num_rows: int) -> Tensor:
        """c before the first step, (R, H, S)."""
        return first_alignment(self.first_alignment, memory, num_rows, self.num_heads)

    def forward(self, inputs: StepInputs, state: Tensor) -> tuple[Float[Tensor, "R H S"], Tree]:
        identity = state.new_ones(self.num_heads, 1, 1, 1)  # one filter of width 1
        projection = self.coverage_projection[:, None]
        return self.content.locate(inputs, state[:, :, None], identity, projection), state

    def observe(self, attended: Attended, inputs: StepInputs, state: Tensor) -> Tensor:
        """Adds the step's weights."""
        return state + attended.alignment


@dataclass(frozen=True, slots=True)
class PlaneKeys:
    """The keys of an image's cells.

    Args:
        keys: U a, (B, S, H, D).
        rows: (B, S, h, 0), without elements: its shape holds h, since memories consist of tensors. w is S / h.
    """

    keys: Float[Tensor, "B S H D"]
    rows: Float[Tensor, "B S h 0"]

    @property
    def grid(self) -> tuple[int, int]:
        """(h, w); (0, 0) without positions."""
        positions, height = self.rows.shape[1:3]
        return (height, positions // height) if height else (0, 0)


class PlaneCoverageScore(AbstractContentScore):
    """e_ij = vᵀ tanh(W q_i + U h_j + U_f f_ij + b),  f_i = F * c_i,  c_i = Σ_{i' < i} α_i', a convolution over a plane.

    Cells beyond the image count as zero, as does padding, which never has weight: an image has the same energies alone
    and in a batch. A memory without a grid is a plane of one row.

    Args:
        query_size, memory_size: Q and M.
        size: width of the hidden layer, all heads together.
        num_filters, kernel_size: of F; each head has its own filters on its own coverage. The kernel size is odd, a
            number or (rows, columns).
        bias: whether there is b.

    Source: Zhang et al. 2017, Watch, attend and parse (doi 10.1016/j.patcog.2017.06.017), section 3.2.2 (their Q is
    our F); they have no b.
    """

    sources = ("zhang2017",)

    is_recurrent = True
    ignores_context = True

    def __init__(
        self,
        query_size: int,
        memory_size: int,
        size: int,
        *,
        num_heads: int = 1,
        num_filters: int = 128,
        kernel_size: int | tuple[int, int] = 11,
        bias: bool = True,
    ) -> None:
        super().__init__(AdditiveScore(query_size, memory_size, size, num_heads=num_heads, bias=bias))
        widths = (kernel_size, kernel_size) if isinstance(kernel_size, int) else tuple(kernel_size)
        if len(widths) != 2 or any(width < 1 or width % 2 == 0 for width in widths):
            raise ValueError(
                f"kernel_size={kernel_size} must be an odd number or two of them, so that a filter reaches equally far "
                "in opposite directions."
            )
        self.kernel_size: tuple[int, int] = (widths[0], widths[1])
        self.filters = nn.Conv2d(
            num_heads,
            num_heads * num_filters,
            self.kernel_size,
            padding=(widths[0] // 2, widths[1] // 2),
            groups=num_heads,
            bias=False,
        )
        self.location_projection = nn.Parameter(torch.empty(num_heads, num_filters, size // num_heads))
        nn.init.xavier_uniform_(self.location_projection)

    def prepare(self, source: Source) -> Tree:
        """U h, split into heads, and the grid."""
        keys = self.content.prepare(source)
        batch, positions = keys.shape[:2]
        height = 1 if source.grid is None else source.grid[0]
        return PlaneKeys(keys, keys.new_empty(batch, positions, height, 0))

    def initial(self, memory: Memory, num_rows: int) -> Tensor:
        """c before the first step: zeros, (R, H, S)."""
        return memory.read.new_zeros(num_rows, self.num_heads, memory.num_positions)

    def forward(self, inputs: StepInputs, state: Tensor) -> tuple[Float[Tensor, "R H S"], Tree]:
        if inputs.memory.num_positions == 0:
            return state, state
        prepared: PlaneKeys = inputs.memory.score
        filters = over_steps.once(self._filters, self.filters, like=inputs.query)
        past = state.unflatten(2, prepared.grid)[:, :, None]  # (R, H, 1, h, w)
        inner = inputs.with_memory(score=prepared.keys)
        return self.content.locate(inner, past, filters, self.location_projection), state

    def _filters(self, layer: nn.Module, like: Tensor) -> Float[Tensor, "H F 1 Y X"]:
        return filters_of(layer, 1, self.num_heads, self.kernel_size, like).unflatten(0, (self.num_heads, -1))

    def observe(self, attended: Attended, inputs: StepInputs, state: Tensor) -> Tensor:
        """Adds the step's weights."""
        return state + attended.alignment
