"""The tree of a search beside the search itself and beside plain loops over the decoder."""

from __future__ import annotations

import json
import math

import pytest
import torch

from decoders import BOS, HistoryDecoder, next_step, sources
from regard.decoding import Constraints, Search, SearchSource, search, search_tree
from regard.decoding.search_tree import ordinal
from regard.errors import ConfigError, RegardError, ShapeError

torch.set_num_threads(1)
EOS = 4
ARGUMENTS = {"bos": BOS, "eos": EOS, "max_length": 7, "unk": 3}
PLAIN = [
    Search(beam=1),
    Search(beam=2, length_penalty="none"),
    Search(beam=3, num_best=3),
    Search(beam=4, length_penalty="average", num_best=2),
    Search(beam=3, num_best=9, alpha=2.0),
    Search(beam=3, stop="first", num_best=2),
    Search(beam=3, stop="patience", patience=2.0),
    Search(beam=3, stop="full", num_best=2),
    Search(beam=2, coverage_penalty="summary", beta=0.5),
]
"""Searches without groups whose beams are the most probable continuations."""
OTHERS = [
    Search(beam=3, stop="top", num_best=2),
    Search(beam=4, num_groups=2, num_best=3),
    Search(beam=6, num_groups=3, num_best=6, diversity=2.0, stop="first"),
    Search(beam=3, keep_finished=True, num_best=3),
    Search(beam=4, keep_finished=True, length_penalty="average", coverage_penalty="gnmt"),
    Search(beam=1, keep_finished=True),
    Search(beam=1, min_length=3, no_repeat_ngram_size=1),
    Search(beam=3, repetition_penalty=1.5, unknown_penalty=2.0, eos_threshold=1.2),
    Search(beam=3, attention_stop=2, num_best=2, min_length=2),
]
GIVEN = [None, Constraints(prefix=[1, 3]), Constraints(exclude=[[2], [1, 1]]), Constraints(include=[[1, 2], [3]])]


def both(options, seed=1, constraints=None, runners_up=3, **arguments):
    """The tree, its hypotheses, and those of the search, of one source."""
    decoder = HistoryDecoder(5, seed, scale=1.5)
    (source,) = sources(1, seed)
    memory = decoder.prepare([source])
    arguments = {
        **ARGUMENTS,
        "alignment": True,
        "constraints": [constraints],
        "source": SearchSource(mask=memory["mask"]),
        **arguments,
    }
    tree, found = search_tree(decoder, memory, options, runners_up=runners_up, **arguments)
    (expected,) = search(decoder, memory, options, **arguments)
    return tree, found, expected, (decoder, source)


def tokens_of(tree, node):
    return [each.token for each in tree.path(node.id)]


def check(tree, found, expected, options):
    """What every tree keeps."""
    assert [h.tokens.tolist() for h in found] == [h.tokens.tolist() for h in expected]
    for h, other in zip(found, expected, strict=True):
        assert (h.score, h.log_probability, h.stop_reason) == (other.score, other.log_probability, other.stop_reason)
        torch.testing.assert_close(h.alignments["main"], other.alignments["main"], rtol=0, atol=0)
    assert len(tree.returned) == len(found)
    for number, h in zip(tree.returned, found, strict=True):
        node = tree.nodes[number]
        assert tokens_of(tree, node) == h.tokens.tolist()
        costs = [each.log_probability for each in tree.path(number)]
        assert costs == pytest.approx(h.token_log_probabilities.tolist(), abs=1e-12)
        assert node.score == pytest.approx(h.score, abs=1e-12)
        assert (node.state, node.is_end, node.why) == ("returned", h.stop_reason == "eos", "")
    on_the_way = {node.id for number in tree.returned for node in tree.path(number)}
    leading = {node.parent for node in tree.nodes[1:] if node.state != "pruned"}
    assert tree.nodes[0].parent is None
    for node in tree.nodes[1:]:
        parent = tree.nodes[node.parent]
        assert (node.step, node.parent < node.id) == (parent.step + 1, True)
        assert parent.state in ("kept", "returned")
        assert node.is_end == (node.token == EOS)
        if node.state == "kept":
            assert bool(node.why) == (node.id not in leading and node.id not in on_the_way)
        else:
            assert bool(node.why) == (node.state != "returned")
        if node.state == "pruned":
            assert not tree.children(node.id)
    beam = [[n for n in tree.nodes if n.step == step and n.state != "pruned"] for step in range(1, tree.steps + 1)]
    for nodes in beam:
        groups = {n.group: [m for m in nodes if m.group == n.group and not m.is_end] for n in nodes}
        assert all(len(each) <= options.beam // options.num_groups for each in groups.values())
        assert len({(n.group, *tokens_of(tree, n)) for n in nodes}) == len(nodes)
    text = json.dumps(tree.record(), allow_nan=False)
    assert len(json.loads(text)["nodes"]) == len(tree.nodes)


@pytest.mark.parametrize("options", [*PLAIN, *OTHERS])
@pytest.mark.parametrize("constraints", GIVEN)
def test_the_tree_returns_what_the_search_returns(options, constraints):
    needs_beam = constraints is not None and constraints.include
    if needs_beam and (options.beam == 1 or options.keep_finished):
        with pytest.raises(ConfigError, match="include of sentence 0 needs"):
            both(options, constraints=constraints)
        return
    for seed in (1, 2, 5):
        check(*both(options, seed, constraints)[:3], options)


@pytest.mark.parametrize("options", PLAIN)
@pytest.mark.parametrize("seed", [1, 3, 4])
def test_what_is_pruned_ranks_below_what_is_kept(options, seed):
    """Compared with all continuations, from plain passes over the decoder."""
    tree, *_, (decoder, source) = both(options, seed)
    width = options.beam
    for node in tree.nodes[1:]:
        assert node.total == pytest.approx(tree.nodes[node.parent].total + node.log_probability, abs=1e-12)
    before = [tree.nodes[0]]
    for step in range(1, tree.steps + 1):
        here = [node for node in tree.nodes if node.step == step]
        following = next_step(decoder, source, [tokens_of(tree, node) for node in before])
        every = {
            (parent.id, token): parent.total + value
            for parent, values in zip(before, following, strict=True)
            for token, value in enumerate(values)
        }
        is_greedy = options.beam == 1
        going = [pair for pair in every if is_greedy or pair[1] != EOS]
        best = sorted(going, key=lambda pair: -every[pair])[:width]
        kept = [node for node in here if node.state != "pruned" and (is_greedy or not node.is_end)]
        assert sorted((node.parent, node.token) for node in kept) == sorted(best)
        least = min(node.total for node in kept)
        for node in here:
            assert node.total == pytest.approx(every[node.parent, node.token], abs=1e-9)
            if node.state == "pruned" and (is_greedy or not node.is_end):
                assert node.total <= least
                place = 1 + sum(every[pair] > node.total + 1e-9 for pair in going)
                assert node.why.startswith(f"{ordinal(place)} ")
        for parent, values in zip(before, following, strict=True):
            followed = {node.token for node in here if node.parent == parent.id and node.state != "pruned"}
            others = sorted(set(range(5)) - followed, key=lambda token: -values[token])[:3]
            runners_up = [node.token for node in here if node.parent == parent.id and node.state == "pruned"]
            assert runners_up == others
        before = [node for node in kept if not node.is_end]


@pytest.mark.parametrize("seed", range(1, 6))
def test_an_end_is_pruned_only_below_those_that_are_returned(seed):
    tree, found, *_ = both(Search(beam=3, num_best=2), seed)
    least = min(h.score for h in found)
    for node in tree.nodes[1:]:
        if node.is_end and node.state in ("pruned", "ended"):
            assert node.score <= least


def test_groups_lose_for_the_choices_of_others():
    options = Search(beam=4, num_groups=2, num_best=4, diversity=0.7, length_penalty="none")
    tree, *_ = both(options)
    chosen = [n for n in tree.nodes[1:] if n.state != "pruned" and not n.is_end]
    lowered = 0
    for node in chosen:
        others = [n for n in chosen if (n.step, n.group, n.token) == (node.step, node.group - 1, node.token)]
        expected = tree.nodes[node.parent].total + node.log_probability - 0.7 * len(others)
        assert node.total == pytest.approx(expected, abs=1e-6)
        lowered += len(others)
    assert lowered


REASONS = [
    (Search(beam=3, min_length=4), None, "min_length: the output is too short to end"),
    (Search(beam=2, no_repeat_ngram_size=1), None, "no_repeat_ngram_size: it would repeat a run of tokens"),
    (Search(beam=2), Constraints(prefix=[1, 3]), "prefix: another token is given here"),
    (Search(beam=2), Constraints(exclude=[[2]]), "exclude: it would complete a text that the output must not contain"),
    (Search(beam=4), Constraints(include=[[1, 2]]), "include: a text that the output must contain is missing"),
    (Search(beam=1, eos_threshold=0.5), None, "eos_threshold: another token is too probable for an end"),
]


@pytest.mark.parametrize(("options", "constraints", "reason"), REASONS)
def test_what_is_forbidden_says_by_what(options, constraints, reason):
    tree, *_ = both(options, constraints=constraints, runners_up=5)
    forbidden = [node for node in tree.nodes if node.total == -math.inf]
    assert reason in {node.why for node in forbidden}
    assert all(node.state == "pruned" for node in forbidden)
    assert all(node.record()["total"] is None for node in forbidden)


def test_a_processor_of_a_user_is_named():
    def never_one(log_probabilities, state):
        return log_probabilities.index_fill(1, torch.tensor([1]), -math.inf)

    tree, found, expected, _ = both(Search(beam=2), processors=[never_one], runners_up=5)
    check(tree, found, expected, Search(beam=2))
    forbidden = [node for node in tree.nodes if node.total == -math.inf]
    assert {node.token for node in forbidden} == {1}
    assert {node.why for node in forbidden} == {"forbidden by the processor never_one"}


def test_from_any_node_the_search_goes_on():
    tree, *_ = both(Search(beam=3))
    pruned = [node for node in tree.nodes if node.state == "pruned" and not node.is_end and node.step < 6]
    assert len(pruned) > 5
    for node in pruned:
        path = tokens_of(tree, node)
        other, found, expected, _ = both(Search(beam=3), constraints=Constraints(prefix=path))
        check(other, found, expected, Search(beam=3))
        assert all(h.tokens.tolist()[: len(path)] == path for h in found)


def test_an_output_that_is_cut_ends_at_a_node():
    tree, found, *_ = both(Search(beam=2, num_best=2), max_length=3, min_length=3)
    assert {h.stop_reason for h in found} == {"length"}
    unfinished = [node for node in tree.nodes if node.step == 3 and node.state == "kept"]
    assert all(node.why == "the output has reached the greatest length" for node in unfinished)


@pytest.mark.parametrize("count", [0, 1, 4])
def test_there_are_as_many_runners_up_as_asked_for(count):
    tree, *_ = both(Search(beam=2), runners_up=count)
    numbers = [sum(child.state == "pruned" for child in tree.children(node.id)) for node in tree.nodes]
    assert max(numbers) == count


def test_what_has_no_tree_is_refused():
    decoder = HistoryDecoder(5, 1)
    for options, message in [
        (Search(method="sampling"), "method is sampling, but samples do not compete for places, so nothing is kept or"),
        (Search(method="mbr"), "method is mbr, but samples do not compete"),
    ]:
        with pytest.raises(ConfigError, match=message) as error:
            search_tree(decoder, decoder.prepare(sources(1)), options, **ARGUMENTS)
        assert error.value.path == ("decoding", "method")
    with pytest.raises(ShapeError, match="B=1 row; got 2"):
        search_tree(decoder, decoder.prepare(sources(2)), **ARGUMENTS)
    with pytest.raises(ConfigError, match="runners_up=-1"):
        search_tree(decoder, decoder.prepare(sources(1)), runners_up=-1, **ARGUMENTS)
    tree, *_ = both(Search(beam=2))
    with pytest.raises(RegardError, match="node 9999: the tree has nodes 0 to"):
        tree.path(9999)
    end = next(node for node in tree.nodes if node.is_end)
    with pytest.raises(RegardError, match=f"node {end.id} ends the output; choose a node before it"):
        tree.symbols(end.id)
