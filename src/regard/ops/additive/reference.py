"""The plain formula."""

from __future__ import annotations

from torch import Tensor

from regard.ops.additive.activation import Activation, activate, find_slope
from regard.shapes import Float


def additive_energies(
    query: Float[Tensor, "B T *heads D"],
    keys: Float[Tensor, "B S *heads D"],
    v: Float[Tensor, "*heads D"],
    activation: Activation = "tanh",
    *,
    slope: float | None = None,
) -> Float[Tensor, "B *heads T S"]:
    """e_ts = Σ_d v_d · tanh(q_td + k_sd), for every head where there are heads; or a rectifier in place of tanh.

    Cost: T·S·D hyperbolic tangents and as many numbers in memory, per sentence.

    Source: Bahdanau, Cho & Bengio 2015 (arXiv 1409.0473), A.1.2, with query and keys already projected.

    >>> import torch
    >>> additive_energies(torch.zeros(1, 2, 3), torch.zeros(1, 4, 3), torch.ones(3)).shape
    torch.Size([1, 2, 4])
    """
    return energies(query, keys, v, find_slope(activation, slope))


def energies(query: Tensor, keys: Tensor, v: Tensor, slope: float | None) -> Tensor:
    """As `additive_energies`, with the rectifier's slope or None for tanh."""
    sums = (activate(query[:, :, None] + keys[:, None], slope) * v).sum(-1)  # (B, T, S, *heads)
    return sums if query.dim() == 3 else sums.movedim(3, 1)
