"""Batch normalisation that does not count padding."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm

from regard.errors import ConfigError
from regard.shapes import Bool, Float


class MaskedBatchNorm(nn.Module):
    """w (x - mean) / √(var + ε) + b, with the statistics of the real positions of a batch only.

    In training mean and variance (divided by N) are those of the N real positions of the batch, and the running
    statistics move towards them: running ← (1 - momentum) · running + momentum · (mean, or the variance divided by
    N - 1). In evaluation the running statistics are used, so that a sentence does not depend on its batch; in training
    it does, by definition. Without padding this is `nn.BatchNorm1d`, whose state dict fits.

    A batch that is divided (gradient accumulation, several processes) has the statistics of each part.

    Args:
        size: F.
        momentum: the share of the new statistics, torch's convention. TensorFlow says what is kept instead: its 0.99 is
            0.01 here, its default 0.99 too.
        epsilon: ε; 1e-3 in TensorFlow.

    Raises:
        ConfigError: for a momentum outside [0, 1].

    Source: Ioffe & Szegedy 2015 (arXiv 1502.03167).

    >>> norm = MaskedBatchNorm(1)
    >>> x, mask = torch.tensor([[[1.0], [3.0], [99.0]]]), torch.tensor([[True, True, False]])
    >>> norm(x, mask)[0, :, 0]
    tensor([-1.0000,  1.0000,  0.0000], grad_fn=<SelectBackward0>)
    >>> norm.running_mean
    tensor([0.2000])
    """

    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor

    def __init__(self, size: int, *, momentum: float = 0.1, epsilon: float = 1e-5) -> None:
        super().__init__()
        if not 0 <= momentum <= 1:
            raise ConfigError(f"momentum={momentum} is the share of the new statistics: give a number from 0 to 1.")
        self.size = size
        self.momentum = momentum
        self.epsilon = epsilon
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))
        self.register_buffer("running_mean", torch.zeros(size))
        self.register_buffer("running_var", torch.ones(size))
        self.register_buffer("num_batches_tracked", torch.zeros((), dtype=torch.long))

    def forward(self, x: Float[Tensor, "B T F"], mask: Bool[Tensor, "B T"] | None = None) -> Float[Tensor, "B T F"]:
        """Normalised positions; zeros at padding.

        Args:
            mask: True at real positions; all if None.
        """
        if not self.training:
            scale = self.weight * torch.rsqrt(self.running_var + self.epsilon)
            normalised = (x * scale + (self.bias - self.running_mean * scale)).to(x.dtype)
            return normalised if mask is None else normalised.masked_fill(~mask[..., None], 0)
        rows = x.flatten(0, 1) if mask is None else x[mask]
        rows = self._normalise(rows)
        if mask is None:
            return rows.view_as(x)
        return torch.zeros_like(x, dtype=rows.dtype).masked_scatter(mask[..., None], rows)

    def _normalise(self, rows: Float[Tensor, "N F"]) -> Float[Tensor, "N F"]:
        """By the rows' own statistics, which the running ones move to."""
        self.num_batches_tracked.add_(1)
        if len(rows) < 2:  # a single position is its own mean and has no variance; torch refuses it
            if len(rows):
                self.running_mean.lerp_(rows[0].detach().to(self.running_mean.dtype), self.momentum)
            return self.weight * (rows - rows) + self.bias
        return batch_norm(
            rows, self.running_mean, self.running_var, self.weight, self.bias, True, self.momentum, self.epsilon
        )
