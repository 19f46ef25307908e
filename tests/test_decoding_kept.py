"""Beam search in which finished hypotheses keep their places, against a plain one and against all outputs."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from decoders import BOS, HistoryDecoder, outputs, sources
from plain_search import Plain
from regard.decoding import Constraints, NoPenalty, Search, SearchSource, penalty_of, rescore, search, stream
from regard.decoding.keep_finished import all_scores, expand
from regard.errors import ConfigError
from test_decoding_options import attending, settings_of_searches, source_of

torch.set_num_threads(1)
N = 6
COVERAGES = st.sampled_from(["none", "gnmt", "summary", "tfa"])


def found(decoder, batch, options, *, eos, limits, **more):
    return search(
        decoder,
        decoder.prepare(batch),
        options,
        bos=BOS,
        eos=eos,
        max_length=torch.tensor(limits),
        alignment=True,
        source=source_of(batch),
        unk=1,
        **more,
    )


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    beam=st.integers(1, 5),
    limits=st.lists(st.integers(1, 7), min_size=2, max_size=2),
    options=settings_of_searches,
    coverage=COVERAGES,
    prefix=st.lists(st.integers(0, N - 2), max_size=2),
    data=st.data(),
)
def test_a_beam_that_keeps_finished_hypotheses_equals_a_plain_one(seed, beam, limits, options, coverage, prefix, data):
    decoder, batch, eos = attending(N, seed), sources(2, seed), N - 1
    options = Search(
        **{**options, "coverage_penalty": coverage},
        beam=beam,
        num_best=data.draw(st.integers(1, beam)),
        keep_finished=True,
    )
    rows = [Constraints(prefix=prefix[: limit - 1]) for limit in limits]
    results = found(decoder, batch, options, eos=eos, limits=limits, constraints=rows)
    for source, limit, row, hypotheses in zip(batch, limits, rows, results, strict=True):
        expected = Plain(decoder, source, eos, options, limit, constraints=row).kept()
        assert [(h.tokens.tolist(), h.stop_reason) for h in hypotheses] == [(t, stop) for t, _, stop in expected]
        assert [h.score for h in hypotheses] == pytest.approx([score for _, score, _ in expected], abs=1e-9)
    for ours, forced in zip(results, rescore(decoder, decoder.prepare(batch), results, bos=BOS), strict=True):
        for h, again in zip(ours, forced, strict=True):
            assert h.log_probability == pytest.approx(again.log_probability, abs=1e-9)
            torch.testing.assert_close(h.alignments["main"], again.alignments["main"])


@settings(max_examples=20, deadline=None)
@given(num_tokens=st.integers(2, 4), length=st.integers(1, 4), seed=st.integers(0, 10_000))
def test_a_beam_that_holds_all_outputs_is_exhaustive_search(num_tokens, length, seed):
    decoder, batch, eos = HistoryDecoder(num_tokens, seed), sources(2, seed), num_tokens - 1
    width = sum((num_tokens - 1) ** t for t in range(length + 1))
    options = Search(beam=width, num_best=width, length_penalty="none", keep_finished=True)
    results = search(decoder, decoder.prepare(batch), options, bos=BOS, eos=eos, max_length=length)
    for source, hypotheses in zip(batch, results, strict=True):
        expected = sorted(outputs(decoder, source, eos, length), key=lambda output: -output[1])
        assert [h.tokens.tolist() for h in hypotheses] == [tokens for tokens, _ in expected]
        assert [h.score for h in hypotheses] == pytest.approx([total for _, total in expected], abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    beam=st.integers(1, 5),
    width=st.integers(1, 6),
    num_tokens=st.integers(2, 6),
    coverage=COVERAGES,
    length_penalty=st.sampled_from(["none", "average", "gnmt"]),
)
def test_the_next_beam_is_the_best_of_the_scores_of_all_tokens(seed, beam, width, num_tokens, coverage, length_penalty):
    torch.manual_seed(seed)
    said = torch.randn(3, beam, num_tokens, dtype=torch.float64).log_softmax(2)
    totals = torch.randn(3, beam, dtype=torch.float64) - 3
    totals = totals.masked_fill(torch.rand(3, beam) < 0.1, -math.inf)
    finished, lengths = torch.rand(3, beam) < 0.3, torch.randint(1, 9, (3, beam))
    weights = torch.rand(3, beam, 4, dtype=torch.float64) * 2
    penalty = penalty_of(Search(coverage_penalty=coverage, length_penalty=length_penalty))
    arguments = (said, totals, finished, lengths, penalty)
    beams = expand(*arguments, width=width, eos=1, weights=weights)
    scores = all_scores(*arguments, eos=1, weights=weights).flatten(1)
    expected = torch.nn.functional.pad(scores, (0, width), value=-math.inf).topk(width)
    torch.testing.assert_close(beams.scores, expected.values)
    real = beams.scores > -math.inf
    assert torch.equal((beams.parents * num_tokens + beams.tokens)[real], expected.indices[real])


def test_a_beam_wider_than_the_vocabulary_fills_up_with_hypotheses_that_do_not_exist():
    said = torch.randn(1, 8, 5).log_softmax(2)
    totals = torch.tensor([[0.0] + [-math.inf] * 7])
    beams = expand(said, totals, totals == -math.inf, torch.zeros(1, 8, dtype=torch.long), NoPenalty(), width=8, eos=0)
    assert sorted(beams.tokens[0, :5].tolist()) == [0, 1, 2, 3, 4]
    assert beams.parents[0, :5].tolist() == [0] * 5
    assert beams.lengths.tolist() == [[1] * 5 + [0] * 3]
    assert (beams.totals[0, 5:] == -math.inf).all()
    one = expand(said[..., :1], totals, totals == -math.inf, torch.zeros(1, 8), NoPenalty(), width=8, eos=0)
    assert (one.scores > -math.inf).sum() == 1


def test_search_ends_when_the_whole_beam_has_finished_and_not_before():
    """The best output is the fourth to end; a beam of two ends before it is found, one of three does not."""
    table = torch.tensor([[0.02, 0.5, 0.48], [0.02, 0.06, 0.92], [0.02, 0.9, 0.08]]).log()

    class Chain:
        def initial_state(self, memory, num_hypotheses=1):
            return torch.zeros(len(memory) * num_hypotheses, 1)

        def step(self, inputs, memory, state, *, alignment=False, generator=None):
            from regard.models.contract import DecoderOutput

            return DecoderOutput(log_probabilities=table[inputs]), state

    def run(beam):
        options = Search(beam=beam, num_best=beam, length_penalty="none", keep_finished=True)
        (hypotheses,) = search(Chain(), torch.zeros(1, 1), options, bos=0, eos=2, max_length=10)
        return [h.tokens.tolist() for h in hypotheses]

    assert run(1) == [[1, 2]]
    assert run(2) == [[2], [1, 2]]
    assert run(3) == [[2], [1, 2], [1, 1, 2]]


def test_a_stream_of_such_a_beam_is_its_first_hypothesis():
    decoder, batch = attending(N, 5), sources(3, 5)
    options = Search(beam=3, keep_finished=True)
    told = {"bos": BOS, "eos": N - 1, "max_length": 8, "alignment": True, "source": source_of(batch)}
    whole = search(decoder, decoder.prepare(batch), options, **told)
    said = {b: [] for b in range(3)}
    for increment in stream(decoder, decoder.prepare(batch), options, **told):
        said[increment.sentence] += increment.tokens.tolist()
    assert [said[b] for b in range(3)] == [hypotheses[0].tokens.tolist() for hypotheses in whole]


def test_phrases_to_include_are_refused_with_the_reason():
    decoder, batch = HistoryDecoder(N, 1), sources(1, 1)
    with pytest.raises(ConfigError, match="include of sentence 0 needs a beam whose places are shared among phrases"):
        search(
            decoder,
            decoder.prepare(batch),
            Search(keep_finished=True),
            bos=BOS,
            eos=N - 1,
            max_length=5,
            constraints=[Constraints(include=[[1]])],
        )


def test_a_coverage_penalty_of_tfa_does_not_need_a_mask_but_a_source():
    decoder, batch = attending(N, 2), sources(1, 2)
    told = {"bos": BOS, "eos": N - 1, "max_length": 5}
    options = Search(keep_finished=True, coverage_penalty="tfa")
    assert search(decoder, decoder.prepare(batch), options, source=SearchSource(), **told)
    with pytest.raises(ConfigError, match="needs to know which source positions are real"):
        search(decoder, decoder.prepare(batch), options, **told)
