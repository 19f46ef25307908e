"""The sum over all monotonic alignments."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from regard.errors import ShapeError
from regard.losses.alignments import mean_over, real_cells
from regard.shapes import Bool, Float, describe


def forward_sum(
    energies: Float[Tensor, "B H T S"],
    source_mask: Bool[Tensor, "B S"] | None = None,
    target_mask: Bool[Tensor, "B T"] | None = None,
    *,
    blank: float = -1.0,
) -> Float[Tensor, ""]:
    """-log of the probability that the steps read the whole source in order, summed over all such paths, per position.

    Each step reads a position or a blank, with probabilities that are the softmax over the real positions and a blank
    of fixed energy. A path reads every position at least once, in order, with blanks anywhere: this is CTC with the
    source as its labels 1 … S_b. The result is the mean over sentences and heads; a sentence with fewer steps than
    positions has no path, costs nothing and is not counted.

    Args:
        energies: (B, H, T, S), or log-weights: a constant over positions matters only relative to the blank.
        source_mask, target_mask: True at real positions and steps, which must be on the left.
        blank: the energy of the blank.

    Returns:
        0-d, in nats per position, in float32 or wider; 0 if no sentence has a path.

    Raises:
        ShapeError: for masks with a gap, or energies that are not (B, H, T, S).

    Source: Badlani et al. 2021 (arXiv 2108.10447), section 2, whose released code has the blank at -1.

    >>> round(float(forward_sum(torch.zeros(1, 1, 1, 1), blank=0.0)), 4)
    0.6931
    """
    cells = real_cells(energies, source_mask, target_mask)
    lengths = [mask.sum(1) for mask in (cells.any(1), cells.any(2))]
    for name, mask, letters in (("source_mask", source_mask, "B S"), ("target_mask", target_mask, "B T")):
        if mask is not None and bool((mask[:, 1:] & ~mask[:, :-1]).any()):
            raise ShapeError(f"{name} must be True on the left, without a gap.\n" + describe({name: (letters, mask)}))
    heads, (sources, targets) = energies.shape[1], lengths
    possible = ((sources > 0) & (sources <= targets)).repeat_interleave(heads)
    if energies.numel() == 0:
        return energies.new_zeros((), dtype=torch.promote_types(energies.dtype, torch.float32))
    working = energies.to(torch.promote_types(energies.dtype, torch.float32))
    working = working.masked_fill(~cells.any(2)[:, None, :, None], 0)
    nothing = torch.finfo(working.dtype).min / 2  # ctc_loss has no gradient where a log-probability is -inf
    working = working.masked_fill(~cells.any(1)[:, None, None], nothing)
    log_probabilities = functional.pad(working, (1, 0), value=blank).log_softmax(-1).flatten(0, 1)
    labels = torch.arange(1, energies.shape[3] + 1, device=energies.device).expand(len(log_probabilities), -1)
    sources, targets = sources.repeat_interleave(heads), targets.repeat_interleave(heads)
    losses = functional.ctc_loss(
        log_probabilities.transpose(0, 1),
        labels,
        targets.masked_fill(~possible, energies.shape[2]),
        sources.masked_fill(~possible, 0),
        reduction="none",
        zero_infinity=True,
    )
    per_position = (losses / sources.clamp(min=1)).masked_fill(~possible, 0)
    return mean_over(per_position.sum(), possible.sum())
