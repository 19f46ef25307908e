"""Cross-attention that coverage refines, beside the same in plain torch."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import conv1d

from regard.attention import Refined, multi_head
from speed.case import OURS, PLAIN, Aim, Answer, Case, Contest, draw, draw_integers


def contest(dtype: torch.dtype, *, padded: bool, B: int, T: int, h: int, w: int, D: int, H: int) -> Contest:
    """Forward and backward of a layer's attention to h by w cells; with padding, targets have T / 3 to T steps."""
    torch.manual_seed(1)
    attention = Refined(multi_head(query_size=D, memory_size=D, size=D, num_heads=H), previous_heads=H).to(dtype)
    values = draw(B, h * w, D).float().to(dtype).requires_grad_()
    queries = draw(B, T, D, seed=1).float().to(dtype).requires_grad_()
    previous = draw(B, H, T, h * w, seed=2).float().to(dtype).softmax(3).requires_grad_()
    probe = draw(B, T, D, seed=3).float().to(dtype)
    leaves = {"values": values, "queries": queries, "previous": previous, **dict(attention.named_parameters())}
    real = None
    if padded:
        lengths = draw_integers(T // 3, T + 1, B)
        lengths[0] = T
        real = torch.arange(T) < lengths[:, None]
        probe = probe * real[..., None]  # nobody reads the other steps

    def answer(context: Tensor) -> Answer:
        grads = torch.autograd.grad(context, list(leaves.values()), probe)
        shown = context.detach() if real is None else context.detach() * real[..., None]
        return {"context": shown, **dict(zip(leaves, grads))}

    def ours() -> Answer:
        memory = attention.prepare(values, grid=(h, w))
        return answer(attention(queries, memory, previous=previous, real=real)[0].context)

    def plain() -> Answer:
        score: Any = attention.attention.score
        read: Any = attention.attention.read
        correction = attention.correction
        query, keys, read_values = (
            x.unflatten(2, (H, -1)).transpose(1, 2)
            for x in (score.query_projection(queries), score.key_projection(values), read.value_projection(values))
        )
        energies = query * (D // H) ** -0.5 @ keys.mT  # (B, H, T, S)
        seen = torch.cat([previous, energies.softmax(3)], 1)
        coverage = (seen.cumsum(2) - seen).transpose(1, 2).reshape(B * T, 2 * H, h, w)
        hidden = torch.relu(correction.convolution(coverage)).flatten(2)
        corrections = conv1d(hidden, correction.projection.weight).view(B, T, H, h * w).transpose(1, 2)
        context = (energies - corrections).softmax(3) @ read_values
        return answer(read.output_projection(context.transpose(1, 2).flatten(2)))

    return Contest({OURS: ours, PLAIN: plain}, shares_terms=True)


_SIZES = {"B": 8, "T": 40, "h": 8, "w": 32, "D": 256, "H": 8}
_TINY = {"B": 2, "T": 6, "h": 3, "w": 4, "D": 16, "H": 2}
REFINEMENT = tuple(
    Case(name, what, partial(contest, padded=padded), _SIZES, _TINY, aims=(Aim(PLAIN, 1.0),))
    for name, what, padded in (
        ("refined-attention", "cross-attention refined by coverage, forward and backward", False),
        ("refined-attention-padded", "the same for targets of many lengths", True),
    )
)
"""Cross-attention that coverage refines."""
