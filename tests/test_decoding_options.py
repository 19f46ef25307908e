"""Every option of a search equals a plain search of one sentence, alone and combined with the others."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from decoders import BOS, Altered, HistoryDecoder, outputs, sources
from plain_search import Plain, contains
from regard.decoding import Constraints, Search, SearchSource, rescore, search

torch.set_num_threads(1)
N = 6


def source_of(batch):
    width = max(map(len, batch))
    return SearchSource(mask=torch.tensor([[j < len(source) for j in range(width)] for source in batch]))


def run(decoder, batch, options, *, eos, limits, alignment=True, **more):
    return search(
        decoder,
        decoder.prepare(batch),
        options,
        bos=BOS,
        eos=eos,
        max_length=torch.tensor(limits),
        alignment=alignment,
        source=source_of(batch),
        **more,
    )


def same(decoder, batch, options, *, eos, limits, min_length=None, constraints=None, unk=1):
    """Asserts that a batched search is the plain one of each sentence; returns what was found."""
    found = run(
        decoder,
        batch,
        options,
        eos=eos,
        limits=limits,
        min_length=None if min_length is None else torch.tensor(min_length),
        constraints=constraints,
        unk=unk,
    )
    for b, hypotheses in enumerate(found):
        plain = Plain(decoder, batch[b], eos, options, limits[b], unk=unk)
        plain = replace(
            plain,
            min_length=0 if min_length is None else min_length[b],
            constraints=constraints[b] if constraints else Constraints(),
        )
        expected = plain.greedy() if options.beam == 1 else plain.beam()
        assert [(h.tokens.tolist(), h.stop_reason) for h in hypotheses] == [(t, stop) for t, _, stop in expected]
        assert [h.score for h in hypotheses] == pytest.approx([value for _, value, _ in expected], abs=1e-9)
    for ours, forced in zip(found, rescore(decoder, decoder.prepare(batch), found, bos=BOS), strict=True):
        for h, again in zip(ours, forced, strict=True):
            assert h.log_probability == pytest.approx(again.log_probability, abs=1e-9)
            torch.testing.assert_close(h.alignments["main"], again.alignments["main"])
    return found


def attending(num_tokens, seed, *, scale=2.0, ties=False):
    """A decoder whose alignments a search can name; with ties, its log-probabilities are multiples of a half."""
    decoder = HistoryDecoder(num_tokens, seed, scale=scale)
    decoder = Altered(decoder, lambda said, step: (said * 2).floor() / 2 if ties else said)
    decoder.main_attention = "main"
    return decoder


phrase = st.lists(st.integers(0, N - 2), min_size=1, max_size=3)
constraint = st.builds(
    Constraints,
    prefix=st.one_of(st.just([]), st.lists(st.integers(0, N - 2), max_size=2)),
    include=st.one_of(st.just([]), st.lists(phrase, max_size=2)),
    exclude=st.one_of(st.just([]), st.lists(phrase, max_size=2)),
)
settings_of_searches = st.fixed_dictionaries(
    {
        "no_repeat_ngram_size": st.sampled_from([0, 0, 1, 2]),
        "repetition_penalty": st.sampled_from([1.0, 1.0, 1.5]),
        "unknown_penalty": st.sampled_from([0.0, 0.0, 1.0, 1000.0]),
        "eos_threshold": st.sampled_from([None, None, 1.0, 1.5]),
        "attention_stop": st.sampled_from([None, None, 1, 2]),
        "length_penalty": st.sampled_from(["none", "average", "gnmt", "power"]),
        "coverage_penalty": st.sampled_from(["none", "gnmt", "summary"]),
        "min_length": st.integers(0, 3),
    }
)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    shape=st.sampled_from([(2, 1), (3, 1), (4, 2), (6, 3), (3, 3), (5, 1)]),
    num_best=st.integers(1, 4),
    stop=st.sampled_from(["optimal", "first", "patience", "top", "full"]),
    limits=st.lists(st.integers(4, 7), min_size=2, max_size=2),
    options=settings_of_searches,
    constraints=st.one_of(st.none(), st.lists(constraint, min_size=2, max_size=2)),
    minimum=st.one_of(st.none(), st.lists(st.integers(0, 4), min_size=2, max_size=2)),
    ties=st.booleans(),
)
def test_options_and_their_combinations_equal_a_plain_beam(
    seed, shape, num_best, stop, limits, options, constraints, minimum, ties
):
    beam, groups = shape
    if options["length_penalty"] != "none":
        options = {**options, "length_counts_begin": seed % 2 == 0}
    if ties:
        options = {**options, "length_penalty": "none", "coverage_penalty": "none", "length_counts_begin": False}
    whole = Search(beam=beam, num_groups=groups, num_best=num_best, stop=stop, **options)
    decoder, batch = attending(N, seed, ties=ties), sources(2, seed, longest=3)
    same(decoder, batch, whole, eos=N - 1, limits=limits, min_length=minimum, constraints=constraints)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    limits=st.lists(st.integers(3, 7), min_size=3, max_size=3),
    options=settings_of_searches,
    constraints=st.one_of(
        st.none(), st.lists(constraint.map(lambda c: replace(c, include=[])), min_size=3, max_size=3)
    ),
    minimum=st.one_of(st.none(), st.lists(st.integers(0, 4), min_size=3, max_size=3)),
)
def test_options_and_their_combinations_equal_a_plain_greedy_search(seed, limits, options, constraints, minimum):
    decoder, batch = attending(N, seed), sources(3, seed, longest=3)
    whole = Search(beam=1, **options)
    same(decoder, batch, whole, eos=N - 1, limits=limits, min_length=minimum, constraints=constraints)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    num_tokens=st.integers(3, 4),
    penalty=st.sampled_from(["none", "average", "gnmt"]),
    coverage=st.sampled_from(["none", "gnmt", "summary"]),
    data=st.data(),
)
def test_a_beam_wide_enough_finds_the_best_of_all_outputs_that_keep_the_constraints(
    seed, num_tokens, penalty, coverage, data
):
    eos, length = num_tokens - 1, 4
    short = st.lists(st.integers(0, num_tokens - 2), min_size=1, max_size=2)
    constraints = [
        Constraints(
            prefix=data.draw(st.lists(st.integers(0, num_tokens - 2), max_size=1)),
            include=data.draw(st.lists(short, max_size=2)),
            exclude=data.draw(st.lists(short, max_size=1)),
        )
        for _ in range(2)
    ]
    decoder, batch = attending(num_tokens, seed), sources(2, seed, longest=3)
    beam = num_tokens * (num_tokens - 1) ** (length - 1)
    options = Search(beam=beam, num_best=5, length_penalty=penalty, coverage_penalty=coverage)
    found = run(decoder, batch, options, eos=eos, limits=[length, length], constraints=constraints)
    for b, hypotheses in enumerate(found):
        plain, asked = Plain(decoder, batch[b], eos, options, length), constraints[b]
        every = [
            (-plain.score(total, tokens), tokens)
            for tokens, total in outputs(decoder, batch[b], eos, length)
            if tokens[-1] == eos
            and tokens[: len(asked.prefix)] == asked.prefix
            and all(contains(tokens, phrase) for phrase in asked.include)
            and not any(contains(tokens[len(asked.prefix) :], phrase) for phrase in asked.exclude)
        ]
        crossing = [
            phrase
            for phrase in asked.exclude
            if contains([*asked.prefix, phrase[-1]], phrase) or contains(asked.prefix, phrase)
        ]
        every = [
            (value, tokens)
            for value, tokens in every
            if not any(contains(tokens[max(len(asked.prefix) - len(p) + 1, 0) :], p) for p in crossing)
        ]
        best = sorted(every)[:5]
        ended = [h for h in hypotheses if h.stop_reason == "eos"]
        assert [h.tokens.tolist() for h in ended] == [tokens for _, tokens in best]
        assert [h.score for h in ended] == pytest.approx([-value for value, _ in best], abs=1e-9)
