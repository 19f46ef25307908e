"""The first state of a decoder's layers, from which of the encoder's layers and by which map."""

from __future__ import annotations

import pytest
import torch

from regard.config.schema import AttentionConfig, DecoderConfig
from regard.errors import ConfigError, ShapeError
from regard.layers import RecurrentStack, TokenEmbedding, TokenHead
from regard.models import Bridge, Encoded
from regard.tasks.build import build_decoder


def stacks():
    torch.manual_seed(0)
    return RecurrentStack(3, 4, 2, cell="lstm", bidirectional=True), RecurrentStack(3, 5, 2, cell="lstm")


def encoded(encoder):
    outputs, final = encoder(torch.randn(2, 6, 3))
    return Encoded(outputs, None, final)


def test_every_layer_may_begin_with_what_the_encoders_top_layer_ends_with():
    encoder, decoder = stacks()
    given = encoded(encoder)
    bridge = Bridge(encoder, decoder, "tanh", layers="top")
    bridge.maps[0].load_state_dict(bridge.maps[1].state_dict())
    first, second = bridge(given)
    assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))
    expected = torch.tanh(bridge.maps[1](torch.cat(given.final_state[-1], -1)))
    torch.testing.assert_close(torch.cat(second, -1), expected)


@pytest.mark.parametrize("kind", ["linear", "tanh"])
def test_a_configuration_chooses_the_map_and_the_layers(kind):
    config = DecoderConfig(cell="lstm", size=5, layers=2, embedding_size=3, bridge=kind, bridge_layers="top")
    decoder = build(config, stacks()[0])
    assert (decoder.bridge.kind, decoder.bridge.lower_layers) == (kind, [1, 1])


def test_layers_without_an_effect_are_refused():
    config = DecoderConfig(cell="lstm", size=5, layers=2, embedding_size=3, bridge="zero", bridge_layers="top")
    with pytest.raises(ConfigError, match="bridge_layers has no effect") as caught:
        build(config, stacks()[0])
    assert caught.value.path == ("model", "decoder", "bridge_layers")


def build(config, encoder):
    return build_decoder(
        config,
        AttentionConfig(),
        encoder,
        embedding=lambda: TokenEmbedding(7, 3),
        head=lambda size, embedding: TokenHead(5, 7),
    )


def test_a_map_of_all_layers_sees_all_of_them():
    encoder, decoder = stacks()
    given = encoded(encoder)
    bridge = Bridge(encoder, decoder, "relu")
    first = bridge(given)
    for number, each in enumerate(bridge.maps):
        states = torch.cat([layer[number] for layer in given.final_state], -1)
        expected = torch.relu(each(states))
        torch.testing.assert_close(torch.cat([layer[number] for layer in first], -1), expected)
    config = DecoderConfig(cell="lstm", size=5, layers=2, embedding_size=3, bridge="relu")
    assert build(config, encoder).bridge.kind == "relu"


def test_a_map_of_all_layers_needs_as_many_of_them_and_their_last_states():
    encoder, _ = stacks()
    deeper = RecurrentStack(3, 5, 3, cell="lstm")
    with pytest.raises(ShapeError, match="the encoder has 2 layers of lstm cells, the decoder 3"):
        Bridge(encoder, deeper, "relu")
    with pytest.raises(ShapeError, match="leave out layers='top'"):
        Bridge(encoder, stacks()[1], "relu", layers="top")
    with pytest.raises(ShapeError, match="with a context vector use 'dense'"):
        Bridge(encoder, stacks()[1], "relu", context_size=4)
    with pytest.raises(ShapeError, match="'relu' reads last states"):
        Bridge(8, stacks()[1], "relu")
