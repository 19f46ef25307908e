"""Dropout with masks that can be drawn by item."""

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

    An element's mask is then a pure function of seed, step, item, position, feature and the module's name, whatever the
    batch and the number of processes. Otherwise, and in compiled programs, masks come from torch's generator.

    Source: Srivastava et al. 2014, Dropout: a simple way to prevent neural networks from overfitting.
    """

    def forward(self, x: Float[Tensor, "*rows D"], *, layer: int = 0, where: Where | None = None) -> Tensor:
        """Drops features of a sequence (B, T, D), of a step (R, D), or of some positions (N, D) of a sequence.

        Args:
            layer: the number of the site, if a module has several.
            where: the rows and positions (N,) of x in a sequence; if None, x is a whole sequence or a step.
        """
        mask = self.item_mask(x, layer=layer, where=where)
        return super().forward(x) if mask is None else x * mask

    def item_mask(
        self, x: Float[Tensor, "*rows D"], *, layer: int = 0, where: Where | None = None
    ) -> Float[Tensor, "*rows D"] | None:
        """The mask that `forward` multiplies by; None if nothing is dropped or torch's generator draws it.

        It counts as a call of the site.
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
    """Calls a dropout layer, or a user's module in its place, which takes x only."""
    dropped: Tensor = dropout(x, layer=layer, where=where) if isinstance(dropout, Dropout) else dropout(x)
    return dropped


def drops(dropout: Any) -> bool:
    """Whether a dropout layer is in training mode with p > 0."""
    return bool(dropout.training and getattr(dropout, "p", 1) > 0)
