"""The losses of a decoder: cross-entropy with teacher forcing or own outputs, losses on alignments, and REINFORCE."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard import losses
from regard.attention.alignments import StochasticAlignment
from regard.config.schema import AlignmentTrainingConfig, ReinforceConfig
from regard.decoding import Feed, chosen_heads
from regard.decoding.result import main_name
from regard.layers import items
from regard.models import Decoder, DecoderOutput, fed_outputs, feeds_back
from regard.shapes import Bool, Float, Int


def forced_outputs(
    decoder: Decoder,
    memory: object,
    inputs: Tensor,
    feedback: Bool[Tensor, "B T"] | None = None,
    *,
    feed: Feed | None = None,
    alignment: bool = False,
) -> DecoderOutput:
    """The outputs of all steps of a decoder whose input is its own last output wherever `feedback` is True.

    Without `feedback` this is teacher forcing (`decoder.forward`), with it a loop of steps (`models.fed_outputs`).

    Args:
        memory, inputs, feed, alignment: as in `fed_outputs`.
        feedback: (B, T) bool; None for teacher forcing.
    """
    if not feeds_back(feedback):
        return decoder.forward(inputs, memory, alignment=alignment)
    return fed_outputs(decoder, memory, inputs, feedback, feed=feed, alignment=alignment)


@dataclass(frozen=True)
class Teaching:
    """The probabilities of teachers at the symbols of targets, and their share of the loss.

    Args:
        symbols: (B, T, K) the most probable symbols.
        probabilities: (B, T, K) of these, with the sum 1.
        weight: the share, from 0 to 1.
    """

    symbols: Int[Tensor, "B T K"]
    probabilities: Float[Tensor, "B T K"]
    weight: float

    def added(self, total: Tensor, log_probabilities: Tensor, mask: Tensor) -> Tensor:
        """The weighted mean of a loss and of the one towards the teachers."""
        taught = losses.distillation(log_probabilities, self.symbols, self.probabilities, mask)
        return (1 - self.weight) * total + self.weight * taught


def forced_cross_entropy(
    decoder: Decoder,
    memory: object,
    inputs: Int[Tensor, "B T"],
    targets: Int[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
    feedback: Bool[Tensor, "B T"] | None = None,
    *,
    smoothing: float = 0.0,
    teaching: Teaching | None = None,
) -> tuple[Tensor, Tensor]:
    """The sums of `losses.cross_entropy` of `forced_outputs`, by the decoder's own `cross_entropy` where it applies.

    Args:
        memory, inputs, feedback: as in `forced_outputs`.
        targets, mask, smoothing: as in `losses.cross_entropy`.
        teaching: what teachers say, which has a share of the loss.
    """
    cross_entropy = None if feeds_back(feedback) or teaching is not None else getattr(decoder, "cross_entropy", None)
    if cross_entropy is not None:
        loss, likelihood = cross_entropy(inputs, memory, targets, mask, smoothing=smoothing)
        return loss, likelihood
    output = forced_outputs(decoder, memory, inputs, feedback)
    assert output.log_probabilities is not None
    total, likelihood = losses.cross_entropy(output.log_probabilities, targets, mask, smoothing=smoothing)
    return total if teaching is None else teaching.added(total, output.log_probabilities, mask), likelihood


Sums = tuple[Tensor, dict[str, Tensor]]
"""A term of the loss, summed over the batch, and sums to be logged, by name."""


def aligned_cross_entropy(
    config: AlignmentTrainingConfig,
    decoder: Decoder,
    memory: object,
    inputs: Int[Tensor, "B T"],
    targets: Int[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
    feedback: Bool[Tensor, "B T"] | None = None,
    *,
    source_mask: Bool[Tensor, "B S"] | None = None,
    reference: Bool[Tensor, "B T S"] | None = None,
    layer: str | None = None,
    head: int | None = None,
    smoothing: float = 0.0,
    teaching: Teaching | None = None,
) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """`forced_cross_entropy` with the terms of the alignments, and further sums over the batch, by name.

    Args:
        memory, inputs, targets, mask, feedback, smoothing, teaching: as in `forced_cross_entropy`.
        source_mask: True at real source positions.
        reference: True at the positions to which a step should attend, for `supervision`.
        layer, head: the attention and the head that `supervision` trains, as in `regard.decoding.chosen_heads`.
    """
    output = forced_outputs(decoder, memory, inputs, feedback, alignment=True)
    assert output.log_probabilities is not None
    total, likelihood = losses.cross_entropy(output.log_probabilities, targets, mask, smoothing=smoothing)
    if teaching is not None:
        total = teaching.added(total, output.log_probabilities, mask)
    added, figures = alignment_loss(config, decoder, output, source_mask, mask, reference, layer=layer, head=head)
    total = total + added
    if config.reinforce is not None:
        with torch.no_grad(), most_probable_positions(decoder):
            greedy = forced_outputs(decoder, memory, inputs, feedback)
        reward, baseline = (_of_targets(each, targets, mask) for each in (output, greedy))
        added, drawn = reinforce_loss(
            config.reinforce, decoder, output, reward, baseline, mask, fed=feedback is not None
        )
        total, figures = total + added, {**figures, **drawn}
    return total, likelihood, figures


def alignment_loss(
    config: AlignmentTrainingConfig,
    decoder: Decoder,
    output: DecoderOutput,
    source_mask: Bool[Tensor, "B S"] | None,
    mask: Bool[Tensor, "B T"],
    reference: Bool[Tensor, "B T S"] | None = None,
    *,
    layer: str | None = None,
    head: int | None = None,
) -> Sums:
    """The weighted sum of the losses on the decoder's main alignment, and each of them.

    Every loss is a sum over sequences or their steps, so that a batch may be divided, and a mean over heads. Padding
    has no effect.

    Args:
        output: with alignments (B, H, T, S).
        source_mask, mask: True at real source positions and real steps.
        reference, layer, head: as in `aligned_cross_entropy`.
    """
    weights = config.alignment_weights
    total = torch.zeros((), device=mask.device)
    figures: dict[str, Tensor] = {}
    if not weights:
        return total, figures
    alignments = chosen_heads(output.alignments, decoder)
    sources = (
        alignments.new_ones(len(mask), alignments.shape[-1], dtype=torch.bool) if source_mask is None else source_mask
    )
    masks, options = (sources, mask), config.alignment_losses
    positions, steps = sources.sum(1), mask.sum(1)
    # each loss below is a mean over this number of terms
    counts = {
        "guided_attention": (positions * steps).sum(),
        "coverage": (steps * (positions > 0)).sum(),
        "doubly_stochastic": ((positions > 0) & (steps > 0)).sum(),
        "entropy": (steps * (positions > 0)).sum(),
        "forward_sum": ((positions > 0) & (positions <= steps)).sum(),
    }
    means = {
        "guided_attention": lambda: losses.guided_attention(
            alignments, *masks, width=options.guided_attention_width, missing=1.0
        ),
        "coverage": lambda: losses.coverage_loss(alignments, *masks),
        "doubly_stochastic": lambda: losses.doubly_stochastic(alignments, *masks, rate=options.doubly_stochastic_rate),
        "entropy": lambda: losses.attention_entropy(alignments, *masks),
        "forward_sum": lambda: losses.forward_sum(_logarithm(alignments), *masks),
    }
    if reference is not None:
        links = reference & sources[:, None] & mask[..., None]
        counts["supervision"] = links.any(2).sum()
        supervised = chosen_heads(output.alignments, decoder, layer=layer, head=head)
        means["supervision"] = lambda: losses.alignment_supervision(supervised, links, *masks)
    for name, weight in weights.items():
        value = means[name]() * counts[name]
        total, figures[f"alignment_{name}"] = total + weight * value, value.detach()
    return total, figures


def reinforce_loss(
    config: ReinforceConfig,
    decoder: Decoder,
    output: DecoderOutput,
    reward: Float[Tensor, "B T"],
    baseline: Float[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
    *,
    fed: bool = False,
) -> Sums:
    """A term whose value is 0 and whose gradient is λ_r times that of REINFORCE, and figures of the draws.

    The reward of a drawn position is that of the steps that it can change: its own step and, if anything is fed back,
    all later ones. The baseline belongs to the same sequence, so that no state persists from batch to batch.

    Args:
        output: with drawn positions, their log-probabilities and entropies.
        reward: of each step, such as the log-probability of its reference; 0 at padding.
        baseline: the same with the most probable positions.
        mask: True at real steps.
        fed: whether inputs of the decoder are its own outputs.

    Source: Xu et al. 2015 (arXiv 1502.03044), section 4.1; the baseline: Rennie et al. 2017 (arXiv 1612.00563).
    """
    name = main_name(output.alignments, decoder)
    chosen, entropy = (output.auxiliary[f"{name}.{field}"] for field in ("log_probability", "entropy"))
    advantage = (reward - baseline).detach()
    figures = {
        "advantage": advantage.sum(),
        "choice_entropy": entropy.detach().mean(-1).masked_fill(~mask, 0).sum(),
    }
    if fed or not changes_its_own_step_only(decoder):
        advantage = advantage.flip(1).cumsum(1).flip(1)
    mean = losses.reinforce(chosen, advantage, 0.0, mask, entropy=entropy, entropy_weight=config.entropy_weight)
    term = config.weight * mean * mask.any(1).sum()
    return term - term.detach(), figures


@contextmanager
def most_probable_positions(decoder: Decoder) -> Iterator[None]:
    """Within the block attention takes the most probable position in place of a drawn one.

    Everything else is as before; dropout by item repeats its masks.
    """
    modules = decoder.modules() if isinstance(decoder, nn.Module) else ()
    drawing = [part for part in modules if isinstance(part, StochasticAlignment) and part.training]
    draws = items.current()
    for part in drawing:
        part.eval()
    try:
        with items.drawing(None if draws is None else draws.again()):
            yield
    finally:
        for part in drawing:
            part.train()


def changes_its_own_step_only(decoder: Decoder) -> bool:
    """Whether the position that attention chooses at a step changes no later output of a teacher-forced pass."""
    attention = getattr(decoder, "attention", None)
    return getattr(decoder, "feeds_back", "unknown") is None and not getattr(attention, "is_recurrent", True)


def _of_targets(output: DecoderOutput, targets: Int[Tensor, "B T"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B T"]:
    """The log-probability of each target, 0 at padding."""
    assert output.log_probabilities is not None
    return output.log_probabilities.detach().gather(-1, targets[..., None])[..., 0].masked_fill(~mask, 0)


def _logarithm(weights: Float[Tensor, "B H T S"]) -> Float[Tensor, "B H T S"]:
    """log α; a weight below the smallest normal number counts as that number, without a gradient."""
    working = weights.to(torch.promote_types(weights.dtype, torch.float32))
    return working.clamp(min=torch.finfo(working.dtype).tiny).log()
