from __future__ import annotations

import math

import pytest
import torch

from decoders import BOS, Altered, HistoryDecoder, next_step, sources, without
from regard import attention
from regard.decoding import Search, force_align, main_alignment, rescore, search
from regard.errors import ConfigError, ShapeError, UnsupportedError
from regard.models import DecoderOutput, EnsembleDecoder, EnsembleEncoder, TransformerDecoder
from regard.ops.eligibility import numba_reason
from regard.testing import encode
from support import tiny

torch.set_num_threads(1)
ARGUMENTS = {"bos": BOS, "eos": 4, "max_length": 5}
SIZES = {"query_size": tiny.QUERY_SIZE, "memory_size": tiny.MEMORY_SIZE}


def members():
    return [HistoryDecoder(5, 1), HistoryDecoder(5, 2, scale=1.0), Altered(HistoryDecoder(5, 3), without(2))]


def mixed(probabilities, weights, average):
    """The distribution of the ensemble, from lists of probabilities."""
    total = sum(weights)
    if average == "probabilities":
        return [sum(w * p for w, p in zip(weights, each)) / total for each in zip(*probabilities)]
    products = [math.prod(p ** (w / total) for w, p in zip(weights, each)) for each in zip(*probabilities)]
    return [product / sum(products) for product in products]


@pytest.mark.parametrize("average", ["probabilities", "log_probabilities"])
@pytest.mark.parametrize("weights", [None, (1, 2, 5)])
def test_greedy_search_and_scores_are_those_of_a_loop_over_the_members(average, weights):
    """Sentence by sentence, token by token, with lists."""
    each, batch = members(), sources(4)
    ensemble = EnsembleDecoder(each, weights=weights, average=average)
    memory = ensemble.prepare([batch] * 3)
    found = search(ensemble, memory, Search(beam=1), **ARGUMENTS)
    for source, (h,) in zip(batch, found, strict=True):
        tokens, total = [], 0.0
        while len(tokens) < 5 and 4 not in tokens:
            said = [[math.exp(x) for x in next_step(member, source, [tokens])[0]] for member in each]
            probabilities = mixed(said, weights or (1, 1, 1), average)
            tokens.append(max(range(5), key=lambda token: (probabilities[token], -token)))
            total += math.log(probabilities[tokens[-1]])
        assert h.tokens.tolist() == tokens
        assert h.log_probability == pytest.approx(total)


@pytest.mark.parametrize(
    "options", [Search(beam=3, num_best=3), Search(method="sampling", num_best=4, seed=1), Search(method="mbr", seed=2)]
)
def test_every_search_takes_an_ensemble_and_its_alignments_are_those_of_a_forced_pass(options):
    each, batch = members()[:2], sources(4)
    ensemble = EnsembleDecoder(each, weights=(3, 1))
    memory = ensemble.prepare([batch, batch])
    found = search(ensemble, memory, options, alignment=True, **ARGUMENTS)
    for ours, forced in zip(found, rescore(ensemble, memory, found, bos=BOS), strict=True):
        for h, again in zip(ours, forced, strict=True):
            assert list(h.alignments) == ["0.main", "0.history", "1.main", "1.history", "mean"]
            assert h.log_probability == pytest.approx(again.log_probability)
            for name in ("0.main", "1.main", "mean"):
                torch.testing.assert_close(h.alignments[name], again.alignments[name])
            heads = [h.alignments[f"{i}.main"].mean(0) for i in (0, 1)]
            torch.testing.assert_close(main_alignment(h.alignments, ensemble), 0.75 * heads[0] + 0.25 * heads[1])


def test_the_alignment_of_a_chosen_member_is_the_main_one():
    batch = sources(2)
    ensemble = EnsembleDecoder(members()[:2], main=0)
    memory = ensemble.prepare([batch, batch])
    for ranked in search(ensemble, memory, Search(beam=2), alignment=True, **ARGUMENTS):
        h = ranked[0]
        assert "mean" not in h.alignments
        torch.testing.assert_close(main_alignment(h.alignments, ensemble), h.alignments["0.main"].mean(0))


def made(kind, seed):
    torch.manual_seed(seed)
    if kind == "transformer":
        return tiny.transformer(num_layers=1).float().eval()
    return tiny.recurrent(attention.bahdanau(**SIZES, size=4), order="attend_then_recur").float().eval()


def floats(given):
    from regard import tree

    return tree.map(lambda leaf: leaf.float() if leaf.is_floating_point() else leaf, given)


def test_what_takes_the_steps_of_members_in_searches_changes_nothing(monkeypatch):
    each = [made("recurrent", 0), made("transformer", 1)]
    ensemble, encoded, taken = EnsembleDecoder(each).eval(), floats(encode(tiny.sources())), []
    original = TransformerDecoder.for_search

    def watched(self, memory, rows):
        cached, inner = original(self, memory, rows)
        taken.append((cached is self, rows))
        return cached, inner

    monkeypatch.setattr(TransformerDecoder, "for_search", watched)
    options = {"bos": 0, "eos": 1, "max_length": 6}
    found = search(ensemble, ensemble.prepare(encoded), Search(beam=3, num_best=3), alignment=True, **options)
    rows = 3 * len(found)
    assert taken == [(numba_reason("regard.ops.kernels.transformer_step") is not None, rows)]
    memory = ensemble.prepare(encoded)
    for ours, forced in zip(found, rescore(ensemble, memory, found, bos=0), strict=True):
        for h, again in zip(ours, forced, strict=True):
            assert h.log_probability == pytest.approx(again.log_probability, abs=1e-5)
            for name, weights in h.alignments.items():
                torch.testing.assert_close(weights, again.alignments[name], rtol=0, atol=1e-5)
    with torch.no_grad():
        plain = [member.forward(torch.tensor([[0, 2], [0, 3]]), member.prepare(encoded)) for member in each]
        both = ensemble.forward(torch.tensor([[0, 2], [0, 3]]), memory)
    expected = torch.stack([output.log_probabilities.exp() for output in plain]).mean(0)
    torch.testing.assert_close(both.log_probabilities.exp(), expected)


def test_a_sentence_alone_is_the_sentence_in_a_batch():
    batch = sources(4)
    ensemble = EnsembleDecoder(members())
    for options in (Search(beam=3), Search(method="sampling", num_best=3, seed=4)):
        together = search(ensemble, ensemble.prepare([batch] * 3), options, **ARGUMENTS)
        for b, source in enumerate(batch):
            items = torch.tensor([b])
            (alone,) = search(ensemble, ensemble.prepare([[source]] * 3), options, items=items, **ARGUMENTS)
            assert [h.tokens.tolist() for h in alone] == [h.tokens.tolist() for h in together[b]]


def test_the_score_of_an_output_and_its_gradient_reach_all_members():
    each = [made("recurrent", 0), made("transformer", 1)]
    ensemble, encoded = EnsembleDecoder(each), floats(encode(tiny.sources()))
    output = ensemble(torch.tensor([[0, 2], [0, 3]]), ensemble.prepare(encoded))
    output.log_probabilities[..., 2].sum().backward()
    for member in each:
        assert any(weight.grad is not None and weight.grad.abs().sum() > 0 for weight in member.parameters())
    (h, _) = force_align(ensemble.eval(), ensemble.prepare(encoded), [[2, 1], [3]], bos=0, eos=1)
    assert set(h.alignments) >= {"0.attention", "mean"}


def test_what_is_impossible_for_all_stays_impossible():
    """The mean of logarithms of two members of which each rules out what the other allows is no NaN."""
    blocked = [Altered(HistoryDecoder(2, 1), without(token)) for token in (0, 1)]
    ensemble = EnsembleDecoder(blocked, average="log_probabilities")
    memory = ensemble.prepare([sources(2)] * 2)
    output, _ = ensemble.step(torch.tensor([0, 0]), memory, ensemble.initial_state(memory))
    assert (output.log_probabilities == -math.inf).all()


def test_encoders_of_an_ensemble_read_one_source_each():
    torch.manual_seed(0)
    encoders = [torch.nn.Identity() for _ in range(2)]
    for number, encoder in enumerate(encoders):
        encoder.encode = lambda source, mask, number=number: (number, source, mask)
    source = torch.zeros(2, 3)
    assert EnsembleEncoder(encoders).encode(source) == ((0, source, None), (1, source, None))


class OfValues(HistoryDecoder):
    def step(self, *arguments, **options):
        return DecoderOutput(values=torch.zeros(2, 3)), arguments[2]


class Shorter(HistoryDecoder):
    def step(self, inputs, memory, state, **options):
        output, state = super().step(inputs, memory, state, **options)
        return DecoderOutput(output.log_probabilities[:1]), state


def test_what_is_no_ensemble_is_refused():
    with pytest.raises(ConfigError, match="two decoders or more; got 1"):
        EnsembleDecoder(members()[:1])
    for weights in ((1, 2), (1, 2, 0), (1, 2, math.inf)):
        with pytest.raises(ConfigError, match="expected 3 positive numbers"):
            EnsembleDecoder(members(), weights=weights)
    with pytest.raises(ConfigError, match="main=3: expected the number of a member, 0 to 2"):
        EnsembleDecoder(members(), main=3)
    with pytest.raises(ConfigError, match="average='geometric': expected"):
        EnsembleDecoder(members(), average="geometric")
    with pytest.raises(ShapeError, match="has 3 members; got 2 encoded sources"):
        EnsembleDecoder(members()).prepare([sources(2)] * 2)
    for other, error, message in (
        (OfValues(5, 1), UnsupportedError, "returns values"),
        (Shorter(5, 1), ShapeError, "same number of rows"),
    ):
        ensemble = EnsembleDecoder([HistoryDecoder(5, 2), other])
        memory = ensemble.prepare([sources(2)] * 2)
        with pytest.raises(error, match=message):
            ensemble.step(torch.tensor([0, 0]), memory, ensemble.initial_state(memory))
    ensemble = EnsembleDecoder([HistoryDecoder(5, 2), HistoryDecoder(5, 3)])
    memory = ensemble.prepare([sources(2), sources(2, longest=9)])
    with pytest.raises(ShapeError, match="choose one with `main`"):
        ensemble.step(torch.tensor([0, 0]), memory, ensemble.initial_state(memory), alignment=True)


def test_samples_are_those_of_the_mixture():
    """One member is certain of token 1 and the other of token 2."""
    certain = [
        Altered(
            HistoryDecoder(5, 1),
            lambda said, step, t=t: torch.full_like(said, -math.inf).index_fill(1, torch.tensor([t]), 0.0),
        )
        for t in (1, 2)
    ]
    ensemble = EnsembleDecoder(certain, weights=(1, 3))
    memory = ensemble.prepare([sources(1)] * 2)
    (found,) = search(ensemble, memory, Search(method="sampling", num_best=4000, seed=0), bos=BOS, eos=4, max_length=1)
    share = sum(h.tokens.tolist() == [1] for h in found) / 4000
    assert abs(share - 0.25) < 5 * math.sqrt(0.25 * 0.75 / 4000)
    assert {tuple(h.tokens.tolist()) for h in found} == {(1,), (2,)}
