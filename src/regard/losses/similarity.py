"""Structural similarity of spectrograms."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import conv2d

from regard.errors import ConfigError
from regard.losses.values import observed_errors
from regard.shapes import Bool, Float, Int

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
    a = 0.01² and b = 0.03². Both are first moved and scaled as takes the reference of each sentence to [0, 1]. Windows
    read real cells only, so padding changes nothing.

    Args:
        values, targets: spectrograms (B, T, F); what is masked may be anything, NaN too.
        mask: (B, T), True at real frames; all if None.
        width: of the window, in frames and in frequencies; odd.
        deviation: of its Gaussian.

    Raises:
        ShapeError: for sizes or types that do not fit together.
        ConfigError: for an even width.

    Source: Wang, Bovik, Sheikh & Simoncelli 2004, Image quality assessment: from error visibility to structural
    similarity; as a loss of Tacotron: Coqui TTS, which scales each spectrogram by its own range.

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
    # what lies in each cell's window: its weight, and the sums of x, y, x², y², xy
    kinds = torch.stack([observed.to(working), x, y, x * x, y * y, x * y], 1)
    sums = conv2d(kinds.flatten(0, 1)[:, None], window, padding=width // 2).view_as(kinds)
    weight = torch.where(observed, sums[:, 0], 1)
    mean, other, square, other_square, product = (sums[:, kind] / weight for kind in range(1, 6))
    variance, other_variance = square - mean.square(), other_square - other.square()
    covariance = product - mean * other
    similarity = (2 * mean * other + LUMINANCE) * (2 * covariance + CONTRAST)
    similarity = similarity / ((mean.square() + other.square() + LUMINANCE) * (variance + other_variance + CONTRAST))
    return (1 - similarity).masked_fill(~observed, 0).sum(), observed.sum()
