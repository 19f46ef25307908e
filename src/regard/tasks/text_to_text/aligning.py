"""Alignments of given pairs, by teacher-forced passes over batches of pairs of similar length."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard import tree
from regard.data.text import BOS, EOS, Encoding, Field
from regard.decoding import AlignedPair, main_alignment, merge_words
from regard.errors import UnsupportedError
from regard.models import Decoder
from regard.tasks.encoded import batches_within, pad, reversed_rows
from regard.tasks.text_generation.model import END

CELLS, WEIGHTS = 1 << 25, 32
"""The most log-probabilities or weights of a batch (128 MB), and the number of attentions times heads it assumes."""

Index = NDArray[np.int64]


class Side:
    """The texts of one side, with the labels of their rows or columns.

    Args:
        words: whether a label is a word; else it is a symbol.
        end_symbol: whether the end symbol has a label.
        has_begin: whether a begin symbol precedes, which has no label.
        has_end: whether an end symbol follows.
    """

    def __init__(
        self,
        field: Field,
        texts: Sequence[str],
        encodings: Sequence[Encoding],
        *,
        words: bool,
        end_symbol: bool,
        has_begin: bool = False,
        has_end: bool = True,
    ) -> None:
        self.shows_end, self.num_symbols = end_symbol, len(field.vocabulary)
        self.ids = [encoding.ids for encoding in encodings]
        self.lengths = np.array([has_begin + len(ids) + has_end for ids in self.ids], dtype=np.int64)
        self.labels: list[list[str]] = []
        self.index: list[Index] = []
        """For each text the number of the label of each symbol, begin and end symbols included; -1 for none."""
        for text, encoding in zip(texts, encodings, strict=True):
            labels, index = encoding.tokens, np.arange(len(encoding.tokens), dtype=np.int64)
            if words and labels:
                words_of_text = field.words(labels, text)
                labels, index = list(words_of_text.texts), words_of_text.index
            ends = [len(labels) if end_symbol else -1] * has_end
            self.index.append(np.array([*[-1] * has_begin, *index.tolist(), *ends], dtype=np.int64))
            self.labels.append([*labels, END] if end_symbol else list(labels))

    def numbers(self, batch: Index) -> Tensor:
        """(B, T) or (B, S) numbers of labels, with -1 at padding."""
        numbers = np.full((len(batch), self.lengths[batch].max()), -1, dtype=np.int64)
        for row, i in zip(numbers, batch):
            row[: self.lengths[i]] = self.index[i]
        return torch.from_numpy(numbers)

    def most_labels(self, batch: Index) -> int:
        """The largest number of labels of a text."""
        return max(len(self.labels[i]) for i in batch)


def align(
    decoder: Decoder,
    memory: Callable[[Index], Any],
    source: Side,
    target: Side,
    scored: Sequence[Index],
    *,
    texts: Sequence[str],
    warnings: Sequence[tuple[str, ...]],
    readable: Sequence[bool],
    batch_tokens: int,
    layer: str | None = None,
    head: int | None = None,
    normalise: bool = False,
    is_reversed: bool = False,
) -> list[AlignedPair]:
    """Aligns pairs; the result of a pair does not depend on the others, up to rounding.

    Args:
        memory: the decoder's memory of the sources of some pairs.
        scored: the ids of each output whose log-probabilities count: its own, or those by which a pointer copies.
        readable: whether a pair can be read; the weights of the others are 0.
        batch_tokens: the most symbols of a batch on either side, with padding.
        layer, head: as in `chosen_heads`.
        normalise: as in `merge_words`.
        is_reversed: whether the decoder writes from right to left.

    Raises:
        UnsupportedError: for a decoder without attention.
    """
    results: list[AlignedPair | None] = [
        None if readable[i] else _result(source, target, i, texts, warnings) for i in range(len(texts))
    ]
    chosen = np.flatnonzero(np.array(readable, dtype=np.bool_))
    batches = _batches(
        chosen, source.lengths, target.lengths, num_symbols=target.num_symbols, batch_tokens=batch_tokens
    )
    for batch in batches:
        weights, scores = _forced(decoder, memory(batch), target, scored, batch, layer, head, is_reversed)
        merged = merge_words(
            weights,
            source.numbers(batch).to(weights.device),
            target.numbers(batch).to(weights.device),
            num_source=source.most_labels(batch),
            num_target=target.most_labels(batch),
            normalise=normalise,
        )
        whole, rest = merged.weights.cpu(), merged.rest.cpu()
        for row, i in enumerate(batch):
            steps, positions = len(target.labels[i]), len(source.labels[i])
            own = whole[row, :steps, :positions].clone(), rest[row, :steps].clone()
            results[i] = _result(source, target, i, texts, warnings, *own, float(scores[row]))
    return [result for result in results if result is not None]


def _forced(
    decoder: Decoder,
    memory: Any,
    target: Side,
    scored: Sequence[Index],
    batch: Index,
    layer: str | None,
    head: int | None,
    is_reversed: bool,
) -> tuple[Tensor, Tensor]:
    """The weights (B, T, S) and the log-probabilities (B,) of some pairs."""
    order = -1 if is_reversed else 1
    inputs, _ = pad([target.ids[i][::order] for i in batch], begin=BOS)
    targets, real = pad([scored[i][::order] for i in batch], end=EOS)
    with torch.inference_mode():
        device = next(tree.leaves(memory)).device
        output = decoder.forward(inputs.to(device), memory, alignment=True)
        weights = main_alignment(output.alignments, decoder, layer=layer, head=head)
        if weights is None or output.log_probabilities is None:
            raise UnsupportedError("The decoder has no attention, so pairs cannot be aligned.")
        costs = output.log_probabilities.gather(2, targets.to(device)[..., None])[..., 0]
        total = costs.double().masked_fill(~real.to(device), 0).sum(1)
        if is_reversed:
            weights = reversed_rows(weights, real.sum(1).numpy() - 1)
    return weights.float(), total.cpu()


def _result(
    source: Side,
    target: Side,
    i: int,
    texts: Sequence[str],
    warnings: Sequence[tuple[str, ...]],
    weights: Tensor | None = None,
    rest: Tensor | None = None,
    score: float = float("nan"),
) -> AlignedPair:
    columns, rows = source.labels[i], target.labels[i]
    return AlignedPair(
        columns,
        rows,
        texts[i],
        torch.zeros(len(rows), len(columns)) if weights is None else weights,
        torch.zeros(len(rows)) if rest is None else rest,
        score,
        source.shows_end,
        warnings[i],
    )


def _batches(chosen: Index, sources: Index, targets: Index, *, num_symbols: int, batch_tokens: int) -> Iterator[Index]:
    """Some pairs in batches of similar length on both sides."""

    def fits(rows: int, columns: int, steps: int) -> bool:
        cells = rows * steps * max(num_symbols, WEIGHTS * columns)
        return rows * max(columns, steps) <= batch_tokens and cells <= CELLS

    order = chosen[np.lexsort((sources[chosen], targets[chosen]))]
    return batches_within(order, np.stack([sources, targets], 1), fits)
