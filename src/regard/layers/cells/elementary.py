"""Recurrent cells in elementary operations of torch: slow, and differentiable and batched in every way torch knows.

torch's own recurrent layers have no batching rule (`torch.vmap`), with padding no function transform at all
(`torch.func`), and an LSTM of oneDNN no derivative in forward mode.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn.functional import linear

from regard.layers.cells.cell import CELLS, Parameters, State, zeros
from regard.shapes import Bool, Float


def wanted() -> bool:
    """Whether a function transform (`torch.func`) or forward mode looks at what is computed."""
    if torch.compiler.is_compiling():
        return False
    return bool(torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0)


def step(cell: str, x: Float[Tensor, "B F"], state: State, weights: Parameters) -> State:
    """One step of a layer."""
    w_ih, w_hh, b_ih, b_hh = weights
    return CELLS[cell].advance(linear(x, w_ih, b_ih), state, w_hh, b_hh)


def run(
    cell: str,
    directions: Sequence[Parameters],
    x: Float[Tensor, "B S F"],
    first: State | None,
    mask: Bool[Tensor, "B S"] | None,
) -> tuple[Float[Tensor, "B S D"], State]:
    """Outputs, zero at padding, and the final state, directions side by side.

    Args:
        directions: the weights of each.
        x: 0 at padding, so that whatever stood there, NaN too, has no gradient.
        first: the first state, directions side by side; zeros when None.
    """
    first = zeros(cell, x, len(directions) * directions[0][1].shape[1]) if first is None else first
    states = zip(*(part.chunk(len(directions), 1) for part in first), strict=True)
    outputs, finals = [], []
    for direction, (weights, state) in enumerate(zip(directions, states, strict=True)):
        steps = range(x.shape[1])
        hidden: dict[int, Tensor] = {}
        for t in reversed(steps) if direction else steps:
            after = step(cell, x[:, t], state, weights)
            if mask is None:
                state = after
            else:  # a row without this position keeps its state
                state = tuple(torch.where(mask[:, t, None], a, b) for a, b in zip(after, state, strict=True))
            hidden[t] = state[0]
        outputs.append(torch.stack([hidden[t] for t in steps], 1))
        finals.append(state)
    whole = torch.cat(outputs, 2)
    if mask is not None:
        whole = torch.where(mask[..., None], whole, 0)
    return whole, tuple(torch.cat(parts, 1) for parts in zip(*finals, strict=True))
