"""The plain formula."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.shapes import Float


def additive_energies(
    query: Float[Tensor, "B T *heads D"], keys: Float[Tensor, "B S *heads D"], v: Float[Tensor, "*heads D"]
) -> Float[Tensor, "B *heads T S"]:
    """e_ts = Σ_d v_d · tanh(q_td + k_sd), for every head where there are heads.

    Cost: T·S·D hyperbolic tangents and as many numbers in memory, per sentence.

    Source: Bahdanau, Cho & Bengio 2015 (arXiv 1409.0473), A.1.2, with query and keys already projected.

    >>> additive_energies(torch.zeros(1, 2, 3), torch.zeros(1, 4, 3), torch.ones(3)).shape
    torch.Size([1, 2, 4])
    """
    energies = (torch.tanh(query[:, :, None] + keys[:, None]) * v).sum(-1)
    return energies if query.dim() == 3 else energies.movedim(3, 1)
