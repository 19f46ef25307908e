"""Batch normalisation over real positions."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.errors import ConfigError
from regard.ops.batch_norm import Activation, batch_norm
from regard.shapes import Bool, Float


class MaskedBatchNorm(nn.Module):
    """w (x - mean) / √(var + ε) + b, with the statistics of the real positions of a batch.

    In training mean and variance (divided by N) are those of the N real positions of the batch, and the running
    statistics move towards them: running ← (1 - momentum) · running + momentum · (mean, or the variance divided by
    N - 1). In evaluation the running statistics are used, so that a sentence does not depend on its batch. Without
    padding this is `nn.BatchNorm1d`, with the same state dict.

    Each part of a divided batch (gradient accumulation, several processes) has its own statistics.

    Args:
        size: F.
        momentum: the share of the new statistics, as in torch; TensorFlow's is the share of the old ones: its default
            0.99 is 0.01 here.
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

    def forward(
        self,
        x: Float[Tensor, "*rows F"],
        mask: Bool[Tensor, "*rows"] | None = None,
        residual: Float[Tensor, "*rows F"] | None = None,
        *,
        activation: Activation = "none",
    ) -> Float[Tensor, "*rows F"]:
        """f(norm(x) + residual) with the activation f, in one operation; zeros at padding.

        Args:
            x: (B, T, F), or with any other axes before the features, such as the rows and columns of images.
            mask: True at real positions; all if None.
            residual: 0 if None.
        """
        statistics = None if self.training else (self.running_mean, self.running_var)
        y, mean, variance, count = batch_norm(
            x,
            mask,
            self.weight,
            self.bias,
            residual,
            statistics=statistics,
            epsilon=self.epsilon,
            activation=activation,
        )
        if self.training:
            self._update_statistics(mean, variance, count)
        return y

    @torch.no_grad()
    def _update_statistics(self, mean: Tensor, variance: Tensor, count: Tensor) -> None:
        """Moves the running mean if there is a position, and the running variance if there are two."""
        self.num_batches_tracked.add_(1)
        share = torch.full((), self.momentum, dtype=self.running_mean.dtype, device=mean.device)
        unbiased = variance * (count.to(variance.dtype) / (count - 1).clamp(min=1))
        for running, new, least in ((self.running_mean, mean, 1), (self.running_var, unbiased, 2)):
            running.lerp_(new.to(running.dtype), share * (count >= least))
