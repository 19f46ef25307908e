"""Alignments of words from alignments of their symbols, and links from weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from regard.errors import RegardError, ShapeError
from regard.shapes import Bool, Float, Int, describe

Symmetrisation = Literal["intersection", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and"]
"""How links of two directions become one set."""
NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


@dataclass(frozen=True, slots=True, eq=False)
class WordAlignment:
    """The alignment of the words of an output with those of its source.

    Args:
        weights: (..., T, S) with the words as T and S.
        rest: (..., T), the weight of each word of the output at symbols that belong to no word of the source.
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

    So no weight is lost: with a_ts the weight of source symbol s at step t, and I and J the symbols of a word i of the
    output and of a word j of the source,

        weights_ij = (1/|I|) Σ_{t ∈ I} Σ_{s ∈ J} a_ts        rest_i = (1/|I|) Σ_{t ∈ I} Σ_{s in no word} a_ts

    and Σ_j weights_ij + rest_i is the mean sum of the word's steps: 1 for a softmax. The end symbol is a word if it has
    a number of its own, and adds to the rest if it has -1.

    Args:
        alignment: (T, S), (H, T, S), (B, T, S) or (B, H, T, S) weights.
        source_words: (S,) or (B, S) the number of the word of each source symbol; below 0: of no word, and padding.
        target_words: (T,) or (B, T) likewise; steps of no word are left out.
        num_source, num_target: how many words there are; one more than the largest number if None.
        normalise: whether each row is divided by its sum, so that the rest is 0; a row without weight stays as it is.

    Returns:
        Weights of the type of `alignment`; a word without a symbol has weights of 0.

    Raises:
        ShapeError: for numbers of other positions than those of the alignment, or as large as the number of words.

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
    """True at the links of each step: the largest weight of its row (the first of equal ones), or all large ones.

    Args:
        alignment: weights; a row of zeros, such as padding, has no link.
        threshold: if given, links are the weights that are at least as large, several in a row or none.

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

    `grow-diag` begins with the intersection, and adds neighbours, also diagonal ones, that are in the union and
    join a word without a link, until there are no more. `final` adds, direction by direction, links of which one word
    has none; `final-and` those of which neither has one.

    Args:
        links: (T, S) True where a step is linked to a source position.
        reverse: (S, T) the links of the other direction: a step of its model is a position of the source.

    Raises:
        ShapeError: for other sizes.
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
    grown = _Growing(both)
    candidates = {(t, s) for t, s in either.nonzero().tolist()}
    grown.spread(candidates)
    if method != "grow-diag":
        needed = 2 if method == "grow-diag-final-and" else 1
        for direction in (links, backward):
            grown.complete(direction, needed)
    return grown.tensor(links)


class _Growing:
    """Links that are added to one by one."""

    def __init__(self, links: Tensor) -> None:
        self.steps, self.positions = links.shape
        self.links = {(t, s) for t, s in links.nonzero().tolist()}
        self.linked_steps = {t for t, _ in self.links}
        self.linked_positions = {s for _, s in self.links}

    def free(self, t: int, s: int) -> int:
        """How many of step and position have no link."""
        return (t not in self.linked_steps) + (s not in self.linked_positions)

    def add(self, t: int, s: int) -> None:
        self.links.add((t, s))
        self.linked_steps.add(t)
        self.linked_positions.add(s)

    def spread(self, candidates: set[tuple[int, int]]) -> None:
        """Adds neighbours that are candidates, in the order of the cells, until none is left."""
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

    def complete(self, links: Tensor, needed: int) -> None:
        """Adds links of which so many words have none."""
        for t, s in links.nonzero().tolist():
            if self.free(t, s) >= needed:
                self.add(t, s)

    def tensor(self, like: Tensor) -> Tensor:
        result = torch.zeros_like(like)
        for t, s in self.links:
            result[t, s] = True
        return result


def _numbers(name: str, letter: str, numbers: Tensor, alignment: Tensor, size: int) -> Tensor:
    """Numbers of words with the leading axes of the alignment, (..., size)."""
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


def _count(name: str, numbers: Tensor, given: int | None) -> int:
    """How many words there are."""
    largest = int(numbers.max()) if numbers.numel() else -1
    count = max(largest + 1, 0) if given is None else given
    if largest >= count:
        raise ShapeError(f"{name} has the number {largest}, but there are {count} words.")
    return count
