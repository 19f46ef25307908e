from __future__ import annotations

import math
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from decoders import BOS, HistoryDecoder, sources
from regard.decoding import Search, search
from regard.decoding.sampling import FEW, heated, keep_min_p, keep_top_p, keep_typical, truncated
from statistics_of_draws import FALSE_ALARM, improbable

torch.set_num_threads(1)


def kept_in_plain_python(probabilities, top_k=None, top_p=1.0, min_p=0.0, typical_p=1.0):
    """The tokens that the definitions keep, by sorting lists."""
    kept = [token for token, p in enumerate(probabilities) if p > 0]

    def fewest(order, mass):
        total, reached, chosen = sum(probabilities[token] for token in kept), 0.0, []
        for token in sorted(kept, key=order):
            chosen.append(token)
            reached += probabilities[token] / total
            if reached >= mass:
                break
        return sorted(chosen)

    if top_k is not None:
        kept = sorted(sorted(kept, key=lambda token: -probabilities[token])[:top_k])
    if top_p < 1:
        kept = fewest(lambda token: -probabilities[token], top_p)
    if min_p > 0:
        highest = max(probabilities[token] for token in kept)
        kept = [token for token in kept if probabilities[token] >= min_p * highest]
    if typical_p < 1:
        total = sum(probabilities[token] for token in kept)
        information = {token: -math.log(probabilities[token] / total) for token in kept}
        entropy = sum(probabilities[token] / total * information[token] for token in kept)
        kept = fewest(lambda token: abs(information[token] - entropy), typical_p)
    return kept


def drawn_rows(seed, rows, num_tokens, scale):
    draw = torch.Generator().manual_seed(seed)
    return (torch.randn(rows, num_tokens, generator=draw, dtype=torch.float64) * scale).log_softmax(1)


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    num_tokens=st.sampled_from([1, 2, 7, 40, FEW - 1, FEW, FEW + 1, 3 * FEW]),
    scale=st.sampled_from([0.01, 0.5, 2.0, 6.0]),
    top_k=st.sampled_from([None, None, 1, 2, 5, 30, 10**9]),
    top_p=st.sampled_from([1.0, 1.0, 1e-9, 0.3, 0.75, 0.999]),
    min_p=st.sampled_from([0.0, 0.0, 1e-6, 0.05, 0.5, 1.0]),
    typical_p=st.sampled_from([1.0, 1.0, 1e-9, 0.2, 0.8, 0.999]),
)
def test_truncations_keep_what_their_definitions_say(seed, num_tokens, scale, top_k, top_p, min_p, typical_p):
    rows = drawn_rows(seed, 4, num_tokens, scale)
    rows[:, seed % num_tokens] = -math.inf if num_tokens > 1 else 0.0
    found = truncated(rows, top_k, top_p, min_p, typical_p)
    for ours, row in zip(found, rows, strict=True):
        expected = kept_in_plain_python(row.exp().tolist(), top_k, top_p, min_p, typical_p)
        assert (ours > -math.inf).nonzero()[:, 0].tolist() == expected
        torch.testing.assert_close(ours[expected], row[expected], rtol=0, atol=0)


@pytest.mark.parametrize("keep", [keep_top_p, keep_typical])
def test_few_tokens_are_enough_in_some_rows_and_not_in_others(keep):
    flat, peaked = drawn_rows(0, 2, 5 * FEW, 0.1), drawn_rows(1, 2, 5 * FEW, 8.0)
    together = keep(torch.cat([flat, peaked]), 0.9)
    torch.testing.assert_close(together, torch.cat([keep(row[None], 0.9) for row in [*flat, *peaked]]), rtol=0, atol=0)
    counts = (together > -math.inf).sum(1)
    assert (counts[:2] > FEW).all()
    assert (counts[2:] < FEW).all()


def test_rows_without_a_possible_token_and_rows_with_nan_stay_as_they_are():
    impossible, broken = torch.full((1, 5), -math.inf), torch.full((1, 5), math.nan)
    for options in ({"top_k": 2}, {"top_p": 0.5}, {"min_p": 0.5}, {"typical_p": 0.5}):
        assert (truncated(impossible, **options) == -math.inf).all()
        assert truncated(broken, **options).isnan().any()


def test_the_most_probable_token_may_not_be_typical_and_is_always_above_min_p():
    row = torch.tensor([[0.4, 0.3, 0.15, 0.15]]).log()
    assert (keep_typical(row, 0.25) > -math.inf).tolist() == [[False, True, False, False]]
    assert (keep_min_p(row, 1.0) > -math.inf).tolist() == [[True, False, False, False]]


OPTIONS = [
    {"min_p": 0.2},
    {"typical_p": 0.6},
    {"top_k": 6, "min_p": 0.1},
    {"top_p": 0.9, "typical_p": 0.7},
    {"temperature": 1.8, "top_k": 7, "top_p": 0.95, "min_p": 0.05, "typical_p": 0.9},
]


@pytest.mark.parametrize("options", OPTIONS)
def test_draws_are_as_frequent_as_the_truncated_distribution_says(options):
    """A chi-squared test with a fixed seed; its false-alarm probability is FALSE_ALARM."""
    decoder, draws = HistoryDecoder(9, 7, scale=1.2), 4000
    memory = decoder.prepare(sources(1))
    model = decoder.forward(torch.tensor([[BOS]]), memory).log_probabilities[0, 0]
    drawing = Search(method="sampling", num_best=draws, seed=5, **options)
    (found,) = search(decoder, memory, drawing, bos=BOS, eos=8, max_length=1)
    cuts = {name: value for name, value in options.items() if name != "temperature"}
    hot = heated(model[None], options.get("temperature", 1.0))[0].softmax(0).tolist()
    kept = kept_in_plain_python(hot, **cuts)
    counts = Counter(h.tokens.tolist()[0] for h in found)
    assert set(counts) <= set(kept)
    assert 1 < len(kept) < 9
    total = sum(hot[token] for token in kept)
    assert not improbable([counts[token] for token in kept], [hot[token] / total for token in kept])
    untruncated = model.exp().tolist()
    assert improbable([counts[token] for token in range(9)], untruncated), "the options change nothing"
    for h in found[::400]:
        assert h.log_probability == pytest.approx(float(model[h.tokens[0]]))


def test_the_false_alarm_probability_is_what_is_said():
    assert FALSE_ALARM == 1e-6


@pytest.mark.parametrize("options", [{"min_p": 0.1}, {"typical_p": 0.7}])
def test_a_sentence_alone_has_the_samples_that_it_has_in_a_batch(options):
    decoder, batch = HistoryDecoder(8, 3), sources(4)
    drawing = Search(method="sampling", num_best=5, seed=9, **options)
    arguments = {"bos": BOS, "eos": 7, "max_length": 9}
    together = search(decoder, decoder.prepare(batch), drawing, **arguments)
    for b, source in enumerate(batch):
        (alone,) = search(decoder, decoder.prepare([source]), drawing, items=torch.tensor([b]), **arguments)
        assert [h.tokens.tolist() for h in alone] == [h.tokens.tolist() for h in together[b]]
