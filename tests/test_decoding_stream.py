from __future__ import annotations

import itertools

import pytest
import torch

from decoders import BOS, Altered, HistoryDecoder, sources, without
from regard.decoding import Search, search, stream
from regard.errors import ConfigError, RegardError

torch.set_num_threads(1)
EOS = 4
ARGUMENTS = {"bos": BOS, "eos": EOS, "max_length": torch.tensor([7, 3, 9, 1, 6])}
SEARCHES = [
    Search(beam=1),
    Search(beam=1, min_length=2, no_repeat_ngram_size=2),
    Search(beam=2, length_penalty="none"),
    Search(beam=4),
    Search(beam=4, length_penalty="average", min_length=3),
    Search(beam=6, alpha=2.0, no_repeat_ngram_size=1),
    Search(method="sampling", seed=3),
    Search(method="sampling", seed=4, top_p=0.7, temperature=2.0),
]


def joined(increments, count):
    """By sentence: the tokens, log-probabilities and alignments of all increments, and the whole hypothesis."""
    by_sentence = [[] for _ in range(count)]
    for each in increments:
        by_sentence[each.sentence].append(each)
    for parts in by_sentence:
        assert [part.hypothesis is not None for part in parts] == [False] * (len(parts) - 1) + [True]
        assert all(len(part.tokens) > 0 for part in parts[:-1])
    return by_sentence


@pytest.mark.parametrize("options", SEARCHES)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_all_increments_together_are_what_the_search_returns(options, seed):
    decoder = HistoryDecoder(5, seed, scale=1.2)
    memory = decoder.prepare(sources(5))
    expected = search(decoder, memory, options, alignment=True, **ARGUMENTS)
    found = joined(stream(decoder, memory, options, alignment=True, **ARGUMENTS), 5)
    for parts, (h, *_) in zip(found, expected, strict=True):
        assert torch.cat([part.tokens for part in parts]).tolist() == h.tokens.tolist()
        costs = torch.cat([part.token_log_probabilities for part in parts])
        torch.testing.assert_close(costs, h.token_log_probabilities)
        torch.testing.assert_close(torch.cat([part.alignments["main"] for part in parts], 1), h.alignments["main"])
        whole = parts[-1].hypothesis
        assert (whole.tokens.tolist(), whole.stop_reason) == (h.tokens.tolist(), h.stop_reason)
        assert whole.score == pytest.approx(h.score)
        for name, weights in h.alignments.items():
            torch.testing.assert_close(whole.alignments[name], weights[..., : whole.alignments[name].shape[-1]])
        step = 0
        for part in parts:
            for row in part.alignments["history"][0]:
                step += 1
                assert row[:step].tolist() == [BOS, *h.tokens.tolist()][:step]


@pytest.mark.parametrize("options", [Search(beam=1), Search(method="sampling", seed=1)])
def test_greedy_search_and_sampling_give_every_token_at_its_step(options):
    decoder, steps = HistoryDecoder(5, 1), []

    def counted(said, step):
        steps.append(step)
        return said

    watched = Altered(decoder, counted)
    memory = decoder.prepare(sources(3))
    seen = []
    for each in stream(watched, memory, options, bos=BOS, eos=EOS, max_length=8):
        assert len(each.tokens) == 1
        assert len(steps) == len([one for one in seen if one == each.sentence]) + 1
        seen.append(each.sentence)
    assert len(steps) == max(seen.count(sentence) for sentence in range(3))


def test_a_beam_gives_tokens_as_soon_as_all_hypotheses_agree_on_them():
    """Compared with the common prefix of all that a beam search of the same width returns at every length."""
    decoder = HistoryDecoder(5, 6, scale=3.0)
    early, options = 0, Search(beam=3, length_penalty="none")
    for source in sources(60):
        memory, given, steps = decoder.prepare([source]), [], []

        def counted(said, step, steps=steps):
            steps.append(step)
            return said - torch.tensor([0.0, 0, 0, 0, 3])

        watched = Altered(decoder, counted)
        seldom = Altered(decoder, lambda said, step: said - torch.tensor([0.0, 0, 0, 0, 3]))
        longest = 8
        for each in stream(watched, memory, options, bos=BOS, eos=EOS, max_length=longest):
            given += each.tokens.tolist()
            at = len(steps)
            if each.hypothesis is not None or at == longest:
                break
            everything = Search(beam=3, num_best=99, length_penalty="none")
            (alive,) = search(seldom, memory, everything, bos=BOS, eos=EOS, max_length=at)
            finished = [h.tokens.tolist() for h in alive if h.stop_reason == "eos"][:1]
            open_ones = [h.tokens.tolist() for h in alive if h.stop_reason != "eos"]
            agreed = [
                tokens[0] for tokens in itertools.takewhile(lambda t: len(set(t)) == 1, zip(*finished, *open_ones))
            ]
            assert given == agreed
            early += 1
    assert early > 5


def test_a_stream_that_is_not_read_on_stops_the_search():
    steps, endless = [], without(EOS)

    def counted(said, step):
        steps.append(step)
        return endless(said, step)

    decoder = Altered(HistoryDecoder(5, 1), counted)
    increments = stream(decoder, decoder.prepare(sources(1)), Search(beam=1), bos=BOS, eos=EOS, max_length=50)
    next(increments)
    next(increments)
    increments.close()
    assert len(steps) == 2


def test_what_is_streamed_may_be_trained_on_and_leaves_the_mode_of_the_caller():
    decoder = HistoryDecoder(5, 1)
    options = {"bos": BOS, "eos": EOS, "max_length": 5}
    for each in stream(decoder, decoder.prepare(sources(2)), Search(beam=3), alignment=True, **options):
        assert not torch.is_inference_mode_enabled()
        for tensor in (each.tokens, each.token_log_probabilities, *each.alignments.values()):
            assert not tensor.is_inference()
    nothing = {"values": torch.zeros(0, 1), "mask": torch.ones(0, 1, dtype=torch.bool)}
    assert list(stream(decoder, nothing, **options)) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "mbr"}, "method is mbr, but nothing is certain before all samples are whole; stream a beam or a"),
        ({"beam": 3, "num_best": 2}, "num_best is 2, but the order of several outputs is known at the end only; set"),
        ({"method": "sampling", "num_best": 2}, "num_best is 2, but"),
        ({"beam": 4, "num_groups": 2}, "num_groups is 2, but the outputs of groups are compared at the end"),
    ],
)  # fmt: skip
def test_what_is_not_certain_before_the_end_is_refused_at_once(options, message):
    decoder = HistoryDecoder(5, 1)
    with pytest.raises(ConfigError, match=message):
        stream(decoder, decoder.prepare(sources(2)), Search(**options), bos=BOS, eos=EOS, max_length=5)


def test_errors_of_a_search_are_those_of_its_stream():
    decoder = Altered(HistoryDecoder(5, 1), lambda said, step: said * float("nan"))
    with pytest.raises(RegardError, match="NaN at step 1"):
        list(stream(decoder, decoder.prepare(sources(2)), bos=BOS, eos=EOS, max_length=5))
