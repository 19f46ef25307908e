"""Convolutions over sequences with padding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from regard.errors import ConfigError
from regard.layers.batch_norm import MaskedBatchNorm
from regard.layers.dropout import Dropout, drop
from regard.shapes import Bool, Float

ConvolutionActivation = Literal["relu", "tanh", "none"]
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": torch.relu, "tanh": torch.tanh, "none": lambda x: x}


class MaskedConvolution(nn.Module):
    """y_t = b + Σ_i W_i x_{t+i-p}, i = 0 … K - 1, with x = 0 before, after, and at padding; y = 0 at padding.

    The number p of positions before t is (K - 1) // 2: an even kernel reaches one position further to the right than to
    the left, like "same" padding in TensorFlow. The weights are those of `nn.Conv1d` (`self.filters`).

    Args:
        input_size: F.
        size: D, the number of filters.
        kernel_size: K.
        bias: whether there is b.

    >>> MaskedConvolution(3, 4, 5)(torch.zeros(2, 7, 3)).shape
    torch.Size([2, 7, 4])
    """

    def __init__(self, input_size: int, size: int, kernel_size: int, *, bias: bool = True) -> None:
        super().__init__()
        if kernel_size < 1:
            raise ConfigError(f"kernel_size={kernel_size} must be 1 or more.")
        self.reach = (kernel_size - 1) // 2, kernel_size // 2
        self.filters = nn.Conv1d(input_size, size, kernel_size, bias=bias)

    def forward(self, x: Float[Tensor, "B T F"], mask: Bool[Tensor, "B T"] | None = None) -> Float[Tensor, "B T D"]:
        """The filtered sequence.

        Args:
            mask: True at real positions; all if None.
        """
        if mask is not None:
            x = x.masked_fill(~mask[..., None], 0)
        if x.shape[1] == 0:
            return x.new_zeros(*x.shape[:2], self.filters.out_channels)
        y = self.filters(pad(x.transpose(1, 2), self.reach)).transpose(1, 2)
        return y if mask is None else y.masked_fill(~mask[..., None], 0)


class ConvolutionBlock(nn.Module):
    """A convolution with batch normalisation, an activation and dropout.

    norm before the activation: dropout(f(norm(W ∗ x)));  after it: dropout(norm(f(W ∗ x))).

    Args:
        input_size, size, kernel_size, bias: of the convolution.
        activation: f: relu, tanh, or none.
        norm: whether batch normalisation comes `before` or `after` the activation; None for no normalisation.
        dropout: probability that a feature is dropped in training.
        momentum, epsilon: of the normalisation (`MaskedBatchNorm`).
    """

    def __init__(
        self,
        input_size: int,
        size: int,
        kernel_size: int,
        *,
        activation: ConvolutionActivation = "relu",
        norm: Literal["before", "after"] | None = "before",
        dropout: float = 0.0,
        bias: bool = True,
        momentum: float = 0.1,
        epsilon: float = 1e-5,
    ) -> None:
        super().__init__()
        if activation not in ACTIVATIONS:
            raise ConfigError(f"activation={activation!r} must be one of {', '.join(ACTIVATIONS)}.")
        if norm not in ("before", "after", None):
            raise ConfigError(f"norm={norm!r} must be 'before', 'after' or None.")
        self.activation: ConvolutionActivation = activation
        self.norm_position = norm
        self.convolution = MaskedConvolution(input_size, size, kernel_size, bias=bias)
        self.norm = None if norm is None else MaskedBatchNorm(size, momentum=momentum, epsilon=epsilon)
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "B T F"], mask: Bool[Tensor, "B T"] | None = None) -> Float[Tensor, "B T D"]:
        """Outputs, zeros at padding."""
        x, activate = self.convolution(x, mask), ACTIVATIONS[self.activation]
        if self.norm is None:
            x = activate(x)
        elif self.norm_position == "before":
            x = activate(self.norm(x, mask))
        else:
            x = self.norm(activate(x), mask)
        return drop(self.dropout, x)
