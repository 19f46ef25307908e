"""The entropy of attention."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.losses.cells import mean_over, real_cells, real_weights
from regard.shapes import Bool, Float


def attention_entropy(
    alignments: Float[Tensor, "B H T S"],
    source_mask: Bool[Tensor, "B S"] | None = None,
    target_mask: Bool[Tensor, "B T"] | None = None,
) -> Float[Tensor, ""]:
    """The mean over real steps and heads of -Σ_j α_tj log α_tj: added to a loss, it makes attention sharper.

    Weights of exactly 0 contribute nothing and have no gradient.

    Returns:
        0-d, in nats, in float32 or wider; 0 when no cell is real.

    Source: `AttentionEntropyLoss` of Coqui TTS.

    >>> attention_entropy(torch.tensor([[[[0.5, 0.5], [1.0, 0.0]]]]))
    tensor(0.3466)
    """
    cells = real_cells(alignments, source_mask, target_mask)
    weights = real_weights(alignments, cells)
    filled = weights.masked_fill(weights < torch.finfo(weights.dtype).tiny, 1)
    return mean_over(-(filled * filled.log()).sum(), cells.any(2).sum() * alignments.shape[1])
