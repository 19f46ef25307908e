"""CBHG: a bank of convolutions, highway layers and a bidirectional GRU."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal

import torch
from torch import Tensor, nn

from regard.layers.cells.cell import Cell
from regard.layers.convolution import ConvolutionBlock
from regard.layers.linear import Linear
from regard.layers.recurrent import RecurrentStack
from regard.shapes import Bool, Float


class Highway(nn.Module):
    """g ⊙ relu(W x + b) + (1 - g) ⊙ x,  g = σ(W_g x + b_g).

    Args:
        size: D.
        gate_bias: the initial b_g; below 0, a new layer mostly passes its input on.

    Source: Srivastava, Greff & Schmidhuber 2015 (arXiv 1505.00387), section 2.

    >>> Highway(4)(torch.zeros(2, 3, 4)).shape
    torch.Size([2, 3, 4])
    """

    def __init__(self, size: int, *, gate_bias: float = -1.0) -> None:
        super().__init__()
        self.gate_bias = gate_bias
        self.transform = Linear(size, size)
        self.gate = Linear(size, size)
        nn.init.zeros_(self.transform.bias)
        nn.init.constant_(self.gate.bias, gate_bias)

    def forward(self, x: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows D"]:
        gate = torch.sigmoid(self.gate(x))
        return gate * torch.relu(self.transform(x)) + (1 - gate) * x


class CBHG(nn.Module):
    """A bank of convolutions, highway layers and a bidirectional recurrent layer.

    1. bank: convolutions of widths 1 … K, each with `bank_size` filters, ReLU and batch normalisation, concatenated;
    2. the maximum of each position and the next one (`pool`);
    3. convolutions of width 3 with `projections` filters, ReLU after all but the last; the input is added;
    4. a linear layer, if F is not `highway_size`, and highway layers;
    5. a bidirectional recurrent layer with `size` cells in each direction.

    Padding does not count: it is zero for filters, and not part of maxima and statistics.

    Args:
        input_size: F.
        num_filters: K, the widest filter: 16 in Tacotron's encoder, 8 behind its decoder.
        bank_size: filters of each width.
        projections: the filters of the convolutions after the bank, before a last one with F.
        highway_size, num_highways: of the highway layers.
        size: D of one direction.
        cell: of the recurrent layer; `gru_reset_before` is TensorFlow 1's GRU.
        pool: whether maxima are taken.
        norm: whether batch normalisation comes `after` the activation or `before` it.
        convolution_bias, map_bias: whether convolutions, and the linear layer before the highways, have biases.
        momentum, epsilon: of batch normalisation.

    Source: Wang et al. 2017, Tacotron (arXiv 1703.10135), section 3.1 and table 1; the linear layer: keithito/tacotron.

    >>> CBHG(6, num_filters=4, bank_size=5, projections=(8,), highway_size=7, size=3)(torch.zeros(2, 9, 6))[0].shape
    torch.Size([2, 9, 6])
    """

    def __init__(
        self,
        input_size: int,
        *,
        num_filters: int = 16,
        bank_size: int = 128,
        projections: Sequence[int] = (128,),
        highway_size: int = 128,
        num_highways: int = 4,
        size: int = 128,
        cell: Cell = "gru",
        pool: bool = True,
        norm: Literal["before", "after"] = "after",
        convolution_bias: bool = True,
        map_bias: bool = True,
        momentum: float = 0.1,
        epsilon: float = 1e-5,
    ) -> None:
        super().__init__()
        self.pool = pool
        options: dict[str, Any] = {"norm": norm, "bias": convolution_bias, "momentum": momentum, "epsilon": epsilon}
        self.bank = nn.ModuleList(
            ConvolutionBlock(input_size, bank_size, width, **options) for width in range(1, num_filters + 1)
        )
        widths = [num_filters * bank_size, *projections, input_size]
        self.projections = nn.ModuleList(
            ConvolutionBlock(before, after, 3, activation="none" if number == len(projections) else "relu", **options)
            for number, (before, after) in enumerate(pairwise(widths))
        )
        self.map = None if input_size == highway_size else Linear(input_size, highway_size, bias=map_bias)
        self.highways = nn.ModuleList(Highway(highway_size) for _ in range(num_highways))
        self.stack = RecurrentStack(highway_size, size, cell=cell, bidirectional=True)

    @property
    def output_size(self) -> int:
        """2·D, the width of the outputs."""
        return self.stack.output_size

    def forward(
        self, inputs: Float[Tensor, "B S F"], mask: Bool[Tensor, "B S"] | None = None
    ) -> tuple[Float[Tensor, "B S D"], Any]:
        """Outputs (B, S, 2·D), zeros at padding, and the recurrent layer's final state.

        Args:
            mask: right-padded, True at real positions; all if None.

        Raises:
            ShapeError: for a mask of another shape or type, or one that is not right-padded.
        """
        x = torch.cat([block(inputs, mask) for block in self.bank], -1)
        x = _maximum_with_next(x, mask) if self.pool else x
        for block in self.projections:
            x = block(x, mask)
        x = x + inputs
        x = x if self.map is None else self.map(x)
        for highway in self.highways:
            x = highway(x)
        outputs, final = self.stack(x, mask=mask)
        return outputs, final


def _maximum_with_next(x: Float[Tensor, "B S F"], mask: Bool[Tensor, "B S"] | None) -> Float[Tensor, "B S F"]:
    """max(x_t, x_{t+1}); the last real position has no next one."""
    if x.shape[1] < 2:
        return x
    following = torch.maximum(x[:, :-1], x[:, 1:])
    if mask is not None:
        following = torch.where(mask[:, 1:, None], following, x[:, :-1])
    return torch.cat([following, x[:, -1:]], 1)
