"""`record_attention` on mechanisms and models of this library: every path is seen, and none is changed."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch

import regard
from regard import record_attention
from regard.attention import (
    AbstractAttention,
    Divided,
    Parallel,
    SelfAttention,
    bahdanau,
    location_sensitive,
    luong,
    multi_head,
    self_attention,
)
from regard.decoding import Search, search
from regard.layers import TokenEmbedding, TokenHead
from regard.layers.cell_stack import Zoneout
from regard.layers.module_weights import module_reason
from regard.layers.recorders import active
from regard.models import (
    AbstractLanguageModel,
    Encoded,
    recurrent_language_model,
    transformer_decoder,
    transformer_encoder,
    transformer_language_model,
)
from regard.models.past import LookBack
from regard.testing.mechanism import move_weights
from regard.testing.source import encode
from regard.testing.subject import Subject, as_tuple
from support import tiny
from support.cases import DECODERS, MECHANISMS


def prepared(module):
    examined = copy.deepcopy(module).double().eval()
    move_weights(examined)
    return examined


def close(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("case", MECHANISMS, ids=lambda case: case.name)
def test_every_mechanism_is_seen_in_a_pass_and_in_steps_and_stays_as_it_is(case):
    mechanism = prepared(case.make())
    several = not isinstance(case.memory_size, int)
    sizes = tuple(case.memory_size) if several else (case.memory_size,)
    subject = Subject(mechanism, case.query_size, sizes, several, case.input_size, case.key_size)
    memory = subject.prepare(subject.sources((5, 3)))
    queries = subject.queries(2, 4)
    expected = as_tuple(mechanism(queries, memory, inputs=subject.inputs(queries), alignment=True)[0].alignment)

    plain = subject.at_once(memory, queries, alignment=False)
    with record_attention(mechanism) as seen:
        looks = subject.at_once(memory, queries, alignment=False)
    assert torch.equal(looks.contexts, plain.contexts)
    assert looks.alignments == ()
    for weights, own in zip(seen.values(), expected, strict=True):
        close(weights, own)

    state = mechanism.initial_state(memory)
    inputs = subject.inputs(queries)
    first = {"inputs": None if inputs is None else inputs[:, 0]}
    plain_step = mechanism.step(queries[:, 0], memory, state, **first)[0]
    with record_attention(mechanism) as seen:
        step = mechanism.step(queries[:, 0], memory, state, **first)[0]
    assert torch.equal(step.context, plain_step.context)
    assert step.alignment is None
    for weights, own in zip(seen.values(), expected, strict=True):
        close(weights, own[:, :, :1])


@pytest.mark.parametrize("case", DECODERS, ids=lambda case: case.name)
def test_a_teacher_forced_pass_of_every_decoder_is_seen_and_its_gradients_stay(case):
    decoder = prepared(case.make())
    encoded = encode(case.sources())
    rows = len(case.sources())
    draw = torch.Generator().manual_seed(0)
    if case.num_tokens is not None:
        inputs = torch.randint(case.num_tokens, (rows, 4), generator=draw)
    else:
        inputs = torch.randn(rows, 4, case.num_features or 1, generator=draw).double()

    def run():
        decoder.zero_grad()
        output = decoder(inputs, decoder.prepare(encoded))
        said = output.values if output.log_probabilities is None else output.log_probabilities
        said.masked_fill(said.isinf(), 0).square().sum().backward()
        return said.detach(), [None if p.grad is None else p.grad.clone() for p in decoder.parameters()]

    said, gradients = run()
    shown = dict(decoder(inputs, decoder.prepare(encoded), alignment=True).alignments)
    if not any(isinstance(module, AbstractAttention) for module in decoder.modules()):
        with pytest.warns(UserWarning, match="recorded nothing"), record_attention(decoder):
            run()
        return
    with record_attention(decoder) as seen:
        recorded, recorded_gradients = run()
    # equal to the bit, but where a path that reports no weights is not eligible meanwhile
    close(said, recorded)
    for ours, theirs in zip(recorded_gradients, gradients, strict=True):
        assert (ours is None) == (theirs is None)
        if ours is not None:
            close(ours, theirs)
    # a language model reads its context before the inputs, in a call of its own
    assert {len(seen.calls(name)) for name in seen} <= ({1} if not is_language_model(decoder) else {1, 2})
    shown.pop("mean", None)  # an ensemble's, of its members
    for own in shown.values():
        assert any(have_the_same_weights(seen.calls(name)[-1], own) for name in seen)


@pytest.mark.parametrize("kind", ["recurrent", "recurrent in blocks", "transformer"])
def test_weights_of_language_models_stand_at_the_positions_of_the_text_whatever_the_lengths_of_contexts(kind):
    if kind == "transformer":
        model = transformer_language_model(
            TokenEmbedding(9, 8), TokenHead(8, 9), num_layers=2, num_heads=2, feed_forward_size=8
        )
    else:
        model = recurrent_language_model(9, size=8, past="attention", reach=3 if "blocks" in kind else 20)
    model = prepared(model)
    draw = torch.Generator().manual_seed(0)
    context, lengths = torch.randint(9, (3, 6), generator=draw), torch.tensor([6, 2, 4])
    mask = torch.arange(6) < lengths[:, None]
    inputs = torch.randint(9, (3, 5), generator=draw)
    with record_attention(model) as seen:
        memory = model.prepare(Encoded(context, mask))
        model(inputs, memory)
    shown = model(inputs, memory, alignment=True).alignments
    with record_attention(model) as alone:
        for row, length in enumerate(lengths):
            model(inputs[[row]], model.prepare(context[[row], :length]))
    for name, own in zip(seen, shown.values(), strict=True):
        read, written = seen.calls(name)
        close(written, own)
        for row, length in enumerate(lengths):  # as if each context stood alone
            of_context, of_inputs = alone.calls(name)[2 * row : 2 * row + 2]
            close(read[[row], :, : length - 1, : length - 1], of_context)
            close(written[[row], :, :, : of_inputs.shape[3]], of_inputs)

    with record_attention(model) as seen:
        state = model.initial_state(memory)
        steps = []
        for x in inputs.unbind(1):
            output, state = model.step(x, memory, state, alignment=True)
            steps.append(output.alignments)
    for name, key in zip(seen, shown, strict=True):
        for weights, own in zip(seen.calls(name), steps, strict=True):
            close(weights[:, :, 0], own[key])
        close(seen.joined(name), shown[key])


def dropped(module):
    """The module in training, with dropout or zoneout wherever it can have some."""
    for part in module.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.3
        if isinstance(part, Zoneout):
            part.p = 0.3
    return module.train()


@pytest.mark.parametrize("case", DECODERS, ids=lambda case: case.name)
def test_a_training_pass_draws_what_it_draws_without_a_recorder(case):
    decoder = dropped(prepared(case.make()))
    encoded, rows = encode(case.sources()), len(case.sources())
    draw = torch.Generator().manual_seed(0)
    if case.num_tokens is not None:
        inputs = torch.randint(case.num_tokens, (rows, 4), generator=draw)
    else:
        inputs = torch.randn(rows, 4, case.num_features or 1, generator=draw).double()

    def run():
        decoder.zero_grad()
        torch.manual_seed(1)
        output = decoder(inputs, decoder.prepare(encoded))
        said = output.values if output.log_probabilities is None else output.log_probabilities
        said.masked_fill(said.isinf(), 0).square().sum().backward()
        return [said.detach(), torch.rand(2), *(p.grad.clone() for p in decoder.parameters() if p.grad is not None)]

    expected = run()
    with warnings.catch_warnings(action="ignore"), record_attention(decoder):
        recorded = run()
    for ours, theirs in zip(recorded, expected, strict=True):
        assert torch.equal(ours, theirs)


def is_language_model(decoder):
    return isinstance(decoder, AbstractLanguageModel)


def have_the_same_weights(weights, own):
    """Whether rows have the same weights, in whatever columns: language models order theirs by position."""
    if weights.shape[:3] != own.shape[:3]:
        return False
    width = max(weights.shape[3], own.shape[3])
    ours, theirs = (torch.nn.functional.pad(w, (0, width - w.shape[3])).sort(-1).values for w in (weights, own))
    return torch.allclose(ours, theirs, rtol=0, atol=1e-12)


def test_names_are_paths_of_modules_and_shapes_are_those_of_the_passes():
    encoder = transformer_encoder(TokenEmbedding(7, 8), num_layers=2, num_heads=2, feed_forward_size=8)
    embedding = TokenEmbedding(7, 8)
    decoder = transformer_decoder(
        embedding, TokenHead(8, 7), memory_size=8, num_layers=2, num_heads=4, feed_forward_size=8
    )
    model = torch.nn.ModuleDict({"encoder": encoder, "decoder": decoder}).eval()
    with record_attention(model) as seen, torch.inference_mode():
        encoded = encoder(torch.randint(7, (3, 6)), torch.arange(6) < torch.tensor([6, 4, 2])[:, None])
        decoder(torch.randint(7, (3, 5)), decoder.prepare(encoded))
    assert {name: tuple(weights.shape) for name, weights in seen.items()} == {
        "encoder.layers.0.attention": (3, 2, 6, 6),
        "encoder.layers.1.attention": (3, 2, 6, 6),
        "decoder.layers.0.attention": (3, 4, 5, 5),
        "decoder.layers.0.cross_attention": (3, 4, 5, 6),
        "decoder.layers.1.attention": (3, 4, 5, 5),
        "decoder.layers.1.cross_attention": (3, 4, 5, 6),
    }
    assert (seen["decoder.layers.0.cross_attention"][1, :, :, 4:] == 0).all()
    assert (seen["decoder.layers.1.attention"].triu(1) == 0).all()


@pytest.mark.parametrize("order", ["recur_then_attend", "attend_then_recur"])
@pytest.mark.parametrize("attention", [bahdanau, luong, location_sensitive])
def test_a_search_is_seen_step_by_step_and_finds_the_same(attention, order):
    options = {"num_filters": 2, "kernel_size": 3} if attention is location_sensitive else {}
    if attention is not luong:
        options["size"] = 4
    mechanism = attention(query_size=tiny.QUERY_SIZE, memory_size=tiny.MEMORY_SIZE, **options)
    decoder = tiny.recurrent(mechanism, order=order).eval()
    move_weights(decoder)
    encoded = encode(tiny.sources())
    settings = Search(beam=3)

    def run():
        with torch.inference_mode():
            return search(decoder, decoder.prepare(encoded), settings, bos=0, eos=1, max_length=6, alignment=True)

    plain = run()
    with record_attention(decoder) as seen:
        recorded = run()
    calls = seen.calls("attention")
    assert len(calls) > 1
    for ours, theirs in zip(recorded, plain, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            assert torch.equal(one.tokens, other.tokens)
            assert one.log_probability == pytest.approx(other.log_probability, abs=1e-12)
            # every row of an alignment was seen in the step in which it was made
            for t, row in enumerate(one.alignments["attention"].transpose(0, 1)):
                width = row.shape[-1]
                assert any(torch.allclose(row.to(w), w[:, 0], atol=1e-12) for w in calls[t][:, :, :, :width])


def test_a_search_of_a_transformer_has_self_attention_that_grows_and_cross_attention():
    decoder = transformer_decoder(
        TokenEmbedding(7, 8), TokenHead(8, 7), memory_size=6, num_layers=2, num_heads=2, feed_forward_size=8
    )
    decoder = decoder.double().eval()
    encoded = encode(tiny.sources())
    with record_attention(decoder) as seen, torch.inference_mode():
        found = search(decoder, decoder.prepare(encoded), Search(beam=2), bos=0, eos=1, max_length=5, alignment=True)
    steps = len(seen.calls("layers.0.attention"))
    assert {len(seen.calls(name)) for name in seen} == {steps}
    assert steps >= max(len(hypothesis.tokens) for hypotheses in found for hypothesis in hypotheses)
    assert [weights.shape[2:] for weights in seen.calls("layers.0.attention")] == [(1, t + 1) for t in range(steps)]


def test_a_language_model_is_seen():
    embedding = TokenEmbedding(9, 8, padding=None)
    model = transformer_language_model(
        embedding, TokenHead(8, 9, tied=embedding), num_layers=2, num_heads=2, feed_forward_size=8
    ).eval()
    ids = torch.randint(9, (2, 6))
    shown = model(ids, alignment=True).alignments
    plain = model(ids).log_probabilities
    with record_attention(model) as seen:
        torch.testing.assert_close(model(ids).log_probabilities, plain, rtol=0, atol=1e-5)
    for index in range(2):
        torch.testing.assert_close(seen[f"layers.{index}.attention"], shown[f"self.{index}"], rtol=0, atol=1e-6)


def test_attention_in_blocks_is_shown_over_all_positions():
    past = LookBack(6, num_parts=3, reach=2).double()
    h = torch.randn(2, 7, 6, dtype=torch.float64)
    cache = past.begin(2, h)
    _, weights, _ = past(h, cache, alignment=True)
    plain = past(h, cache)[0]
    with record_attention(past) as seen:
        assert torch.equal(past(h, cache)[0], plain)
    close(seen["attention.mechanism"], weights)


def test_padding_of_self_attention_has_no_weights():
    attention = SelfAttention(self_attention(size=8, num_heads=2)).double()
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    lengths = torch.tensor([5, 3])
    with record_attention(attention) as seen:
        attention(x, lengths=lengths)
    close(seen["mechanism"], attention(x, lengths=lengths, alignment=True).alignment)
    assert (seen["mechanism"][1, :, 3:] == 0).all()


def test_the_combination_of_several_memories_is_seen_by_step():
    attention = Parallel(
        [bahdanau(query_size=5, memory_size=6, size=4) for _ in range(2)],
        combination=bahdanau(query_size=5, memory_size=6, size=4),
    )
    memory = attention.prepare((torch.randn(2, 3, 6), torch.randn(2, 4, 6)))
    queries = torch.randn(2, 7, 5)
    with record_attention(attention) as seen:
        attention(queries, memory)
    shown = attention(queries, memory, alignment=True)[0].alignment
    assert [*seen] == ["mechanisms.0", "mechanisms.1", "combination"]
    for weights, own in zip(seen.values(), shown, strict=True):
        torch.testing.assert_close(weights, own, rtol=0, atol=1e-6)


def test_random_weights_are_drawn_as_without_a_recorder():
    case = next(case for case in MECHANISMS if case.make().is_random)
    mechanism = case.make().train()
    memory = mechanism.prepare(torch.randn(2, 5, case.memory_size))
    queries = torch.randn(2, 4, case.query_size)

    def run():
        torch.manual_seed(3)
        return mechanism(queries, memory)[0].context, torch.rand(1)

    context, after = run()
    with record_attention(mechanism):
        recorded, recorded_after = run()
    assert torch.equal(recorded, context)
    assert torch.equal(recorded_after, after)


def test_a_path_that_calls_no_attention_is_not_eligible_while_its_weights_are_recorded():
    mechanism = multi_head(query_size=4, memory_size=4, size=4, num_heads=2)
    other = multi_head(query_size=4, memory_size=4, size=4, num_heads=2)
    with record_attention(mechanism):
        mechanism(torch.randn(1, 2, 4), mechanism.prepare(torch.randn(1, 3, 4)))
        assert module_reason(mechanism, "attention") == "the weights of attention are recorded"
        assert module_reason(mechanism.score, "attention.score") == "the weights of attention.score are recorded"
        assert module_reason(mechanism, "attention", reports=True) is None
        assert module_reason(other, "attention") is None
    assert module_reason(mechanism, "attention") is None
    assert active() == ()


def test_only_the_recorded_model_is_seen():
    first, second = (luong(query_size=4, memory_size=4) for _ in range(2))
    model = torch.nn.ModuleList([first])
    for mechanism in (first, second):
        memory = mechanism.prepare(torch.randn(1, 3, 4))
        with record_attention(model) as seen, torch.no_grad():
            first(torch.randn(1, 2, 4), first.prepare(torch.randn(1, 3, 4)))
            mechanism(torch.randn(1, 2, 4), memory)
        assert len(seen.calls("0")) == (2 if mechanism is first else 1)


def test_a_divided_vector_is_seen_by_the_mechanism_inside():
    attention = Divided(luong(query_size=2, memory_size=2), (2, 2, 2))
    memory = attention.prepare(torch.randn(1, 4, 6))
    with record_attention(attention) as seen:
        attention(torch.randn(1, 3, 6), memory)
    assert seen["mechanism"].shape == (1, 1, 3, 4)


def test_a_loaded_model_is_recorded_while_it_predicts():
    model = regard.load("g2p-en")
    plain = model.predict(["attention", "weights"])
    with record_attention(model) as seen:
        recorded = model.predict(["attention", "weights"])
    assert [p.text for p in recorded] == [p.text for p in plain]
    assert [p.score for p in recorded] == pytest.approx([p.score for p in plain])
    assert any(len(seen.calls(name)) > 1 for name in seen)
