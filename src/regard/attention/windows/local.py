"""Luong's local-p: a window around a place that the query predicts."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.attention.contract import AbstractWindow, Look, Parts, Source, Support, Tree
from regard.attention.heads import head_size, refuse_heads, split
from regard.attention.windows.reach import everywhere
from regard.layers.linear import Linear
from regard.shapes import Float, Int, num_hypotheses


class PredictiveWindow(AbstractWindow):
    """The positions j with |j - p| ≤ D around a predicted p may be attended to; weights fade with the distance from p.

    p = S · σ(vᵀ tanh(W q));  α_j = align(q, h_j) · exp(-(j - p)² / 2σ²),  σ = D / 2.

    Weights are normalised over the window, then multiplied by the Gaussian and not renormalised: a row sums to less
    than 1. W and v learn through the Gaussian. S is the length of the item up to its last real position, also after its
    memory was extended; positions j count from 0. With half types p is computed in float32, since bfloat16 has no odd
    integers above 256.

    Args:
        query_size: Q.
        size: width of the hidden layer, all heads together; each head has its own v over its own slice.
        reach: D.
        num_heads: as many as the score has, or 1 for a p that all heads share.

    Source: Luong, Pham & Manning 2015 (arXiv 1508.04025), section 3.2, `local-p` (equations 9 and 10; our
    q, W, v are h_t, W_p, v_p there). OpenNMT's Lua code mirrors the Gaussian and redistributes weight from beyond the
    ends.
    """

    sources = ("luong2015",)
    uses_query = True
    has_gain = True

    def __init__(self, query_size: int, size: int, *, reach: int = 10, num_heads: int = 1) -> None:
        super().__init__()
        self.query_size = query_size
        if reach < 1:
            raise ValueError(f"reach={reach} must be 1 or more: the Gaussian is reach / 2 wide.")
        self.reach = reach
        self.num_heads = num_heads
        width = head_size(size, num_heads)
        self.query_projection = Linear(query_size, size, bias=False)
        self.v = nn.Parameter(torch.empty(num_heads, width))
        nn.init.uniform_(self.v, -(width**-0.5), width**-0.5)

    def refuse(self, parts: Parts) -> str | None:
        """Refuses a score that has another number of heads, unless the heads share one p."""
        return refuse_heads(parts, self.num_heads, "PredictiveWindow predicts a place for each of", shared="a place")

    def prepare(self, source: Source) -> Tree:
        """j + 1 at real positions and 0 at padding, (B, S) long; its maximum is the length."""
        first = source.start + 1
        ends = torch.arange(first, first + source.values.shape[1], device=source.values.device)
        ends = ends.expand(source.values.shape[:2])
        return ends.clone() if source.mask is None else ends * source.mask

    def predict(self, look: Look) -> Float[Tensor, "R G"]:
        """p, (R, 1 or H)."""
        query, ends = look.query, look.memory.window
        hidden = split(torch.tanh(self.query_projection(query)), self.num_heads)
        hidden, v = (hidden.float(), self.v.float()) if query.element_size() < 4 else (hidden, self.v)
        share = torch.sigmoid((hidden * v).sum(-1))
        if ends.shape[1] == 0:
            return share * 0
        return ends.amax(1).repeat_interleave(num_hypotheses(query.shape[0], ends.shape[0]))[:, None] * share

    @property
    def width(self) -> int:
        """2 D + 1."""
        return 2 * self.reach + 1

    def start(self, look: Look, leaf: Tree) -> Int[Tensor, "R G"]:
        """The first integer from p - D on."""
        return (self.predict(look).detach() - self.reach).ceil().long()

    def at(self, positions: Int[Tensor, "#R #G W"], look: Look, leaf: Tree) -> tuple[Support, Tree]:
        """The support and the Gaussian at these positions."""
        distance = positions - self.predict(look)[..., None]
        gain = torch.exp(-2 * (distance / self.reach).square())
        return Support(distance.detach().abs() <= self.reach, gain=gain.to(look.query.dtype)), leaf

    def forward(self, look: Look, leaf: Tree) -> tuple[Support, Tree]:
        """The support and the Gaussian, (R, 1 or H, S) each."""
        return self.at(everywhere(look.memory), look, leaf)
