"""Recurrent layers as programs for any lengths: torch's scan over the steps, with nothing packed.

Packing needs lengths as numbers, and torch's own layers are unrolled to as many steps as the example has; an exported
program for any S knows neither. Here a step leaves the state of a row alone where its mask is False.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from regard.errors import UnsupportedError
from regard.shapes import Bool, Float


def run(
    layer: Any, x: Float[Tensor, "B S F"], mask: Bool[Tensor, "B S"] | None, first: tuple[Tensor, ...] | None
) -> tuple[Float[Tensor, "B S D"], tuple[Tensor, ...]]:
    """Outputs, zero at padding, and the final state, directions side by side; as the layer does over packed rows.

    Args:
        layer: an `nn.LSTM`, `nn.GRU` or `nn.RNN` of one layer.
        first: the first state, directions side by side; zeros when None.

    Raises:
        UnsupportedError: where torch has no scan.
    """
    try:
        from torch._higher_order_ops.scan import scan
    except ImportError as error:
        raise UnsupportedError(
            "This version of torch cannot export a recurrent layer for any number of positions. Export it with a fixed "
            "S and without a mask, or use a newer torch."
        ) from error
    real = (torch.ones_like(x[..., 0], dtype=torch.bool) if mask is None else mask).t()[..., None]
    size, count = layer.hidden_size, 2 if isinstance(layer, nn.LSTM) else 1
    outputs, finals = [], []
    for number, suffix in enumerate(["", "_reverse"] if layer.bidirectional else [""]):
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        weight, recurrent, bias, recurrent_bias = (getattr(layer, f"{name}_l0{suffix}") for name in names)

        def step(
            state: tuple[Tensor, ...], given: tuple[Tensor, Tensor], weights: Any = (recurrent, recurrent_bias)
        ) -> tuple[tuple[Tensor, ...], Tensor]:
            moved = _cell(layer, given[0], linear(state[0], *weights), state)
            kept = tuple(torch.where(given[1], new, old) for new, old in zip(moved, state, strict=True))
            return kept, kept[0].clone()

        if first is None:
            start = tuple(x.new_zeros(x.shape[0], size) for _ in range(count))
        else:
            start = tuple(part[:, number * size : (number + 1) * size].clone() for part in first)
        fed = linear(x, weight, bias).transpose(0, 1)
        final, output = scan(step, start, (fed, real), dim=0, reverse=bool(suffix))
        outputs.append(output.transpose(0, 1))
        finals.append(final)
    whole = torch.cat(outputs, -1)
    return (
        whole if mask is None else whole.masked_fill(~mask[..., None], 0),
        tuple(torch.cat(parts, -1) for parts in zip(*finals, strict=True)),
    )


def _cell(layer: nn.Module, x: Tensor, recurrent: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The new state, from what the input and the last h make of the gates."""
    if isinstance(layer, nn.LSTM):
        i, f, g, o = (x + recurrent).chunk(4, -1)
        c = torch.sigmoid(f) * state[1] + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c
    if isinstance(layer, nn.GRU):
        (x_r, x_z, x_n), (s_r, s_z, s_n) = x.chunk(3, -1), recurrent.chunk(3, -1)
        n, z = torch.tanh(x_n + torch.sigmoid(x_r + s_r) * s_n), torch.sigmoid(x_z + s_z)
        return ((1 - z) * n + z * state[0],)
    return (torch.tanh(x + recurrent),)
