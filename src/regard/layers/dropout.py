"""Dropout whose masks can belong to items."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from regard.layers.items import current, inside
from regard.shapes import Float

Where = tuple[Tensor, Tensor]
"""Rows and positions (N,) of a sequence (B, T)."""


class Dropout(nn.Dropout):
    """torch.nn.Dropout, whose masks are drawn by item within `layers.items.drawing`.

    Then an element's mask is a pure function of seed, step, item, position, feature and the module's name: neither the
    batch that an item is in nor the number of processes changes it. Otherwise, and in what torch compiles, masks come
    from torch's generator. The module's own `training` decides whether anything is dropped.

    Source: Srivastava et al. 2014, Dropout: a simple way to prevent neural networks from overfitting.
    """

    def forward(self, x: Float[Tensor, "*rows D"], *, layer: int = 0, where: Where | None = None) -> Tensor:
        """Drops features of a sequence (B, T, D), of a step (R, D), or of some positions (N, D) of a sequence.

        Args:
            layer: tells apart the sites where one module is used.
            where: the rows and positions (N,) of a sequence that are in x; if None, x is a whole sequence or a step.
        """
        mask = self.item_mask(x, layer=layer, where=where)
        return super().forward(x) if mask is None else x * mask

    def item_mask(
        self, x: Float[Tensor, "*rows D"], *, layer: int = 0, where: Where | None = None
    ) -> Float[Tensor, "*rows D"] | None:
        """The mask that `forward` multiplies by; None where nothing is dropped or torch's generator decides.

        Like a call of `forward` it counts as a call of the site.
        """
        if not self.training or not 0 < self.p < 1 or torch.compiler.is_compiling():
            return None
        draws = current()
        if draws is None or self not in draws.sites:
            return None
        site = inside(draws.sites[self], layer)
        if where is None:
            draws.check(x)
            if x.dim() == 2:
                return draws.step_mask(x, self.p, site)
        return draws.sequence_mask(x, self.p, site, where)


def drop(dropout: nn.Module, x: Tensor, *, layer: int = 0, where: Where | None = None) -> Tensor:
    """Calls a dropout layer, or the module that a user has put in its place, which takes x only."""
    dropped: Tensor = dropout(x, layer=layer, where=where) if isinstance(dropout, Dropout) else dropout(x)
    return dropped


def drops(dropout: Any) -> bool:
    """Whether a dropout layer drops now: its flag decides, not that of the module around it."""
    return bool(dropout.training and getattr(dropout, "p", 1) > 0)
