"""Alignments of words: no weight is lost, links are those of the weights, and directions are joined as published."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from regard.decoding import chosen_heads, hard_links, main_alignment, merge_words, symmetrise
from regard.decoding.words import Symmetrisation
from regard.errors import ConfigError, RegardError, ShapeError


def plain_merge(
    alignment: Tensor, source: list[int], target: list[int], positions: int, steps: int
) -> list[list[float]]:
    """The rows of words, each with the rest as a last column, in plain Python."""
    rows = []
    for word in range(steps):
        members = [t for t, number in enumerate(target) if number == word]
        row = [0.0] * (positions + 1)
        for t in members:
            for s, number in enumerate(source):
                row[number if number >= 0 else positions] += float(alignment[t, s]) / len(members)
        rows.append(row)
    return rows


@st.composite
def merges(draw: st.DrawFn) -> tuple[Tensor, list[list[int]], list[list[int]]]:
    rows, heads, steps, positions = (draw(st.integers(1, 4)) for _ in range(4))
    number = st.integers(-1, 2)
    source = [draw(st.lists(number, min_size=positions, max_size=positions)) for _ in range(rows)]
    target = [draw(st.lists(number, min_size=steps, max_size=steps)) for _ in range(rows)]
    drawn = torch.Generator().manual_seed(draw(st.integers(0, 999)))
    return torch.rand(rows, heads, steps, positions, generator=drawn, dtype=torch.float64).softmax(-1), source, target


@given(merges())
def test_merging_words_is_the_plain_sum_of_means_and_loses_no_weight(drawn: tuple[Tensor, list, list]) -> None:
    alignment, source, target = drawn
    merged = merge_words(alignment, torch.tensor(source), torch.tensor(target), num_source=3, num_target=3)
    assert merged.weights.shape == (*alignment.shape[:2], 3, 3)
    for b in range(len(alignment)):
        members = [target[b].count(word) for word in range(3)]
        for h in range(alignment.shape[1]):
            expected = torch.tensor(plain_merge(alignment[b, h], source[b], target[b], 3, 3), dtype=torch.float64)
            found = torch.cat((merged.weights[b, h], merged.rest[b, h, :, None]), -1)
            torch.testing.assert_close(found, expected)
            sums = torch.tensor([float(count > 0) for count in members], dtype=torch.float64)
            torch.testing.assert_close(found.sum(-1), sums)  # every step of a softmax sums to 1
        alone = merge_words(alignment[b], torch.tensor(source[b]), torch.tensor(target[b]), num_source=3, num_target=3)
        torch.testing.assert_close(alone.weights, merged.weights[b])
        torch.testing.assert_close(alone.rest, merged.rest[b])


def test_a_row_divided_by_its_sum_has_no_rest_and_an_empty_one_stays() -> None:
    alignment = torch.tensor([[0.25, 0.25, 0.5], [0.0, 0.0, 1.0]])
    source, target = torch.tensor([0, 1, -1]), torch.tensor([0, 1])
    merged = merge_words(alignment, source, target, normalise=True)
    torch.testing.assert_close(merged.weights, torch.tensor([[0.5, 0.5], [0.0, 0.0]]))
    torch.testing.assert_close(merged.rest, torch.tensor([0.0, 1.0]))


def test_weights_keep_their_type_and_their_gradient() -> None:
    alignment = torch.rand(2, 3, dtype=torch.float64, requires_grad=True)
    numbers = torch.tensor([0, 0, 1]), torch.tensor([0, 1])
    assert torch.autograd.gradcheck(lambda a: merge_words(a, *numbers).weights, alignment)
    assert merge_words(alignment.detach().half(), *numbers).weights.dtype == torch.float16


def test_nothing_to_merge_has_no_words() -> None:
    nothing = torch.zeros(0, dtype=torch.long)
    merged = merge_words(torch.zeros(0, 0), nothing, nothing)
    assert merged.weights.shape == (0, 0)
    assert hard_links(torch.zeros(2, 0)).shape == (2, 0)


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (torch.zeros(2).long(), torch.zeros(2).long(), r"source_words must be \(S,\).*\n.*S=3"),
        (torch.zeros(3), torch.zeros(2).long(), "source_words must be.*integers"),
        (torch.zeros(3).long(), torch.zeros(1, 2).long(), r"target_words must be \(T,\)"),
        (torch.zeros(3).long(), torch.ones(2).bool(), "target_words must be"),
    ],
)
def test_numbers_of_other_positions_are_refused(source: Tensor, target: Tensor, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        merge_words(torch.rand(2, 3), source, target)


def test_a_number_above_the_count_is_refused() -> None:
    with pytest.raises(ShapeError, match="source_words has the index 4, but there are 2 words"):
        merge_words(torch.rand(1, 2), torch.tensor([0, 4]), torch.tensor([0]), num_source=2)


def test_a_threshold_links_all_large_weights_and_only_those() -> None:
    weights = torch.tensor([[[0.6, 0.4, 0.0], [0.3, 0.3, 0.4]]])
    assert hard_links(weights).nonzero().tolist() == [[0, 0, 0], [0, 1, 2]]
    assert hard_links(weights, threshold=0.4).nonzero().tolist() == [[0, 0, 0], [0, 0, 1], [0, 1, 2]]
    for wrong in (0.0, 1.5, float("nan")):
        with pytest.raises(RegardError, match="threshold must be a weight above 0 and at most 1"):
            hard_links(weights, threshold=wrong)


def published(links: Tensor, reverse: Tensor, method: str) -> set[tuple[int, int]]:
    """The published program, cell by cell; words of the output are its English ones."""
    forward = {(t, s) for t, s in links.nonzero().tolist()}
    backward = {(t, s) for s, t in reverse.nonzero().tolist()}
    union, alignment = forward | backward, forward & backward
    if method in ("union", "intersection"):
        return union if method == "union" else alignment

    def aligned(t: int | None = None, s: int | None = None) -> bool:
        return any(a == t for a, _ in alignment) if s is None else any(b == s for _, b in alignment)

    while True:
        before = len(alignment)
        for t in range(links.shape[0]):
            for s in range(links.shape[1]):
                if (t, s) in alignment:
                    for dt, ds in ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)):
                        near = (t + dt, s + ds)
                        if (not aligned(t=near[0]) or not aligned(s=near[1])) and near in union:
                            alignment.add(near)
        if len(alignment) == before:
            break
    for direction in (forward, backward) if method != "grow-diag" else ():
        for t in range(links.shape[0]):
            for s in range(links.shape[1]):
                free = (not aligned(t=t), not aligned(s=s))
                if (all(free) if method.endswith("and") else any(free)) and (t, s) in direction:
                    alignment.add((t, s))
    return alignment


@pytest.mark.parametrize("method", Symmetrisation.__args__)
def test_directions_are_joined_as_the_published_program_does(method: Symmetrisation) -> None:
    drawn = torch.Generator().manual_seed(1)
    sizes = set()
    for _ in range(60):
        links, reverse = torch.rand(5, 6, generator=drawn) < 0.25, torch.rand(6, 5, generator=drawn) < 0.25
        found = symmetrise(links, reverse, method)
        assert {(t, s) for t, s in found.nonzero().tolist()} == published(links, reverse, method)
        sizes.add(int(found.sum()))
    assert len(sizes) > 3


def test_directions_of_other_sizes_and_unknown_methods_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"links and reverse must be \(T, S\) and \(S, T\)"):
        symmetrise(torch.ones(2, 3).bool(), torch.ones(2, 3).bool())
    with pytest.raises(RegardError, match=r"method must be one of intersection, .*; got 'grow'"):
        symmetrise(torch.ones(2, 3).bool(), torch.ones(3, 2).bool(), "grow")  # type: ignore[arg-type]


def test_layers_and_heads_are_chosen_or_averaged() -> None:
    alignments = {f"cross.{n}": torch.rand(3, 2 + n, 4, 5) for n in range(2)}
    first, last = alignments.values()

    class Named:
        main_attention = "cross.0"

    torch.testing.assert_close(main_alignment(alignments), last.mean(1))
    torch.testing.assert_close(main_alignment(alignments, Named()), first.mean(1))
    torch.testing.assert_close(main_alignment(alignments, Named(), layer="cross.1"), last.mean(1))
    torch.testing.assert_close(main_alignment(alignments, Named(), head=1), first[:, 1])
    both = torch.cat((first, last), 1)
    torch.testing.assert_close(chosen_heads(alignments, layer="mean"), both)
    torch.testing.assert_close(main_alignment(alignments, layer="mean", head=1), (first[:, 1] + last[:, 1]) / 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layer": "cross.7"}, "alignment_layer is 'cross.7', but the alignments are cross.0, other"),
        ({"head": 2}, "alignment_head is 2, but other has 2 heads, counted from 0"),
        ({"layer": "mean"}, "alignment_layer is 'mean', but cross.0, other attend to different positions"),
    ],
)
def test_a_layer_or_head_that_is_not_there_is_refused(options: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        main_alignment({"cross.0": torch.rand(2, 4, 5), "other": torch.rand(2, 4, 6)}, **options)
