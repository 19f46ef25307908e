"""Losses on the weights of attention: of coverage, entropy, the diagonal, references and a second decoder.

Alignments are (B, H, T, S), as decoders return them; slice the heads that a loss should change. Masks are True at real
positions and steps. Each loss is a mean, 0-d and in float32 or wider; without any terms it is 0.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from regard.errors import ShapeError
from regard.shapes import Bool, Float, Int, describe, is_trusted

NOTHING = -1e30
"""The logarithm of a probability of 0; sums of many of them are finite."""


def real_cells(
    alignments: Float[Tensor, "B H T S"],
    source_mask: Bool[Tensor, "B S"] | None,
    target_mask: Bool[Tensor, "B T"] | None,
) -> Bool[Tensor, "B T S"]:
    """True where both the target step and the source position are real.

    Raises:
        ShapeError: for alignments that are not (B, H, T, S), or masks of another size or type.
    """
    shown = {"alignments": ("B H T S", alignments)}
    if alignments.dim() != 4 or not alignments.is_floating_point():
        raise ShapeError("alignments must be (B, H, T, S) numbers; H is 1 for a single head.\n" + describe(shown))
    batch, _, steps, positions = alignments.shape
    cells = alignments.new_ones(batch, steps, positions, dtype=torch.bool)
    for name, mask, letters, width in (
        ("source_mask", source_mask, "B S", positions),
        ("target_mask", target_mask, "B T", steps),
    ):
        if mask is None:
            continue
        if mask.shape != (batch, width) or mask.dtype != torch.bool:
            raise ShapeError(
                f"{name} must be ({letters.replace(' ', ', ')}) bool, True at real positions.\n"
                + describe(shown | {name: (letters, mask)})
            )
        cells = cells & (mask[:, None] if letters == "B S" else mask[:, :, None])
    return cells


def real_weights(alignments: Float[Tensor, "B H T S"], cells: Bool[Tensor, "B T S"]) -> Float[Tensor, "B H T S"]:
    """Weights in float32 or wider, 0 outside the real cells."""
    working = alignments.to(torch.promote_types(alignments.dtype, torch.float32))
    return working.masked_fill(~cells[:, None], 0)


def mean_over(total: Float[Tensor, ""], count: Tensor | int) -> Float[Tensor, ""]:
    """total / count; total, which is then 0, if count is 0."""
    return total / (count.clamp(min=1) if isinstance(count, Tensor) else max(count, 1))


def guided_attention(
    alignments: Float[Tensor, "B H T S"],
    source_mask: Bool[Tensor, "B S"] | None = None,
    target_mask: Bool[Tensor, "B T"] | None = None,
    *,
    width: float = 0.2,
    missing: float = 0.0,
) -> Float[Tensor, ""]:
    """The mean over real cells and heads of α_tj W_tj, with W_tj = 1 - exp(-(j/S_b - t/T_b)² / 2g²).

    S_b and T_b are the lengths of each sentence. With several frames per step, the mask is that of the steps. The loss
    suits speech synthesis, whose alignments are nearly diagonal.

    Args:
        width: g; 0.2 in the paper. Others have 0.4, and multiply the loss by a weight.
        missing: W of the weight that a step lacks to 1. With 0, as published, a mechanism whose weights may vanish (a
            mixture beyond the last position, a monotonic reader that never stops) has the least loss without any
            weight; with 1, a lack costs more than any position.

    Source: Tachibana, Uenoyama & Aihara 2018 (arXiv 1710.08969), section 4.1 (their n, t are our j, t; A is αᵀ).

    >>> diagonal = torch.eye(5)[None, None]
    >>> guided_attention(diagonal), guided_attention(diagonal.flip(-1))
    (tensor(0.), tensor(0.1491))
    """
    if width <= 0:
        raise ValueError(f"width={width} must be above 0.")
    if missing < 0:
        raise ValueError(f"missing={missing} must be at least 0.")
    cells = real_cells(alignments, source_mask, target_mask)
    weights = real_weights(alignments, cells)
    source, target = cells.any(1), cells.any(2)
    distance = _relative(source, weights.dtype)[:, None] - _relative(target, weights.dtype)[:, :, None]
    penalty = -torch.expm1(-distance.square() / (2 * width**2))
    total = (weights * penalty[:, None]).sum()
    if missing:
        lacking = (1 - weights.sum(3)).clamp(min=0)  # (B, H, T)
        total = total + missing * (lacking * target[:, None]).sum()
    return mean_over(total, cells.sum() * alignments.shape[1])


def _relative(mask: Bool[Tensor, "B N"], dtype: torch.dtype) -> Float[Tensor, "B N"]:
    """The number of real positions before each one, divided by their total."""
    count = mask.cumsum(1).to(dtype)
    return (count - 1) / count[:, -1:].clamp(min=1)


def coverage_loss(
    alignments: Float[Tensor, "B H T S"],
    source_mask: Bool[Tensor, "B S"] | None = None,
    target_mask: Bool[Tensor, "B T"] | None = None,
) -> Float[Tensor, ""]:
    """The mean over real steps and heads of Σ_j min(α_tj, c_tj), c_t = Σ_{t' < t} α_t': the cost of repeated attention.

    The first step has c_1 = 0 and no cost; every step costs at most 1.

    Source: See, Liu & Manning 2017 (arXiv 1704.04368), equation 12.

    >>> coverage_loss(torch.tensor([[[[1.0, 0.0], [0.5, 0.5]]]]))
    tensor(0.2500)
    """
    cells = real_cells(alignments, source_mask, target_mask)
    weights = real_weights(alignments, cells)
    covered = weights.cumsum(2)
    before = torch.cat([torch.zeros_like(weights[:, :, :1]), covered[:, :, :-1]], 2)
    return mean_over(torch.minimum(weights, before).sum(), cells.any(2).sum() * alignments.shape[1])


def doubly_stochastic(
    alignments: Float[Tensor, "B H T S"],
    source_mask: Bool[Tensor, "B S"] | None = None,
    target_mask: Bool[Tensor, "B T"] | None = None,
    *,
    rate: float | None = 1.0,
    positions: Literal["sum", "mean"] = "sum",
) -> Float[Tensor, ""]:
    """The mean over sentences and heads of Σ_j (τ - Σ_t α_tj)²: the total weight of every position should be τ.

    Only real steps count, while arctic-captions includes padding. The caller multiplies by λ.

    Args:
        rate: τ; None for T_b / S_b of each sentence, which weights that sum to 1 can reach.
        positions: their `sum`, as in the paper and in arctic-captions, or the `mean` over a sentence's real positions,
            as in sgrvinod's tutorial.

    Source: Xu et al. 2015 (arXiv 1502.03044), section 4.2.1.

    >>> doubly_stochastic(torch.tensor([[[[1.0, 0.0], [1.0, 0.0]]]]))
    tensor(2.)
    """
    cells = real_cells(alignments, source_mask, target_mask)
    total = real_weights(alignments, cells).sum(2)
    source, steps = cells.any(1)[:, None], cells.any(2).sum(1)[:, None, None]
    target = steps.to(total.dtype) / source.sum(2, keepdim=True).clamp(min=1) if rate is None else rate
    squares = (target - total).masked_fill(~source, 0).square()
    if positions == "mean":
        squares = squares / source.sum(2, keepdim=True).clamp(min=1)
    return mean_over(squares.sum(), source.any(2).sum() * alignments.shape[1])


def attention_entropy(
    alignments: Float[Tensor, "B H T S"],
    source_mask: Bool[Tensor, "B S"] | None = None,
    target_mask: Bool[Tensor, "B T"] | None = None,
) -> Float[Tensor, ""]:
    """The mean over real steps and heads of -Σ_j α_tj log α_tj, in nats: added to a loss, it makes attention sharper.

    Weights of exactly 0 contribute 0 and have no gradient.

    >>> attention_entropy(torch.tensor([[[[0.5, 0.5], [1.0, 0.0]]]]))
    tensor(0.3466)
    """
    cells = real_cells(alignments, source_mask, target_mask)
    weights = real_weights(alignments, cells)
    filled = weights.masked_fill(weights < torch.finfo(weights.dtype).tiny, 1)
    return mean_over(-(filled * filled.log()).sum(), cells.any(2).sum() * alignments.shape[1])


def alignment_supervision(
    alignments: Float[Tensor, "B H T S"],
    reference: Tensor,
    source_mask: Bool[Tensor, "B S"] | None = None,
    target_mask: Bool[Tensor, "B T"] | None = None,
) -> Float[Tensor, ""]:
    """The mean over supervised steps and heads of -Σ_j α*_tj log α_tj, in nats, with α* the reference.

    A step without a reference is not supervised. The weights are not normalised.

    Args:
        reference: (B, T, S) numbers or bool; each step is divided by its sum over real positions, so links may be 0 and
            1, and steps of zeros have no reference. Or (B, T) integers: a position; none if it is below 0 or padding.

    Numerics: a weight below the smallest normal number of its type counts as that number, without a gradient: the loss
    is finite, but cannot increase weights that are exactly 0 (sparse or hard attention, or a window).

    Raises:
        ShapeError: for a reference of another shape or type.

    Source: Liu et al. 2016 (arXiv 1609.04186); Chen et al. 2016 (arXiv 1607.01628).

    >>> alignment_supervision(torch.tensor([[[[0.5, 0.5], [0.9, 0.1]]]]), torch.tensor([[1, -1]]))
    tensor(0.6931)
    """
    cells = real_cells(alignments, source_mask, target_mask)
    weights = real_weights(alignments, cells)
    target = _distribution(reference, alignments, cells).to(weights.dtype)
    smallest = torch.finfo(weights.dtype).tiny
    surprise = -weights.clamp(min=smallest).log()
    supervised = target.any(2).sum()
    return mean_over((target[:, None] * surprise).sum(), supervised * alignments.shape[1])


def _distribution(reference: Tensor, alignments: Tensor, cells: Tensor) -> Tensor:
    """The reference (B, T, S), each step with a sum of 1 or 0 over real cells."""
    if reference.shape == cells.shape:
        weights = reference.to(torch.promote_types(alignments.dtype, torch.float32)).masked_fill(~cells, 0)
        total = weights.sum(2, keepdim=True)
        return weights / total.masked_fill(total == 0, 1)
    if reference.shape == cells.shape[:2] and not reference.is_floating_point() and reference.dtype != torch.bool:
        return (torch.arange(cells.shape[2], device=reference.device) == reference[..., None]) & cells
    raise ShapeError(
        "reference must be (B, T, S) weights, or (B, T) integer positions with -1 for none.\n"
        + describe({"alignments": ("B H T S", alignments), "reference": ("B T S", reference)})
    )


def alignment_consistency(
    alignments: Float[Tensor, "B H T S"],
    coarse: Float[Tensor, "B H N S"],
    source_mask: Bool[Tensor, "B S"] | None = None,
    target_mask: Bool[Tensor, "B T"] | None = None,
    *,
    num_frames: int = 1,
    coarse_frames: int = 6,
) -> Float[Tensor, ""]:
    """The mean over real cells and heads of |α_tj - β_nj|, with n = ⌊t r / r₂⌋ the coarse step of the same frames.

    "Double-decoder consistency": a second decoder with more frames per step learns to align sooner, and the first one
    learns from its alignments.

    Args:
        alignments: α of the decoder with r frames per step.
        coarse: β of the decoder with r₂ frames per step; N ≥ T r / r₂.
        source_mask, target_mask: of the source's positions and of the first decoder's steps.
        num_frames, coarse_frames: r and r₂.

    Raises:
        ShapeError: for alignments that do not fit together, or too few coarse steps.

    Source: Gölge 2020, Solving attention problems of TTS models with double decoder consistency.

    >>> fine = torch.eye(4)[None, None]
    >>> alignment_consistency(fine, fine[:, :, [0, 2]], num_frames=1, coarse_frames=2)
    tensor(0.2500)
    """
    cells = real_cells(alignments, source_mask, target_mask)
    steps = torch.arange(alignments.shape[2], device=alignments.device) * num_frames // coarse_frames
    short = (alignments.shape[2] - 1) * num_frames // coarse_frames >= coarse.shape[2] if coarse.dim() == 4 else True
    if short or coarse.shape[:2] != alignments.shape[:2] or coarse.shape[3] != alignments.shape[3]:
        raise ShapeError(
            f"coarse must be (B, H, N, S) with N ≥ T·r/r₂, r={num_frames} and r₂={coarse_frames} frames per step.\n"
            + describe({"alignments": ("B H T S", alignments), "coarse": ("B H N S", coarse)})
        )
    difference = real_weights(alignments, cells) - real_weights(coarse[:, :, steps], cells)
    return mean_over(difference.abs().sum(), cells.sum() * alignments.shape[1])


def forward_sum(
    energies: Float[Tensor, "B H T S"],
    source_mask: Bool[Tensor, "B S"] | None = None,
    target_mask: Bool[Tensor, "B T"] | None = None,
    *,
    blank: float = -1.0,
) -> Float[Tensor, ""]:
    """CTC with the source positions 1 … S_b as labels: -log of the probability of all paths, in nats per position.

    Each step reads a position or a blank, with probabilities that are the softmax over the real positions and a blank
    of fixed energy. A path reads every position at least once, in order, with blanks anywhere. The result is the mean
    over sentences and heads; a sentence with fewer steps than positions has no path and is not counted.

    Args:
        energies: (B, H, T, S), or log-weights: a constant over positions matters only relative to the blank.
        source_mask, target_mask: True at real positions and steps, which must be on the left.
        blank: the energy of the blank.

    Raises:
        ShapeError: for masks with a gap, or energies that are not (B, H, T, S).

    Source: Badlani et al. 2021 (arXiv 2108.10447), section 2, whose released code has the blank at -1.

    >>> round(float(forward_sum(torch.zeros(1, 1, 1, 1), blank=0.0)), 4)
    0.6931
    """
    cells = real_cells(energies, source_mask, target_mask)
    lengths = [mask.sum(1) for mask in (cells.any(1), cells.any(2))]
    for name, mask, letters in (("source_mask", source_mask, "B S"), ("target_mask", target_mask, "B T")):
        if mask is not None and not is_trusted() and bool((mask[:, 1:] & ~mask[:, :-1]).any()):
            raise ShapeError(f"{name} must be True on the left, without a gap.\n" + describe({name: (letters, mask)}))
    heads, (sources, targets) = energies.shape[1], lengths
    possible = ((sources > 0) & (sources <= targets)).repeat_interleave(heads)
    if energies.numel() == 0:
        return energies.new_zeros((), dtype=torch.promote_types(energies.dtype, torch.float32))
    working = energies.to(torch.promote_types(energies.dtype, torch.float32))
    working = working.masked_fill(~cells.any(2)[:, None, :, None], 0)
    lowest = torch.finfo(working.dtype).min / 2  # ctc_loss has no gradient where a log-probability is -inf
    working = working.masked_fill(~cells.any(1)[:, None, None], lowest)
    log_probabilities = functional.pad(working, (1, 0), value=blank).log_softmax(-1).flatten(0, 1)
    sources, targets = sources.repeat_interleave(heads), targets.repeat_interleave(heads)
    if is_trusted():
        losses = _negative_log_paths(log_probabilities, sources, targets)
    else:
        labels = torch.arange(1, energies.shape[3] + 1, device=energies.device).expand(len(log_probabilities), -1)
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


def _negative_log_paths(
    log_probabilities: Float[Tensor, "R T N"], sources: Int[Tensor, " R"], targets: Int[Tensor, " R"]
) -> Float[Tensor, " R"]:
    """-log of the sum over all paths of `forward_sum`, for recorded steps.

    torch's CTC, which is up to 1.8 times as fast on a CPU, reads lengths on the host, which a recording cannot.

    State 2j is a blank after position j, and state 2j - 1 is position j. With e_ts the states' probabilities in step t,

        a_ts = e_ts (a_{t-1,s} + a_{t-1,s-1} + [s is odd] a_{t-1,s-2}),

    and likewise from the end, for the states in reverse order. The product of both gives the probability that a path is
    in a state at a step, which is the gradient.

    Args:
        log_probabilities: of a blank and of N - 1 positions.
        sources, targets: the lengths.
    """
    steps, positions = log_probabilities.shape[1], log_probabilities.shape[2] - 1
    states = torch.arange(2 * positions + 1, device=sources.device)
    # the last step of a row is followed by blanks with a probability of 1
    is_real = (torch.arange(steps, device=sources.device) < targets[:, None])[..., None]
    blank = log_probabilities[..., :1].masked_fill(~is_real, 0)
    read = log_probabilities[..., 1:].clamp(min=NOTHING).masked_fill(~is_real, NOTHING)
    pairs = torch.stack([blank.expand_as(read), read], -1).flatten(2)
    emitted = torch.cat([pairs, blank], 2).transpose(0, 1)  # (T, R, states)
    last = 2 * sources[:, None]
    with torch.no_grad():
        before = _path_sums(emitted, states == torch.zeros_like(last))
        after = _path_sums(emitted.flip(0, 2), states == 2 * positions - last).flip(0, 2)
        ends = before[-1].gather(1, torch.cat([last, (last - 1).clamp(min=0)], 1))
        total = ends.logsumexp(1)
        # differences of huge numbers in a row without a path
        passing = (before + after - emitted - total[:, None]).clamp(max=0).exp()
    # the second term is 0 and carries the gradient
    return -total - (passing * (emitted - emitted.detach())).sum((0, 2))


def _path_sums(emitted: Float[Tensor, "T R N"], start: Bool[Tensor, "R N"]) -> Float[Tensor, "T R N"]:
    """The logarithms of the sums over all paths that are in a state after each step."""
    skips = emitted.new_full(emitted.shape[2:], NOTHING)
    skips[1::2] = 0
    reached = torch.zeros_like(emitted[0]).masked_fill(~start, NOTHING)
    sums = []
    for step in emitted.unbind(0):
        earlier = functional.pad(reached, (2, 0), value=NOTHING)
        reached = reached.logaddexp(earlier[:, 1:-1]).logaddexp(earlier[:, :-2] + skips) + step
        sums.append(reached)
    return torch.stack(sums)
