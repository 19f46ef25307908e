"""The loss of an output layer, and its gradients, by the fastest implementation that takes the inputs."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from regard.errors import ShapeError
from regard.ops.choose import Implementation, choose
from regard.ops.eligibility import (
    refuse_autocast,
    refuse_device,
    refuse_empty,
    refuse_kernels,
    refuse_numba,
    refuse_types,
)
from regard.ops.linear_cross_entropy import blocks, reference
from regard.shapes import Bool, Float, Int, describe


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
    """Sums over real rows of the smoothed loss and of the negative log-likelihood of log p = log softmax(W x + b).

    loss = (1 - ε)·(-log p(y)) + ε·mean over the tokens with log p > -∞ of (-log p). On the CPU there are never more
    than a block of rows times N logits: the gradient of a sum is known with the sum, and takes the logits' place. Only
    the loss has gradients.

    Args:
        targets: ids y; those of masked rows may be any, like everything else there.
        mask: True at real rows.
        never: True for tokens that are never predicted: log p = -∞.
        smoothing: ε.

    Raises:
        ShapeError: for sizes or ids that do not fit together.

    Source: gradients with the loss, in blocks: Hsu et al. 2024 (arXiv 2410.10989), section 3.2; without the logits of
    all rows: Wijmans et al. 2024 (arXiv 2411.09009). Smoothing: Szegedy et al. 2016 (arXiv 1512.00567), section 7.

    >>> import torch
    >>> loss, _ = linear_cross_entropy(torch.zeros(3, 4), torch.ones(8, 4), None, torch.tensor([0, 1, 7]))
    >>> loss / 3
    tensor(2.0794)
    """
    rows, (num_tokens, size) = features.shape[:-1], weight.shape
    fits = features.shape[-1] == size and targets.shape == rows and (mask is None or mask.shape == rows)
    if not fits or any(x is not None and x.shape != (num_tokens,) for x in (bias, never)):
        letters = {"features": ("B T D" if features.dim() == 3 else "M D", features), "weight": ("N D", weight)}
        others = {"bias": ("N", bias), "targets": ("B T", targets), "mask": ("B T", mask), "never": ("N", never)}
        shown = letters | {name: (axes, x) for name, (axes, x) in others.items() if x is not None}
        raise ShapeError("features, weight, targets and what goes with them must fit together.\n" + describe(shown))
    inputs = (features, weight, bias, targets, mask, never)
    return choose(LINEAR_CROSS_ENTROPY, *inputs).function(*inputs, smoothing=smoothing)


def _refuse_blocks(features: Any = None, weight: Any = None, *others: Any) -> str | None:
    """Why losses cannot be computed in blocks, or None."""
    inputs = features, weight, *others
    return (
        refuse_kernels(*inputs)
        or refuse_device("cpu", *inputs)
        or refuse_types(*inputs)
        or refuse_autocast(features)
        or refuse_empty(features, weight)
        or refuse_numba("regard.ops.linear_cross_entropy.numba", features)
    )


LINEAR_CROSS_ENTROPY = (
    Implementation("blocks", blocks.linear_cross_entropy, _refuse_blocks),
    Implementation("reference", reference.linear_cross_entropy),
)
