"""Alignments of words from alignments of symbols, links from weights, and aligned pairs of texts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from regard.decoding.result import DECIMALS
from regard.errors import RegardError, ShapeError
from regard.shapes import Bool, Float, Int, describe

Symmetrisation = Literal["intersection", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and"]
"""The methods that join the links of two directions."""
NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


@dataclass(frozen=True, slots=True, eq=False)
class WordAlignment:
    """The alignment of the words of an output with those of its source.

    Args:
        weights: (..., T, S) for T output words and S source words.
        rest: (..., T), the weight of each output word at source symbols outside words.
    """

    weights: Tensor
    rest: Tensor


def merge_words(
    alignment: Float[Tensor, "*batch T S"],
    source_words: Int[Tensor, "*source"],
    target_words: Int[Tensor, "*target"],
    *,
    num_source: int | None = None,
    num_target: int | None = None,
    normalise: bool = False,
) -> WordAlignment:
    """Merges the symbols of each word: weights of source symbols are added, those of target symbols averaged.

    With a_ts the weight of source symbol s at step t, I the symbols of output word i, and J those of source word j,

        weights_ij = (1/|I|) Σ_{t ∈ I} Σ_{s ∈ J} a_ts        rest_i = (1/|I|) Σ_{t ∈ I} Σ_{s in no word} a_ts

    so Σ_j weights_ij + rest_i is the mean of the sums of the word's steps: 1 for a softmax. The end symbol is a word if
    it has an index of its own, and adds to the rest if its index is -1.

    Args:
        alignment: (T, S), (H, T, S), (B, T, S) or (B, H, T, S) weights.
        source_words: (S,) or (B, S), the index of each source symbol's word; negative outside words and in padding.
        target_words: (T,) or (B, T), likewise; steps outside words are left out.
        num_source, num_target: the numbers of words; one more than the largest index if None.
        normalise: whether each row is divided by its sum, so that the rest is 0; a row without weight is unchanged.

    Returns:
        Weights of the dtype of `alignment`; a word without symbols has weights of 0.

    Raises:
        ShapeError: for indices whose shape does not match the alignment, or that exceed the number of words.

    Source: Koehn and Knowles 2017, Six Challenges for Neural Machine Translation (arXiv 1706.03872), section 3.5.

    >>> alignment = torch.tensor([[0.5, 0.25, 0.25], [0.0, 0.25, 0.75]])
    >>> merge_words(alignment, torch.tensor([0, 0, -1]), torch.tensor([0, 0]))
    WordAlignment(weights=tensor([[0.5000]]), rest=tensor([0.5000]))
    """
    steps, positions = alignment.shape[-2:]
    source = _numbers("source_words", "S", source_words, alignment, positions)
    target = _numbers("target_words", "T", target_words, alignment, steps)
    num_source = _count("source_words", source_words, num_source)
    num_target = _count("target_words", target_words, num_target)
    source, target = source.masked_fill(source < 0, num_source), target.masked_fill(target < 0, num_target)
    leading = alignment.shape[:-2]
    sums = alignment.new_zeros(*leading, steps, num_source + 1)
    sums.scatter_add_(-1, source[..., None, :].expand(alignment.shape), alignment)
    means = alignment.new_zeros(*leading, num_target + 1, num_source + 1)
    means.scatter_add_(-2, target[..., None].expand(sums.shape), sums)
    counts = torch.zeros(*leading, num_target + 1, dtype=torch.long, device=alignment.device)
    counts.scatter_add_(-1, target.expand(*leading, steps), torch.ones_like(target).expand(*leading, steps))
    means = means[..., :-1, :] / counts[..., :-1, None].clamp(min=1)
    weights, rest = means[..., :-1], means[..., -1]
    if normalise:
        total = weights.sum(-1, keepdim=True)
        weights = torch.where(total > 0, weights / total.masked_fill(total == 0, 1), weights)
        rest = torch.where(total[..., 0] > 0, torch.zeros_like(rest), rest)
    return WordAlignment(weights, rest)


def hard_links(alignment: Float[Tensor, "*batch T S"], *, threshold: float | None = None) -> Bool[Tensor, "*batch T S"]:
    """True at the largest weight of each row, the first of equal ones, or at all weights that reach a threshold.

    Args:
        alignment: weights; a row of zeros, such as padding, has no link.
        threshold: if given, a row may have several links or none.

    Raises:
        RegardError: for a threshold that is not above 0 and at most 1.

    >>> hard_links(torch.tensor([[0.7, 0.3], [0.5, 0.5], [0.0, 0.0]]))
    tensor([[ True, False],
            [ True, False],
            [False, False]])
    """
    if threshold is not None:
        if not 0 < threshold <= 1:
            raise RegardError(f"threshold must be a weight above 0 and at most 1; got {threshold}.")
        return alignment >= threshold
    if not alignment.shape[-1]:
        return torch.zeros_like(alignment, dtype=torch.bool)
    largest = torch.arange(alignment.shape[-1], device=alignment.device) == alignment.argmax(-1, keepdim=True)
    return largest & (alignment > 0)


def symmetrise(
    links: Bool[Tensor, "T S"], reverse: Bool[Tensor, "S T"], method: Symmetrisation = "grow-diag-final-and"
) -> Bool[Tensor, "T S"]:
    """The links of a pair from those of both directions.

    `grow-diag` starts with the intersection and adds neighbours, diagonal ones included, that are in the union and link
    a word that has no link yet, until there are none. `final` then adds, direction by direction, links of which at
    least one word has no link; `final-and` those of which neither has one.

    Args:
        links: (T, S), True where a step is linked to a source position.
        reverse: (S, T), the links of the model of the other direction, whose steps are source positions.

    Raises:
        ShapeError: for sizes that do not match.
        RegardError: for another method.

    Source: Och and Ney 2003, section 3.2; Koehn, Och and Marcu 2003, section 4.5, in the order of the program published
        with it.

    >>> symmetrise(torch.tensor([[True, False], [True, False]]), torch.eye(2).bool(), "intersection")
    tensor([[ True, False],
            [False, False]])
    """
    if method not in get_args(Symmetrisation):
        raise RegardError(f"method must be one of {', '.join(get_args(Symmetrisation))}; got {method!r}.")
    if links.shape != reverse.T.shape:
        raise ShapeError(
            "links and reverse must be (T, S) and (S, T).\n"
            + describe({"links": ("T S", links), "reverse": ("S T", reverse)})
        )
    backward = reverse.T.to(links.device)
    both, either = links & backward, links | backward
    if method in ("intersection", "union"):
        return both if method == "intersection" else either
    growing = _GrowingLinks(both)
    growing.grow_diagonally({(t, s) for t, s in either.nonzero().tolist()})
    if method != "grow-diag":
        for direction in (links, backward):
            growing.add_final(direction, num_free=2 if method == "grow-diag-final-and" else 1)
    result = torch.zeros_like(links)
    for t, s in growing.links:
        result[t, s] = True
    return result


class _GrowingLinks:
    def __init__(self, links: Tensor) -> None:
        self.steps, self.positions = links.shape
        self.links = {(t, s) for t, s in links.nonzero().tolist()}
        self.linked_steps = {t for t, _ in self.links}
        self.linked_positions = {s for _, s in self.links}

    def free(self, t: int, s: int) -> int:
        """The number of step and position, 0 to 2, that have no link."""
        return (t not in self.linked_steps) + (s not in self.linked_positions)

    def add(self, t: int, s: int) -> None:
        self.links.add((t, s))
        self.linked_steps.add(t)
        self.linked_positions.add(s)

    def grow_diagonally(self, candidates: set[tuple[int, int]]) -> None:
        """Adds candidates that are neighbours of links, in the order of the cells, until there are none."""
        is_growing = True
        while is_growing:
            is_growing = False
            for t, s in ((t, s) for t in range(self.steps) for s in range(self.positions)):
                if (t, s) not in self.links:
                    continue
                for down, across in NEIGHBOURS:
                    cell = t + down, s + across
                    if cell in candidates and cell not in self.links and self.free(*cell):
                        self.add(*cell)
                        is_growing = True

    def add_final(self, links: Tensor, num_free: int) -> None:
        """Adds links of which at least `num_free` words have no link."""
        for t, s in links.nonzero().tolist():
            if self.free(t, s) >= num_free:
                self.add(t, s)


def _numbers(name: str, letter: str, numbers: Tensor, alignment: Tensor, size: int) -> Tensor:
    """Indices of words with the leading axes of the alignment, (..., size)."""
    batch = alignment.shape[0] if numbers.dim() == 2 and alignment.dim() > 2 else 1
    fits = numbers.shape in ((size,), (batch, size)) and (numbers.dim() == 1 or alignment.dim() > 2)
    if not fits or numbers.is_floating_point() or numbers.dtype == torch.bool:
        axes = {2: "T S", 3: "B T S", 4: "B H T S"}.get(alignment.dim(), "")
        shown = describe(
            {"alignment": (axes, alignment), name: (letter if numbers.dim() == 1 else f"B {letter}", numbers)}
        )
        raise ShapeError(
            f"{name} must be ({letter},) or (B, {letter}) integers, one for each position of the alignment.\n{shown}"
        )
    numbers = numbers.to(alignment.device, torch.long)
    while 1 < numbers.dim() < alignment.dim() - 1:
        numbers = numbers[:, None]
    return numbers.expand(*alignment.shape[:-2], size)


def _count(name: str, numbers: Tensor, count: int | None) -> int:
    largest = int(numbers.max()) if numbers.numel() else -1
    count = max(largest + 1, 0) if count is None else count
    if largest >= count:
        raise ShapeError(f"{name} has the index {largest}, but there are {count} words.")
    return count


@dataclass(frozen=True, slots=True, eq=False)
class AlignedPair:
    """The alignment of a given output with its source, in words or in symbols. It can be plotted like a `Prediction`.

    Args:
        source_tokens: S strings, the columns of the alignment; the last is "</s>" if `end_symbol`.
        tokens: T strings, its rows; likewise.
        text: the output.
        alignment: (T, S) weights.
        rest: (T,), the weight of each row at symbols without a column: blanks and the end symbol.
        log_probability: of the output and its end symbol, given the source; NaN if the pair could not be read.
        end_symbol: whether the alignment includes the end symbols of both sides.
        warnings: what the user should know about this pair.
    """

    source_tokens: list[str]
    tokens: list[str]
    text: str
    alignment: Tensor
    rest: Tensor
    log_probability: float
    end_symbol: bool = False
    warnings: tuple[str, ...] = ()

    @property
    def is_read(self) -> bool:
        """Whether the pair could be read; if not, it has no words and no links."""
        return not math.isnan(self.log_probability)

    def __repr__(self) -> str:
        parts = [repr(self.text), f"links {pharaoh(self.links())!r}", f"log_probability={self.log_probability:.4f}"]
        parts.append(f"alignment {tuple(self.alignment.shape)}")
        if self.warnings:
            parts.append(f"warnings={list(self.warnings)}")
        return f"AlignedPair({', '.join(parts)})"

    def hard(self, *, threshold: float | None = None) -> Tensor:
        """`hard_links` (T, S) without the end symbol; a row whose largest weight is at the end symbol has no link."""
        links = hard_links(self.alignment, threshold=threshold)
        return links[:-1, :-1] if self.end_symbol else links

    def links(self, *, threshold: float | None = None) -> list[tuple[int, int]]:
        """The links as pairs of source and output indices, by the threshold of `hard_links`."""
        return pairs_of(self.hard(threshold=threshold))

    def record(self, *, threshold: float | None = None) -> dict[str, Any]:
        """The pair as a JSON object; weights have six decimals."""
        return {
            "text": self.text,
            "source_tokens": list(self.source_tokens),
            "tokens": list(self.tokens),
            "log_probability": self.log_probability,
            "links": pharaoh(self.links(threshold=threshold)),
            "alignment": [[round(weight, DECIMALS) for weight in row] for row in self.alignment.tolist()],
            "rest": [round(weight, DECIMALS) for weight in self.rest.tolist()],
            "warnings": list(self.warnings),
        }


def pairs_of(links: Tensor) -> list[tuple[int, int]]:
    """The links of a matrix (T, S) as sorted pairs of source and output indices."""
    return sorted((source, target) for target, source in links.nonzero().tolist())


def pharaoh(links: list[tuple[int, int]]) -> str:
    """Links as `0-0 1-2`: the index of the source word, then that of the output word."""
    return " ".join(f"{source}-{target}" for source, target in links)
