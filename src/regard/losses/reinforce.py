"""REINFORCE for drawn positions, and a baseline of the reward."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.errors import ShapeError
from regard.losses.alignments import mean_over
from regard.shapes import Bool, Float, describe


def reinforce(
    log_probability: Float[Tensor, "B T H"],
    reward: Float[Tensor, " B"] | Float[Tensor, "B T"],
    baseline: Tensor | float = 0.0,
    target_mask: Bool[Tensor, "B T"] | None = None,
    *,
    entropy: Float[Tensor, "B T H"] | None = None,
    entropy_weight: float = 0.002,
) -> Float[Tensor, ""]:
    """-Σ_t Σ_h [(reward - baseline) · log p(drawn) + λ H(p)], the mean over sentences.

    Its gradient estimates that of the negative expected reward from one draw; reward and baseline are constants. Rows
    that were not drawn have a log-probability of 0 and no effect. The baseline must not depend on the draw.

    Args:
        log_probability, entropy: (B, T, H), `Choice.log_probability` and `Choice.entropy` of a whole sequence, or
            (B, 1, H) of a step.
        reward: (B,) of each sentence, e.g. its log-probability, or (B, T) of each step.
        baseline: a number, 0-d (`MovingBaseline.value`), or of the reward's shape.
        target_mask: (B, T), True at real steps.
        entropy_weight: λ, if there is `entropy`; it keeps the draws even. arctic-captions has 0.002.

    Returns:
        0-d, in float32 or wider, to be minimised; only its gradient is meaningful. 0 without real steps.

    Raises:
        ShapeError: for a reward or a mask that does not fit.

    Source: Williams 1992, Simple statistical gradient-following algorithms for connectionist reinforcement learning,
    Machine Learning 8; Xu et al. 2015 (arXiv 1502.03044), section 4.1.

    >>> reinforce(torch.tensor([[[0.5]]]).log(), torch.tensor([3.0]), baseline=1.0)
    tensor(1.3863)
    """
    shown = {"log_probability": ("B T H", log_probability), "reward": ("B T", reward)}
    if log_probability.dim() != 3 or reward.shape not in (log_probability.shape[:1], log_probability.shape[:2]):
        raise ShapeError("log_probability must be (B, T, H) and reward (B,) or (B, T).\n" + describe(shown))
    if target_mask is not None and (target_mask.shape != log_probability.shape[:2] or target_mask.dtype != torch.bool):
        raise ShapeError(
            "target_mask must be (B, T) bool, True at real steps.\n"
            + describe(shown | {"target_mask": ("B T", target_mask)})
        )
    working = torch.promote_types(log_probability.dtype, torch.float32)
    real = torch.ones_like(log_probability[..., 0], dtype=torch.bool) if target_mask is None else target_mask
    advantage = (reward.to(working) - baseline).detach()
    advantage = (advantage[:, None] if reward.dim() == 1 else advantage).expand_as(real).masked_fill(~real, 0)
    gain = log_probability.to(working).masked_fill(~real[..., None], 0) * advantage[..., None]
    if entropy is not None:
        gain = gain + entropy_weight * entropy.to(working).masked_fill(~real[..., None], 0)
    return mean_over(-gain.sum(), real.any(1).sum())


class MovingBaseline(nn.Module):
    """b, the moving mean of rewards: b ← d b + (1 - d) mean(reward), initially 0.

    It changes only in `update`. b is a buffer, so it is saved with the module that contains it.

    Args:
        decay: d.

    Source: Xu et al. 2015 (arXiv 1502.03044), section 4.1.

    >>> baseline = MovingBaseline()
    >>> baseline.update(torch.tensor([2.0, 4.0])), baseline.value
    (tensor(0.), tensor(0.3000))
    """

    value: Float[Tensor, ""]

    def __init__(self, decay: float = 0.9) -> None:
        super().__init__()
        if not 0 <= decay < 1:
            raise ValueError(f"decay={decay} must be 0 or more and below 1.")
        self.decay = decay
        self.register_buffer("value", torch.zeros(()))

    @torch.no_grad()
    def update(self, reward: Tensor, mask: Bool[Tensor, "*rows"] | None = None) -> Float[Tensor, ""]:
        """Updates b and returns its previous value, the baseline of these rewards.

        Args:
            reward: of any shape. If it is empty or its mean is not finite, b does not change.
            mask: of the shape of the reward, True where it counts.
        """
        before = self.value.clone()
        real = torch.ones_like(reward, dtype=torch.bool) if mask is None else mask
        mean = reward.to(before.dtype).masked_fill(~real, 0).sum() / real.sum()
        moved = self.decay * before + (1 - self.decay) * mean
        self.value.copy_(torch.where(moved.isfinite(), moved, before))
        return before
