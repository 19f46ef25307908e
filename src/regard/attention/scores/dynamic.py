"""The dynamic convolution score: the previous alignment, through fixed filters and filters made from the query."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.attention.beginning import FirstAlignment, first_alignment
from regard.attention.contract import AbstractScore, Attended, Look, Memory, Tree
from regard.attention.heads import head_size
from regard.layers.linear import Linear
from regard.shapes import Float


class DynamicConvolutionScore(AbstractScore):
    """e_i = vᵀ tanh(U f_i + T g_i + b),  f_i = F * α_{i-1},  g_i = G_i * α_{i-1},  G_i = V tanh(W q_i + b').

    The source is never compared with the query, so there are no keys, and sources longer than any in training are
    treated alike. Positions beyond the source count as zero. It was published with a prior (`ForwardPriorWindow`).

    Args:
        query_size: Q.
        size: width of both hidden layers, all heads together.
        static_filters, static_kernel: of F; each head has its own filters on its own alignments.
        dynamic_filters, dynamic_kernel: of G. Kernel sizes are odd.
        first_alignment: α_0, the weights before the first step: all on the `first` position, `uniform`, or `zeros`.

    Source: Battenberg et al. 2020 (arXiv 1910.10288), section 2.3 (their s_i is our q_i).
    """

    sources = ("battenberg2020",)

    is_recurrent = True
    ignores_context = True

    def __init__(
        self,
        query_size: int,
        size: int,
        *,
        num_heads: int = 1,
        static_filters: int = 8,
        static_kernel: int = 21,
        dynamic_filters: int = 8,
        dynamic_kernel: int = 21,
        first_alignment: FirstAlignment = "first",
    ) -> None:
        super().__init__()
        self.query_size = query_size
        for name, kernel in (("static_kernel", static_kernel), ("dynamic_kernel", dynamic_kernel)):
            if kernel % 2 == 0:
                raise ValueError(
                    f"{name}={kernel} must be odd, so that a filter reaches equally far in both directions."
                )
        width = head_size(size, num_heads)
        self.num_heads = num_heads
        self.kernel_size = dynamic_kernel
        self.first_alignment: FirstAlignment = first_alignment
        self.static_filters = nn.Conv1d(
            num_heads,
            num_heads * static_filters,
            static_kernel,
            padding=static_kernel // 2,
            groups=num_heads,
            bias=False,
        )
        self.query_projection = Linear(query_size, size)
        self.filter_projection = Linear(size, num_heads * dynamic_filters * dynamic_kernel, bias=False)
        self.static_projection = nn.Parameter(torch.empty(num_heads, static_filters, width))
        self.dynamic_projection = nn.Parameter(torch.empty(num_heads, dynamic_filters, width))
        self.bias = nn.Parameter(torch.zeros(num_heads, width))
        self.v = nn.Parameter(torch.empty(num_heads, width))
        nn.init.xavier_uniform_(self.static_projection)
        nn.init.xavier_uniform_(self.dynamic_projection)
        nn.init.uniform_(self.v, -(width**-0.5), width**-0.5)

    def initial(self, memory: Memory, num_rows: int) -> Tensor:
        """α_0, (R, H, S)."""
        return first_alignment(self.first_alignment, memory, num_rows, self.num_heads)

    def forward(self, look: Look, leaf: Tensor) -> tuple[Float[Tensor, "R H S"], Tree]:
        """Energies (R, H, S)."""
        if look.memory.num_positions == 0:
            return leaf, leaf
        static = self.static_filters(leaf).unflatten(1, (self.num_heads, -1))
        flat = self.filter_projection(torch.tanh(self.query_projection(look.query)))
        filters = flat.unflatten(1, (self.num_heads, -1, self.kernel_size))
        around = functional.pad(leaf, (self.kernel_size // 2,) * 2).unfold(-1, self.kernel_size, 1)
        dynamic = torch.einsum("rhsn,rhfn->rhfs", around, filters)
        hidden = torch.einsum("rhfs,hfd->rhsd", static, self.static_projection) + torch.einsum(
            "rhfs,hfd->rhsd", dynamic, self.dynamic_projection
        )
        return torch.einsum("rhsd,hd->rhs", torch.tanh(hidden + self.bias[:, None]), self.v), leaf

    def observe(self, attended: Attended, look: Look, leaf: Tensor) -> Tensor:
        """Stores the step's weights."""
        return attended.alignment
