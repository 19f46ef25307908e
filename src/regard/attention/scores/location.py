"""Scores of filtered earlier alignments: location-sensitive and dynamic convolution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.attention.contract import AbstractContentScore, AbstractScore, Attended, Memory, StepInputs, Tree
from regard.attention.memory import FirstAlignment, first_alignment
from regard.attention.scores.additive import AdditiveScore
from regard.attention.sizes import head_size
from regard.layers.linear import Linear
from regard.layers.module_weights import filters_of
from regard.ops import over_steps
from regard.shapes import Float, Int

Location = Literal["previous", "cumulative", "both"]


@dataclass(frozen=True, slots=True)
class Trace:
    """The alignments of earlier steps.

    Args:
        recent: (R, H, P, S), the weights of the last P steps, oldest first.
        cumulative: (R, H, S), the sum of all steps' weights.
    """

    recent: Float[Tensor, "R H P S"]
    cumulative: Float[Tensor, "R H S"]


class LocationScore(AbstractContentScore):
    """e_ij = vᵀ tanh(W q_i + U h_j + L f_ij + b),  f_i = F * [earlier alignments].

    Positions beyond the source count as zero, so padding changes nothing.

    Args:
        query_size, memory_size: Q and M.
        size: width of the hidden layer, all heads together.
        location: the input of the filters F: the `previous` alignment (Chorowski), the `cumulative` one (Tacotron 2),
            or `both` as channels.
        num_filters, kernel_size: of F; each head has its own filters on its own alignments. The kernel size is odd.
        num_previous: the number of alignments in `previous`, each a channel, oldest first; 1 with `cumulative`.
        first_alignment: the alignments before the first step: `zeros`, `uniform` over the source, or all on its `first`
            position.
        accumulate_first: whether they stay in the sum; otherwise the sum of the second step is the first step's
            weights.
        bias: whether there is b.
        detached: whether gradients stop at the alignments of earlier steps.

    Source: Chorowski et al. 2015 (arXiv 1506.07503), section 2 (their V h_j is our U h_j, their U f our L f);
    Shen et al. 2018 (arXiv 1712.05884), section 2.2.
    """

    is_recurrent = True
    ignores_context = True

    def __init__(
        self,
        query_size: int,
        memory_size: int,
        size: int,
        *,
        num_heads: int = 1,
        location: Location = "cumulative",
        num_filters: int = 32,
        kernel_size: int = 31,
        num_previous: int = 1,
        first_alignment: FirstAlignment = "zeros",
        accumulate_first: bool = False,
        bias: bool = True,
        detached: bool = False,
    ) -> None:
        super().__init__(AdditiveScore(query_size, memory_size, size, num_heads=num_heads, bias=bias))
        _check_odd("kernel_size", kernel_size)
        if location not in get_args(Location):
            raise ValueError(f"location={location!r} must be one of {', '.join(get_args(Location))}.")
        if accumulate_first and location == "previous":
            raise ValueError("accumulate_first=True with location='previous': there is no sum; leave it out.")
        if num_previous < 1 or (num_previous > 1 and location == "cumulative"):
            raise ValueError(
                f"num_previous={num_previous} with location={location!r}: it must be 1 or more with 'previous' and "
                "'both', and 1 with 'cumulative'."
            )
        self.location = location
        self.num_previous = num_previous
        self.first_alignment: FirstAlignment = first_alignment
        self.accumulate_first = accumulate_first
        self.detached = detached
        self.kernel_size = kernel_size
        self.sources = ("chorowski2015",) if location == "previous" else ("chorowski2015", "shen2018")
        channels = {"previous": num_previous, "cumulative": 1, "both": num_previous + 1}[location]
        self.filters = nn.Conv1d(
            num_heads * channels,
            num_heads * num_filters,
            kernel_size,
            padding=kernel_size // 2,
            groups=num_heads,
            bias=False,
        )
        self.location_projection = nn.Parameter(torch.empty(num_heads, num_filters, size // num_heads))
        nn.init.xavier_uniform_(self.location_projection)

    def initial(self, memory: Memory, num_rows: int) -> Trace:
        """The first alignment, repeated P times."""
        first = first_alignment(self.first_alignment, memory, num_rows, self.num_heads)
        recent = first[:, :, None].expand(-1, -1, self.num_previous, -1)
        return Trace(recent, first if self.accumulate_first else torch.zeros_like(first))

    def forward(self, inputs: StepInputs, state: Trace) -> tuple[Float[Tensor, "R H S"], Tree]:
        if inputs.memory.num_positions == 0:
            return state.cumulative, state
        past = self._channels(state, inputs.position)
        filters = over_steps.once(self._filters, self.filters, channels=past.shape[2], like=inputs.query)
        return self.content.locate(inputs, past, filters, self.location_projection), state

    def _filters(self, layer: nn.Module, channels: int, like: Tensor) -> Float[Tensor, "H F C W"]:
        return filters_of(layer, channels, self.num_heads, self.kernel_size, like).unflatten(0, (self.num_heads, -1))

    def _channels(self, state: Trace, position: Int[Tensor, " R"]) -> Float[Tensor, "R H C S"]:
        """The input of the filters; before the first step the sum is the first alignment."""
        if self.location == "previous":
            return state.recent
        cumulative = state.cumulative
        if not self.accumulate_first and self.first_alignment != "zeros":
            begins = (position == 0)[:, None, None]
            cumulative = torch.where(begins, state.recent[:, :, -1], cumulative)
        cumulative = cumulative[:, :, None]
        return cumulative if self.location == "cumulative" else torch.cat([state.recent, cumulative], 2)

    def observe(self, attended: Attended, inputs: StepInputs, state: Trace) -> Trace:
        """Stores the step's weights and adds them to the sum."""
        weights = attended.alignment.detach() if self.detached else attended.alignment
        recent = weights[:, :, None]
        if self.num_previous > 1:
            recent = torch.cat([state.recent[:, :, 1:], recent], 2)
        return Trace(recent, state.cumulative + weights)


class DynamicConvolutionScore(AbstractScore):
    """e_i = vᵀ tanh(U f_i + T g_i + b),  f_i = F * α_{i-1},  g_i = G_i * α_{i-1},  G_i = V tanh(W q_i + b').

    Energies depend on earlier weights only, so there are no keys, and the length of a source does not matter. Positions
    beyond the source count as zero. It was published with a prior (`ForwardPriorWindow`).

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
        _check_odd("static_kernel", static_kernel)
        _check_odd("dynamic_kernel", dynamic_kernel)
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

    def forward(self, inputs: StepInputs, state: Tensor) -> tuple[Float[Tensor, "R H S"], Tree]:
        if inputs.memory.num_positions == 0:
            return state, state
        static = self.static_filters(state).unflatten(1, (self.num_heads, -1))
        flat = self.filter_projection(torch.tanh(self.query_projection(inputs.query)))
        filters = flat.unflatten(1, (self.num_heads, -1, self.kernel_size))
        around = functional.pad(state, (self.kernel_size // 2,) * 2).unfold(-1, self.kernel_size, 1)
        dynamic = torch.einsum("rhsn,rhfn->rhfs", around, filters)
        hidden = torch.einsum("rhfs,hfd->rhsd", static, self.static_projection) + torch.einsum(
            "rhfs,hfd->rhsd", dynamic, self.dynamic_projection
        )
        return torch.einsum("rhsd,hd->rhs", torch.tanh(hidden + self.bias[:, None]), self.v), state

    def observe(self, attended: Attended, inputs: StepInputs, state: Tensor) -> Tensor:
        """Stores the step's weights."""
        return attended.alignment


def _check_odd(name: str, kernel_size: int) -> None:
    if kernel_size % 2 == 0:
        raise ValueError(f"{name}={kernel_size} must be odd, so that a filter reaches equally far in both directions.")
