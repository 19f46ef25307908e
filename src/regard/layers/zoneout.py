"""Zoneout: units of a recurrent state that stay as they were."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.errors import ConfigError
from regard.layers.dropout import Dropout, drop
from regard.shapes import Float


class Zoneout(nn.Module):
    """Keeps units of the old state with probability p in training; mixes both states otherwise.

    training: u = m ⊙ old + (1 - m) ⊙ new with m ~ Bernoulli(p);  evaluation: u = p · old + (1 - p) · new.

    The draws are those of a `Dropout` (`self.dropout`): within `layers.items.drawing` they belong to the item.

    Args:
        p: the probability that a unit stays, at least 0 and below 1.

    Raises:
        ConfigError: for another p.

    Source: Krueger et al. 2017 (arXiv 1606.01305).

    >>> zoneout = Zoneout(0.25).eval()
    >>> zoneout(torch.tensor([[4.0]]), torch.tensor([[0.0]]))
    tensor([[3.]])
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        if not 0 <= p < 1:
            raise ConfigError(f"zoneout={p} is a probability: give a number from 0 to below 1.")
        self.p = p
        self.dropout = Dropout(p)

    def forward(self, new: Float[Tensor, "R D"], old: Float[Tensor, "R D"], *, layer: int = 0) -> Float[Tensor, "R D"]:
        """The state (R, D) after a step.

        Args:
            layer: tells apart the sites where one module is used.
        """
        if self.p == 0:
            return new
        if not self.training:
            return torch.lerp(new, old.to(new.dtype), self.p)
        changes = drop(self.dropout, torch.ones_like(new, requires_grad=False), layer=layer) > 0
        return torch.where(changes, new, old.to(new.dtype))
