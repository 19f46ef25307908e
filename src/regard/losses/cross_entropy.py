"""Cross-entropy over real positions, with label smoothing."""

from __future__ import annotations

from torch import Tensor

from regard.ops.linear_cross_entropy import reference
from regard.shapes import Bool, Float, Int


def cross_entropy(
    log_probabilities: Float[Tensor, "B T N"],
    targets: Int[Tensor, "B T"],
    mask: Bool[Tensor, "B T"] | None = None,
    *,
    smoothing: float = 0.0,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Sums over real positions of the smoothed loss and of the plain negative log-likelihood, in nats.

    loss = (1 - ε)·(-log p(y)) + ε·mean over the N' tokens with log p > -∞ of (-log p): impossible tokens
    (the extended ids that a source lacks) have no share.

    Args:
        targets: (B, T) ids; those at masked positions do not matter.
        mask: (B, T), True at real positions.
        smoothing: ε.

    Returns:
        The loss to be minimised and the negative log-likelihood; divide both by the number of real positions.

    Source: Szegedy et al. 2016 (arXiv 1512.00567), section 7.

    >>> import torch
    >>> logp = torch.tensor([[[0.25, 0.75], [0.5, 0.5]]]).log()
    >>> cross_entropy(logp, torch.tensor([[1, 0]]), torch.tensor([[True, False]]))[0]
    tensor(0.2877)
    """
    return reference.cross_entropy(log_probabilities, targets, mask, smoothing=smoothing)
