"""Recurrent cells in elementary operations of torch: slow, but with all transforms and derivatives.

torch's own recurrent layers have no batching rule (`torch.vmap`), with padding no function transform (`torch.func`),
and an LSTM of oneDNN has no forward-mode derivative.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn.functional import linear

from regard.errors import UnsupportedError
from regard.layers.cells.cell import CELLS, Parameters, State, zeros
from regard.shapes import Bool, Float


def is_transformed() -> bool:
    """Whether a function transform (`torch.func`) or forward-mode differentiation is active."""
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
    """Outputs, zero at padding, and the final state, directions concatenated.

    Args:
        directions: the weights of each direction.
        x: 0 at padding, so that its original values, NaN too, have no gradient.
        first: the first state, directions concatenated; zeros if None.
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


def scan_steps(
    cell: str,
    directions: Sequence[Parameters],
    x: Float[Tensor, "B S F"],
    first: State | None,
    mask: Bool[Tensor, "B S"] | None,
) -> tuple[Float[Tensor, "B S D"], State]:
    """`run` by torch's scan over the steps, for exported programs for any lengths.

    Such programs have no lengths to pack rows by, and torch's own layers would be unrolled to the steps of the example.
    Where the mask is False a step keeps the state of the row.

    Raises:
        UnsupportedError: if torch has no scan.
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
