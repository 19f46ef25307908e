"""The plain formula."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import linear

from regard.shapes import Bool, Float, Int


def linear_cross_entropy(
    features: Float[Tensor, "*rows D"],
    weight: Float[Tensor, "N D"],
    bias: Float[Tensor, " N"] | None,
    targets: Int[Tensor, "*rows"],
    mask: Bool[Tensor, "*rows"] | None = None,
    never: Bool[Tensor, " N"] | None = None,
    *,
    smoothing: float = 0.0,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """`cross_entropy` of log softmax(W x + b), in float32 or wider.

    Cost: several tensors of as many numbers as there are rows times N.
    """
    # masked features are zeroed before the product, so that NaN there does not reach the gradient of W
    if mask is not None:
        features = features.masked_fill(~mask[..., None], 0)
    logits = linear(features, weight, bias)
    logits = logits.float() if logits.element_size() < 4 else logits
    if never is not None:
        logits = logits.masked_fill(never, float("-inf"))
    return cross_entropy(logits.log_softmax(-1), targets, mask, smoothing=smoothing)


def cross_entropy(
    log_probabilities: Float[Tensor, "*rows N"],
    targets: Int[Tensor, "*rows"],
    mask: Bool[Tensor, "*rows"] | None = None,
    *,
    smoothing: float = 0.0,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Sums over real positions of the smoothed loss and of the plain negative log-likelihood, in nats.

    loss = (1 - ε)·(-log p(y)) + ε·mean over the N' tokens with log p > -∞ of (-log p): impossible tokens
    (the extended ids that a source lacks) have no share.

    Args:
        targets: ids, for example (B, T); those at masked positions do not matter.
        mask: True at real positions.
        smoothing: ε.

    Returns:
        The loss to be minimised and the negative log-likelihood; divide both by the number of real positions.

    Source: Szegedy et al. 2016 (arXiv 1512.00567), section 7.

    >>> logp = torch.tensor([[[0.25, 0.75], [0.5, 0.5]]]).log()
    >>> cross_entropy(logp, torch.tensor([[1, 0]]), torch.tensor([[True, False]]))[0]
    tensor(0.2877)
    """
    real = torch.ones_like(targets, dtype=torch.bool) if mask is None else mask
    chosen = log_probabilities.gather(-1, targets.masked_fill(~real, 0)[..., None])[..., 0]
    likelihood = -chosen.masked_fill(~real, 0).sum()
    if smoothing == 0.0:
        return likelihood, likelihood.detach()
    # -log p of impossible tokens is infinite: they are left out of the mean, and their gradients are 0
    possible = log_probabilities > float("-inf")
    uniform = -log_probabilities.masked_fill(~possible, 0).sum(-1) / possible.sum(-1).clamp(min=1)
    smoothed = uniform.masked_fill(~real, 0).sum()
    return (1 - smoothing) * likelihood + smoothing * smoothed, likelihood.detach()
