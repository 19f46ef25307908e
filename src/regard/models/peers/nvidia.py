"""NVIDIA's Tacotron 2."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from regard.attention import AbstractAttention, location_sensitive
from regard.layers import CellStack, ConvolutionBlock, Prenet, RecurrentStack, TokenEmbedding
from regard.models.peers.names import Names, convolution_blocks, numbered, transposed
from regard.models.tacotron import (
    ConvolutionalEncoder,
    ConvolutionalPostnet,
    FrameHead,
    StopHead,
    Tacotron,
    TacotronDecoder,
    initialise_tacotron,
)


def tacotron2(
    num_symbols: int,
    *,
    num_features: int = 80,
    num_frames: int = 1,
    embedding_size: int = 512,
    num_convolutions: int = 3,
    kernel_size: int = 5,
    prenet_size: int = 256,
    prenet_layers: int = 2,
    prenet_dropout: float = 0.5,
    size: int = 1024,
    dropout: float = 0.1,
    attention: Callable[..., AbstractAttention] | None = None,
    postnet_size: int = 512,
    postnet_layers: int = 5,
) -> Tacotron:
    """A query LSTM and an output LSTM, dropout on their h; the prenet has no biases and sees all r frames.

    The prenet always drops. The encoder is as wide as the embeddings. There is one stop logit a step. All symbols have
    a vector, as theirs do, but padding counts nowhere; so sentences are theirs without padding.
    """
    widths = embedding_size, embedding_size
    blocks = [ConvolutionBlock(*widths, kernel_size, dropout=0.5) for _ in range(num_convolutions)]
    encoder = ConvolutionalEncoder(
        TokenEmbedding(num_symbols, embedding_size, padding=None),
        blocks,
        RecurrentStack(embedding_size, embedding_size // 2, bidirectional=True),
    )
    attend = partial(location_sensitive, like="nvidia", size=128) if attention is None else attention
    mechanism = attend(query_size=size, memory_size=embedding_size)
    context = mechanism.context_size
    prenet = Prenet(
        num_frames * num_features, (prenet_size,) * prenet_layers, dropout=prenet_dropout, drops="always", bias=False
    )
    decoder = TacotronDecoder(
        prenet,
        mechanism,
        FrameHead(size, context, num_features, num_frames, stop=StopHead(size, context, 1)),
        query_cells=CellStack(prenet_size + context, size, dropout=dropout),
        output_cells=CellStack(size + context, size, dropout=dropout),
        num_fed_frames=num_frames,
    )
    postnet = ConvolutionalPostnet(num_features, postnet_size, num_layers=postnet_layers)
    model = Tacotron(encoder, decoder, {"mel": postnet})
    initialise_tacotron(model)
    return model


def names(model: Tacotron, *, batch_norm: tuple[str, str] = ("0.conv", "1")) -> Names:
    """Their modules by ours."""
    return {
        **numbered(
            "decoder.prenet.layers.{}", "decoder.prenet.layers.{}.linear_layer", len(model.decoder.prenet.layers)
        ),
        **convolution_blocks(
            model,
            encoder="encoder.convolutions",
            postnet="postnet.convolutions",
            filters=batch_norm[0],
            norm=batch_norm[1],
        ),
        "encoder.embedding.table": "embedding",
        "encoder.stack.layers.0": "encoder.lstm",
        "decoder.query_cells.cells.0.layers.0": "decoder.attention_rnn",
        "decoder.output_cells.cells.0.layers.0": "decoder.decoder_rnn",
        "decoder.attention.score.content.query_projection": "decoder.attention_layer.query_layer.linear_layer",
        "decoder.attention.score.content.key_projection": "decoder.attention_layer.memory_layer.linear_layer",
        "decoder.attention.score.content.v": "decoder.attention_layer.v.linear_layer.weight",
        "decoder.attention.score.filters": "decoder.attention_layer.location_layer.location_conv.conv",
        "decoder.attention.score.location_projection": transposed(
            "decoder.attention_layer.location_layer.location_dense.linear_layer.weight"
        ),
        "decoder.head.projection": "decoder.linear_projection.linear_layer",
        "decoder.head.stop.projection": "decoder.gate_layer.linear_layer",
    }
