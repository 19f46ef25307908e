from __future__ import annotations

import math

import pytest
import torch
from jaxtyping import TypeCheckError
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

import laws
from regard.attention import CausalWindow, Parallel, bahdanau, location_sensitive, multi_head
from regard.decoding import main_alignment
from regard.errors import ShapeError, UnsupportedError
from regard.layers import SinusoidalPositions, TokenEmbedding, TokenHead
from regard.models import (
    DecoderLayer,
    Encoded,
    EncoderDecoder,
    TransformerDecoder,
    transformer_decoder,
    transformer_encoder,
)

SIZE, TOKENS = 8, 7
SOURCES = [torch.tensor(ids) for ids in ([3, 4, 5, 1, 2, 6], [5, 3], [4, 4, 1, 6])]


@pytest.fixture(autouse=True)
def _in_float64():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def make(norm="pre", tied=True, dropout=0.0, num_tokens=TOKENS):
    sizes = {"num_layers": 2, "num_heads": 2, "feed_forward_size": 12, "norm": norm, "dropout": dropout}
    encoder = transformer_encoder(TokenEmbedding(TOKENS, SIZE), **sizes)
    embedding = TokenEmbedding(num_tokens, SIZE)
    head = TokenHead(SIZE, num_tokens, tied=embedding if tied else None)
    model = louder(EncoderDecoder(encoder, transformer_decoder(embedding, head, memory_size=SIZE, **sizes)))
    with torch.no_grad():
        head.projection.bias[laws.EOS] -= 1
    return model


def louder(model):
    """Weights large enough that attention is not flat and the biases are seen."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "table" not in name:
                parameter.add_(torch.randn_like(parameter) * 0.4)
    return model


def encoding(model):
    def encode(sources, extra=0):
        return model.encoder.encode(*laws.padded(sources, extra, fill=3))

    return encode


def with_cross(cross):
    """A decoder of two layers whose cross-attention is `cross()`."""
    embedding = TokenEmbedding(TOKENS, SIZE)
    layers = [
        DecoderLayer(
            SIZE,
            multi_head(query_size=SIZE, memory_size=SIZE, size=SIZE, num_heads=2, window=CausalWindow()),
            cross(),
            feed_forward_size=12,
        )
        for _ in range(2)
    ]
    return louder(TransformerDecoder(embedding, layers, TokenHead(SIZE, TOKENS)))


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("tied", [True, False])
def test_steps_with_a_growing_memory_are_the_pass_over_the_whole_target(norm, tied):
    model = make(norm, tied)
    laws.steps_are_forward(model.decoder, model.prepare(*laws.padded(SOURCES)), torch.randint(1, TOKENS, (3, 7)))


def test_the_self_memory_grows_in_the_state_and_the_source_is_not_tiled():
    model = make()
    memory = model.prepare(*laws.padded(SOURCES))
    state = model.decoder.initial_state(memory, 4)
    for t in range(3):
        assert all(layer.memory.read.shape[:2] == (12, t) for layer in state.layers)
        assert (state.position == t).all()
        _, state = model.decoder.step(torch.full((12,), 3), memory, state)
    assert all(own.read.shape[:2] == (3, 6) for own in memory)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_neither_batch_nor_order_nor_padding_changes_outputs_or_gradients(norm):
    model = make(norm)
    laws.batches_are_invisible(model, encoding(model), model.decoder, SOURCES)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_beam_over_several_sentences_is_each_alone_and_agrees_with_the_forced_pass(norm):
    model = make(norm)
    laws.beams_are_alone_and_forced(encoding(model), model.decoder, SOURCES)


def test_a_beam_wide_enough_is_exhaustive_search():
    model = make(num_tokens=4)
    laws.a_wide_beam_is_exhaustive(model.decoder, model.prepare(*laws.padded(SOURCES[:1])), 4, 4)


@pytest.mark.parametrize(
    "cross",
    [
        lambda: location_sensitive(query_size=SIZE, memory_size=SIZE, size=6, kernel_size=3, num_filters=2),
        lambda: bahdanau(query_size=SIZE, memory_size=SIZE, size=6),
    ],
)
def test_any_mechanism_can_look_at_the_source(cross):
    decoder = with_cross(cross)
    ids, mask = laws.padded(SOURCES)
    memory = decoder.prepare(Encoded(torch.randn(*ids.shape, SIZE), mask))
    laws.steps_are_forward(decoder, memory, torch.randint(1, TOKENS, (3, 5)))


def test_two_sources_of_different_length_are_looked_at_in_parallel():
    def half():
        return multi_head(query_size=SIZE, memory_size=SIZE, size=SIZE // 2, num_heads=2)

    decoder = with_cross(lambda: Parallel([half(), half()]))
    (short, short_mask), (long, long_mask) = laws.padded(SOURCES), laws.padded(SOURCES[::-1], extra=3)
    encoded = Encoded(tuple(torch.randn(*ids.shape, SIZE) for ids in (short, long)), (short_mask, long_mask))
    memory = decoder.prepare(encoded)
    laws.steps_are_forward(decoder, memory, torch.randint(1, TOKENS, (3, 5)))
    assert decoder.main_attention == "cross.1.0"


def test_the_last_layers_cross_attention_is_the_main_one_and_padding_gets_exactly_nothing():
    model = make()
    ids, mask = laws.padded(SOURCES, extra=2)
    alignments = model(ids, torch.randint(1, TOKENS, (3, 5)), mask=mask, alignment=True).alignments
    assert list(alignments) == ["cross.0", "cross.1"]
    for weights in alignments.values():
        assert weights.shape == (3, 2, 5, 8)
        assert not weights.masked_select(~mask[:, None, None]).any()
        laws.close(weights.sum(-1), torch.ones(3, 2, 5))
    shown = main_alignment({name: weights[0] for name, weights in alignments.items()}, model.decoder)
    laws.close(shown, alignments["cross.1"][0].mean(0))


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_every_layer_is_what_torchs_own_attention_makes_of_its_weights(norm):
    model = make(norm)
    ids, mask = laws.padded(SOURCES)
    inputs = torch.randint(1, TOKENS, (3, 5))

    def heads(x):
        return x.unflatten(-1, (2, -1)).transpose(1, 2)

    def attend(mechanism, queries, values, **options):
        score, read = mechanism.score, mechanism.read
        found = scaled_dot_product_attention(
            heads(score.query_projection(queries)),
            heads(score.key_projection(values)),
            heads(read.value_projection(values)),
            **options,
        )
        return read.output_projection(found.transpose(1, 2).flatten(2))

    def around(residual, x, function):
        return x + function(residual.norm(x)) if norm == "pre" else residual.norm(x + function(x))

    def fed(module, ids):
        table = [
            [
                math.sin(t / 10000 ** (i / SIZE)) if i % 2 == 0 else math.cos(t / 10000 ** ((i - 1) / SIZE))
                for i in range(SIZE)
            ]
            for t in range(ids.shape[1])
        ]
        return module.embedding.embedding(ids) * SIZE**0.5 + torch.tensor(table)

    seen = mask[:, None, None]
    x = fed(model.encoder, ids)
    for layer in model.encoder.layers:
        x = around(layer.residuals[0], x, lambda y, m=layer.attention: attend(m, y, y, attn_mask=seen))
        x = around(layer.residuals[1], x, layer.feed_forward)
    source = model.encoder.norm(x)
    y = fed(model.decoder, inputs)
    for layer in model.decoder.layers:
        y = around(layer.residuals[0], y, lambda z, m=layer.attention: attend(m, z, z, is_causal=True))
        y = around(layer.residuals[1], y, lambda z, m=layer.cross_attention: attend(m, z, source, attn_mask=seen))
        y = around(layer.residuals[2], y, layer.feed_forward)
    encoded = model.encoder.encode(ids, mask)
    laws.close(encoded.memory[mask], source[mask])
    assert not encoded.memory[~mask].any()
    laws.close(model(ids, inputs, mask=mask).log_probabilities, model.decoder.head(model.decoder.norm(y)))
    assert isinstance(model.decoder.norm, nn.LayerNorm) == (norm == "pre")


def test_frames_are_encoded_whatever_their_padding_holds():
    class Frames(nn.Linear):
        size = SIZE

    encoder = transformer_encoder(Frames(3, SIZE), num_layers=1, num_heads=2, feed_forward_size=4, dropout=0)
    mask = torch.arange(4) < torch.tensor([4, 2])[:, None]
    frames = torch.randn(2, 4, 3).masked_fill(~mask[..., None], math.inf)
    memory = encoder.encode(frames, mask).memory
    laws.close(memory[1, :2], encoder.encode(frames[1:, :2]).memory[0])
    memory.square().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in encoder.parameters())


def test_no_output_depends_on_later_inputs():
    decoder = make().decoder
    memory = decoder.prepare(Encoded(torch.randn(1, 3, SIZE)))
    fed = []
    decoder.embedding.register_forward_hook(lambda _, __, output: fed.append(output.requires_grad_()))
    said = decoder(torch.tensor([[1, 4, 5, 6, 3]]), memory).log_probabilities
    for t in range(5):
        (gradient,) = torch.autograd.grad(said[0, t].pow(2).sum(), fed[-1], retain_graph=True)
        assert gradient[0, : t + 1].abs().sum(-1).min() > 0
        assert not gradient[0, t + 1 :].any()


@pytest.mark.parametrize("size", [1, 2, 5, 8])
def test_positions_are_sines_and_cosines_at_any_width(size):
    positions = SinusoidalPositions(size)
    found = positions(torch.tensor([[0, 1], [7, 3000]]), torch.zeros(()))
    for row, column, t in ((0, 0, 0), (0, 1, 1), (1, 0, 7), (1, 1, 3000)):
        for i in range(size):
            angle = t / 10000 ** ((i - i % 2) / size)
            assert found[row, column, i].item() == pytest.approx([math.sin, math.cos][i % 2](angle), abs=1e-10)
    assert positions(torch.arange(3), torch.zeros((), dtype=torch.float16)).dtype == torch.float16


def test_an_empty_source_gives_numbers_and_no_gradient_of_nan():
    model = make()
    ids, mask = laws.padded([SOURCES[0], SOURCES[1][:0]])
    said = model(ids, torch.randint(1, TOKENS, (2, 4)), mask=mask, alignment=True)
    assert said.log_probabilities.isfinite().all()
    assert not said.alignments["cross.1"][1].any()
    said.log_probabilities.square().sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())


def test_empty_batches_and_targets_are_legal():
    model = make()
    assert model(torch.zeros(0, 4, dtype=torch.long), torch.zeros(0, 3, dtype=torch.long)).log_probabilities.shape == (
        0,
        3,
        TOKENS,
    )
    assert model(SOURCES[0][None], torch.zeros(1, 0, dtype=torch.long)).log_probabilities.shape == (1, 0, TOKENS)
    memory = model.prepare(torch.zeros(2, 0, dtype=torch.long))
    laws.steps_are_forward(model.decoder, memory, torch.randint(1, TOKENS, (2, 3)))


def test_gradients_are_those_of_finite_differences():
    decoder = make().decoder
    mask = torch.tensor([[True, True, True], [True, False, False]])
    inputs = torch.tensor([[1, 4], [1, 5]])

    def function(values):
        return decoder(inputs, decoder.prepare(Encoded(values, mask))).log_probabilities

    assert torch.autograd.gradcheck(function, torch.randn(2, 3, SIZE, requires_grad=True), fast_mode=True)


def test_dropout_acts_in_training_alone():
    model = make(dropout=0.5)
    ids, inputs = SOURCES[0][None], torch.tensor([[1, 3, 4]])
    assert not torch.equal(model(ids, inputs).log_probabilities, model(ids, inputs).log_probabilities)
    model.eval()
    assert torch.equal(model(ids, inputs).log_probabilities, model(ids, inputs).log_probabilities)


def test_tied_weights_are_one_matrix():
    decoder = make(tied=True).decoder
    assert decoder.head.projection.weight is decoder.embedding.embedding.table.weight
    assert make(tied=False).decoder.head.projection.weight.shape == (TOKENS, SIZE)


def test_what_does_not_fit_is_refused():
    with pytest.raises(UnsupportedError, match="recurrent"):
        DecoderLayer(
            SIZE,
            location_sensitive(query_size=SIZE, memory_size=SIZE),
            bahdanau(query_size=SIZE, memory_size=SIZE),
            feed_forward_size=4,
        )
    with pytest.raises((UnsupportedError, TypeCheckError), match="'sandwich'"):
        make("sandwich")
    with pytest.raises(UnsupportedError, match="at least one layer"):
        TransformerDecoder(TokenEmbedding(3, 4), [], TokenHead(4, 3))
    with pytest.raises(ShapeError, match=r"inputs .*B=1, S=6"):
        make().prepare(SOURCES[0][None], torch.ones(1, 5, dtype=torch.bool))
