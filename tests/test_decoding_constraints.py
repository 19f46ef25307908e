"""Options of searches one by one: each changes something, each is refused where nothing reads it."""

from __future__ import annotations

import math

import pytest
import torch

from decoders import BOS, Altered, HistoryDecoder, sources
from plain_search import contains
from regard.decoding import (
    AttentionStop,
    Candidates,
    Constraints,
    CoveragePenalty,
    EosThreshold,
    GnmtPenalty,
    NoPenalty,
    RepetitionPenalty,
    Search,
    SearchSource,
    SearchState,
    UnknownPenalty,
    rescore,
    search,
)
from regard.decoding.banks import allocate
from regard.errors import ConfigError, RegardError, ShapeError
from test_decoding_options import attending, run, same, source_of

torch.set_num_threads(1)
EOS = 5
WIDE = {"beam": 4, "num_best": 2}


def texts(found):
    return [[h.tokens.tolist() for h in hypotheses] for hypotheses in found]


@pytest.mark.parametrize(
    ("base", "change"),
    [
        (WIDE, {"repetition_penalty": 1.5}),
        (WIDE, {"unknown_penalty": 2.0}),
        (WIDE, {"unknown_penalty": 1000.0}),
        (WIDE, {"eos_threshold": 1.5}),
        (WIDE, {"attention_stop": 1}),
        (WIDE, {"attention_stop": 2}),
        (WIDE, {"coverage_penalty": "gnmt", "beta": 1.0}),
        (WIDE, {"coverage_penalty": "summary"}),
        ({**WIDE, "coverage_penalty": "summary"}, {"beta": 3.0}),
        (WIDE, {"num_groups": 2}),
        ({**WIDE, "num_groups": 4, "num_best": 4}, {"diversity": 5.0}),
        (WIDE, {"stop": "first"}),
        (WIDE, {"stop": "patience"}),
        ({"beam": 4, "stop": "patience", "length_penalty": "average"}, {"patience": 0.25}),
        (WIDE, {"no_repeat_ngram_size": 1}),
    ],
    ids=str,
)
def test_an_option_equals_the_plain_search_and_changes_what_is_found(base, change):
    changed = 0
    for seed in range(5):
        decoder, batch = attending(6, seed, scale=1.0), sources(3, seed, longest=4)
        told = {"eos": EOS, "limits": [7, 5, 6], "min_length": [2, 0, 3]}
        ours = same(decoder, batch, Search(**{**base, **change}), **told)
        changed += texts(ours) != texts(same(decoder, batch, Search(**base), **told))
    assert changed


@pytest.mark.parametrize("beam", [1, 4])
def test_a_minimum_length_may_differ_by_sentence_and_the_options_one_is_the_least(beam):
    decoder, batch = attending(6, 5, scale=4.0), sources(4, 2)
    found = run(
        decoder, batch, Search(beam=beam, min_length=2), eos=EOS, limits=[9] * 4, min_length=torch.tensor([0, 3, 5, 2])
    )
    shortest = [min(len(h.tokens) - 1 for h in hypotheses) for hypotheses in found]
    assert all(length >= least for length, least in zip(shortest, [2, 3, 5, 2], strict=True))
    assert beam == 1 or any(length == least for length, least in zip(shortest, [2, 3, 5, 2], strict=True))
    with pytest.raises(ShapeError, match=r"(?s)min_length must be an int or \(B=4,\) integers"):
        run(decoder, batch, Search(beam=beam), eos=EOS, limits=[9] * 4, min_length=torch.tensor([1.0]))


ASKED = [
    Constraints(prefix=[3, 1], include=[[2, 2], [0]], exclude=[[4]]),
    None,
    Constraints(include=[[1, 2, 3]]),
    Constraints(prefix=[2], exclude=[[0], [1, 1], [2, 3]]),
]


def kept(found, asked):
    for hypotheses, constraints in zip(found, asked, strict=True):
        assert hypotheses
        for h in hypotheses:
            tokens, constraints = h.tokens.tolist(), constraints or Constraints()
            assert tokens[: len(constraints.prefix)] == list(constraints.prefix)
            assert not any(contains(tokens, phrase) for phrase in constraints.exclude)
            assert h.stop_reason != "eos" or all(contains(tokens, phrase) for phrase in constraints.include)


@pytest.mark.parametrize("groups", [1, 2])
def test_constraints_of_a_sentence_are_kept_and_touch_no_other_sentence(groups):
    decoder, batch = attending(6, 3), sources(4, 3)
    options, told = Search(beam=6, num_best=3, num_groups=groups), {"eos": EOS, "limits": [12, 9, 9, 7]}
    found = run(decoder, batch, options, constraints=ASKED, **told)
    kept(found, ASKED)
    assert {h.stop_reason for hypotheses in found for h in hypotheses[:1]} == {"eos"}
    alone = run(decoder, batch[1:2], options, eos=EOS, limits=[9])
    assert texts(found)[1] == texts(alone)[0]
    assert texts(found) != texts(run(decoder, batch, options, **told))
    for ours, forced in zip(found, rescore(decoder, decoder.prepare(batch), found, bos=BOS), strict=True):
        assert [h.log_probability for h in ours] == pytest.approx([h.log_probability for h in forced])


def test_samples_and_greedy_search_keep_prefixes_and_exclusions():
    decoder, batch = attending(6, 3), sources(4, 3)
    asked = [None if c is None else Constraints(c.prefix, (), c.exclude) for c in ASKED]
    for options in (Search(method="sampling", num_best=50, seed=1), Search(beam=1)):
        found = run(decoder, batch, options, eos=EOS, limits=[9] * 4, constraints=asked)
        kept(found, asked)
    drawn = search(
        decoder,
        decoder.prepare(batch),
        Search(method="sampling", num_best=50, seed=1, unknown_penalty=1000.0),
        bos=BOS,
        eos=EOS,
        max_length=9,
        unk=2,
    )
    assert 2 not in {token for hypotheses in drawn for h in hypotheses for token in h.tokens.tolist()}


def test_the_emptiest_bank_has_a_place_and_so_has_the_fullest():
    totals = torch.tensor([[-1.0, -2.0, -3.0, -4.0, -5.0, -math.inf], [-6.0, -5.0, -4.0, -3.0, -2.0, -1.0]])
    bank = torch.tensor([[0, 0, 0, 1, 2, 3], [0, 0, 0, 0, 0, 0]])
    assert allocate(totals, bank, 3).tolist() == [[0, 3, 4], [5, 4, 3]]
    assert allocate(totals, bank, 2).tolist() == [[3, 4], [5, 4]]
    assert allocate(totals, bank, 5).tolist() == [[0, 1, 2, 3, 4], [5, 4, 3, 2, 1]]


def test_a_phrase_that_the_model_finds_improbable_is_said_and_costs_what_the_model_says():
    def change(said, step):
        said = said.clone()
        said[:, 2] = -30.0
        return said

    decoder, batch = Altered(HistoryDecoder(6, 1), change), sources(2)
    options = Search(beam=3, length_penalty="none")
    told = {"bos": BOS, "eos": EOS, "max_length": 8}
    found = search(decoder, decoder.prepare(batch), options, constraints=[Constraints(include=[[2, 2]]), None], **told)
    assert contains(found[0][0].tokens.tolist(), [2, 2])
    assert found[0][0].log_probability < -60 < found[1][0].log_probability


def test_the_first_group_is_a_beam_search_and_groups_return_nothing_twice():
    counts = {0.0: 0, 0.5: 0, 5.0: 0}
    for seed in range(6):
        decoder, batch = attending(6, seed), sources(3, seed)
        told = {"eos": EOS, "limits": [7, 7, 7]}
        alone = texts(run(decoder, batch, Search(beam=2, num_best=2), **told))
        for diversity in counts:
            options = Search(beam=6, num_groups=3, num_best=6, diversity=diversity)
            for first, every in zip(alone, texts(run(decoder, batch, options, **told)), strict=True):
                assert all(tokens in every for tokens in first)
                assert len({tuple(tokens) for tokens in every}) == len(every)
                counts[diversity] += len(every)
    assert counts[0.0] == 6 * 3 * 2 < counts[0.5] < counts[5.0]


def test_a_stop_criterion_saves_steps():
    steps = {}
    for name, options in {
        "first": {"stop": "first"},
        "patience 1": {"stop": "patience"},
        "patience 4": {"stop": "patience", "patience": 4.0},
    }.items():
        steps[name] = 0

        def count(said, step, name=name):
            steps[name] += len(said)
            return said

        for seed in range(5):
            decoder = Altered(HistoryDecoder(8, seed, scale=1.5), count)
            memory = decoder.prepare(sources(4, seed))
            search(decoder, memory, Search(beam=4, length_penalty="average", **options), bos=BOS, eos=7, max_length=20)
    assert steps["first"] < steps["patience 1"] < steps["patience 4"]


@pytest.mark.parametrize("kind", ["gnmt", "summary"])
def test_the_bound_of_a_coverage_penalty_never_changes_a_result_and_saves_steps(kind):
    class Late(CoveragePenalty):
        def bound(self, log_probability, length, max_length):
            return torch.full_like(log_probability, math.inf)

    steps = {"early": 0, "late": 0}
    for seed in range(6):
        batch = sources(4, seed)
        results = {}
        for name, penalty in (("early", CoveragePenalty), ("late", Late)):

            def count(said, step, name=name):
                steps[name] += 1
                return said

            decoder = Altered(HistoryDecoder(6, seed, scale=2.5), count)
            decoder.main_attention = "main"
            told = {"bos": BOS, "eos": EOS, "max_length": 12, "source": source_of(batch)}
            found = search(
                decoder,
                decoder.prepare(batch),
                Search(beam=3, num_best=2),
                penalty=penalty(GnmtPenalty(), kind, 0.3),
                **told,
            )
            results[name] = texts(found)
        assert results["early"] == results["late"]
    assert steps["early"] < steps["late"]


@pytest.mark.parametrize("beam", [1, 4])
def test_a_penalty_of_the_callers_ranks_beside_the_coverage_penalty_of_the_options(beam):
    batch = sources(3, 2)
    decoder = HistoryDecoder(6, 2)
    decoder.main_attention = "main"
    told = {"bos": BOS, "eos": EOS, "max_length": 8, "source": source_of(batch)}
    scores = []
    for options, penalty in (
        ({"coverage_penalty": "summary", "length_penalty": "none"}, None),
        ({"coverage_penalty": "summary"}, NoPenalty()),
        ({}, NoPenalty()),
    ):
        found = search(decoder, decoder.prepare(batch), Search(beam=beam, **options), penalty=penalty, **told)
        scores.append([h.score for ranked in found for h in ranked])
    assert scores[0] == scores[1] != scores[2]


def test_coverage_counts_real_positions_only_and_stays_finite_where_there_is_no_weight():
    weights = torch.tensor([[[0.5, 0.0, 2.0, 0.0], [1.0, 1.0, 1.0, 0.0]]], dtype=torch.float64)
    mask = torch.tensor([[[True, True, True, False]]])
    candidates = Candidates(torch.zeros(1, 2, dtype=torch.float64), 3, weights=weights, mask=mask)
    gnmt = CoveragePenalty(NoPenalty(), "gnmt", 2.0).score(candidates)
    torch.testing.assert_close(gnmt, torch.tensor([[2 * (math.log(0.5) + math.log(1e-9)), 0.0]], dtype=torch.float64))
    summary = CoveragePenalty(NoPenalty(), "summary", 2.0).score(candidates)
    torch.testing.assert_close(summary, torch.tensor([[-2.0, 0.0]], dtype=torch.float64))


def state(log_probabilities, tokens, **more):
    rows = len(tokens)
    return SearchState(
        torch.tensor(tokens),
        log_probabilities,
        torch.arange(rows),
        torch.zeros(rows, dtype=torch.bool),
        more.pop("may_end", torch.ones(rows, dtype=torch.bool)),
        eos=2,
        **more,
    )


def test_a_repeated_token_never_becomes_more_probable():
    said = torch.tensor([[0.6, 0.3, 0.1]]).log()
    changed = RepetitionPenalty(2.0)(said, state(said, [[0, 0]]))
    torch.testing.assert_close(changed.exp(), torch.tensor([[0.36, 0.3, 0.1]]))
    with pytest.raises(ConfigError, match=r"RepetitionPenalty\(strength=0.5\): below 1 it would favour repetition"):
        RepetitionPenalty(0.5)


def test_the_end_is_admitted_above_its_threshold_only():
    said = torch.tensor([[0.6, 0.1, 0.3], [0.6, 0.25, 0.15], [0.2, 0.2, 0.6]]).log()
    changed = EosThreshold(3.0)(said, state(said, [[0], [0], [0]]))  # log 0.6 * 3 = log 0.216
    assert changed[:, 2].isinf().tolist() == [False, True, False]
    torch.testing.assert_close(changed[:, :2], said[:, :2])


def test_attention_that_stays_at_the_last_position_ends_what_may_end():
    said = torch.tensor([[0.6, 0.3, 0.1]]).log().expand(4, 3)
    mask = torch.tensor([[True, True, True], [True, True, False], [True, True, True], [True, True, True]])
    told = {
        "peaks": torch.tensor([[0, 2, 2], [2, 1, 1], [2, 1, 2], [2, 2, 2]]),
        "weights": torch.zeros(4, 3),
        "source": SearchSource(mask=mask),
        "may_end": torch.tensor([True, True, True, False]),
    }
    changed = AttentionStop(2)(said, state(said, [[0, 0]] * 4, **told))
    assert changed.isinf().tolist() == [[True, True, False], [True, True, False], [False] * 3, [False] * 3]
    assert torch.equal(changed[:2, 2], said[:2, 2])
    assert AttentionStop(4)(said, state(said, [[0, 0]] * 4, **told)) is said


@pytest.mark.parametrize(
    ("constraints", "limit", "message"),
    [
        ([None], 5, r"constraints: give one for each sentence, B=2; got 1"),
        ([None, Constraints(prefix=[1, EOS])], 5, "prefix of sentence 1 has the end of sentence, 5"),
        ([Constraints(exclude=[[EOS]]), None], 5, "exclude of sentence 0 has the end of sentence"),
        ([Constraints(include=[[1, 2, 3]]), None], 3, r"include of sentence 0 has 3 tokens, .* within max_length=3"),
        ([Constraints(prefix=[1, 2, 3]), None], 3, r"prefix of sentence 0 has 3 tokens, .* within max_length=3"),
    ],
)
def test_constraints_that_cannot_be_kept_are_refused(constraints, limit, message):
    decoder = HistoryDecoder(6, 0)
    for options in (Search(), Search(beam=1), Search(method="sampling")):
        with pytest.raises(ConfigError, match=message):
            search(
                decoder,
                decoder.prepare(sources(2)),
                options,
                bos=BOS,
                eos=EOS,
                max_length=limit,
                constraints=constraints,
            )


def test_phrases_of_nothing_and_words_in_place_of_ids_are_refused():
    with pytest.raises(ConfigError, match="include has an empty phrase"):
        Constraints(include=[[]])
    with pytest.raises(ConfigError, match="'Haus' is not the id of a token"):
        Constraints(exclude=[["Haus"]])
    with pytest.raises(ConfigError, match="-1 is not the id"):
        Constraints(prefix=[-1])


@pytest.mark.parametrize("name", ["prefix", "include", "exclude"])
@pytest.mark.parametrize(
    "options", [Search(), Search(beam=1), Search(method="sampling")], ids=["beam", "greedy", "draw"]
)
def test_ids_beyond_the_vocabulary_are_refused(name, options):
    if name == "include" and (options.beam == 1 or options.method == "sampling"):
        pytest.skip("refused for another reason")
    decoder, tokens = HistoryDecoder(6, 0), [6]
    constraints = [Constraints(**{name: tokens if name == "prefix" else [tokens]})]
    told = {"bos": BOS, "eos": EOS, "max_length": 4, "constraints": constraints}
    with pytest.raises(RegardError, match=r"6 is not a token: the decoder has N=6 tokens"):
        search(decoder, decoder.prepare(sources(1)), options, **told)


def test_what_a_search_cannot_do_is_refused():
    decoder = HistoryDecoder(6, 0)
    memory, told = decoder.prepare(sources(2)), {"bos": BOS, "eos": EOS, "max_length": 4}
    include = [Constraints(include=[[1]]), None]
    with pytest.raises(ConfigError, match=r"include of sentence 0 needs a beam of at least 2; greedy search"):
        search(decoder, memory, Search(beam=1), constraints=include, **told)
    with pytest.raises(ConfigError, match=r"include of sentence 0 needs a beam of at least 2; samples"):
        search(decoder, memory, Search(method="sampling"), constraints=include, **told)
    for beam in (1, 3):
        with pytest.raises(ConfigError, match=r"unknown_penalty needs the id of the unknown token: search\(unk=...\)"):
            search(decoder, memory, Search(beam=beam, unknown_penalty=1.0), **told)
        with pytest.raises(ConfigError, match="coverage penalty needs to know which source positions are real"):
            search(decoder, memory, Search(beam=beam, coverage_penalty="gnmt"), **told)
        with pytest.raises(ConfigError, match="attention_stop needs to know the last position of a source"):
            search(decoder, memory, Search(beam=beam, attention_stop=1), **told)
    with pytest.raises(RegardError, match="unk=9 is not a token: the decoder has N=6"):
        search(decoder, memory, Search(unknown_penalty=1.0), unk=9, **told)
    with pytest.raises(RegardError, match="unk=-1 is not a token"):
        UnknownPenalty(-1, 1.0)(torch.zeros(1, 3), state(torch.zeros(1, 3), [[0]]))


@pytest.mark.parametrize(
    ("values", "name", "message"),
    [
        ({"beta": 0.5}, "beta", "beta is 0.5, but it is not read where coverage_penalty is none"),
        ({"diversity": 0.1}, "diversity", "diversity is 0.1, but it is not read where num_groups is 1"),
        ({"patience": 2.0}, "patience", "patience is 2, but it is not read where stop is optimal"),
        ({"stop": "first", "patience": 2.0}, "patience", "patience is 2, but it is not read where stop is first"),
        (
            {"num_groups": 2},
            "num_groups",
            "num_groups is 2, but the groups have equal shares of the beam; give beam a multiple",
        ),
        ({"beam": 1, "num_groups": 2}, "num_groups", "num_groups is 2, but the groups have equal shares of the beam"),
        ({"beam": 1, "stop": "first"}, "stop", "stop is first, but greedy search"),
        ({"method": "sampling", "stop": "first"}, "stop", "stop is first, but only method beam reads it"),
        ({"method": "sampling", "coverage_penalty": "gnmt"}, "coverage_penalty", "only method beam reads it"),
        ({"method": "sampling", "num_groups": 2}, "num_groups", "only method beam reads it"),
        ({"repetition_penalty": 0.9}, "repetition_penalty", "repetition_penalty=0.9: expected a number of at least 1"),
        ({"unknown_penalty": math.inf}, "unknown_penalty", "unknown_penalty=inf: expected a number of at least 0"),
        ({"eos_threshold": 0.0}, "eos_threshold", "eos_threshold=0.0: expected a number above 0, or null"),
        ({"attention_stop": 0}, "attention_stop", "attention_stop=0: expected a whole number of at least 1, or null"),
        ({"patience": 0.0}, "patience", "patience=0.0: expected a number above 0"),
        ({"stop": "never"}, "stop", "stop='never': expected one of optimal, first, patience"),
    ],
    ids=str,
)
def test_options_that_nothing_reads_are_refused_by_name(values, name, message):
    with pytest.raises(ConfigError) as caught:
        Search(**values)
    assert message in str(caught.value)
    assert caught.value.path == ("decoding", name)
