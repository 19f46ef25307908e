"""Normalisations of images whose statistics exclude padding."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from regard.errors import ConfigError
from regard.layers import MaskedBatchNorm
from regard.ops.batch_norm import ACTIVATIONS, Activation
from regard.shapes import Bool, Float

NormName = Literal["none", "batch", "group", "layer"]
NORMS: tuple[NormName, ...] = ("none", "batch", "group", "layer")
NUM_GROUPS = 8


class MaskedGroupNorm(nn.Module):
    """w (x - mean) / √(var + ε) + b, with the statistics of the real pixels of an image and the channels of a group.

    Without padding this is `nn.GroupNorm` with channels last and the same state dict. Padding is 0.

    Args:
        size: F, the number of channels.
        num_groups: the number of groups, a divisor of F.
        epsilon: ε.

    Raises:
        ConfigError: if the groups do not divide the channels.

    Source: Wu & He 2018 (arXiv 1803.08494).
    """

    def __init__(self, size: int, num_groups: int, *, epsilon: float = 1e-5) -> None:
        super().__init__()
        if num_groups < 1 or size % num_groups:
            raise ConfigError(f"num_groups={num_groups} must divide the {size} channels.")
        self.size = size
        self.num_groups = num_groups
        self.epsilon = epsilon
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(
        self, x: Float[Tensor, "B H W F"], mask: Bool[Tensor, "B H W"] | None = None
    ) -> Float[Tensor, "B H W F"]:
        """The normalised images; zeros at padding.

        Args:
            mask: True at real pixels; all if None.
        """
        wide = x.to(torch.promote_types(x.dtype, self.weight.dtype)).flatten(1, 2)
        grouped = wide.unflatten(2, (self.num_groups, -1))  # (B, H W, groups, channels of a group)
        real = None if mask is None else mask.flatten(1)[..., None, None]
        pixels = float(grouped.shape[1]) if real is None else real.sum(1, keepdim=True).clamp(min=1)
        count = pixels * grouped.shape[3]
        mean = _zeroed(grouped, real).sum((1, 3), keepdim=True) / count
        centred = _zeroed(grouped - mean, real)
        variance = centred.square().sum((1, 3), keepdim=True) / count
        normalised = (centred * torch.rsqrt(variance + self.epsilon)).flatten(2)
        y = (normalised * self.weight + self.bias).view(x.shape)
        return _zeroed(y, None if mask is None else mask[..., None]).to(x.dtype)


class ChannelNorm(nn.Module):
    """Layer normalisation over the channels of every pixel, zero at padding.

    Without padding this is `nn.LayerNorm`, with the same state dict.

    Args:
        size: F, the number of channels.
        epsilon: added to the variance.

    Source: Ba et al. 2016 (arXiv 1607.06450); over the channels of a pixel as in Liu et al. 2022 (arXiv 2201.03545).
    """

    def __init__(self, size: int, *, epsilon: float = 1e-5) -> None:
        super().__init__()
        self.size = size
        self.epsilon = epsilon
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(
        self, x: Float[Tensor, "B H W F"], mask: Bool[Tensor, "B H W"] | None = None
    ) -> Float[Tensor, "B H W F"]:
        """The normalised pixels; zeros at padding.

        Args:
            mask: True at real pixels; all if None.
        """
        wide = x.to(torch.promote_types(x.dtype, self.weight.dtype))
        y = nn.functional.layer_norm(wide, (self.size,), self.weight, self.bias, self.epsilon)
        return _zeroed(y, None if mask is None else mask[..., None]).to(x.dtype)


def norm_named(name: NormName, size: int, *, epsilon: float = 1e-5, momentum: float = 0.1) -> nn.Module | None:
    """A normalisation over channels, or None for `none`.

    Args:
        name: none, batch (`MaskedBatchNorm`), group (`MaskedGroupNorm` of 8 groups, or of the most that divide the
            channels) or layer (`ChannelNorm`).
        size: the number of channels.
        epsilon: of the normalisation.
        momentum: of batch normalisation.

    Raises:
        ConfigError: for another name.
    """
    if name not in NORMS:
        raise ConfigError(f"norm={name!r} must be one of {', '.join(NORMS)}.")
    if name == "batch":
        return MaskedBatchNorm(size, momentum=momentum, epsilon=epsilon)
    if name == "group":
        groups = max(n for n in range(1, NUM_GROUPS + 1) if size % n == 0)
        return MaskedGroupNorm(size, groups, epsilon=epsilon)
    return ChannelNorm(size, epsilon=epsilon) if name == "layer" else None


def normalised(
    norm: nn.Module | None,
    x: Float[Tensor, "B F H W"],
    mask: Bool[Tensor, "B H W"] | None,
    *,
    activation: Activation = "none",
    residual: Float[Tensor, "B F H W"] | None = None,
) -> Float[Tensor, "B F H W"]:
    """f(norm(x) + residual) with the activation f; zeros at padding, with channels last in memory.

    Args:
        norm: over the last axis; None for no normalisation.
        residual: zero at padding; 0 if None.
    """
    pixels = x.permute(0, 2, 3, 1)
    if isinstance(norm, MaskedBatchNorm):
        other = None if residual is None else residual.permute(0, 2, 3, 1)
        return norm(pixels, mask, other, activation=activation).permute(0, 3, 1, 2)
    if norm is not None:
        y = norm(pixels, mask)
    else:
        y = _zeroed(pixels, None if mask is None else mask[..., None])
    y = y.permute(0, 3, 1, 2)
    return ACTIVATIONS[activation](y if residual is None else y + residual)


def _zeroed(x: Tensor, real: Tensor | None) -> Tensor:
    """x with zeros, and without gradients, at padding."""
    return x if real is None else x.masked_fill(~real, 0)
