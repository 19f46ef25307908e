"""Dropout whose masks can belong to items."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from regard.layers.items import current, inside
from regard.shapes import Float


class Dropout(nn.Dropout):
    """torch.nn.Dropout, whose masks are drawn by item within `layers.items.drawing`.

    Then an element's mask is a pure function of seed, step, item, position, feature and the module's name: neither the
    batch that an item is in nor the number of processes changes it. Otherwise, and in what torch compiles, masks come
    from torch's generator. The module's own `training` decides whether anything is dropped.

    Source: Srivastava et al. 2014, Dropout: a simple way to prevent neural networks from overfitting.
    """

    def forward(self, x: Float[Tensor, "*rows D"], *, layer: int = 0) -> Tensor:
        """Drops features of a sequence (B, T, D) or of a step (R, D).

        Args:
            layer: tells apart the sites where one module is used.
        """
        draws = None if torch.compiler.is_compiling() else current()
        if draws is None or self not in draws.sites or not self.training or not 0 < self.p < 1:
            return super().forward(x)
        draws.check(x)
        mask = draws.step_mask if x.dim() == 2 else draws.sequence_mask
        return x * mask(x, self.p, inside(draws.sites[self], layer))


def drop(dropout: nn.Module, x: Tensor, *, layer: int = 0) -> Tensor:
    """Calls a dropout layer, or the module that a user has put in its place, which takes x only."""
    dropped: Tensor = dropout(x, layer=layer) if isinstance(dropout, Dropout) else dropout(x)
    return dropped


def drops(dropout: Any) -> bool:
    """Whether a dropout layer drops now: its flag decides, not that of the module around it."""
    return bool(dropout.training and getattr(dropout, "p", 1) > 0)
