"""A layer of torch's cells over padded rows, in one call with fixed sizes: at padding the gates hold the state.

    LSTM:  i = 0, f = 1      c_t = f c_{t-1} + i g = c_{t-1}
    GRU:   z = 1             h_t = (1 - z) n + z h_{t-1} = h_{t-1}

A further feature is 1 at padding and 0 elsewhere, and its weights add ±2^14 to these gates, where σ is 0 and 1 to the
last bit, so that no gradient passes through them. Unlike packing, this reads no lengths from the device.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from regard.layers.cells.cell import Cell, State
from regard.ops import half
from regard.shapes import Bool, Float

HOLDING = 2.0**14
"""Added to a gate: exact in all floating types, and infinite for the exponential of float32."""
GATES: dict[str, tuple[float, ...]] = {"lstm": (-HOLDING, HOLDING, 0.0, 0.0), "gru": (0.0, HOLDING, 0.0)}
"""The numbers added to each cell's gates, in torch's order: i, f, g, o and r, z, n."""


def unsupported_reason(cell: Cell, x: Tensor, first: State | None) -> str | None:
    """Why gates cannot hold the state at padding, or None.

    The padding of the backward direction comes first: it would hold the c of a first state, but not h = o · tanh(c).
    """
    if x.is_cpu:
        return "on a CPU the lengths of rows are known, and rows are packed"
    if cell not in GATES:
        return f"the cell {cell} has no gate that holds its state"
    return "an LSTM's first state is given" if cell == "lstm" and first is not None else None


def run(
    cell: Cell,
    directions: Sequence[Sequence[Tensor]],
    x: Float[Tensor, "B S F"],
    first: State | None,
    mask: Bool[Tensor, "B S"] | None,
) -> tuple[Float[Tensor, "B S D"], State]:
    """Outputs, 0 at padding, and the last state, directions concatenated.

    Args:
        x: 0 at padding.
        mask: True at real positions, which come first; all if None.
    """
    if (copies := half.current()) is not None:
        directions = [copies.of(*direction) for direction in directions]
        x = x.to(directions[0][0].dtype)
    if mask is not None:
        x = torch.cat([x, (~mask[..., None]).to(x.dtype)], -1)
        directions = [(_held(cell, w_ih), w_hh, b_ih, b_hh) for w_ih, w_hh, b_ih, b_hh in directions]
    count, size = len(directions), directions[0][1].shape[1]
    weights = [weight for direction in directions for weight in direction]
    zeros = x.new_zeros(count, len(x), size)
    state: Any = (
        [zeros] * (2 if cell == "lstm" else 1)
        if first is None
        else [part.unflatten(1, (count, size)).transpose(0, 1).contiguous() for part in first]
    )
    # `train`: cuDNN has gradients only in training mode; without dropout nothing else depends on it
    options = True, 1, 0.0, torch.is_grad_enabled(), count == 2, False
    if cell == "lstm":
        outputs, h, c = torch.lstm(x.transpose(0, 1), state, weights, *options)
    else:
        outputs, h = torch.gru(x.transpose(0, 1), state[0], weights, *options)
    outputs, last = outputs.transpose(0, 1), [h] if cell == "gru" else [h, c]
    if mask is not None:
        outputs = outputs.masked_fill(~mask[..., None], 0)
        if cell == "lstm":  # after the last real position h still changes with the output gate
            ends = mask.sum(1).sub_(1).clamp_(min=0)[:, None, None].expand(-1, -1, size)
            last[0] = torch.stack([outputs[..., :size].gather(1, ends)[:, 0], *h[1:]])
    return outputs, tuple(part.transpose(0, 1).flatten(1) for part in last)


def _held(cell: Cell, w_ih: Tensor) -> Tensor:
    """The weights of the input and of the further feature, (G·D, F + 1)."""
    column = w_ih.new_zeros(len(w_ih), 1)
    for gate, added in zip(column.chunk(len(GATES[cell])), GATES[cell], strict=True):
        gate.fill_(added)  # on the device: a recording may copy nothing from the host
    return torch.cat([w_ih, column], 1)
