"""Every loss, with inputs in float64."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard import losses, ops
from support.cases.case import LossCase, draw, ids, probabilities

SOURCE_MASK = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [1, 1, 1, 0]]).bool()
TARGET_MASK = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1], [1, 1, 1, 1, 0]]).bool()
_LAST = torch.arange(8) == 7
_MASKS = (("B S", SOURCE_MASK), ("B T", TARGET_MASK))


def _mean(sum_and_count: tuple[Tensor, Tensor]) -> Tensor:
    total, count = sum_and_count
    return total / count.clamp(min=1)


def _of_alignments(name: str, loss: Any, **options: Any) -> LossCase:
    weights = draw(3, 2, 5, 4).softmax(-1)
    return LossCase(name, (loss,), lambda: (("B H T S", weights), *_MASKS), lambda *inputs: loss(*inputs, **options))


LOSSES: tuple[LossCase, ...] = (
    LossCase(
        "cross-entropy",
        (losses.cross_entropy,),
        lambda: (("B T N", draw(3, 5, 7).log_softmax(-1)), ("B T", ids(3, 5)), ("B T", TARGET_MASK)),
        lambda *inputs: losses.cross_entropy(*inputs, smoothing=0.1)[0],
    ),
    LossCase(
        "cross-entropy of an output layer",
        (ops.linear_cross_entropy,),
        lambda: (("B T D", draw(3, 5, 4)), ("B T", ids(3, 5)), ("B T", TARGET_MASK)),
        lambda features, targets, mask: ops.linear_cross_entropy(
            features,
            draw(8, 4, seed=1).to(features),
            draw(8, seed=1).to(features),
            targets,
            mask,
            _LAST.to(mask.device),
            smoothing=0.1,
        )[0],
    ),
    LossCase(
        "distillation",
        (losses.distillation,),
        lambda: (
            ("B T N", draw(3, 5, 7).log_softmax(-1)),
            ("B T K", ids(3, 5, 2) % 7),
            ("B T K", probabilities(3, 5, 2, seed=1)),
            ("B T", TARGET_MASK),
        ),
        losses.distillation,
    ),
    LossCase(
        "squared error",
        (losses.squared_error,),
        lambda: (("B T F", draw(3, 5, 2)), ("B T F", draw(3, 5, 2, seed=1)), ("B T", TARGET_MASK)),
        lambda values, targets, mask: _mean(losses.squared_error(values, targets, mask)),
    ),
    LossCase(
        "absolute error with missing values",
        (losses.absolute_error,),
        lambda: (("B T F", draw(3, 5, 2)), ("B T F", draw(3, 5, 2, seed=1)), ("B T F", draw(3, 5, 2, seed=2) > -0.5)),
        lambda values, targets, mask: _mean(losses.absolute_error(values, targets, mask)),
    ),
    LossCase(
        "pinball loss",
        (losses.pinball_loss,),
        lambda: (("B T F Q", draw(3, 5, 2, 3)), ("B T F", draw(3, 5, 2, seed=1)), ("B T", TARGET_MASK)),
        lambda quantiles, targets, mask: _mean(losses.pinball_loss(quantiles, targets, (0.1, 0.5, 0.9), mask)),
    ),
    LossCase(
        "error of low frequencies",
        (losses.low_frequency_error,),
        lambda: (("B T F", draw(3, 5, 4)), ("B T F", draw(3, 5, 4, seed=1)), ("B T", TARGET_MASK)),
        lambda values, targets, mask: _mean(losses.low_frequency_error(values, targets, 2, mask)),
    ),
    LossCase(
        "stop loss",
        (losses.stop_loss,),
        lambda: (("B T r", draw(3, 5, 2)), ("B T r", (draw(3, 5, 2, seed=1) > 0).double()), ("B T", TARGET_MASK)),
        lambda logits, targets, mask: _mean(losses.stop_loss(logits, targets.detach(), mask, positive_weight=5.0)),
    ),
    LossCase(
        "structural dissimilarity",
        (losses.structural_dissimilarity,),
        lambda: (("B T F", draw(3, 5, 4)), ("B T F", draw(3, 5, 4, seed=1)), ("B T", TARGET_MASK)),
        lambda values, targets, mask: _mean(losses.structural_dissimilarity(values, targets.detach(), mask, width=3)),
    ),
    LossCase(
        "consistency of two decoders' alignments",
        (losses.alignment_consistency,),
        lambda: (("B H T S", draw(3, 2, 5, 4).softmax(-1)), ("B H T S", draw(3, 2, 5, 4, seed=1).softmax(-1)), *_MASKS),
        lambda fine, coarse, *masks: losses.alignment_consistency(fine, coarse, *masks, coarse_frames=2),
    ),
    _of_alignments("guided attention", losses.guided_attention, width=0.4),
    LossCase(
        "guided attention, what is missing counts",
        (losses.guided_attention,),
        lambda: (("B H T S", 0.8 * draw(3, 2, 5, 4).softmax(-1)), *_MASKS),
        lambda alignments, *masks: losses.guided_attention(alignments, *masks, missing=1.0),
    ),
    _of_alignments("coverage", losses.coverage_loss),
    _of_alignments("doubly stochastic", losses.doubly_stochastic),
    _of_alignments("doubly stochastic, equal shares", losses.doubly_stochastic, rate=None),
    _of_alignments("entropy of attention", losses.attention_entropy),
    LossCase(
        "supervision by weights",
        (losses.alignment_supervision,),
        lambda: (
            ("B H T S", draw(3, 2, 5, 4).softmax(-1)),
            ("B T S", (probabilities(3, 5, 4, seed=1) > 0.6).double()),
            *_MASKS,
        ),
        lambda alignments, reference, *masks: losses.alignment_supervision(alignments, reference.detach(), *masks),
    ),
    LossCase(
        "supervision by positions",
        (losses.alignment_supervision,),
        lambda: (("B H T S", draw(3, 2, 5, 4).softmax(-1)), ("B T", ids(3, 5) - 2), *_MASKS),
        losses.alignment_supervision,
    ),
    LossCase(
        "forward sum", (losses.forward_sum,), lambda: (("B H T S", draw(3, 2, 5, 4)), *_MASKS), losses.forward_sum
    ),
    LossCase(
        "reinforce, a reward per sentence",
        (losses.reinforce, losses.MovingBaseline),
        lambda: (("B T H", draw(3, 5, 2)), ("B", draw(3, seed=1)), ("B T", TARGET_MASK)),
        lambda log_probability, reward, mask: losses.reinforce(
            log_probability, reward.detach(), losses.MovingBaseline().value, mask
        ),
    ),
    LossCase(
        "reinforce, a reward per step, with entropy",
        (losses.reinforce,),
        lambda: (
            ("B T H", draw(3, 5, 2)),
            ("B T", draw(3, 5, seed=1)),
            ("B T", TARGET_MASK),
            ("B T H", draw(3, 5, 2, seed=2)),
        ),
        lambda log_probability, reward, mask, entropy: losses.reinforce(
            log_probability, reward.detach(), 0.5, mask, entropy=entropy, entropy_weight=0.3
        ),
    ),
)
