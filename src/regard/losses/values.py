"""Losses of values: sums over the observed numbers, and their counts."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, conv2d

from regard.errors import ConfigError, ShapeError
from regard.shapes import Bool, Float, Int, describe


def squared_error(
    values: Float[Tensor, "*rows F"], targets: Float[Tensor, "*rows F"], mask: Tensor | None = None
) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
    """Σ (y - ŷ)² over the observed numbers, and their count.

    Add the sums and counts of batches and divide afterwards, so that every observed number counts the same.

    Args:
        values: ŷ, for example (B, T, F).
        targets: y, of the same shape; masked numbers may be NaN.
        mask: True at observed numbers: of the targets' shape, as `~targets.isnan()`, or (B, T) for all F of a step;
            all if None.

    Returns:
        The sum, in float32 or wider, and the number of observed numbers.

    Raises:
        ShapeError: for sizes or types that do not fit together.

    >>> total, count = squared_error(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 2.0]]))
    >>> total / count
    tensor(2.)
    """
    errors, observed = observed_errors(values, targets, mask)
    return errors.square().sum(), observed.sum()


def absolute_error(
    values: Float[Tensor, "*rows F"], targets: Float[Tensor, "*rows F"], mask: Tensor | None = None
) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
    """Σ |y - ŷ| over the observed numbers, and their count.

    Args, Returns and Raises: as in `squared_error`.

    >>> total, count = absolute_error(
    ...     torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, float("nan")]]), torch.tensor([[True, False]])
    ... )
    >>> total / count
    tensor(2.)
    """
    errors, observed = observed_errors(values, targets, mask)
    return errors.abs().sum(), observed.sum()


def low_frequency_error(
    values: Float[Tensor, "*rows F"], targets: Float[Tensor, "*rows F"], num_low: int, mask: Tensor | None = None
) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
    """½ Σ |y - ŷ| + ½ (F / L) Σ_{low} |y - ŷ| over the observed numbers, and the count of all of them.

    Divided by the count this is half the mean over all F frequencies and half the mean over the L lowest ones, which
    have most of the energy of speech: the loss of Tacotron 1's linear spectrograms.

    Args:
        num_low: L, from 1 to F; `int(3000 / (sample_rate / 2) * F)` in keithito's implementation.
        values, targets, mask: as in `squared_error`.

    Raises:
        ShapeError: for sizes or types that do not fit together, or an L that is not from 1 to F.

    Source: keithito/tacotron, `add_loss`; Rayhane Mamah's has 2,000 Hz.

    >>> total, count = low_frequency_error(torch.tensor([[1.0, 5.0]]), torch.zeros(1, 2), 1)
    >>> total / count
    tensor(2.)
    """
    errors, observed = observed_errors(values, targets, mask)
    size = errors.shape[-1]
    if not 1 <= num_low <= size:
        raise ShapeError(f"num_low={num_low} must be from 1 to F={size}, the number of frequencies.")
    total = errors.abs().sum() + errors[..., :num_low].abs().sum() * (size / num_low)
    return total / 2, observed.sum()


def stop_loss(
    logits: Float[Tensor, "B T r"],
    targets: Float[Tensor, "B T r"],
    mask: Tensor | None = None,
    *,
    positive_weight: float = 1.0,
) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
    """-Σ [w y ln σ(x) + (1 - y) ln(1 - σ(x))] over real steps, and the count of the logits.

    Args:
        logits: x, `auxiliary["stop"]` of a decoder.
        targets: y, 1 in the last step, as `models.tacotron.stop_targets` gives them.
        mask: True at real logits: (B, T) for all of a step, or of the logits' shape; all if None.
        positive_weight: w; 5 in ESPnet. With 1 a model may learn to stop late, as a sentence has one last step and
            hundreds of others.

    Raises:
        ShapeError: for sizes or types that do not fit together.

    >>> total, count = stop_loss(torch.zeros(1, 2, 1), torch.tensor([[[0.0], [1.0]]]), positive_weight=5.0)
    >>> total / count
    tensor(2.0794)
    """
    _, observed = observed_errors(logits, targets, mask)
    working = torch.promote_types(logits.dtype, torch.float32)
    x, y = (tensor.to(working).masked_fill(~observed, 0) for tensor in (logits, targets))
    terms = binary_cross_entropy_with_logits(x, y, reduction="none", pos_weight=x.new_full((), positive_weight))
    return terms.masked_fill(~observed, 0).sum(), observed.sum()


def pinball_loss(
    quantiles: Float[Tensor, "*rows F Q"],
    targets: Float[Tensor, "*rows F"],
    levels: Sequence[float],
    mask: Tensor | None = None,
) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
    """Σ max(τ (y - q_τ), (τ - 1) (y - q_τ)) over observed numbers and levels τ, and the count of these terms.

    Its minimum is at the quantiles: y is below q_τ with the probability τ. At τ = 1/2 it is half the absolute error.

    Args:
        quantiles: q, for example (B, T, F, Q), `auxiliary["quantiles"]` of a decoder with a `QuantileHead`.
        levels: τ, Q of them, in the order of the quantiles.
        targets, mask: as in `squared_error`.

    Returns:
        The sum, in float32 or wider, and the number of observed numbers times Q.

    Raises:
        ShapeError: for sizes or types that do not fit together.

    Source: Koenker & Bassett 1978, Regression quantiles.

    >>> total, count = pinball_loss(torch.tensor([[[1.0, 3.0]]]), torch.tensor([[2.0]]), (0.1, 0.9))
    >>> total / count
    tensor(0.1000)
    """
    if quantiles.dim() == 0 or quantiles.shape[-1] != len(levels):
        raise ShapeError(
            f"quantiles must have a last axis of Q={len(levels)}, the number of levels.\n"
            + describe({"quantiles": ("B T F Q" if quantiles.dim() == 4 else "R F Q", quantiles)})
        )
    errors, observed = zip(
        *(observed_errors(quantile, targets, mask) for quantile in quantiles.unbind(-1)), strict=True
    )
    stacked = torch.stack(errors, -1)
    tau = torch.cat([stacked.new_full((1,), level) for level in levels])
    return torch.maximum(tau * stacked, (tau - 1) * stacked).sum(), observed[0].sum() * len(levels)


def observed_errors(values: Tensor, targets: Tensor, mask: Tensor | None) -> tuple[Tensor, Bool[Tensor, "*rows F"]]:
    """y - ŷ, 0 at numbers that were not observed, and the mask of observed numbers."""
    letters = "B T F" if values.dim() == 3 else "R F"
    shown = {"values": (letters, values), "targets": (letters, targets)}
    if values.shape != targets.shape:
        raise ShapeError("values and targets must have the same shape.\n" + describe(shown))
    if mask is None:
        mask = torch.ones_like(targets, dtype=torch.bool)
    elif mask.dtype != torch.bool or mask.shape not in (targets.shape, targets.shape[:-1]):
        raise ShapeError(
            "mask must be bool, True at observed numbers, of the targets' shape or without their last axis.\n"
            + describe(shown | {"mask": (letters, mask)})
        )
    observed = mask if mask.shape == targets.shape else mask[..., None].expand(targets.shape)
    # both are filled before the subtraction: in a gradient 0 times NaN would be NaN
    working = torch.promote_types(torch.promote_types(values.dtype, targets.dtype), torch.float32)
    prediction, truth = (x.to(working).masked_fill(~observed, 0) for x in (values, targets))
    return truth - prediction, observed


LUMINANCE, CONTRAST = 0.01**2, 0.03**2


def structural_dissimilarity(
    values: Float[Tensor, "B T F"],
    targets: Float[Tensor, "B T F"],
    mask: Bool[Tensor, "B T"] | None = None,
    *,
    width: int = 11,
    deviation: float = 1.5,
) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
    """Σ (1 - SSIM) over the real cells of spectrograms, and their count.

    SSIM = (2 μ ν + a)(2 ρ + b) / ((μ² + ν² + a)(s² + t² + b)),

    with the means μ, ν, variances s², t² and covariance ρ of both spectrograms in a Gaussian window around each cell,
    a = 0.01² and b = 0.03². Both are first normalised by the map that takes the range of each sentence's targets to
    [0, 1]. Windows contain real cells only.

    Args:
        values, targets: spectrograms (B, T, F); masked numbers may be NaN.
        mask: (B, T), True at real frames; all if None.
        width: of the window, in frames and in frequencies; odd.
        deviation: of its Gaussian.

    Raises:
        ShapeError: for sizes or types that do not fit together.
        ConfigError: for an even width.

    Source: Wang, Bovik, Sheikh & Simoncelli 2004, Image quality assessment: from error visibility to structural
    similarity.

    >>> x = torch.rand(1, 9, 5)
    >>> total, count = structural_dissimilarity(x, x)
    >>> bool(total / count < 1e-6)
    True
    """
    if width % 2 == 0 or width < 1:
        raise ConfigError(f"width={width} must be odd, so that a window has a middle.")
    _, observed = observed_errors(values, targets, mask)
    working = torch.promote_types(torch.promote_types(values.dtype, targets.dtype), torch.float32)
    x, y = (tensor.to(working).masked_fill(~observed, 0) for tensor in (values, targets))
    if x.numel() == 0:
        return x.sum(), observed.sum()
    low = y.masked_fill(~observed, float("inf")).amin((1, 2), keepdim=True).detach()
    high = y.masked_fill(~observed, float("-inf")).amax((1, 2), keepdim=True).detach()
    scale = torch.where(high > low, high - low, 1)
    x, y = (((tensor - torch.where(high >= low, low, 0)) / scale).masked_fill(~observed, 0) for tensor in (x, y))
    offsets = torch.arange(width, device=x.device, dtype=working) - width // 2
    profile = torch.exp(-offsets.square() / (2 * deviation**2))
    window = (profile[:, None] * profile)[None, None]
    # the sums over each cell's window of the weights, x, y, x², y² and xy
    terms = torch.stack([observed.to(working), x, y, x * x, y * y, x * y], 1)
    sums = conv2d(terms.flatten(0, 1)[:, None], window, padding=width // 2).view_as(terms)
    weight = torch.where(observed, sums[:, 0], 1)
    mean_x, mean_y, square_x, square_y, product = (sums[:, index] / weight for index in range(1, 6))
    variances = (square_x - mean_x.square()) + (square_y - mean_y.square())
    covariance = product - mean_x * mean_y
    similarity = (2 * mean_x * mean_y + LUMINANCE) * (2 * covariance + CONTRAST)
    similarity = similarity / ((mean_x.square() + mean_y.square() + LUMINANCE) * (variances + CONTRAST))
    return (1 - similarity).masked_fill(~observed, 0).sum(), observed.sum()
