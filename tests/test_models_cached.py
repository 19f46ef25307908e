"""Searches of Transformers write keys and values once: they say what the decoder says, at any length."""

from __future__ import annotations

import itertools
from functools import partial

import pytest
import torch
from torch import nn

from regard import tree
from regard.attention import CausalWindow, Mechanism, luong, multi_head
from regard.attention.alignments import SoftmaxAlignment
from regard.attention.reads import ProjectedSum
from regard.attention.scores import RotaryDotScore
from regard.decoding import Search, search
from regard.layers import TokenEmbedding, TokenHead
from regard.models import (
    Encoded,
    TransformerLanguageModel,
    transformer_decoder,
    transformer_language_model,
)
from regard.models.transformer_language_model import PackedLanguageCopy
from regard.models.transformer_layers import DecoderLayer
from regard.models.transformer_options import TransformerOptions
from regard.models.transformer_search import PackedCopy
from regard.ops.choose import step_implementations
from regard.ops.eligibility import numba_reason
from regard.ops.transformer_step import (
    Affine,
    AttentionWeights,
    LayerWeights,
    Layout,
    NormWeights,
    Present,
    Sources,
)

pytestmark = pytest.mark.skipif(
    numba_reason("regard.ops.kernels.transformer_step") is not None,
    reason="without compiled loops there is no such step",
)
BOS, EOS, N, D, S = 1, 2, 30, 24, 6


def weighty(module):
    """Weights that matter, biases and gains of norms included."""
    torch.manual_seed(3)
    for name, parameter in module.named_parameters():
        nn.init.normal_(parameter, 1.0 if "norm.weight" in name else 0.0, 0.3)
    return module.double().eval()


def decoder(**options):
    embedding = TokenEmbedding(N, D)
    options = {"num_layers": 2, "num_heads": 4, "feed_forward_size": 40, "memory_size": 20} | options
    return weighty(transformer_decoder(embedding, TokenHead(D, N, tied=embedding, never=(0, 1)), **options))


def language_model(**options):
    embedding = TokenEmbedding(N, D, padding=None)
    options = {"num_layers": 2, "num_heads": 4, "num_key_value_heads": 2, "feed_forward_size": 40} | options
    return weighty(transformer_language_model(embedding, TokenHead(D, N, tied=embedding), **options))


def source(count, *, padded=True):
    draw = torch.Generator().manual_seed(count)
    mask = torch.arange(S) < torch.randint(1, S + 1, (count, 1), generator=draw)
    return Encoded(torch.randn(count, S, 20, generator=draw, dtype=torch.float64), mask if padded else None)


def context(count):
    draw = torch.Generator().manual_seed(count)
    mask = torch.arange(S) < torch.randint(0, S + 1, (count, 1), generator=draw)
    return Encoded(torch.randint(3, N, (count, S), generator=draw), mask)


def require_same_steps(model, encoded, count, hypotheses, steps, kind):
    """The outputs of the cached steps and of the decoder's own, while hypotheses change places and sentences leave."""
    with torch.inference_mode():
        memory = model.prepare(encoded)
        ways = {"own": (model, memory), "cached": model.for_search(memory, count * hypotheses)}
        assert type(ways["cached"][0]) is kind
        states = {name: way.initial_state(memory, hypotheses) for name, (way, memory) in ways.items()}
        draw = torch.Generator().manual_seed(7)
        for step in range(steps):
            inputs = torch.randint(3, N, (count * hypotheses,), generator=draw)
            said = {}
            for name, (way, memory) in ways.items():
                said[name], states[name] = way.step(inputs, memory, states[name], alignment=True)
            torch.testing.assert_close(
                said["cached"].log_probabilities, said["own"].log_probabilities, rtol=0, atol=1e-10
            )
            torch.testing.assert_close(
                dict(said["cached"].alignments), dict(said["own"].alignments), rtol=0, atol=1e-10
            )
            staying = torch.arange(count)
            if step % 3 == 2 and count > 1:
                staying = staying[torch.arange(count) != step % count]
            parents = (
                torch.randint(hypotheses, (count, hypotheses), generator=draw)
                + hypotheses * torch.arange(count)[:, None]
            )
            for name, (way, memory) in ways.items():
                ways[name] = way, tree.reorder(memory, staying)
                states[name] = tree.reorder(states[name], parents[staying].flatten())
            count = len(staying)


KINDS = {
    "sinusoidal": {},
    "half": {"positions": "half_sinusoidal"},
    "scaled": {"positions": "scaled_sinusoidal"},
    "learned": {"positions": "learned", "max_length": 40},
    "none": {"positions": None},
    "rotary": {"positions": "rotary"},
    "linear bias": {"positions": "linear_bias"},
    "buckets": {"positions": "buckets"},
    "grouped": {"num_key_value_heads": 2},
    "multi-query": {"num_key_value_heads": 1, "positions": "rotary"},
    "post-norm": {"norm": "post"},
    "gelu, biases": {"options": TransformerOptions(activation="gelu", projection_bias=True, norm_epsilon=0.1)},
    "silu, small embeddings": {"options": TransformerOptions(activation="silu", scaled_embeddings=False)},
    "swiglu, no final norm": {"options": TransformerOptions(activation="swiglu", final_norm=False)},
    "normalised": {"options": TransformerOptions(query_key_norm=True, attention_dropout=0.3)},
    "normalised, rotary": {"options": TransformerOptions(query_key_norm=True), "positions": "rotary"},
    "one head": {"num_heads": 1, "num_key_value_heads": 1},
}


CROSS = partial(multi_head, query_size=D, memory_size=20, size=D, num_heads=4)
OF_SOURCES = {
    "rotated to the source": {"cross_attention": partial(CROSS, positions="rotary")},
    "rotated to both": {"positions": "rotary", "cross_attention": partial(CROSS, positions="rotary")},
    "rotated and normalised": {"cross_attention": partial(CROSS, positions="rotary", normalised=True)},
}


@pytest.mark.parametrize("name", KINDS | OF_SOURCES)
def test_steps_in_a_search_say_what_the_decoder_says(name):
    require_same_steps(decoder(**(KINDS | OF_SOURCES)[name]), source(5), 5, 3, 12, PackedCopy)


@pytest.mark.parametrize("name", KINDS)
def test_steps_of_a_language_model_say_what_it_says(name):
    for reach in (None, 4):
        require_same_steps(language_model(**{"reach": reach} | KINDS[name]), context(5), 5, 2, 9, PackedLanguageCopy)


@pytest.mark.parametrize(("count", "hypotheses"), [(1, 1), (1, 4), (256, 1)])
def test_one_sentence_and_many(count, hypotheses):
    require_same_steps(decoder(), source(count, padded=False), count, hypotheses, 4, PackedCopy)


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary"])
def test_512_steps_are_those_of_a_teacher_forced_pass(positions):
    model = decoder(num_layers=1, positions=positions).float()
    encoded = Encoded(source(2).memory.float(), source(2).mask)
    inputs = torch.randint(3, N, (2, 512))
    with torch.inference_mode():
        memory = model.prepare(encoded)
        forced = model(inputs, memory).log_probabilities
        cached, memory = model.for_search(memory, 2)
        state = cached.initial_state(memory)
        for step, ids in enumerate(inputs.unbind(1)):
            output, state = cached.step(ids, memory, state)
            torch.testing.assert_close(output.log_probabilities, forced[:, step], rtol=1e-5, atol=1e-5)


class Slow:
    """A decoder without cached steps."""

    def __init__(self, decoder):
        self.prepare, self.initial_state, self.step = decoder.prepare, decoder.initial_state, decoder.step


@pytest.mark.parametrize(
    "options", [Search(beam=4, num_best=3), Search(beam=1), Search(method="sampling", num_best=3, seed=4)]
)
@pytest.mark.parametrize("make", [decoder, language_model])
def test_searches_find_the_same(make, options):
    model = make()
    memory = model.prepare(source(6) if make is decoder else context(6))
    told = {"bos": BOS, "eos": EOS, "max_length": torch.arange(6) % 4 + 5, "alignment": True}
    for ours, theirs in zip(search(model, memory, options, **told), search(Slow(model), memory, options, **told)):
        assert [h.tokens.tolist() for h in ours] == [h.tokens.tolist() for h in theirs]
        for one, other in zip(ours, theirs):
            assert one.score == pytest.approx(other.score, abs=1e-10)
            torch.testing.assert_close(one.alignments, other.alignments)


def test_keys_of_another_type_than_the_weights_are_not_read_as_theirs():
    model = decoder().float()
    encoded = tree.map(lambda x: x.float() if x.is_floating_point() else x, source(2))
    with torch.inference_mode():
        with torch.autocast("cpu", dtype=torch.bfloat16):
            memory = model.prepare(encoded)
        assert memory[0].score.dtype == torch.bfloat16
        assert "all inputs alike" in model.unsupported_in_search(memory)
    told = {"bos": BOS, "eos": EOS, "max_length": 6}
    found, expected = (search(each, memory, Search(beam=2), **told) for each in (model, Slow(model)))
    for ours, theirs in zip(found, expected, strict=True):
        assert ours[0].log_probability == pytest.approx(theirs[0].log_probability, abs=0.05)


def test_a_state_stays_valid_whatever_follows():
    model = decoder()
    with torch.inference_mode():
        cached, memory = model.for_search(model.prepare(source(2)), 2)
        state = cached.initial_state(memory)
        first, second, third = torch.randint(3, N, (3, 2))
        _, early = cached.step(first, memory, state)
        expected = cached.step(second, memory, early)[0].log_probabilities
        later = early
        for _ in range(100):  # buffers grow meanwhile
            _, later = cached.step(third, memory, later)
        torch.testing.assert_close(cached.step(second, memory, early)[0].log_probabilities, expected, rtol=0, atol=0)


def test_a_state_is_a_table_of_slots_only():
    model = decoder()
    with torch.inference_mode():
        cached, memory = model.for_search(model.prepare(source(3)), 6)
        state = cached.initial_state(memory, 2)
        for _ in range(3):
            _, state = cached.step(torch.full((6,), 5), memory, state)
    (slots,) = tree.leaves(state)
    assert slots.dtype == torch.int32
    assert slots.shape == (6, 3)


def reason(model, rows=4):
    """Why the decoder's own steps are taken, which `for_search` returns then; None if all layers are one call."""
    with torch.inference_mode():
        memory = model.prepare(context(2) if isinstance(model, TransformerLanguageModel) else source(2))
        found = model.unsupported_in_search(memory)
        assert (model.for_search(memory, rows)[0] is model) == (found is not None)
    return found


def test_what_the_step_does_not_know_takes_the_decoders_steps():
    def reasons(change):
        model = decoder(num_layers=1)
        change(model)
        return reason(model)

    def other_cross_attention(model):
        model.layers[0].cross_attention = luong(query_size=D, memory_size=20).double()

    class Own(DecoderLayer):
        pass

    assert reason(decoder()) is None
    assert "dropout is active" in reasons(lambda model: model.train())
    assert "DotScore" in reasons(other_cross_attention)
    assert "Own" in reasons(lambda model: setattr(model.layers[0], "__class__", Own))
    assert "layers.0.feed_forward.inner has hooks" in reasons(
        lambda model: model.layers[0].feed_forward.inner.register_forward_hook(lambda *_: None)
    )
    for positions in ("relative", "transformer_xl"):
        assert "the type of layers.0.attention.score is" in reason(decoder(positions=positions))
    assert reason(language_model()) is None


def test_causal_windows_that_do_not_end_at_the_step_are_refused():
    model = decoder(num_layers=1)
    attention = multi_head(query_size=D, memory_size=D, size=D)
    model.layers[0].attention = attention.double()
    assert "the type of layers.0.attention.window is FullWindow" in reason(model)


def layers(gate, bias, is_pre, activation, normalised, dtype=torch.float64):
    torch.manual_seed(0)
    heads, groups, size, hidden = 4, 2, 20, 37

    def affine(n, k, bias=bias):
        return Affine(torch.randn(n, k, dtype=dtype) / k**0.5, torch.randn(n, dtype=dtype) if bias else None)

    def norm():
        return NormWeights(torch.randn(size, dtype=dtype), torch.randn(size, dtype=dtype), 1e-5)

    def attention(**more):
        return AttentionWeights(affine(size, size), affine(size, size), 0.7, **more)

    made = [
        LayerWeights(
            (norm(), norm(), norm()),
            attention(key=affine(10, size), value=affine(10, size)),
            attention(),
            affine(hidden, size, True),
            affine(size, hidden, True),
            affine(hidden, size, True) if gate else None,
        )
        for _ in range(2)
    ]
    layout = Layout(
        *(heads, groups, heads, groups, normalised, normalised, is_pre, activation, not gate),
        rotated=not normalised or not is_pre,
        cross_rotated=gate or normalised,
    )
    return tuple(made), layout


@pytest.mark.parametrize(
    ("gate", "bias", "is_pre", "activation", "normalised"),
    [
        *((gate, bias, True, "silu", False) for gate, bias in itertools.product((False, True), repeat=2)),
        (False, True, False, "relu", False),
        (False, True, True, "gelu", True),
        (True, False, False, "silu", True),
    ],
)
def test_compiled_steps_are_those_of_the_reference(gate, bias, is_pre, activation, normalised):
    kernels = [implementation.function() for implementation in step_implementations("transformer_step")]
    weights, layout = layers(gate, bias, is_pre, activation, normalised)
    mask = torch.arange(S) < torch.tensor([S, 3, 0])[:, None]
    keys, values = (tuple(torch.randn(3, S, 2, 5, dtype=torch.float64) for _ in weights) for _ in range(2))
    prompt = [tuple(torch.randn(6, 2, 2, 5, dtype=torch.float64) for _ in weights) for _ in range(2)]
    steps = [kernel.LayerSteps(weights, layout, Sources(keys, values, mask)) for kernel in kernels]
    slots, _ = (step.fill(*prompt) for step in steps)
    angles = torch.rand(2, dtype=torch.float64)
    for wanted in ("self", "cross", None):
        first, _ = (step.reserve(6) for step in steps)
        slots = torch.cat(
            [slots[torch.randint(6, (6,))], torch.arange(first, first + 6, dtype=torch.int32)[:, None]], 1
        )
        present = Present(
            slots,
            torch.randint(0, 3, (6,)),
            torch.arange(3).repeat_interleave(2),
            torch.randn(2, 4, 9, dtype=torch.float64) if bias else None,
            torch.stack([angles.cos(), angles.sin()]),
        )
        x = torch.randn(6, 20, dtype=torch.float64)
        results = []
        for step in steps:
            y = x.clone()
            results.append((y, step.run(y, first, present, weights=wanted)))
        torch.testing.assert_close(*results, rtol=0, atol=1e-11)


def test_two_rotations_are_left_to_the_modules():
    cross = Mechanism(
        RotaryDotScore(D, 20, D, num_heads=4, base=100.0), SoftmaxAlignment(), ProjectedSum(20, D, num_heads=4)
    )
    assert "different rotations" in reason(decoder(num_layers=1, positions="rotary", cross_attention=lambda: cross))


def test_a_mechanism_with_other_parts_is_not_mistaken():
    model = decoder(num_layers=1)
    old = model.layers[0].attention

    class Sharper(type(old.alignment)):
        pass

    sharper = Sharper(sharpening=2.0)
    model.layers[0].attention = Mechanism(old.score, sharper, old.read, CausalWindow())
    assert "Sharper" in reason(model)
