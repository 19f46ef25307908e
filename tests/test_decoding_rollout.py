from __future__ import annotations

import math
from collections import Counter
from functools import partial

import pytest
import torch

from decoders import BOS, Altered, HistoryDecoder, outputs, sources, without
from regard.decoding import Search, force_align, rescore, search

torch.set_num_threads(1)
DRAWS = 4000
drawing = partial(Search, method="sampling")


def drawn(decoder, source, options, eos, max_length):
    """How often each output was drawn, as a share."""
    (found,) = search(decoder, decoder.prepare([source]), options, bos=BOS, eos=eos, max_length=max_length)
    counts = Counter(tuple(h.tokens.tolist()) for h in found)
    return {tokens: count / len(found) for tokens, count in counts.items()}, found


def close(share, probability):
    return abs(share - probability) <= 5 * math.sqrt(probability * (1 - probability) / DRAWS) + 1e-12


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("temperature", [5e-324, 1e-39, 1e-9])
def test_the_limit_of_low_temperatures_is_greedy_search(dtype, temperature):
    decoder, given = HistoryDecoder(5, 4, dtype=dtype), sources(3)
    options = {"bos": BOS, "eos": 2, "max_length": 5}
    greedy = search(decoder, decoder.prepare(given), Search(beam=1), **options)
    cold = search(decoder, decoder.prepare(given), drawing(temperature=temperature, seed=0), **options)
    for (ours,), (theirs,) in zip(cold, greedy, strict=True):
        assert ours.tokens.tolist() == theirs.tokens.tolist()
        assert ours.log_probability == pytest.approx(theirs.log_probability, rel=1e-2)


def test_a_high_temperature_draws_nothing_that_is_impossible():
    decoder = Altered(HistoryDecoder(3, 0, dtype=torch.float32), without(1))
    shares, _ = drawn(decoder, sources(1)[0], drawing(num_best=DRAWS, seed=3, temperature=1e300), 2, 1)
    assert set(shares) == {(0,), (2,)}


def test_samples_come_as_often_as_the_model_says():
    decoder, (source,) = HistoryDecoder(3, 2, scale=1.0), sources(1)
    shares, found = drawn(decoder, source, drawing(num_best=DRAWS, seed=1), 2, 3)
    expected = {tuple(tokens): math.exp(total) for tokens, total in outputs(decoder, source, 2, 3)}
    assert sum(expected.values()) == pytest.approx(1)
    assert set(shares) <= set(expected)
    assert all(close(shares.get(tokens, 0), probability) for tokens, probability in expected.items())
    for h in found[:50]:
        assert math.exp(h.log_probability) == pytest.approx(expected[tuple(h.tokens.tolist())])
        assert h.stop_reason == ("eos" if h.tokens[-1] == 2 else "length")
    assert [h.score for h in found] == sorted((h.score for h in found), reverse=True)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"temperature": 0.5}, [0.25 / 0.38, 0.09 / 0.38, 0.04 / 0.38]),
        ({"top_k": 2}, [0.625, 0.375, 0.0]),
        ({"top_k": 9}, [0.5, 0.3, 0.2]),
        ({"top_p": 0.79}, [0.625, 0.375, 0.0]),
        ({"top_p": 0.81}, [0.5, 0.3, 0.2]),
        ({"top_p": 0.01}, [1.0, 0.0, 0.0]),
        ({"top_k": 2, "top_p": 0.6, "temperature": 1.0}, [1.0, 0.0, 0.0]),
        ({"temperature": 1e-39}, [1.0, 0.0, 0.0]),
        ({"temperature": 5e-324}, [1.0, 0.0, 0.0]),
        ({"temperature": 1e-39, "top_k": 3, "top_p": 0.9}, [1.0, 0.0, 0.0]),
        ({"temperature": 1e300}, [1 / 3, 1 / 3, 1 / 3]),
        ({"top_p": 5e-324}, [1.0, 0.0, 0.0]),
        ({"top_k": 2**31 - 1}, [0.5, 0.3, 0.2]),
    ],
)
def test_temperature_top_k_and_top_p_shape_the_draw_and_not_the_log_probability(options, expected):
    model = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    decoder = Altered(HistoryDecoder(3, 0), lambda said, step: model.log().expand_as(said))
    shares, found = drawn(decoder, sources(1)[0], drawing(num_best=DRAWS, seed=3, **options), 2, 1)
    for token, probability in enumerate(expected):
        assert close(shares.get((token,), 0), probability)
    for h in found[:: DRAWS // 20]:
        assert h.log_probability == pytest.approx(math.log(model[h.tokens[0]]))


def test_equal_probabilities_are_cut_to_exactly_k():
    decoder = Altered(HistoryDecoder(6, 0), lambda said, step: torch.zeros_like(said).log_softmax(1))
    shares, _ = drawn(decoder, sources(1)[0], drawing(num_best=500, top_k=3, seed=0), 5, 1)
    assert set(shares) == {(0,), (1,), (2,)}


def test_a_seed_repeats_a_call_and_leaves_the_global_state_alone():
    decoder = HistoryDecoder(8, 1)
    memory = decoder.prepare(sources(4))

    def run(seed):
        found = search(decoder, memory, drawing(num_best=3, seed=seed), bos=BOS, eos=7, max_length=12)
        return [[h.tokens.tolist() for h in hypotheses] for hypotheses in found]

    before = torch.get_rng_state()
    assert run(5) == run(5)
    assert run(5) != run(6)
    assert torch.equal(before, torch.get_rng_state())


def test_samples_of_one_sentence_end_at_different_steps_and_keep_their_alignments():
    decoder = HistoryDecoder(5, 3)
    memory = decoder.prepare(sources(4))
    found = search(
        decoder,
        memory,
        drawing(num_best=6, seed=0),
        bos=BOS,
        eos=4,
        max_length=torch.tensor([9, 2, 5, 12]),
        alignment=True,
    )
    assert len({len(h.tokens) for hypotheses in found for h in hypotheses}) > 3
    for ours, theirs in zip(found, rescore(decoder, memory, found, bos=BOS), strict=True):
        for h, forced in zip(ours, theirs, strict=True):
            assert h.tokens.tolist().count(4) == (h.stop_reason == "eos")
            assert h.log_probability == pytest.approx(forced.log_probability)
            torch.testing.assert_close(h.alignments["main"], forced.alignments["main"])


def test_a_decoder_that_draws_is_given_the_generator():
    decoder, given = HistoryDecoder(4, 0), []
    step = decoder.step

    def watched(*arguments, generator=None, **options):
        given.append(generator)
        return step(*arguments, **options)

    decoder.step = watched
    generator = torch.Generator()
    search(
        decoder,
        decoder.prepare(sources(1)),
        Search(method="sampling"),
        bos=BOS,
        eos=3,
        max_length=2,
        generator=generator,
    )
    assert set(given) == {generator}


@pytest.mark.parametrize("beam", [1, 3])
def test_a_processor_changes_what_is_found_and_not_what_the_model_says_of_it(beam):
    def discourage(log_probabilities, state):
        changed = log_probabilities.clone()
        changed[:, 3] -= 0.5
        changed[:, 4] -= 1.0
        return changed

    decoder, seen = HistoryDecoder(5, 4, scale=1.5), []
    memory = decoder.prepare(sources(12))
    options = Search(beam=beam, length_penalty="none")
    found = search(decoder, memory, options, bos=BOS, eos=4, max_length=6, processors=[discourage])
    plain = search(decoder, memory, options, bos=BOS, eos=4, max_length=6)
    assert [h.tokens.tolist() for (h,) in found] != [h.tokens.tolist() for (h,) in plain]
    for (h,), (forced,) in zip(found, rescore(decoder, memory, found, bos=BOS), strict=True):
        tokens = h.tokens.tolist()
        assert h.log_probability == pytest.approx(forced.log_probability)
        assert h.score == pytest.approx(h.log_probability - 0.5 * tokens.count(3) - 1.0 * tokens.count(4))
        seen += tokens
    assert {3, 4} <= set(seen)


@pytest.mark.parametrize("options", [Search(beam=1), Search(beam=4, num_best=4), drawing(num_best=4, seed=0)])
def test_a_processor_sees_the_tokens_of_the_hypothesis_it_changes(options):
    """The processor asks the decoder itself for the sum of what was said, which only the right tokens reproduce."""

    class Watching(HistoryDecoder):
        def step(self, inputs, memory, state, **kwargs):
            output, state = super().step(inputs, memory, state, **kwargs)
            self.fed = state["history"]
            return output, state

    decoder, checked = Watching(6, 4), []

    def check(log_probabilities, state):
        assert torch.equal(state.tokens, decoder.fed[:, 1:])
        assert state.step == decoder.fed.shape[1]
        checked.append(state.tokens.shape)
        return log_probabilities

    search(decoder, decoder.prepare(sources(4)), options, bos=BOS, eos=5, max_length=8, processors=[check])
    assert len(checked) > 3


@pytest.mark.parametrize("size", [1, 2, 3])
def test_no_repeat_forbids_every_second_run_of_tokens(size):
    decoder = Altered(HistoryDecoder(5, 1), without(4))
    memory = decoder.prepare(sources(4))
    limit = {1: 4, 2: 12, 3: 20}[size]

    def repeats(options):
        found = search(decoder, memory, options, bos=BOS, eos=4, max_length=limit)
        runs = [
            [tuple(h.tokens[i : i + size].tolist()) for i in range(len(h.tokens) - size + 1)]
            for hypotheses in found
            for h in hypotheses
        ]
        return sum(len(each) - len(set(each)) for each in runs)

    for beam in (1, 4):
        assert repeats(Search(beam=beam)) > 0
        assert repeats(Search(beam=beam, no_repeat_ngram_size=size)) == 0
    assert repeats(drawing(seed=1)) > 0
    assert repeats(drawing(seed=1, no_repeat_ngram_size=size)) == 0


def test_forced_targets_are_scored_and_aligned_token_by_token():
    decoder = HistoryDecoder(5, 6)
    batch = sources(3)
    targets = [[1, 2, 4], torch.tensor([3]), []]
    found = force_align(decoder, decoder.prepare(batch), targets, bos=BOS, eos=4)
    assert [h.stop_reason for h in found] == ["eos", "length", "length"]
    for source, target, h in zip(batch, targets, found, strict=True):
        target = torch.as_tensor(target, dtype=torch.long).tolist()
        memory = decoder.prepare([source])
        said = decoder.forward(torch.tensor([[BOS, *target]]), memory, alignment=True)
        steps = [said.log_probabilities[0, t, token].item() for t, token in enumerate(target)]
        assert h.tokens.tolist() == target
        assert h.token_log_probabilities.tolist() == pytest.approx(steps)
        assert h.log_probability == pytest.approx(sum(steps))
        aligned = h.alignments["main"]
        assert aligned.shape == (2, len(target), 6)
        torch.testing.assert_close(aligned[..., : len(source)], said.alignments["main"][0, :, : len(target)])


def test_rescoring_with_another_model_keeps_the_ranks_and_gives_its_log_probabilities():
    ours, other = HistoryDecoder(5, 1), HistoryDecoder(5, 2)
    memory = ours.prepare(sources(3))
    found = search(ours, memory, Search(beam=3, num_best=3), bos=BOS, eos=4, max_length=5)
    again = rescore(other, memory, found, bos=BOS)
    for before, after in zip(found, again, strict=True):
        assert [h.score for h in before] == [h.score for h in after]
        for h, forced in zip(before, after, strict=True):
            assert h.log_probability != pytest.approx(forced.log_probability)


def test_what_a_search_returns_may_be_trained_on():
    decoder = HistoryDecoder(5, 1)
    found = search(
        decoder,
        decoder.prepare(sources(2)),
        drawing(seed=0),
        bos=BOS,
        eos=4,
        max_length=5,
        alignment=True,
    )
    h = found[0][0]
    for tensor in (h.tokens, h.token_log_probabilities, *h.alignments.values()):
        assert not tensor.is_inference()
    embedding = torch.nn.Embedding(5, 3)
    embedding(h.tokens).sum().backward()
    assert embedding.weight.grad.abs().sum() > 0
