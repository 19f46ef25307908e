from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from decoders import BOS, Altered, HistoryDecoder, next_step, outputs, score, sources, without
from regard import tree
from regard.decoding import AbstractPenalty, AveragePenalty, GnmtPenalty, NoPenalty, Search, rescore, search
from regard.decoding.live_beam import LiveBeam

torch.set_num_threads(1)
PENALTIES = [("none", 0.6), ("average", 0.6), ("gnmt", 0.0), ("gnmt", 0.6), ("gnmt", 1.0), ("gnmt", 2.0)]


def consistent(decoder, memory, hypotheses, eos, options=None):
    """Asserts what every list of hypotheses must keep."""
    options = options or Search()
    again = rescore(decoder, memory, hypotheses, bos=BOS)
    for found, forced in zip(hypotheses, again, strict=True):
        assert len({tuple(h.tokens.tolist()) for h in found}) == len(found)
        ranks = [(h.stop_reason != "eos", -h.score) for h in found]
        assert ranks == sorted(ranks)
        for ours, theirs in zip(found, forced, strict=True):
            tokens = ours.tokens.tolist()
            assert tokens.count(eos) == (ours.stop_reason == "eos")
            assert ours.stop_reason == "length" or tokens[-1] == eos
            assert ours.log_probability == pytest.approx(theirs.log_probability, abs=1e-9)
            expected = score(ours.log_probability, len(tokens), options.length_penalty, options.alpha)
            assert ours.score == pytest.approx(expected, abs=1e-9)
            torch.testing.assert_close(ours.token_log_probabilities, theirs.token_log_probabilities)
            if ours.alignments:
                torch.testing.assert_close(ours.alignments["main"], theirs.alignments["main"])
                fed = [BOS, *tokens]
                for t, row in enumerate(ours.alignments["history"][0]):
                    assert row[: t + 1].tolist() == fed[: t + 1]
                    assert not row[t + 1 :].any()


@settings(max_examples=40)
@given(
    num_tokens=st.integers(2, 4),
    length=st.integers(1, 4),
    seed=st.integers(0, 10_000),
    penalty=st.sampled_from(PENALTIES),
    count=st.integers(1, 3),
    num_best=st.integers(1, 60),
    blocked=st.booleans(),
)
def test_a_beam_wide_enough_is_exhaustive_search(num_tokens, length, seed, penalty, count, num_best, blocked):
    eos = num_tokens - 1
    decoder = HistoryDecoder(num_tokens, seed)
    if blocked:
        decoder = Altered(decoder, without(seed % num_tokens))
    batch = sources(count, seed)
    options = Search(
        beam=max(2, num_tokens * (num_tokens - 1) ** (length - 1)),
        num_best=num_best,
        length_penalty=penalty[0],
        alpha=penalty[1],
    )
    memory = decoder.prepare(batch)
    found = search(decoder, memory, options, bos=BOS, eos=eos, max_length=length)
    for source, hypotheses in zip(batch, found, strict=True):
        all_outputs = [
            (tokens[-1] != eos, -score(total, len(tokens), *penalty), tokens)
            for tokens, total in outputs(decoder, source, eos, length)
        ]
        expected = sorted(all_outputs)[:num_best]
        assert [h.tokens.tolist() for h in hypotheses] == [tokens for _, _, tokens in expected]
        assert [h.score for h in hypotheses] == pytest.approx([-s for _, s, _ in expected], abs=1e-9)
    consistent(decoder, memory, found, eos, options)


def plain_beam(decoder, source, eos, beam, num_best, penalty, max_length):
    """Beam search as one would say it, for one sentence, with lists and without stopping early."""
    alive, finished = [([], 0.0)], []
    for length in range(1, max_length + 1):
        longer = []
        for (tokens, total), said in zip(alive, next_step(decoder, source, [t for t, _ in alive]), strict=True):
            finished.append((score(total + said[eos], length, *penalty), [*tokens, eos]))
            longer += [([*tokens, token], total + value) for token, value in enumerate(said) if token != eos]
        alive = sorted(longer, key=lambda output: -output[1])[:beam]
    cut = [(score(total, max_length, *penalty), tokens) for tokens, total in alive]
    return (sorted(finished, key=lambda output: -output[0]) + cut)[:num_best]


@settings(max_examples=30)
@given(
    num_tokens=st.integers(3, 7),
    beam=st.integers(2, 5),
    num_best=st.integers(1, 8),
    max_length=st.integers(1, 8),
    seed=st.integers(0, 10_000),
    penalty=st.sampled_from(PENALTIES),
)
def test_a_narrow_beam_equals_a_plain_one(num_tokens, beam, num_best, max_length, seed, penalty):
    decoder, batch, eos = HistoryDecoder(num_tokens, seed), sources(2, seed), seed % num_tokens
    options = Search(beam=beam, num_best=num_best, length_penalty=penalty[0], alpha=penalty[1])
    found = search(decoder, decoder.prepare(batch), options, bos=BOS, eos=eos, max_length=max_length)
    for source, hypotheses in zip(batch, found, strict=True):
        expected = plain_beam(decoder, source, eos, beam, num_best, penalty, max_length)
        assert [h.tokens.tolist() for h in hypotheses] == [tokens for _, tokens in expected]
        assert [h.score for h in hypotheses] == pytest.approx([value for value, _ in expected], abs=1e-9)


@settings(max_examples=25)
@given(
    count=st.integers(2, 7),
    beam=st.integers(1, 6),
    seed=st.integers(0, 10_000),
    penalty=st.sampled_from(PENALTIES),
    data=st.data(),
)
def test_a_sentence_alone_in_a_batch_and_in_a_permuted_batch_gives_the_same(count, beam, seed, penalty, data):
    decoder, eos = HistoryDecoder(6, seed, scale=3.0), 5
    num_best = data.draw(st.integers(1, 4)) if beam > 1 else 1
    options = Search(beam=beam, num_best=num_best, length_penalty=penalty[0], alpha=penalty[1])
    limits = torch.tensor(data.draw(st.lists(st.integers(1, 9), min_size=count, max_size=count)))
    order = data.draw(st.permutations(range(count)))
    batch = sources(count, seed)

    def run(which):
        memory = decoder.prepare([batch[b] for b in which])
        found = search(
            decoder, memory, options, bos=BOS, eos=eos, max_length=limits[torch.tensor(which)], alignment=True
        )
        consistent(decoder, memory, found, eos, options)
        return found

    together = run(range(count))
    permuted = run(order)
    for b in range(count):
        for other in (run([b])[0], permuted[order.index(b)]):
            assert [h.tokens.tolist() for h in other] == [h.tokens.tolist() for h in together[b]]
            assert [h.stop_reason for h in other] == [h.stop_reason for h in together[b]]
            assert [h.score for h in other] == pytest.approx([h.score for h in together[b]], abs=1e-9)
            for alone, ours in zip(other, together[b], strict=True):
                alone, ours = alone.alignments["main"], ours.alignments["main"]
                torch.testing.assert_close(alone[..., : len(batch[b])], ours[..., : len(batch[b])])
                assert not ours[..., len(batch[b]) :].any()


@pytest.mark.parametrize("fault", ["none", "state", "memory", "alignment", "parent", "sentence"])
def test_the_checks_notice_hypotheses_that_lose_their_state_their_source_or_their_past(fault, monkeypatch):
    move, drop, grow = LiveBeam.move, LiveBeam.without, LiveBeam.grow

    def faulty_move(self, rows, tokens, nodes):
        state = self.state
        move(self, rows, tokens, nodes)
        if fault == "state" and tree.rows(state) == tree.rows(self.state):  # not of the first step
            self.state = state

    def faulty_drop(self, leaving, own):
        memory, sentences = self.memory, self.sentences
        own = drop(self, leaving, own)
        if fault == "memory":
            self.memory = tree.reorder(memory, torch.arange(len(self)))
        if fault == "sentence":
            self.sentences = sentences[: len(self)]
        return own

    def faulty_grow(self, parents, tokens, log_probabilities, rows):
        if fault == "alignment" and rows.max() >= len(rows):
            rows = torch.arange(rows.numel()).view(rows.shape)
        if fault == "parent":
            parents = parents.sort(1).values
        return grow(self, parents, tokens, log_probabilities, rows)

    monkeypatch.setattr(LiveBeam, "move", faulty_move)
    monkeypatch.setattr(LiveBeam, "without", faulty_drop)
    monkeypatch.setattr(LiveBeam, "grow", faulty_grow)
    decoder, options = HistoryDecoder(6, 1, scale=3.0), Search(beam=4, num_best=4)
    memory = decoder.prepare(sources(6, 1))

    def run():
        consistent(
            decoder,
            memory,
            search(decoder, memory, options, bos=BOS, eos=5, max_length=9, alignment=True),
            5,
            options,
        )

    if fault == "none":
        run()
    else:
        with pytest.raises(AssertionError):
            run()


@dataclass(frozen=True)
class Brevity(AbstractPenalty):
    """A penalty of the user's own whose score falls with the length."""

    def score(self, candidates):
        return candidates.log_probabilities - 0.4 * torch.as_tensor(candidates.lengths)


class Patient(AbstractPenalty):
    """Another penalty, except that it never gives up hope: the search goes on to the maximum length."""

    def __init__(self, penalty):
        self.score = penalty.score

    def score(self, candidates):
        raise NotImplementedError

    def bound(self, log_probability, length, max_length):
        return torch.full_like(log_probability, math.inf)


@pytest.mark.parametrize(
    "penalty",
    [NoPenalty(), AveragePenalty(), GnmtPenalty(0.6), GnmtPenalty(1.0), GnmtPenalty(2.0), Brevity()],
    ids=repr,
)
@pytest.mark.parametrize("num_best", [1, 3, 8])
def test_stopping_early_never_changes_a_result(penalty, num_best):
    steps = {"early": 0, "late": 0}
    for seed in range(8):
        decoder = HistoryDecoder(5, seed, scale=2.5)
        memory = decoder.prepare(sources(4, seed))
        results = {}
        for name, chosen in {"early": penalty, "late": Patient(penalty)}.items():

            def count(said, step, name=name):
                steps[name] += 1
                return said

            options, told = Search(beam=3, num_best=num_best), {"bos": BOS, "eos": 4, "max_length": 14}
            results[name] = search(Altered(decoder, count), memory, options, penalty=chosen, **told)
        for early, late in zip(results["early"], results["late"], strict=True):
            assert [h.tokens.tolist() for h in early] == [h.tokens.tolist() for h in late]
    assert steps["early"] < steps["late"] or penalty in (AveragePenalty(), GnmtPenalty(2.0))  # long hopes


def test_a_penalty_of_the_users_own_that_prefers_short_outputs_is_exhaustive_too():
    decoder = HistoryDecoder(3, 4)
    batch = sources(3, 4)
    options, told = Search(beam=24, num_best=5), {"bos": BOS, "eos": 2, "max_length": 4}
    found = search(decoder, decoder.prepare(batch), options, penalty=Brevity(), **told)
    for source, hypotheses in zip(batch, found, strict=True):
        ends = [(t, p - 0.4 * len(t)) for t, p in outputs(decoder, source, 2, 4) if t[-1] == 2]
        expected = sorted(ends, key=lambda output: -output[1])[:5]
        assert [h.tokens.tolist() for h in hypotheses] == [tokens for tokens, _ in expected]


def test_finished_sentences_leave_and_the_source_is_never_tiled():
    decoder = HistoryDecoder(6, 1, scale=3.0)
    seen = []
    step = decoder.step
    decoder.step = lambda inputs, memory, state, **kw: (
        seen.append((len(inputs), tree.rows(memory), tree.rows(state))) or step(inputs, memory, state, **kw)
    )
    limits = torch.tensor([2, 5, 9])
    search(decoder, decoder.prepare(sources(3)), Search(beam=4), bos=BOS, eos=5, max_length=limits)
    assert seen[0] == (3, 3, 3)  # all hypotheses begin alike
    assert all(rows == 4 * sentences == state for rows, sentences, state in seen[1:])
    assert seen[2][1] < 3


def test_the_end_is_admitted_even_when_it_ranks_behind_all_continuations():
    def change(said, step):
        row = torch.tensor([0.5, 0.4, 0.1]) if step == 1 else torch.tensor([0.5, 0.4995, 0.0005])
        return row.double().log().expand_as(said)

    decoder = Altered(HistoryDecoder(3, 0), change)
    options = Search(beam=2, length_penalty="none")
    (best,) = search(decoder, decoder.prepare(sources(1)), options, bos=BOS, eos=2, max_length=3)[0]
    assert best.tokens.tolist() == [2]
    assert best.log_probability == pytest.approx(math.log(0.1))


@pytest.mark.parametrize("beam", [1, 2, 5])
def test_a_decoder_that_never_ends_returns_its_best_outputs_cut_at_the_maximum_length(beam):
    decoder = Altered(HistoryDecoder(5, 3), without(4))
    memory = decoder.prepare(sources(3))
    limits = torch.tensor([3, 6, 1])
    options = Search(beam=beam, num_best=beam)
    found = search(decoder, memory, options, bos=BOS, eos=4, max_length=limits, alignment=True)
    for limit, hypotheses in zip(limits.tolist(), found, strict=True):
        assert len(hypotheses) == min(beam, 4**limit)
        assert {(h.stop_reason, len(h.tokens)) for h in hypotheses} == {("length", limit)}
    consistent(decoder, memory, found, 4, options)


@pytest.mark.parametrize("beam", [1, 3])
def test_no_sentence_outgrows_its_own_maximum_length(beam):
    decoder = HistoryDecoder(5, 2)
    limits = torch.tensor([1, 2, 3, 7, 4])
    found = search(decoder, decoder.prepare(sources(5)), Search(beam=beam), bos=BOS, eos=4, max_length=limits)
    assert all(len(hypotheses[0].tokens) <= limit for hypotheses, limit in zip(found, limits.tolist(), strict=True))


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("shortest", [0, 1, 4])
def test_the_end_comes_after_the_minimum_length(beam, shortest):
    decoder = HistoryDecoder(5, 5, scale=4.0)
    memory = decoder.prepare(sources(6))
    options = Search(beam=beam, num_best=beam, min_length=shortest)
    found = search(decoder, memory, options, bos=BOS, eos=4, max_length=8)
    lengths = [len(h.tokens) for hypotheses in found for h in hypotheses if h.stop_reason == "eos"]
    assert lengths
    assert min(lengths) > shortest
    assert beam == 1 or min(lengths) == shortest + 1
    consistent(decoder, memory, found, 4, options)


def test_a_beam_wider_than_the_vocabulary_returns_what_there_is():
    decoder = HistoryDecoder(3, 6)
    memory = decoder.prepare(sources(2))
    options = Search(beam=50, num_best=100)
    found = search(decoder, memory, options, bos=BOS, eos=2, max_length=2)
    assert [len(hypotheses) for hypotheses in found] == [3 + 4, 3 + 4]
    consistent(decoder, memory, found, 2, options)


def test_a_vocabulary_of_the_end_alone_ends():
    decoder = HistoryDecoder(1, 0)
    found = search(decoder, decoder.prepare(sources(2)), Search(beam=3, num_best=2), bos=0, eos=0, max_length=3)
    assert [[h.tokens.tolist() for h in hypotheses] for hypotheses in found] == [[[0]], [[0]]]


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("last_step", [0, 1, 3])
def test_a_dead_end_returns_what_was_alive_before_it(beam, last_step):
    def change(said, step):
        said = without(4)(said, step)
        return said if step <= last_step else torch.full_like(said, -math.inf)

    decoder = Altered(HistoryDecoder(5, 3), change)
    memory = decoder.prepare(sources(2))
    options = Search(beam=beam, num_best=beam)
    found = search(decoder, memory, options, bos=BOS, eos=4, max_length=6, alignment=True)
    for hypotheses in found:
        assert {(h.stop_reason, len(h.tokens)) for h in hypotheses} == {("length", last_step)}
        assert all(math.isfinite(h.score) and h.alignments["main"].shape[1] == last_step for h in hypotheses)
    if last_step:
        consistent(decoder, memory, found, 4, options)


def test_impossible_tokens_are_never_returned_and_may_differ_by_sentence():
    decoder = HistoryDecoder(6, 8)
    allowed = torch.tensor([[1, 1, 0, 0, 0, 1], [0, 0, 1, 1, 1, 1], [0, 1, 0, 0, 0, 0]]).bool()
    step = decoder.step

    def pointer(inputs, memory, state, **options):
        output, state = step(inputs, memory["source"], state, **options)
        mask = memory["allowed"].repeat_interleave(len(inputs) // len(memory["allowed"]), 0)
        said = output.log_probabilities.masked_fill(~mask, -math.inf)
        return type(output)(log_probabilities=said), state

    decoder.step = pointer
    decoder.initial_state = lambda memory, k=1: HistoryDecoder.initial_state(decoder, memory["source"], k)
    memory = {"source": decoder.prepare(sources(3)), "allowed": allowed}
    limits = torch.tensor([2, 5, 3])
    found = search(decoder, memory, Search(beam=7, num_best=7), bos=BOS, eos=5, max_length=limits)
    for hypotheses, row in zip(found, allowed, strict=True):
        assert all(row[h.tokens].all() and math.isfinite(h.score) for h in hypotheses)
    assert [h.tokens.tolist() for h in found[2]] == [[1, 1, 1]]
    assert len(found[0]) == 3 + 4


@pytest.mark.parametrize(
    "options", [Search(beam=5, num_best=5), Search(method="sampling", num_best=20, seed=0)], ids=["beam", "sample"]
)
def test_what_is_said_after_an_impossible_token_or_after_the_end_does_no_harm(options):
    class Careless(HistoryDecoder):
        def say(self, fed, values, mask):
            said, seen = super().say(fed, values, mask)
            said = said.masked_fill(torch.tensor([False, False, True, True, False]), -math.inf)
            return said.masked_fill((fed > 1).any(1, keepdim=True), math.nan), seen

    decoder = Careless(5, 1)
    memory = decoder.prepare(sources(3))
    for hypotheses in search(decoder, memory, options, bos=BOS, eos=4, max_length=4):
        assert all({0, 1, 4}.issuperset(h.tokens.tolist()) and math.isfinite(h.score) for h in hypotheses)


def test_equal_scores_are_ordered_by_earlier_hypothesis_and_lower_token():
    decoder = Altered(HistoryDecoder(5, 0), lambda said, step: torch.zeros_like(said).log_softmax(1))
    memory = decoder.prepare(sources(3))
    options = Search(beam=2, num_best=5, length_penalty="none")
    for hypotheses in search(decoder, memory, options, bos=BOS, eos=3, max_length=3):
        assert [h.tokens.tolist() for h in hypotheses] == [[3], [0, 3], [1, 3], [0, 0, 3], [0, 1, 3]]


def test_width_one_is_greedy_search_and_ends_only_where_the_end_is_most_probable():
    decoder, batch = HistoryDecoder(5, 7), sources(5)
    memory = decoder.prepare(batch)
    one = search(decoder, memory, Search(beam=1), bos=BOS, eos=4, max_length=12)
    for source, (ours,) in zip(batch, one, strict=True):
        fed = [BOS]
        while len(fed) <= 12 and (fed[-1] != 4 or len(fed) == 1):
            said = decoder.forward(torch.tensor([fed]), decoder.prepare([source])).log_probabilities[0, -1]
            fed.append(int(said.argmax()))
        assert ours.tokens.tolist() == fed[1:]


def test_threads_may_share_a_decoder():
    decoder = HistoryDecoder(7, 9)
    batches = [sources(5, seed) for seed in range(8)]

    def run(batch):
        memory = decoder.prepare(batch)
        found = search(decoder, memory, Search(beam=4), bos=BOS, eos=6, max_length=12, alignment=True)
        return [(h.tokens.tolist(), h.score, h.alignments["main"].sum().item()) for (h,) in found]

    expected = [run(batch) for batch in batches]
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(run, batches)) == expected


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_half_precision_outputs_are_summed_exactly(dtype):
    decoder = HistoryDecoder(6, 1, dtype=dtype)
    found = search(decoder, decoder.prepare(sources(3)), Search(), bos=BOS, eos=5, max_length=20)
    for (h,) in found:
        assert h.token_log_probabilities.dtype == torch.float32
        assert h.score == pytest.approx(
            score(math.fsum(h.token_log_probabilities.tolist()), len(h.tokens), "gnmt", 0.6)
        )


def test_an_empty_batch_gives_an_empty_list():
    decoder = HistoryDecoder(4, 0)
    memory = {"values": torch.zeros(0, 3), "mask": torch.zeros(0, 3, dtype=torch.bool)}
    for beam in (1, 4):
        assert search(decoder, memory, Search(beam=beam), bos=BOS, eos=3, max_length=5) == []
