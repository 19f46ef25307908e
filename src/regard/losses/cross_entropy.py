"""Cross-entropy over real positions, with label smoothing."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.shapes import Bool, Float, Int


def cross_entropy(
    log_probabilities: Float[Tensor, "B T N"],
    targets: Int[Tensor, "B T"],
    mask: Bool[Tensor, "B T"] | None = None,
    *,
    smoothing: float = 0.0,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Sums over real positions of the smoothed loss and of the plain negative log-likelihood, in nats.

    loss = (1 - ε)·(-log p(y)) + ε·mean over the N' tokens with log p > -∞ of (-log p): tokens that cannot be said
    (the extended ids a source lacks) take no share.

    Args:
        targets: (B, T) ids; what stands at masked positions does not matter.
        mask: (B, T), True at real positions.
        smoothing: ε.

    Returns:
        The loss to be minimised and the negative log-likelihood; divide both by the number of real positions.

    Source: Szegedy et al. 2016 (arXiv 1512.00567), section 7.

    >>> logp = torch.tensor([[[0.25, 0.75], [0.5, 0.5]]]).log()
    >>> cross_entropy(logp, torch.tensor([[1, 0]]), torch.tensor([[True, False]]))[0]
    tensor(0.2877)
    """
    weights = torch.ones_like(targets, dtype=torch.bool) if mask is None else mask
    chosen = log_probabilities.gather(-1, targets.masked_fill(~weights, 0)[..., None])[..., 0]
    likelihood = -torch.where(weights, chosen, 0).sum()
    if smoothing == 0.0:
        return likelihood, likelihood.detach()
    possible = log_probabilities > float("-inf")
    uniform = -torch.where(possible, log_probabilities, 0).sum(-1) / possible.sum(-1).clamp(min=1)
    spread = torch.where(weights, uniform, 0).sum()
    return (1 - smoothing) * likelihood + smoothing * spread, likelihood.detach()
