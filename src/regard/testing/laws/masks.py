"""Laws of masks: padding, rows without support, sources without positions."""

from __future__ import annotations

import math

import torch

from regard.testing.assertion import require, require_close, require_close_trees, require_finite
from regard.testing.subject import Subject

LENGTHS = (4, 2, 3)
STEPS = 3


def mask_and_lengths_mean_the_same(subject: Subject) -> None:
    """`prepare` returns the same memory for a mask and for its lengths, and refuses both at once."""
    sources = subject.sources(LENGTHS)
    from_mask, keys = subject.prepare(sources), subject.key_options(sources)
    values, mask = subject.argument(sources.values), subject.argument(sources.masks)
    lengths = subject.argument(tuple(mask.sum(1) for mask in sources.masks))
    from_lengths = subject.mechanism.prepare(values, lengths=lengths, **keys)
    require_close_trees(from_lengths, from_mask, "the memory made from lengths", 0.0)
    try:
        subject.mechanism.prepare(values, lengths=lengths, mask=mask, **keys)
    except ValueError:
        return
    raise AssertionError("prepare accepted a mask and lengths at once; it must raise a ValueError.")


def padding_gets_exactly_zero(subject: Subject) -> None:
    """Weights at padding are 0.0, and nothing depends on what padding holds, even NaN."""
    queries = subject.queries(len(LENGTHS), STEPS)
    plain = subject.sources(LENGTHS)
    expected = subject.loop(subject.prepare(plain), queries)
    for weights, mask in zip(expected.alignments, plain.masks):
        padded = weights.movedim(-1, 1)[~mask]
        require(
            bool((padded == 0).all()),
            f"a padded position has weight {float(padded.detach().abs().max())} instead of 0.0.",
        )
    for number in (0.0, -1e4, math.nan, math.inf):
        sources = plain.replace_padding(number).require_grad()
        outputs = subject.loop(subject.prepare(sources), queries)
        require_close(outputs.contexts, expected.contexts, f"the context with {number} in the padding", 0.0)
        loss = sum(subject.probe(outputs, row, _lengths(subject, row)) for row in range(len(LENGTHS)))
        assert isinstance(loss, torch.Tensor)
        gradients = subject.gradients(loss, *sources.values)
        for gradient in gradients:
            require_finite(gradient, f"a gradient with {number} in the padding")
        for gradient, mask in zip(gradients, sources.masks):
            require(bool((gradient[~mask] == 0).all()), "padding has a gradient.")


def row_without_support_is_zero(subject: Subject) -> None:
    """Zero weights, a zero context and zero gradients for a fully masked row; other rows do not change."""
    dead = 1
    sources = subject.sources(LENGTHS)
    masks = tuple(mask.clone() for mask in sources.masks)
    for mask in masks:
        mask[dead] = False
    queries = subject.queries(len(LENGTHS), STEPS).requires_grad_()
    expected = subject.loop(subject.prepare(sources), queries)
    blind = type(sources)(sources.values, masks).require_grad()
    outputs = subject.loop(subject.prepare(blind), queries)
    require(bool((outputs.contexts[dead] == 0).all()), "the context of a fully masked row is not zero.")
    for weights in outputs.alignments[: len(subject.memory_sizes)]:
        require(bool((weights[dead] == 0).all()), "a fully masked row has weights.")
    for row in set(range(len(LENGTHS))) - {dead}:
        require_close(
            outputs.contexts[row],
            expected.contexts[row],
            "the context of a row next to a fully masked one",
            subject.tolerance,
        )
    for index, gradient in enumerate(subject.gradients(outputs.contexts[dead].sum(), queries, *blind.values)):
        require(bool((gradient == 0).all()), f"gradient {index} of a fully masked row is not zero.")
    for gradient in subject.gradients(outputs.contexts.sum(), queries, *blind.values):
        require_finite(gradient, "a gradient of a batch with a fully masked row")
    require(
        bool((subject.at_once(subject.prepare(blind), queries).contexts[dead] == 0).all()),
        "forward gives a fully masked row a context.",
    )


def source_without_positions_gives_zeros(subject: Subject) -> None:
    """S = 0 is legal: contexts of zeros, alignments of width 0."""
    sources = subject.sources((0, 0))
    queries = subject.queries(2, STEPS)
    for masked in (True, False):
        memory = subject.prepare(sources, masked=masked)
        for outputs in (subject.loop(memory, queries), subject.at_once(memory, queries)):
            require(outputs.contexts.shape[:2] == (2, STEPS), f"contexts have shape {tuple(outputs.contexts.shape)}.")
            require(bool((outputs.contexts == 0).all()), "the context of an empty source is not zero.")
            for weights in outputs.alignments[: len(subject.memory_sizes)]:
                require(weights.shape[-1] == 0, f"the alignment of an empty source has shape {tuple(weights.shape)}.")


def weights_are_a_distribution(subject: Subject) -> None:
    """No weight is negative; if the mechanism is `is_normalised`, the weights of a head sum to 1."""
    lengths = (STEPS + 3, STEPS, STEPS + 1)
    sources = subject.sources(lengths)
    outputs = subject.loop(subject.prepare(sources), subject.queries(len(lengths), STEPS))
    for weights in outputs.alignments:
        require(bool((weights >= 0).all()), f"a weight is negative: {float(weights.detach().min())}.")
        if subject.mechanism.is_normalised:
            totals = weights.sum(-1)
            totals = totals[totals != 0]  # the window of a head may be empty
            require(bool(totals.numel()), "all weights are 0.")
            require_close(totals, torch.ones_like(totals), "the sum of a head's weights", subject.tolerance)


def _lengths(subject: Subject, row: int) -> list[int]:
    return [LENGTHS[row] + index for index in range(len(subject.memory_sizes))]
