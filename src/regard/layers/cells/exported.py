"""Recurrent layers as programs for any lengths: torch's scan over the steps, with nothing packed.

Packing needs lengths as numbers, and torch's own layers are unrolled to as many steps as the example has; an exported
program for any S knows neither. Here a step leaves the state of a row alone where its mask is False.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import linear

from regard.errors import UnsupportedError
from regard.layers.cells.cell import CELLS, Parameters, State, zeros
from regard.shapes import Bool, Float


def run(
    cell: str,
    directions: Sequence[Parameters],
    x: Float[Tensor, "B S F"],
    first: State | None,
    mask: Bool[Tensor, "B S"] | None,
) -> tuple[Float[Tensor, "B S D"], State]:
    """Outputs, zero at padding, and the final state, directions side by side; as the layer does over packed rows.

    Args:
        directions: the weights of each.
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
    outputs, finals = [], []
    for direction, (w_ih, w_hh, b_ih, b_hh) in enumerate(directions):
        size = w_hh.shape[1]

        def step(
            state: State, inputs: tuple[Tensor, Tensor], weights: tuple[Tensor, Tensor] = (w_hh, b_hh)
        ) -> tuple[State, Tensor]:
            gates, real = inputs
            after = CELLS[cell].advance(gates, state, *weights)
            state = tuple(torch.where(real, a, b) for a, b in zip(after, state, strict=True))
            return state, state[0].clone()

        if first is None:
            start = zeros(cell, x, size)
        else:
            start = tuple(part[:, direction * size : (direction + 1) * size].clone() for part in first)
        gates = linear(x, w_ih, b_ih).transpose(0, 1)
        final, output = scan(step, start, (gates, real), dim=0, reverse=bool(direction))
        outputs.append(output.transpose(0, 1))
        finals.append(final)
    whole = torch.cat(outputs, -1)
    return (
        whole if mask is None else whole.masked_fill(~mask[..., None], 0),
        tuple(torch.cat(parts, -1) for parts in zip(*finals, strict=True)),
    )
