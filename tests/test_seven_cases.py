"""The seven cases that prove the contract: every law, an oracle each, and breaks that must be noticed."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from regard import attention, tree
from regard.attention import ChunkwiseAlignment, Mechanism, whole_sequence
from regard.decoding import GnmtPenalty, Search, search
from regard.decoding.live_beam import LiveBeam
from regard.models import RecurrentDecoder
from regard.testing import DECODER_LAWS, check_decoder, encode
from regard.testing.mechanism import move_weights
from support import oracles, tiny
from support.cases import DECODERS, covering
from support.oracles.arithmetic import linear

CASES = {case.name: case for case in DECODERS}
SEVEN = {
    1: "bahdanau",
    2: "location-sensitive with 4 heads",
    3: "mocha",
    4: "gmm",
    5: "transformer",
    6: "pointer",
    7: "two sources",
}


def check(number, only=None):
    case = CASES[SEVEN[number]]
    check_decoder(case.make(), sources=case.sources(), num_tokens=case.num_tokens, only=only)


def made(number):
    """The decoder, its weights moved as the laws move them, and its sources."""
    case = CASES[SEVEN[number]]
    decoder = case.make().eval()
    move_weights(decoder)
    return decoder, case.sources()


@pytest.mark.parametrize("law", DECODER_LAWS)
@pytest.mark.parametrize("number", SEVEN)
def test_a_case_keeps_every_law(number, law):
    check(number, [law])


def others():
    """`make test` has the decoders that together have every layer."""
    quick = covering(DECODERS)
    for name in CASES:
        if name not in SEVEN.values():
            yield pytest.param(name, marks=() if name in quick else pytest.mark.slow)


@pytest.mark.parametrize("name", list(others()))
def test_every_other_decoder_on_the_list_keeps_every_law(name):
    case = CASES[name]
    check_decoder(
        case.make(),
        sources=case.sources(),
        num_tokens=case.num_tokens,
        num_features=case.num_features,
        exempt=case.exempt,
    )


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_alignments_of_a_recurrent_decoder_are_those_of_the_equations(number):
    """The queries are rebuilt from the decoder's own cell; everything after them is plain loops."""
    decoder, sources = made(number)
    seen, plain = [], decoder.attention.step

    def spy(query, *arguments, **options):
        seen.append(query)
        return plain(query, *arguments, **options)

    decoder.attention.step = spy
    inputs = torch.tensor([[0, 2, 3, 1], [0, 3, 3, 2]])
    with torch.no_grad():
        memory = decoder.prepare(encode(sources))
        state, steps = decoder.initial_state(memory), []
        for ids in inputs.unbind(1):
            output, state = decoder.step(ids, memory, state, alignment=True)
            steps.append(output.alignments["attention"])
        weights = torch.stack(steps, 2)
    queries = torch.stack(seen, 1)
    for row, source in enumerate(sources):
        _, expected = oracles.attend(decoder.attention, source.values.tolist(), queries[row].tolist())
        expected = torch.tensor(expected, dtype=torch.float64).transpose(0, 1)
        torch.testing.assert_close(weights[row, ..., : len(source.values)], expected, rtol=0, atol=1e-11)
        assert not weights[row, ..., len(source.values) :].any()


def layer_norm(norm, x):
    mean = sum(x) / len(x)
    deviation = math.sqrt(sum((value - mean) ** 2 for value in x) / len(x) + norm.eps)
    scaled = [(value - mean) / deviation for value in x]
    return [a * w + b for a, w, b in zip(scaled, norm.weight.tolist(), norm.bias.tolist(), strict=True)]


def test_a_transformer_decoder_is_its_equations_in_plain_loops():
    decoder, sources = made(5)
    ids = [0, 2, 3, 1]
    with torch.no_grad():
        output = decoder(torch.tensor([ids]), decoder.prepare(encode(sources[:1])), alignment=True)
    size = decoder.embedding.size
    table = decoder.embedding.embedding.table.weight.tolist()
    stream = []
    for t, token in enumerate(ids):
        angles = [t / 10000 ** (2 * (d // 2) / size) for d in range(size)]
        place = [math.cos(a) if d % 2 else math.sin(a) for d, a in enumerate(angles)]
        stream.append([math.sqrt(size) * e + p for e, p in zip(table[token], place, strict=True)])

    def add(xs, ys):
        return [[a + b for a, b in zip(x, y, strict=True)] for x, y in zip(xs, ys, strict=True)]

    for index, layer in enumerate(decoder.layers):
        first, second, third = layer.residuals
        inner = [layer_norm(first.norm, x) for x in stream]
        stream = add(stream, oracles.attend(layer.attention, inner, inner)[0])
        crossed, weights = oracles.attend(
            layer.cross_attention, sources[0].values.tolist(), [layer_norm(second.norm, x) for x in stream]
        )
        torch.testing.assert_close(
            output.alignments[f"cross.{index}"][0], torch.tensor(weights, dtype=torch.float64).transpose(0, 1)
        )
        stream = add(stream, crossed)
        hidden = [[max(0.0, v) for v in linear(layer.feed_forward.inner, layer_norm(third.norm, x))] for x in stream]
        stream = add(stream, [linear(layer.feed_forward.outer, h) for h in hidden])
    for t, x in enumerate(stream):
        logits = linear(decoder.head.projection, layer_norm(decoder.norm, x))
        total = math.log(sum(math.exp(v) for v in logits))
        torch.testing.assert_close(output.log_probabilities[0, t].tolist(), [v - total for v in logits])


def test_a_pointer_mixes_generating_and_copying_as_its_equation_says():
    decoder, sources = made(6)
    inputs = torch.tensor([[0, 4, 2, 5], [0, 4, 4, 1]])
    encoded = encode(sources)
    with torch.no_grad():
        memory = decoder.prepare(encoded)
        output = decoder(inputs, memory, alignment=True)
        vocabulary = decoder.head(decoder.core(inputs, memory.core).values).exp()
    num_tokens = vocabulary.shape[-1]
    for row, source in enumerate(sources):
        known = num_tokens + len(source.extension)
        for t in range(inputs.shape[1]):
            generate = output.auxiliary["generate"][row, t].item()
            for token in range(output.log_probabilities.shape[-1]):
                probability = generate * vocabulary[row, t, token].item() if token < num_tokens else 0.0
                for j, copied in enumerate(source.source_ids.tolist()):
                    if copied == token:
                        probability += (1 - generate) * output.alignments["attention"][row, 0, t, j].item()
                said = output.log_probabilities[row, t, token].item()
                assert math.exp(said) == pytest.approx(probability, abs=1e-12)
                assert (said == -math.inf) == (token >= known or probability == 0)


def test_two_memories_are_attended_as_each_alone():
    decoder, sources = made(7)
    encoded = encode(sources)
    queries = torch.randn(2, 4, tiny.QUERY_SIZE, dtype=torch.float64)
    with torch.no_grad():
        memory = decoder.attention.prepare(encoded.memory, mask=encoded.mask)
        looks, _ = decoder.attention(queries, memory, alignment=True)
    assert looks.alignment[0].shape[-1] != looks.alignment[1].shape[-1]
    for row, source in enumerate(sources):
        contexts, weights = oracles.attend_in_parallel(
            decoder.attention, [values.tolist() for values in source.values], queries[row].tolist()
        )
        torch.testing.assert_close(looks.context[row].tolist(), contexts)
        for ours, theirs in zip(looks.alignment, weights, strict=True):
            expected = torch.tensor(theirs, dtype=torch.float64).transpose(0, 1)
            torch.testing.assert_close(ours[row, ..., : expected.shape[-1]], expected)


def beams(number=1, limits=(2, 7)):
    decoder, sources = made(number)
    memory = decoder.prepare(encode(sources))
    found = search(
        decoder, memory, Search(beam=5, num_best=5), bos=0, eos=1, max_length=torch.tensor(limits), alignment=True
    )
    return decoder, sources, found


def test_a_sentence_that_finishes_early_leaves_and_the_other_goes_on_as_alone():
    rows = []
    decoder, sources = made(1)
    plain = decoder.step
    decoder.step = lambda ids, *rest, **options: rows.append(len(ids)) or plain(ids, *rest, **options)
    limits = (2, 7)
    together = search(
        decoder,
        decoder.prepare(encode(sources)),
        Search(beam=5, num_best=5),
        bos=0,
        eos=1,
        max_length=torch.tensor(limits),
    )
    assert rows[:2] == [2, 10]
    assert set(rows[2:]) == {5}
    for sentence, limit in enumerate(limits):
        alone = search(
            decoder,
            decoder.prepare(encode(sources[sentence : sentence + 1])),
            Search(beam=5, num_best=5),
            bos=0,
            eos=1,
            max_length=limit,
        )[0]
        assert [h.tokens.tolist() for h in together[sentence]] == [h.tokens.tolist() for h in alone]
        assert [h.score for h in together[sentence]] == pytest.approx([h.score for h in alone], abs=1e-10)


def test_a_pointer_never_says_an_id_that_its_source_lacks():
    _, sources, found = beams(6)
    for source, hypotheses in zip(sources, found, strict=True):
        known = tiny.NUM_TOKENS + len(source.extension)
        assert all(int(h.tokens.max()) < known and math.isfinite(h.score) for h in hypotheses)
    assert len(sources[0].extension) != len(sources[1].extension)


# Breaks: each is what somebody's library does, or did.


def alignments_not_reordered(monkeypatch):
    grow = LiveBeam.grow

    def broken(self, parents, tokens, log_probabilities, rows):
        return grow(self, parents, tokens, log_probabilities, torch.arange(rows.numel()).view(rows.shape))

    monkeypatch.setattr(LiveBeam, "grow", broken)


def self_memory_not_reordered(monkeypatch):
    move = LiveBeam.move

    def broken(self, rows, tokens, nodes):
        before = self.state
        move(self, rows, tokens, nodes)
        if tree.rows(before) == tree.rows(self.state):  # not of the first step
            layers = zip(self.state.layers, before.layers, strict=True)
            kept_memories = tuple(replace(new, memory=old.memory) for new, old in layers)
            self.state = replace(self.state, layers=kept_memories)

    monkeypatch.setattr(LiveBeam, "move", broken)


def state_not_reordered(monkeypatch):
    move = LiveBeam.move

    def broken(self, rows, tokens, nodes):
        before = self.state
        move(self, rows, tokens, nodes)
        if tree.rows(before) == tree.rows(self.state):  # not of the first step
            self.state = before

    monkeypatch.setattr(LiveBeam, "move", broken)


def mask_ignored(monkeypatch):
    def broken(self, inputs, state, positions):
        return self.window(inputs, state)

    plain = whole_sequence.step
    monkeypatch.setattr(Mechanism, "_allowed", broken)
    monkeypatch.setattr(whole_sequence, "step", lambda *given: plain(*given[:-1], replace(given[-1], mask=None)))


def wrong_sentence_selected(monkeypatch):
    plain = RecurrentDecoder.initial_state
    monkeypatch.setattr(
        RecurrentDecoder,
        "initial_state",
        lambda self, memory, num_hypotheses=1: plain(
            self, replace(memory, first_state=tree.map(lambda leaf: leaf.flip(0), memory.first_state)), num_hypotheses
        ),
    )


def memory_tiled_in_the_wrong_order(monkeypatch):
    monkeypatch.setattr(
        attention.scores.additive, "share", lambda q, k: q.view(-1, len(k), *q.shape[1:]).transpose(0, 1)
    )


def end_of_sentence_counted_twice(monkeypatch):
    plain = GnmtPenalty.score
    monkeypatch.setattr(GnmtPenalty, "score", lambda self, total, length: plain(self, total, length + 1))


@pytest.mark.parametrize(
    ("number", "break_it", "law"),
    [
        (1, alignments_not_reordered, "hypotheses_equal_teacher_forcing"),
        (2, alignments_not_reordered, "hypotheses_equal_teacher_forcing"),
        (5, alignments_not_reordered, "hypotheses_equal_teacher_forcing"),
        (5, self_memory_not_reordered, "hypotheses_equal_teacher_forcing"),
        (2, state_not_reordered, "hypotheses_equal_teacher_forcing"),
        (3, state_not_reordered, "widest_beam_is_exhaustive_search"),
        (1, mask_ignored, "beam_is_independent_of_the_batch"),
        (6, mask_ignored, "beam_is_independent_of_the_batch"),
        (7, mask_ignored, "sentence_is_independent_of_batch_and_padding"),
        (1, wrong_sentence_selected, "sentence_is_independent_of_batch_and_padding"),
        (4, wrong_sentence_selected, "beam_is_independent_of_the_batch"),
        (1, memory_tiled_in_the_wrong_order, "hypotheses_follow_their_state"),
        (1, end_of_sentence_counted_twice, "widest_beam_is_exhaustive_search"),
    ],
)
def test_a_break_is_noticed(monkeypatch, number, break_it, law):
    check(number, [law])
    break_it(monkeypatch)
    with pytest.raises(AssertionError, match=f"breaks the law {law}"):
        check(number, [law])


def test_carrying_what_mocha_read_is_noticed_by_the_oracle_alone(monkeypatch):
    plain = ChunkwiseAlignment.forward

    def broken(self, *arguments):
        weights, _, auxiliary = plain(self, *arguments)
        return weights, weights, auxiliary

    monkeypatch.setattr(ChunkwiseAlignment, "forward", broken)
    check(3)
    with pytest.raises(AssertionError):
        test_alignments_of_a_recurrent_decoder_are_those_of_the_equations(3)
