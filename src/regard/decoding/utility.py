"""Utilities of outputs against references, for all pairs of outputs of each sentence in one computation."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.config.search import UtilityName

Output = Sequence[Hashable]
"""The symbols of an output, or its characters: a text."""
Utility = Callable[[Sequence[Output], Sequence[Output]], NDArray[np.float64]]
"""From C candidates and M references of a sentence to the utility of each candidate for each reference, (C, M)."""
CHRF_ORDER, CHRF_BETA, BLEU_ORDER = 6, 2, 4
WORD = 64
"""Rows of an edit distance's table in one machine word, a bit each."""
MOST_CELLS = 1 << 24
"""The largest number of entries in one table of n-grams."""


def utilities(name: UtilityName, sentences: Sequence[Sequence[Output]]) -> list[NDArray[np.float64]]:
    """For each sentence with U outputs a matrix (U, U): row c, column r is the utility of output c with reference r.

    - `chrf`: the F-score with β = 2 of n-grams, n from 1 to 6, between 0 and 1 (Popović 2015); for a text, of its
      characters without white space. Orders for which one of the two outputs is too short do not count.
    - `bleu`: the geometric mean of the precisions of n-grams, n from 1 to 4, times the brevity penalty, between 0 and 1
      (Papineni 2002). Orders for which the output is too short do not count, and the k-th precision that is 0 becomes
      2⁻ᵏ of one n-gram (Chen and Cherry 2014, method 3).
    - `exact_match`: 1 if both are equal, else 0.
    - `edit_distance`: minus the least number of insertions, deletions and substitutions (Levenshtein).

    Two empty outputs are equal; an empty one has chrF and BLEU 0 against any other.

    Cost: n-grams are compared by one matrix product for each n, and edit distances by bit-parallel dynamic programming
    over 64 rows, for all pairs together (Myers 1999, Hyyrö 2003).

    >>> utilities("edit_distance", [["kitten", "sitting", ""]])[0]
    array([[ 0., -3., -6.],
           [-3.,  0., -7.],
           [-6., -7.,  0.]])
    """
    if name == "chrf":
        sentences = [
            ["".join(output.split()) if isinstance(output, str) else output for output in outputs]
            for outputs in sentences
        ]
    return _UTILITIES[name](_Table.of(sentences)) if sentences else []


@dataclass(frozen=True, slots=True)
class _Table:
    """All outputs of all sentences: M rows.

    Args:
        symbols: (M, T), numbers of symbols, distinct between sentences and increasing with them; -1 after the end.
        lengths: (M,).
        sentence: (M,), the index of each output's sentence.
        place: (M,), its index among the outputs of the sentence.
        sizes: the number of outputs of each sentence.
    """

    symbols: NDArray[np.int64]
    lengths: NDArray[np.int64]
    sentence: NDArray[np.int64]
    place: NDArray[np.int64]
    sizes: list[int]

    @classmethod
    def of(cls, sentences: Sequence[Sequence[Output]]) -> _Table:
        outputs = [output for sentence in sentences for output in sentence]
        sizes = [len(sentence) for sentence in sentences]
        lengths = np.array([len(output) for output in outputs], np.int64)
        sentence = np.repeat(np.arange(len(sizes)), sizes)
        numbers: dict[Hashable, int] = {}
        flat = np.array([numbers.setdefault(s, len(numbers)) for output in outputs for s in output], np.int64)
        real = np.arange(lengths.max(initial=0)) < lengths[:, None]
        symbols = np.full(real.shape, -1, np.int64)
        _, symbols[real] = np.unique(np.repeat(sentence, lengths) * max(len(numbers), 1) + flat, return_inverse=True)
        place = np.arange(len(outputs)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return cls(symbols, lengths, sentence, place, sizes)

    def split(self, values: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """The (U, U) of each sentence from (B, U, U) with padding."""
        return [values[b, :size, :size] for b, size in enumerate(self.sizes)]


def _shared(table: _Table, highest: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The numbers of common n-grams of two outputs, (n, B, U, U), and of n-grams of each, (n, B, U); n up to `highest`.

    The k-th occurrence of an n-gram in an output is a separate item, so that the sets of items of two outputs have
    min(count, count) of each n-gram in common: with x_ci = 1 if output c has item i, that is Σ_i x_ci x_ri.
    """
    count, width = len(table.sizes), max(table.sizes, default=0)
    matches = np.zeros((highest, count, width, width))
    totals = np.zeros((highest, count, width))
    symbols = table.symbols
    base = int(symbols.max(initial=0)) + 1
    codes = symbols
    for n in range(1, highest + 1):
        longest = symbols.shape[1] - n + 1
        if longest < 1:
            break
        real = np.arange(longest) <= (table.lengths - n)[:, None]
        keys = codes[:, :longest] * base + symbols[:, n - 1 :] if n > 1 else symbols
        _, numbers = np.unique(keys[real], return_inverse=True)
        codes = np.full(real.shape, -1, np.int64)
        codes[real] = numbers
        row = np.nonzero(real)[0]
        totals[n - 1, table.sentence, table.place] = real.sum(1)
        if not len(row):
            break
        order = np.lexsort((row, numbers))
        number, row = numbers[order], row[order]
        first = np.r_[True, (number[1:] != number[:-1]) | (row[1:] != row[:-1])]
        starts = np.nonzero(first)[0]
        occurrence = np.arange(len(row)) - np.repeat(starts, np.diff(np.r_[starts, len(row)]))
        _, item = np.unique(number * (int(occurrence.max()) + 1) + occurrence, return_inverse=True)
        sentence = table.sentence[row]
        begins = np.full(count + 1, int(item.max()) + 1)
        np.minimum.at(begins, sentence, item)
        begins = np.minimum.accumulate(begins[::-1])[::-1]
        widest = int(np.diff(begins).max())
        step = max(1, MOST_CELLS // max(width * widest, 1))
        for start in range(0, count, step):
            inside = (sentence >= start) & (sentence < start + step)
            chosen = sentence[inside]
            sets = np.zeros((min(step, count - start), width, widest), np.float32)
            sets[chosen - start, table.place[row[inside]], item[inside] - begins[chosen]] = 1
            matches[n - 1, start : start + step] = sets @ sets.transpose(0, 2, 1)
    return matches, totals


def _chrf(table: _Table) -> list[NDArray[np.float64]]:
    """(1 + β²) P R / (β² P + R), with P and R the means over the orders that both outputs have."""
    matches, totals = _shared(table, CHRF_ORDER)
    ours, theirs = totals[..., :, None], totals[..., None, :]
    both = (ours > 0) & (theirs > 0)
    orders = np.maximum(both.sum(0), 1)
    precision = (np.divide(matches, ours, out=np.zeros_like(matches), where=both)).sum(0) / orders
    recall = (np.divide(matches, theirs, out=np.zeros_like(matches), where=both)).sum(0) / orders
    denominator = CHRF_BETA**2 * precision + recall
    score = np.divide(
        (1 + CHRF_BETA**2) * precision * recall, denominator, out=np.zeros_like(recall), where=denominator > 0
    )
    return table.split(np.where((totals[0] == 0)[:, :, None] & (totals[0] == 0)[:, None], 1.0, score))


def _bleu(table: _Table) -> list[NDArray[np.float64]]:
    """BP · exp of the mean of log pₙ over the orders that the candidate has; BP = exp(min(0, 1 - |r| / |c|))."""
    matches, totals = _shared(table, BLEU_ORDER)
    has = np.broadcast_to(totals[..., :, None], matches.shape)
    valid = has > 0
    none = valid & (matches == 0)
    smoothed = np.where(none, 0.5 ** np.cumsum(none, 0), matches)
    shares = np.divide(smoothed, has, out=np.ones_like(matches), where=valid)
    mean = np.log(shares).sum(0) / np.maximum(valid.sum(0), 1)
    lengths = totals[0]
    ours, theirs = lengths[:, :, None], lengths[:, None]
    brevity = np.minimum(1 - np.divide(theirs, ours, out=np.ones_like(mean), where=ours > 0), 0)
    score = np.where(matches.sum(0) > 0, np.exp(mean + brevity), 0.0)
    return table.split(np.where((ours == 0) & (theirs == 0), 1.0, score))


def _exact_match(table: _Table) -> list[NDArray[np.float64]]:
    rows = np.c_[table.lengths, table.symbols]
    numbers = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
    width = max(table.sizes, default=0)
    padded = np.full((len(table.sizes), width), -1)
    padded[table.sentence, table.place] = numbers
    return table.split((padded[:, :, None] == padded[:, None]).astype(np.float64))


def _edit_distance(table: _Table) -> list[NDArray[np.float64]]:
    width = max(table.sizes, default=0)
    values = np.zeros((len(table.sizes), width, width))
    upper = [np.triu_indices(size, 1) for size in table.sizes]
    starts = np.cumsum(table.sizes) - table.sizes
    first = np.concatenate([pair[0] + start for pair, start in zip(upper, starts)]).astype(np.int64)
    second = np.concatenate([pair[1] + start for pair, start in zip(upper, starts)]).astype(np.int64)
    distances = _distances(table, first, second)
    at = table.sentence[first]
    values[at, table.place[first], table.place[second]] = -distances
    values[at, table.place[second], table.place[first]] = -distances
    return table.split(values)


def _distances(table: _Table, first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
    """Edit distances (P,) of pairs of outputs.

    Column j of the dynamic programming table is computed from column j - 1 by its vertical differences, which are +1
    (bits of `rises`), 0 or -1 (bits of `falls`), WORD rows in each number.
    """
    rows, longest = table.symbols.shape
    if longest == 0 or not len(first):
        return np.zeros(len(first), np.int64)
    begins = np.full(len(table.sizes) + 1, int(table.symbols.max()) + 1)
    owner = np.repeat(table.sentence[:, None], longest, 1)
    real = table.symbols >= 0
    np.minimum.at(begins, owner[real], table.symbols[real])
    begins = np.minimum.accumulate(begins[::-1])[::-1]
    local = np.where(real, table.symbols - begins[owner], 0)
    words = -(-longest // WORD)
    one = np.uint64(1)
    occurs = np.zeros((words, rows, int(local.max()) + 1), np.uint64)
    everyone = np.arange(rows)
    for t in range(longest):
        has = real[:, t]
        occurs[t // WORD, everyone[has], local[has, t]] |= one << np.uint64(t % WORD)
    length, other = table.lengths[first], table.lengths[second]
    last_word, last_bit = (length - 1) // WORD, ((length - 1) % WORD).astype(np.uint64)
    rises = [np.full(len(first), ~np.uint64(0)) for _ in range(words)]
    falls = [np.zeros(len(first), np.uint64) for _ in range(words)]
    distance = length.copy()
    for j in range(longest):
        running = j < other
        if not running.any():
            break
        symbol = local[second, j]
        up, down = np.full(len(first), one), np.zeros(len(first), np.uint64)  # +1 above the first row
        for w in range(words):
            equal = occurs[w, first, symbol]
            vertical = equal | falls[w]
            equal = equal | down
            diagonal = (((equal & rises[w]) + rises[w]) ^ rises[w]) | equal
            rises_across = falls[w] | ~(diagonal | rises[w])
            falls_across = rises[w] & diagonal
            here = running & (last_word == w)
            change = ((rises_across >> last_bit) & one).astype(np.int64) - ((falls_across >> last_bit) & one).astype(
                np.int64
            )
            distance += np.where(here, change, 0)
            next_up, next_down = rises_across >> np.uint64(WORD - 1), falls_across >> np.uint64(WORD - 1)
            rises_across, falls_across = (rises_across << one) | up, (falls_across << one) | down
            rises[w] = falls_across | ~(vertical | rises_across)
            falls[w] = rises_across & vertical
            up, down = next_up, next_down
    return np.where(length == 0, other, distance)


_UTILITIES: Mapping[str, Callable[[_Table], list[NDArray[np.float64]]]] = {
    "chrf": _chrf,
    "bleu": _bleu,
    "exact_match": _exact_match,
    "edit_distance": _edit_distance,
}
