"""Searches with weights of 8 bits: close to those of the weights themselves, and the same in any batch."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard import plain, tree
from regard.attention import bahdanau
from regard.decoding import Search, SimpleDecoder, search, stream
from regard.errors import ConfigError, UnsupportedError
from regard.layers import Linear, RecurrentStack, TokenEmbedding, TokenHead
from regard.models import (
    Encoded,
    EnsembleDecoder,
    PointerDecoder,
    RecurrentDecoder,
    transformer_decoder,
    transformer_language_model,
)
from regard.models.bridge import Bridge
from regard.models.loop import for_search
from regard.ops.eligibility import numba_reason
from regard.ops.linear import PackedProduct
from regard.ops.over_steps import Loop

pytestmark = pytest.mark.skipif(
    numba_reason("regard.ops.kernels.linear") is not None, reason="the products are compiled"
)
B, S, D, N, BOS, EOS = 6, 5, 32, 60, 1, 2


def weighty(module):
    torch.manual_seed(3)
    for name, parameter in module.named_parameters():
        nn.init.normal_(parameter, 1.0 if "norm.weight" in name else 0.0, 0.25)
    return module.eval()


def recurrent():
    mechanism = bahdanau(query_size=D, memory_size=D, size=D)
    stack = RecurrentStack(RecurrentDecoder.input_size(D, D, attention=mechanism), D, cell="gru")
    bridge = Bridge(RecurrentStack(D, D // 2, bidirectional=True), stack, "zero")
    return RecurrentDecoder(TokenEmbedding(N, D), stack, TokenHead(D, N), bridge, attention=mechanism)


def transformer(**options):
    sizes = {"memory_size": D, "num_layers": 2, "num_heads": 4, "feed_forward_size": 48}
    return transformer_decoder(TokenEmbedding(N, D), TokenHead(D, N), **sizes | options)


DECODERS = {
    "recurrent": recurrent,
    "pointer": lambda: PointerDecoder(recurrent()),
    "transformer": transformer,
    "other cross-attention": lambda: transformer(positions="relative"),
    "gated": lambda: transformer(norm="post", positions="rotary", num_key_value_heads=2),
    "language model": lambda: transformer_language_model(
        TokenEmbedding(N, D, padding=None), TokenHead(D, N), num_layers=2, num_heads=4, feed_forward_size=48
    ),
}


def source(rows=B):
    torch.manual_seed(2)
    ids = torch.randint(3, N, (B, S))
    return Encoded(torch.randn(B, S, D)[:rows], None, source_ids=ids[:rows])


def prepare(name, model, rows=B):
    encoded = source(rows)
    return model.prepare(Encoded(encoded.source_ids) if name == "language model" else encoded)


@pytest.mark.parametrize("rows", [1, 4, 7])
@pytest.mark.parametrize("size", [3, 64, 200])
def test_a_product_with_bytes_is_as_close_as_its_roundings(rows, size):
    torch.manual_seed(rows)
    x, weight, bias = torch.randn(rows, size) * 5, torch.randn(37, size), torch.randn(37)
    with torch.no_grad():
        product = PackedProduct(weight, as_bytes=True)
        found = product(x, bias)
    # each factor is off by half of its scale at most
    scales = x.abs().amax(1, keepdim=True) / 127, weight.abs().amax(1) / 127
    bound = 0.5 * scales[0] * weight.abs().sum(1) + 0.5 * scales[1] * x.abs().sum(1, keepdim=True)
    bound = bound + 0.25 * size * scales[0] * scales[1] + 1e-4
    error = (found - (x @ weight.T + bias)).abs()
    assert (error <= bound).all()
    assert error.max() > 1e-5  # the weights are rounded
    for row in range(rows):  # by itself a row is what it is among others
        torch.testing.assert_close(product(x[row : row + 1], bias)[0], found[row], rtol=0, atol=0)


def test_numbers_that_are_none_are_not_lost():
    x = torch.randn(4, 40)
    x[1, 3], x[2, 5] = torch.nan, torch.inf
    with torch.no_grad():
        found = PackedProduct(torch.randn(9, 40), as_bytes=True)(x)
        nothing = PackedProduct(torch.zeros(9, 40), as_bytes=True)(torch.zeros(4, 40))
    assert found[1:3].isnan().all()
    assert found[[0, 3]].isfinite().all()
    assert (nothing == 0).all()


@pytest.mark.parametrize("name", DECODERS)
def test_steps_with_bytes_are_close(name):
    model = weighty(DECODERS[name]())
    said = {}
    with torch.inference_mode():
        memory = prepare(name, model)
        for storage in ("float32", "int8"):
            with Loop(storage):
                taker, kept = for_search(model, memory, 2 * B)
            state, outputs = taker.initial_state(kept, 2), []
            draw = torch.Generator().manual_seed(4)
            with Loop(storage):
                for _ in range(5):
                    inputs = torch.randint(3, N, (2 * B,), generator=draw)
                    output, state = taker.step(inputs, kept, state)
                    outputs.append(output.log_probabilities.exp())
            said[storage] = torch.stack(outputs)
    differences = (said["int8"] - said["float32"]).abs()
    assert 1e-5 < differences.max() < 0.1


@pytest.mark.parametrize("name", ["transformer", "gated"])
def test_all_layers_in_one_call_round_as_the_modules_do(name):
    model = weighty(DECODERS[name]())
    said = []
    with torch.inference_mode():
        prepared = model.prepare(source())
        with Loop("int8"):
            cached = for_search(model, prepared, B)
        assert cached[0] is not model
        for (taker, memory), storage in ((cached, "int8"), ((model, prepared), "int8"), ((model, prepared), "float32")):
            state = taker.initial_state(memory)
            with Loop(storage):
                for _ in range(3):
                    output, state = taker.step(torch.full((B,), 7), memory, state)
            said.append(output.log_probabilities)
    of_cache, of_modules, exact = said
    assert (of_cache - of_modules).abs().max() < 0.3 * (of_modules - exact).abs().max()


@pytest.mark.parametrize(
    "options",
    [Search(beam=3), Search(beam=8, eos_threshold=1.5), Search(beam=1), Search(method="sampling", num_best=2, seed=3)],
)
@pytest.mark.parametrize("name", DECODERS)
def test_a_sentence_alone_is_as_in_a_batch(name, options):
    model = weighty(DECODERS[name]())
    told = {"bos": BOS, "eos": EOS, "max_length": 6}
    stored = options.replace(weights="int8")
    found = search(model, prepare(name, model), stored, **told)
    exact = search(model, prepare(name, model), options, **told)
    alone = search(model, prepare(name, model, 1), stored, **told)[0]
    assert [h.tokens.tolist() for h in alone] == [h.tokens.tolist() for h in found[0]]
    for one, other in zip(alone, found[0], strict=True):  # rounded to the same bytes
        assert one.log_probability == pytest.approx(other.log_probability, abs=1e-4)
    scores = [[h.log_probability for sentence in each for h in sentence] for each in (found, exact)]
    assert scores[0] != scores[1]


def test_any_decoder_of_linear_maps_stores_its_weights():
    """One of a user's own, without attention."""
    torch.manual_seed(0)
    table, layer = torch.randn(N, D), Linear(D, N)

    def step(ids, memory, state):
        state = torch.tanh(state + table[ids] + memory)
        return layer(state).log_softmax(1), state

    simple = SimpleDecoder(lambda given: (given, torch.zeros(len(given), D)), step)
    memory = simple.prepare(torch.randn(B, D))
    told = {"bos": BOS, "eos": EOS, "max_length": 4}
    found, exact = (search(simple, memory, Search(beam=2, weights=each), **told) for each in ("int8", "float32"))
    differences = [abs(one[0].log_probability - other[0].log_probability) for one, other in zip(found, exact)]
    assert 0 < max(differences) < 0.5


def test_where_nothing_could_be_stored_is_an_error():
    told = {"bos": BOS, "eos": EOS, "max_length": 3}
    stored = Search(weights="int8")
    for name in DECODERS:
        model = weighty(DECODERS[name]())
        memory = prepare(name, model)
        with pytest.raises(UnsupportedError, match="int8 is impossible here: switched off"), plain():
            search(model, memory, stored, **told)
        with (
            pytest.raises(UnsupportedError, match="int8 is impossible here: autocast"),
            torch.autocast("cpu", torch.bfloat16),
        ):
            search(model, memory, stored, **told)
        wide = model.double()
        memory = tree.map(lambda x: x.double() if x.is_floating_point() else x, prepare_wide(name, wide))
        with pytest.raises(UnsupportedError, match="int8 is impossible here: it computes in float32"):
            search(wide, memory, stored, **told)
    simple = SimpleDecoder(lambda given: (given, given), lambda ids, memory, state: (state.log_softmax(1), state))
    with pytest.raises(UnsupportedError, match="int8 is impossible here: SimpleDecoder has no `Linear`"):
        search(simple, simple.prepare(torch.zeros(1, 5)), stored, bos=0, eos=1, max_length=3)
    pair = EnsembleDecoder([weighty(transformer()), weighty(recurrent()).double()])
    encoded = tree.map(lambda x: x.double() if x.is_floating_point() else x, source())
    with pytest.raises(UnsupportedError, match=r"int8 is impossible here: .*float32"):
        search(pair, pair.prepare([source(), encoded]), stored, **told)
    with pytest.raises(ConfigError, match="weights"):
        Search(weights="int4")


def prepare_wide(name, model):
    if name == "language model":
        return prepare(name, model)
    return model.prepare(tree.map(lambda x: x.double() if x.is_floating_point() else x, source()))


def test_a_streamed_search_stores_its_weights_too():
    model = weighty(transformer())
    told = {"bos": BOS, "eos": EOS, "max_length": 6}
    ends = []
    for options in (Search(beam=3), Search(beam=3, weights="int8")):
        memory = model.prepare(source(2))
        streamed = [step.hypothesis for step in stream(model, memory, options, **told) if step.hypothesis is not None]
        found = search(model, memory, options, **told)
        assert sorted(h.log_probability for h in streamed) == sorted(each[0].log_probability for each in found)
        ends.append([h.log_probability for h in streamed])
    assert ends[0] != ends[1]
