"""Positions as vectors, and the Transformer with each way of knowing them."""

from __future__ import annotations

import math

import pytest
import torch
from torch.export import export

import laws
from regard.attention import FullWindow, ScaledDotScore
from regard.decoding import Search, search
from regard.errors import ShapeError, UnsupportedError
from regard.layers import (
    BlockedSinusoidalPositions,
    LearnedPositions,
    PositionedEmbedding,
    ScaledPositions,
    SinusoidalPositions,
    TokenEmbedding,
    TokenHead,
)
from regard.models import EncoderDecoder, transformer_decoder, transformer_encoder
from regard.testing.mechanism import move_weights

SIZE, TOKENS = 8, 7
SOURCES = [torch.tensor(ids) for ids in ([3, 4, 5, 1, 2, 6], [5, 3], [4, 4, 1, 6])]
INSIDE = ["rotary", "linear_bias", "buckets", "relative", "transformer_xl"]
ADDED = ["sinusoidal", "half_sinusoidal", "blocked_sinusoidal", "scaled_sinusoidal", "learned"]


@pytest.fixture(autouse=True)
def _in_float64():
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(torch.float32)


def make(positions, max_length=80, **options):
    sizes = {"num_layers": 2, "num_heads": 2, "feed_forward_size": 12, "dropout": 0.0, "positions": positions}
    sizes |= {"max_length": max_length} if positions == "learned" else {}
    sizes |= options
    encoder = transformer_encoder(TokenEmbedding(TOKENS, SIZE), **sizes)
    embedding = TokenEmbedding(TOKENS, SIZE)
    head = TokenHead(SIZE, TOKENS, tied=embedding)
    model = EncoderDecoder(encoder, transformer_decoder(embedding, head, memory_size=SIZE, **sizes))
    move_weights(model)
    return model


@pytest.mark.parametrize("positions", [*ADDED, *INSIDE, None])
def test_steps_with_a_growing_memory_are_the_pass_over_the_whole_target(positions):
    model = make(positions, num_key_value_heads=1)
    laws.steps_are_forward(model.decoder, model.prepare(*laws.padded(SOURCES)), torch.randint(1, TOKENS, (3, 7)))


@pytest.mark.parametrize("positions", INSIDE)
def test_nothing_is_added_where_attention_knows_of_positions(positions):
    model = make(positions)
    ids = torch.tensor([[3, 3, 3]])
    for part in (model.encoder, model.decoder):
        embedded = part.embedding(ids, torch.arange(3))
        torch.testing.assert_close(embedded, part.embedding.embedding(ids) * math.sqrt(SIZE))
    for layer in model.decoder.layers:
        assert type(layer.cross_attention.score) is ScaledDotScore
        assert type(layer.cross_attention.window) is FullWindow


@pytest.mark.parametrize("positions", [*ADDED, *INSIDE, None])
def test_an_encoder_knows_the_order_unless_it_knows_no_positions(positions):
    encoder = make(positions).encoder
    ids = torch.tensor([[3, 4, 5, 6]])
    forwards, backwards = encoder.encode(ids).memory, encoder.encode(ids.flip(1)).memory.flip(1)
    assert torch.allclose(forwards, backwards) == (positions in (None, "linear_bias"))  # ALiBi is symmetric
    moved = encoder.encode(ids[:, [0, 2, 1, 3]]).memory[:, [0, 2, 1, 3]]
    assert torch.allclose(forwards, moved) == (positions is None)


@pytest.mark.parametrize("positions", INSIDE)
def test_layers_have_positions_of_their_own_that_learn(positions):
    model = make(positions)
    ids, mask = laws.padded(SOURCES)
    model(ids, torch.randint(1, TOKENS, (3, 5)), mask=mask).log_probabilities.square().sum().backward()
    names = {
        "buckets": "attention.window",
        "relative": "attention.score.offsets",
        "transformer_xl": "attention.score.offset_projection",
    }
    found = [p for name, p in model.named_parameters() if names.get(positions, "nothing") in name]
    assert len(found) == (4 if positions in names else 0)
    assert all(p.grad.abs().sum() > 0 for p in found)


def test_saved_weights_hold_all_that_was_learned(tmp_path):
    for positions in (*ADDED, *INSIDE):
        first, second = make(positions), make(positions)
        with torch.no_grad():
            for parameter in second.parameters():
                parameter.add_(1)
        torch.save(first.state_dict(), tmp_path / "weights")
        second.load_state_dict(torch.load(tmp_path / "weights", weights_only=True))
        ids, inputs = SOURCES[0][None], torch.tensor([[1, 3, 4]])
        assert torch.equal(first(ids, inputs).log_probabilities, second(ids, inputs).log_probabilities)


def test_a_search_beyond_the_learned_positions_says_how_many_there_are():
    model = make("learned", max_length=6)
    with torch.no_grad():
        model.decoder.head.projection.bias[laws.EOS] = -1e3
    memory = model.prepare(SOURCES[0][None])
    with pytest.raises(ShapeError, match=r"length 7 is longer than max_length=6"):
        search(model.decoder, memory, Search(beam=2), bos=laws.BOS, eos=laws.EOS, max_length=9)
    with pytest.raises(ShapeError, match=r"length 8 is longer than max_length=6"):
        model.prepare(torch.full((1, 8), 3))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"positions": "learned", "max_length": None}, "learned positions need a max_length"),
        ({"positions": "rotary", "max_length": 9}, "positions='rotary' and max_length=9"),
        (
            {"positions": "absolute"},
            "positions='absolute' must be one of sinusoidal, half_sinusoidal, blocked_sinusoidal, scaled_sinus",
        ),
    ],
)
def test_positions_that_make_no_sense_are_refused(options, message):
    with pytest.raises(UnsupportedError, match=message):
        transformer_encoder(TokenEmbedding(TOKENS, SIZE), num_heads=2, **options)


def test_learned_positions_end_where_they_end():
    positions = LearnedPositions(3, 4)
    like = torch.zeros(())
    assert torch.equal(positions(torch.tensor([[0, 2]]), like), positions.table.weight[None, [0, 2]])
    assert positions(torch.zeros(2, 0, dtype=torch.long), like).shape == (2, 0, 4)
    with pytest.raises(ShapeError, match=r"length 4 is longer than max_length=3.*Shorten it"):
        positions(torch.tensor([1, 3]), like)
    program = export(positions, (torch.tensor([1]), like)).module()
    assert torch.equal(program(torch.tensor([2]), like), positions.table.weight[2:])


@pytest.mark.parametrize("size", [2, 3, 6, 7])
def test_positions_of_tensor2tensor_are_sines_and_then_cosines(size):
    found = BlockedSinusoidalPositions(size)(torch.tensor([0, 5]), torch.zeros(()))
    half = size // 2
    for row, t in enumerate((0, 5)):
        angles = [t / 10000 ** (i / max(half - 1, 1)) for i in range(half)]
        expected = [*map(math.sin, angles), *map(math.cos, angles), *[0.0] * (size % 2)]
        torch.testing.assert_close(found[row], torch.tensor(expected))


def test_scaled_positions_learn_their_size_and_may_scale_any():
    ids = torch.tensor([[3, 4]])
    embedding = TokenEmbedding(TOKENS, SIZE)
    for inner in (SinusoidalPositions(SIZE), LearnedPositions(5, SIZE)):
        scaled = PositionedEmbedding(embedding, positions=ScaledPositions(inner, scale=0.5))
        plain, none = (PositionedEmbedding(embedding, positions=p) for p in (inner, None))
        found, ones, nothing = (m(ids, torch.arange(2)) for m in (scaled, plain, none))
        torch.testing.assert_close(found - nothing, (ones - nothing) / 2)
        found.square().sum().backward()
        assert scaled.positions.scale.grad.abs() > 0


def test_an_embedding_adds_sinusoids_unless_told_otherwise():
    embedding = TokenEmbedding(TOKENS, SIZE)
    assert type(PositionedEmbedding(embedding).positions) is SinusoidalPositions
    assert PositionedEmbedding(embedding, positions=None).positions is None
