"""ESPnet's Tacotron 2."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from torch import nn

from regard.attention import AbstractAttention, location_sensitive
from regard.layers import CellStack, ConvolutionBlock, Prenet, RecurrentStack, TokenEmbedding
from regard.models.peers.names import (
    Names,
    context_last,
    convolution_blocks,
    frame_by_frame,
    numbered,
    transposed,
)
from regard.models.tacotron import (
    ConvolutionalEncoder,
    ConvolutionalPostnet,
    FrameHead,
    StopHead,
    Tacotron,
    TacotronDecoder,
)


def tacotron2(
    num_symbols: int,
    *,
    num_features: int = 80,
    num_frames: int = 1,
    embedding_size: int = 512,
    encoder_size: int = 512,
    num_convolutions: int = 3,
    convolution_size: int = 512,
    kernel_size: int = 5,
    prenet_size: int = 256,
    prenet_layers: int = 2,
    size: int = 1024,
    dropout: float = 0.5,
    zoneout: float = 0.1,
    attention: Callable[..., AbstractAttention] | None = None,
    postnet_size: int = 512,
    postnet_layers: int = 5,
) -> Tacotron:
    """Two LSTMs with zoneout, asked with the first one's old state; convolutions and frames without biases.

    Attention is location-sensitive on the sum of the weights, 512 wide and twice as sharp. `dropout` is that of the
    encoder, the prenet (which always drops) and the postnet. Id 0 has a vector of zeros.
    """
    widths = [embedding_size, *[convolution_size] * num_convolutions]
    unbiased: dict[str, Any] = {"dropout": dropout, "bias": False}
    encoder = ConvolutionalEncoder(
        TokenEmbedding(num_symbols, embedding_size, padding=0),
        [ConvolutionBlock(before, convolution_size, kernel_size, **unbiased) for before in widths[:-1]],
        RecurrentStack(widths[-1], encoder_size // 2, bidirectional=True),
    )
    attend = partial(location_sensitive, like="espnet", size=512) if attention is None else attention
    mechanism = attend(query_size=size, memory_size=encoder_size)
    context = mechanism.context_size
    prenet = Prenet(num_features, (prenet_size,) * prenet_layers, dropout=dropout, drops="always")
    stop = StopHead(size, context, num_frames)
    decoder = TacotronDecoder(
        prenet,
        mechanism,
        FrameHead(size, context, num_features, num_frames, bias=False, stop=stop),
        output_cells=CellStack(prenet_size + context, size, 2, zoneout=zoneout),
    )
    postnet = ConvolutionalPostnet(num_features, postnet_size, num_layers=postnet_layers, **unbiased)
    _draw(encoder.convolutions, nn.init.calculate_gain("relu"))
    _draw(postnet.convolutions, nn.init.calculate_gain("tanh"))
    return Tacotron(encoder, decoder, {"mel": postnet})


def _draw(blocks: Iterable[Any], gain: float) -> None:
    """First filters, Xavier-uniform."""
    for block in blocks:
        nn.init.xavier_uniform_(block.convolution.filters.weight, gain)


UNUSED = ("dec.att.gvec.bias",)
"""A softmax does not see it."""


def names(model: Tacotron) -> Names:
    """Their modules by ours. The cells' input begins with the context there, and frames lie feature by feature."""
    cells: Any = model.decoder.output_cells
    inner = ".cell" if cells.zoneout.p else ""
    return {
        **numbered("decoder.prenet.layers.{}", "dec.prenet.prenet.{}.0", len(model.decoder.prenet.layers)),
        **numbered("decoder.output_cells.cells.{}.layers.0", f"dec.lstm.{{}}{inner}", cells.num_layers),
        **convolution_blocks(model, encoder="enc.convs", postnet="dec.postnet.postnet"),
        "encoder.embedding.table": "enc.embed",
        "encoder.stack.layers.0": "enc.blstm",
        "decoder.attention.score.content.query_projection.weight": "dec.att.mlp_dec.weight",
        "decoder.attention.score.content.query_projection.bias": "dec.att.mlp_enc.bias",
        "decoder.attention.score.content.key_projection": "dec.att.mlp_enc",
        "decoder.attention.score.content.v": "dec.att.gvec.weight",
        "decoder.attention.score.filters.weight": lambda find: find("dec.att.loc_conv.weight").squeeze(2),
        "decoder.attention.score.location_projection": transposed("dec.att.mlp_att.weight"),
        "decoder.head.projection.weight": frame_by_frame("dec.feat_out.weight", model.decoder.num_features),
        "decoder.head.stop.projection": "dec.prob_out",
        "decoder.output_cells.cells.0.layers.0.weight_ih_l0": context_last(
            f"dec.lstm.0{inner}.weight_ih", model.decoder.attention.context_size
        ),
    }
