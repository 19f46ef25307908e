"""Recurrent cells in elementary operations of torch: slow, and differentiable and batched in every way torch knows.

torch's own recurrent layers have no batching rule (`torch.vmap`), with padding no function transform at all
(`torch.func`), and an LSTM of oneDNN no derivative in forward mode.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn.functional import linear

from regard.shapes import Bool, Float

State = tuple[Tensor, ...]
"""(h,) or, of an LSTM, (h, c), each (B, D)."""


def wanted() -> bool:
    """Whether a function transform (`torch.func`) or forward mode looks at what is computed."""
    if torch.compiler.is_compiling():
        return False
    return bool(torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0)


def step(cell: str, x: Float[Tensor, "B F"], state: State, weights: Sequence[Tensor]) -> State:
    """One step of a layer.

    lstm: c' = σ(f) c + σ(i) tanh(g),  h' = σ(o) tanh(c');  gru: n = tanh(x_n + σ(r) s_n),  h' = (1 - σ(z)) n + σ(z) h;
    rnn: h' = tanh(x + s), where x are the gates of the input and s those of the state.

    Args:
        weights: w_ih, w_hh, b_ih, b_hh in torch's layout.
    """
    w_ih, w_hh, b_ih, b_hh = weights
    of_input, of_state = linear(x, w_ih, b_ih), linear(state[0], w_hh, b_hh)
    if cell == "lstm":
        i, f, g, o = (of_input + of_state).chunk(4, 1)
        c = f.sigmoid() * state[1] + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c
    if cell == "rnn":
        return ((of_input + of_state).tanh(),)
    (x_r, x_z, x_n), (s_r, s_z, s_n) = of_input.chunk(3, 1), of_state.chunk(3, 1)
    z, n = (x_z + s_z).sigmoid(), (x_n + (x_r + s_r).sigmoid() * s_n).tanh()
    return ((1 - z) * n + z * state[0],)


def run(
    cell: str, layer: Any, x: Float[Tensor, "B S F"], first: State, mask: Bool[Tensor, "B S"] | None
) -> tuple[Float[Tensor, "B S D"], State]:
    """Outputs, zero at padding, and the final state, directions side by side.

    Args:
        layer: an `nn.LSTM`, `nn.GRU` or `nn.RNN` of one layer.
        first: the first state, directions side by side.
    """
    if mask is not None:
        x = x.masked_fill(~mask[..., None], 0)  # whatever stands there, NaN too, has no gradient
    suffixes = ["", "_reverse"] if layer.bidirectional else [""]
    states = zip(*(part.chunk(len(suffixes), 1) for part in first), strict=True)
    outputs, finals = [], []
    for suffix, state in zip(suffixes, states, strict=True):
        weights = [getattr(layer, f"{kind}_l0{suffix}") for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
        order = range(x.shape[1] - 1, -1, -1) if suffix else range(x.shape[1])
        found: dict[int, Tensor] = {}
        for t in order:
            new = step(cell, x[:, t], state, weights)
            if mask is None:
                state = new
            else:  # a row without this position keeps its state
                state = tuple(torch.where(mask[:, t, None], a, b) for a, b in zip(new, state, strict=True))
            found[t] = state[0]
        outputs.append(torch.stack([found[t] for t in range(x.shape[1])], 1))
        finals.append(state)
    whole = torch.cat(outputs, 2)
    if mask is not None:
        whole = torch.where(mask[..., None], whole, 0)
    return whole, tuple(torch.cat(parts, 1) for parts in zip(*finals, strict=True))
