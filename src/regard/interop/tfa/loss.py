"""The weighted cross-entropy of sequences of logits, with all reductions of the original."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from regard.errors import ConfigError, DataError, ShapeError
from regard.interop.tfa.layers.deferred import tensors
from regard.shapes import Float, describe

LossFunction = Callable[..., Tensor]


def sequence_loss(
    logits: Float[Tensor, "B T N"],
    targets: Tensor,
    weights: Float[Tensor, "B T"],
    average_across_timesteps: bool = True,
    average_across_batch: bool = True,
    sum_over_timesteps: bool = False,
    sum_over_batch: bool = False,
    softmax_loss_function: LossFunction | None = None,
    name: str | None = None,
) -> Tensor:
    """Cross-entropy times weights, reduced over steps, sentences, both or neither.

    An average divides the sum over an axis by that of the weights. A "sum" divides it by the number of weights other
    than 0, as in the original. 0 / 0 is 0.

    Args:
        logits: (B, T, N).
        targets: (B, T) ids, or (B, T, N) distributions, one-hot ones for example.
        weights: (B, T), 0 at padding.
        average_across_timesteps, average_across_batch: which axes are averaged.
        sum_over_timesteps, sum_over_batch: which are summed.
        softmax_loss_function: from `labels` and `logits`, by name, to losses (B T,) instead of the cross-entropy. It
            gets logits (B T, N) and labels (B T,), or (B T, N) of distributions, which the original flattens.
        name: without effect.

    Returns:
        A number; (B,) if only steps are reduced, (T,) if only sentences are, (B, T) if nothing is.

    Raises:
        ShapeError: for logits, targets or weights of other shapes.
        DataError: for a target that is none of the N ids.
        ConfigError: for an average and a sum over one axis, or an average over one and a sum over the other.

    >>> logits = torch.tensor([[[0.25, 0.75], [0.5, 0.5]]]).log()
    >>> sequence_loss(logits, torch.tensor([[1, 0]]), torch.tensor([[1.0, 0.0]]))
    tensor(0.2877)
    """
    logits = tensors(logits)
    targets, weights = (torch.as_tensor(each, device=logits.device) for each in (targets, weights))
    _check(logits, targets, weights)
    _check_means(average_across_timesteps, average_across_batch, sum_over_timesteps, sum_over_batch)
    weights = weights.to(logits.dtype)
    losses = weights * _losses(logits, targets, softmax_loss_function)
    if average_across_timesteps and average_across_batch:
        return _ratio(losses.sum(), weights.sum())
    if sum_over_timesteps and sum_over_batch:
        return _ratio(losses.sum(), weights.count_nonzero())
    if average_across_timesteps or average_across_batch:
        axis = 0 if average_across_batch else 1
        return _ratio(losses.sum(axis), weights.sum(axis))
    if sum_over_timesteps or sum_over_batch:
        axis = 0 if sum_over_batch else 1
        return _ratio(losses.sum(axis), weights.count_nonzero(axis))
    return losses


class SequenceLoss(nn.Module):
    """`sequence_loss` as an object, with sums by default.

    Args: as in `sequence_loss`.

    >>> SequenceLoss()(torch.tensor([[1, 0]]), torch.zeros(1, 2, 2), torch.ones(1, 2))
    tensor(0.6931)
    """

    def __init__(
        self,
        average_across_timesteps: bool = False,
        average_across_batch: bool = False,
        sum_over_timesteps: bool = True,
        sum_over_batch: bool = True,
        softmax_loss_function: LossFunction | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        _check_means(average_across_timesteps, average_across_batch, sum_over_timesteps, sum_over_batch)
        self.average_across_timesteps, self.average_across_batch = average_across_timesteps, average_across_batch
        self.sum_over_timesteps, self.sum_over_batch = sum_over_timesteps, sum_over_batch
        self.softmax_loss_function, self.name = softmax_loss_function, name

    def forward(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        """The loss.

        Args:
            sample_weight: the weights; all 1 if None, where the original fails.
        """
        y_pred = tensors(y_pred)
        return sequence_loss(
            y_pred,
            y_true,
            y_pred.new_ones(y_pred.shape[:2]) if sample_weight is None else sample_weight,
            self.average_across_timesteps,
            self.average_across_batch,
            self.sum_over_timesteps,
            self.sum_over_batch,
            self.softmax_loss_function,
        )


def _losses(logits: Tensor, targets: Tensor, function: LossFunction | None) -> Tensor:
    if function is not None:
        labels = targets.reshape(-1, *targets.shape[2:])
        return function(labels=labels, logits=logits.flatten(0, 1)).view(logits.shape[:2])
    log_probabilities = logits.log_softmax(-1)
    if targets.dim() == 3:
        return -(targets.to(logits.dtype) * log_probabilities).sum(-1)
    return -log_probabilities.gather(-1, targets.long()[..., None])[..., 0]


def _ratio(total: Tensor, count: Tensor) -> Tensor:
    """total / count, 0 where the count is 0."""
    empty = count == 0
    return (total / count.masked_fill(empty, 1)).masked_fill(empty, 0)


def _check(logits: Tensor, targets: Tensor, weights: Tensor) -> None:
    shown = describe({"logits": ("B T N", logits), "targets": ("B T N", targets), "weights": ("B T", weights)})
    if logits.dim() != 3 or not logits.is_floating_point():
        raise ShapeError("logits must be numbers (B, T, N).\n" + shown)
    if targets.shape not in (logits.shape, logits.shape[:2]):
        raise ShapeError("targets must be ids (B, T) or distributions (B, T, N), with the sizes of logits.\n" + shown)
    if weights.shape != logits.shape[:2]:
        raise ShapeError("weights must be (B, T), one for each target.\n" + shown)
    if targets.dim() == 2 and targets.numel():
        if targets.is_floating_point() or targets.dtype == torch.bool:
            raise ShapeError("targets (B, T) must be whole numbers, ids.\n" + shown)
        wrong = (targets < 0) | (targets >= logits.shape[2])
        if bool(wrong.any()):
            b, t = wrong.nonzero()[0].tolist()
            raise DataError(
                f"targets[{b}, {t}] is {int(targets[b, t])}, which is none of the N={logits.shape[2]} ids. Padding "
                "also needs an id, with weight 0."
            )


def _check_means(mean_time: bool, mean_batch: bool, sum_time: bool, sum_batch: bool) -> None:
    pairs = (
        (mean_time and sum_time, "average_across_timesteps and sum_over_timesteps", "one axis is reduced once"),
        (mean_batch and sum_batch, "average_across_batch and sum_over_batch", "one axis is reduced once"),
        (mean_batch and sum_time, "average_across_batch and sum_over_timesteps", "the result depends on the order"),
        (sum_batch and mean_time, "sum_over_batch and average_across_timesteps", "the result depends on the order"),
    )
    for both, names, reason in pairs:
        if both:
            raise ConfigError(f"{names} are both true, but {reason}; set one of them to False.")
