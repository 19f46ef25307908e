from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from decoders import BOS, HistoryDecoder, outputs, sources
from regard.decoding import Search, minimum_bayes_risk, rescore, search, utilities
from regard.errors import ConfigError, ShapeError
from regard.metrics.edit_distance import edit_distance

torch.set_num_threads(1)
NAMES = ["chrf", "bleu", "exact_match", "edit_distance"]
ARGUMENTS = {"bos": BOS, "eos": 4, "max_length": 6}


def ngrams(output, n):
    return Counter(tuple(output[i : i + n]) for i in range(len(output) - n + 1))


def utility_in_plain_python(name, output, right):
    """The definitions, for one pair, with counters."""
    if name == "exact_match":
        return float(output == right)
    if name == "edit_distance":
        return -edit_distance(output, right)
    if name == "chrf":
        output, right = (("".join(each.split()) if isinstance(each, str) else each) for each in (output, right))
    if not output and not right:
        return 1.0
    if name == "chrf":
        shares = []
        for n in range(1, 7):
            ours, theirs = ngrams(output, n), ngrams(right, n)
            if ours and theirs:
                both = (ours & theirs).total()
                shares.append((both / ours.total(), both / theirs.total()))
        precision = sum(p for p, _ in shares) / max(len(shares), 1)
        recall = sum(r for _, r in shares) / max(len(shares), 1)
        return 5 * precision * recall / (4 * precision + recall) if precision + recall else 0.0
    logs, misses, hits = [], 0, 0
    for n in range(1, 5):
        ours = ngrams(output, n)
        both = (ours & ngrams(right, n)).total()
        hits += both
        if ours:
            misses += not both
            logs.append(math.log((both or 0.5**misses) / ours.total()))
    brevity = min(1 - len(right) / len(output), 0) if output else 0
    return math.exp(sum(logs) / len(logs) + brevity) if hits else 0.0


texts = st.text(alphabet="ab c", max_size=9) | st.text(alphabet="abcde", min_size=60, max_size=140)
symbols = st.lists(st.integers(0, 3), max_size=9) | st.lists(st.integers(0, 9), min_size=60, max_size=140)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(texts, max_size=4) | st.lists(symbols, max_size=4), max_size=3))
@pytest.mark.parametrize("name", NAMES)
def test_utilities_of_all_pairs_are_those_of_each_pair(name, sentences):
    found = utilities(name, sentences)
    assert len(found) == len(sentences)
    for outputs_of, matrix in zip(sentences, found, strict=True):
        expected = [[utility_in_plain_python(name, ours, right) for right in outputs_of] for ours in outputs_of]
        np.testing.assert_allclose(matrix, np.array(expected).reshape(len(outputs_of), len(outputs_of)), atol=1e-12)


def test_chrf_and_bleu_are_those_of_sacrebleu():
    metrics = pytest.importorskip("sacrebleu.metrics")
    chrf, bleu = metrics.CHRF(), metrics.BLEU(effective_order=True, tokenize="none", force=True)
    given = ["the cat sat on the mat", "a cat sat there", "the mat", "dogs", "the the the cat", "on a mat sat the cat"]
    for name, scorer, shown in (("chrf", chrf, given), ("bleu", bleu, [text.split() for text in given])):
        (matrix,) = utilities(name, [shown])
        for c, output in enumerate(given):
            for r, right in enumerate(given):
                assert matrix[c, r] == pytest.approx(scorer.sentence_score(output, [right]).score / 100)


def expected_in_plain_python(candidates, references, utility):
    """(mean utility, tokens) of each distinct candidate, best first."""

    def symbols_of(h):
        tokens = tuple(h.tokens.tolist())
        return tokens[:-1] if h.stop_reason == "eos" else tokens

    best = {}
    for h in candidates:
        if symbols_of(h) not in best or h.log_probability > best[symbols_of(h)].log_probability:
            best[symbols_of(h)] = h
    means = [
        (sum(utility(tokens, symbols_of(r)) for r in references) / len(references), h) for tokens, h in best.items()
    ]
    return sorted(means, key=lambda each: (-each[0], -each[1].log_probability))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_the_search_is_the_mean_over_its_own_samples_in_plain_python(name, scale):
    decoder, batch = HistoryDecoder(5, 3, scale=scale), sources(4)
    memory = decoder.prepare(batch)
    options = Search(method="mbr", num_samples=25, num_best=3, utility=name, seed=2)
    found = search(decoder, memory, options, alignment=True, **ARGUMENTS)
    drawn = search(decoder, memory, Search(method="sampling", num_best=25, seed=2), **ARGUMENTS)
    assert any(len({tuple(h.tokens.tolist()) for h in samples}) < 25 for samples in drawn)
    forced = rescore(decoder, memory, found, bos=BOS)
    for ours, samples, checked in zip(found, drawn, forced, strict=True):
        expected = expected_in_plain_python(samples, samples, lambda c, r: utility_in_plain_python(name, c, r))[:3]
        assert [h.score for h in ours] == pytest.approx([mean for mean, _ in expected])
        for h, again, (mean, best) in zip(ours, checked, expected, strict=True):
            if sum(abs(mean - other) < 1e-9 for other, _ in expected) == 1:
                assert h.tokens.tolist() == best.tokens.tolist()
            assert h.log_probability == pytest.approx(again.log_probability)
            torch.testing.assert_close(h.alignments["main"], again.alignments["main"])


def test_with_exact_match_it_is_the_most_probable_output_of_the_whole_model():
    """Where every output can be counted: the mode, which so many samples find with near certainty."""
    decoder, (source,) = HistoryDecoder(3, 2, scale=1.5), sources(1)
    most = max(outputs(decoder, source, 2, 3), key=lambda each: each[1])
    options = Search(method="mbr", num_samples=4000, utility="exact_match", seed=0)
    ((h,),) = search(decoder, decoder.prepare([source]), options, bos=BOS, eos=2, max_length=3)
    assert h.tokens.tolist() == most[0]
    assert h.score == pytest.approx(math.exp(most[1]), abs=5 * 0.5 / math.sqrt(4000))
    assert h.log_probability == pytest.approx(most[1])


def test_it_differs_from_the_most_probable_output_where_the_others_agree():
    decoder, seen = HistoryDecoder(5, 3, scale=1.0), set()
    memory = decoder.prepare(sources(30))
    options = Search(method="mbr", num_samples=60, utility="edit_distance", seed=0)
    found = search(decoder, memory, options, **ARGUMENTS)
    beams = search(decoder, memory, Search(beam=30, length_penalty="none"), **ARGUMENTS)
    seen = {ours[0].tokens.tolist() == best[0].tokens.tolist() for ours, best in zip(found, beams, strict=True)}
    assert seen == {True, False}


def test_a_sentence_alone_is_the_sentence_in_a_batch():
    decoder, batch = HistoryDecoder(5, 6), sources(5)
    options = Search(method="mbr", num_samples=12, seed=4)
    together = search(decoder, decoder.prepare(batch), options, **ARGUMENTS)
    for b, source in enumerate(batch):
        ((alone,),) = search(decoder, decoder.prepare([source]), options, items=torch.tensor([b]), **ARGUMENTS)
        assert alone.tokens.tolist() == together[b][0].tokens.tolist()
        assert alone.score == pytest.approx(together[b][0].score)


def test_hypotheses_of_a_beam_are_judged_by_samples():
    decoder = HistoryDecoder(5, 8, scale=1.0)
    memory = decoder.prepare(sources(3))
    beams = search(decoder, memory, Search(beam=6, num_best=6), **ARGUMENTS)
    drawn = search(decoder, memory, Search(method="sampling", num_best=40, seed=1), **ARGUMENTS)
    found = minimum_bayes_risk(beams, drawn, utility="edit_distance", num_best=6)
    for ours, candidates, samples in zip(found, beams, drawn, strict=True):
        expected = expected_in_plain_python(candidates, samples, lambda c, r: -edit_distance(c, r))
        assert [h.score for h in ours] == pytest.approx([mean for mean, _ in expected])
        assert {tuple(h.tokens.tolist()) for h in ours} <= {tuple(h.tokens.tolist()) for h in candidates}


def test_chrf_and_a_users_own_utility_see_texts_and_other_utilities_symbols():
    decoder, shown = HistoryDecoder(5, 3, scale=1.0), []
    memory = decoder.prepare(sources(2))

    def text(tokens):
        return "".join("aaab"[token] for token in tokens)

    def longest(candidates, references):
        shown.append((candidates, references))
        return np.array([[float(len(c)) for _ in references] for c in candidates])

    drawn = search(decoder, memory, Search(method="sampling", num_best=20, seed=1), **ARGUMENTS)
    for found, samples in zip(minimum_bayes_risk(drawn, text=text), drawn, strict=True):
        expected = expected_in_plain_python(
            samples, samples, lambda c, r: utility_in_plain_python("chrf", text(c), text(r))
        )
        assert found[0].score == pytest.approx(expected[0][0])
    by_symbols = minimum_bayes_risk(drawn, utility="exact_match", text=text)
    assert by_symbols[0][0].score == minimum_bayes_risk(drawn, utility="exact_match")[0][0].score
    for found, samples in zip(minimum_bayes_risk(drawn, utility=longest, text=text), drawn, strict=True):
        assert found[0].score == max(len(h.tokens) - (h.stop_reason == "eos") for h in samples)
    assert all(isinstance(each, str) for candidates, references in shown for each in (*candidates, *references))
    assert minimum_bayes_risk([[], []]) == [[], []]


def test_what_cannot_be_judged_is_refused():
    decoder = HistoryDecoder(5, 3)
    drawn = search(decoder, decoder.prepare(sources(2)), Search(method="sampling", num_best=3, seed=1), **ARGUMENTS)
    with pytest.raises(ShapeError, match="lists of equal length B; got 2 and 1"):
        minimum_bayes_risk(drawn, drawn[:1])
    with pytest.raises(ConfigError, match="Sentence 1 has candidates but no references"):
        minimum_bayes_risk(drawn, [drawn[0], []])
    with pytest.raises(ShapeError, match=r"\(candidates, references\) = \(\d, \d\); got \(1,\)"):
        minimum_bayes_risk(drawn, utility=lambda candidates, references: np.zeros(1))
    with pytest.raises(
        ConfigError, match="num_best is 9, but the outputs are chosen among num_samples samples; raise num_samples"
    ):
        Search(method="mbr", num_best=9, num_samples=8)
    with pytest.raises(ConfigError, match="utility is bleu, but only method mbr reads it, and method is sampling"):
        Search(method="sampling", utility="bleu")
