"""Coqui TTS's Tacotron 1 and 2."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import AbstractAttention, location_sensitive
from regard.layers import CBHG, CellStack, ConvolutionBlock, Dropout, Prenet, RecurrentStack, TokenEmbedding
from regard.layers.linear import Linear
from regard.models.peers.names import Find, Names, convolution_blocks, numbered, transposed
from regard.models.tacotron import (
    CbhgEncoder,
    CbhgPostnet,
    ConvolutionalEncoder,
    ConvolutionalPostnet,
    FrameHead,
    Tacotron,
    TacotronDecoder,
    initialise_tacotron,
)
from regard.models.tacotron.heads import FrameActivation
from regard.shapes import Float


class FrameStop(nn.Module):
    """A logit a step from the decoder's output and the frames: W dropout([d; y]) + b.

    Args:
        size: D, of the decoder's output.
        frame_size: R·F, of all frames that the head's projection gives.
        dropout: of both, in training.
        detached: whether no gradient flows from the logit to the rest.

    Source: `stopnet` of Coqui TTS and Mozilla TTS.
    """

    def __init__(self, size: int, frame_size: int, *, dropout: float = 0.1, detached: bool = True) -> None:
        super().__init__()
        self.detached = detached
        self.dropout = Dropout(dropout)
        self.projection = Linear(size + frame_size, 1)
        nn.init.xavier_uniform_(self.projection.weight, nn.init.calculate_gain("sigmoid"))

    def forward(
        self,
        output: Float[Tensor, "*rows D"],
        context: Float[Tensor, "*rows V"],
        frames: Float[Tensor, "*rows rF"],
        num_frames: int,
    ) -> Float[Tensor, "*rows 1"]:
        """The logit (…, 1)."""
        features = torch.cat([output, frames], -1)
        logits: Tensor = self.projection(self.dropout(features.detach() if self.detached else features))
        return logits


def tacotron2(
    num_symbols: int,
    *,
    num_features: int = 80,
    num_frames: int = 2,
    embedding_size: int = 512,
    num_convolutions: int = 3,
    prenet_size: int = 256,
    prenet_layers: int = 2,
    size: int = 1024,
    dropout: float = 0.1,
    separate_stop: bool = True,
    attention: Callable[..., AbstractAttention] | None = None,
    postnet_size: int = 512,
    postnet_layers: int = 5,
) -> Tacotron:
    """NVIDIA's, with dropout on h and c, a prenet that drops in training only, and a logit from the frames.

    Attention is location-sensitive with smoothing (σ divided by its sum).
    """
    encoder = ConvolutionalEncoder(
        TokenEmbedding(num_symbols, embedding_size, padding=0),
        [ConvolutionBlock(embedding_size, embedding_size, 5, dropout=0.5) for _ in range(num_convolutions)],
        RecurrentStack(embedding_size, embedding_size // 2, bidirectional=True),
    )
    attend = partial(location_sensitive, like="coqui", size=128) if attention is None else attention
    mechanism = attend(query_size=size, memory_size=embedding_size)
    context = mechanism.context_size
    stop = FrameStop(size, num_frames * num_features, detached=separate_stop)
    decoder = TacotronDecoder(
        Prenet(num_features, (prenet_size,) * prenet_layers, bias=False),
        mechanism,
        FrameHead(size, context, num_features, num_frames, stop=stop),
        query_cells=CellStack(prenet_size + context, size, dropout=dropout, dropped="state"),
        output_cells=CellStack(size + context, size, dropout=dropout),
    )
    postnet = ConvolutionalPostnet(num_features, postnet_size, num_layers=postnet_layers)
    model = Tacotron(encoder, decoder, {"mel": postnet})
    initialise_tacotron(model)
    return model


def tacotron1(
    num_symbols: int,
    *,
    num_features: int = 80,
    num_frames: int = 2,
    num_fed_frames: int = 1,
    num_linear: int = 513,
    embedding_size: int = 256,
    encoder_prenet_sizes: tuple[int, ...] = (256, 128),
    num_filters: int = 16,
    bank_size: int = 128,
    recurrent_size: int = 128,
    prenet_sizes: tuple[int, ...] = (256, 128),
    size: int = 256,
    activation: FrameActivation | None = None,
    separate_stop: bool = True,
    attention: Callable[..., AbstractAttention] | None = None,
    postnet_filters: int = 8,
    postnet_projection: int = 256,
    momentum: float = 0.99,
) -> Tacotron:
    """Tacotron 1 without the maximum in its CBHGs, normalised before ReLU, with a momentum of 0.99.

    That momentum, meant as TensorFlow's, keeps the statistics of little more than the last batch here as there.
    """
    norm: dict[str, Any] = {
        "pool": False,
        "norm": "before",
        "convolution_bias": False,
        "map_bias": False,
        "momentum": momentum,
        "epsilon": 1e-3,
    }
    sizes: dict[str, Any] = {"bank_size": bank_size, "highway_size": recurrent_size, "size": recurrent_size}
    inner = encoder_prenet_sizes[-1]
    encoder = CbhgEncoder(
        TokenEmbedding(num_symbols, embedding_size, padding=0),
        Prenet(embedding_size, encoder_prenet_sizes),
        CBHG(inner, num_filters=num_filters, projections=(inner,), **sizes, **norm),
    )
    attend = partial(location_sensitive, like="coqui", size=128) if attention is None else attention
    mechanism = attend(query_size=size, memory_size=encoder.output_size)
    stop = FrameStop(size, num_frames * num_features, detached=separate_stop)
    decoder = TacotronDecoder(
        Prenet(num_fed_frames * num_features, prenet_sizes),
        mechanism,
        FrameHead(size, 0, num_features, num_frames, activation=activation, stop=stop),
        query_cells=CellStack(prenet_sizes[-1] + mechanism.context_size, size, cell="gru"),
        output_cells=CellStack(size + mechanism.context_size, size, 2, cell="gru", residual=True),
        num_fed_frames=num_fed_frames,
    )
    after = CBHG(num_features, num_filters=postnet_filters, projections=(postnet_projection,), **sizes, **norm)
    return Tacotron(encoder, decoder, {"linear": CbhgPostnet(after, num_linear)})


def names2(model: Tacotron) -> Names:
    """The modules of their Tacotron 2 by ours."""
    return {
        **_attention(),
        **_prenet("decoder", model.decoder.prenet),
        **convolution_blocks(
            model,
            encoder="encoder.convolutions",
            postnet="postnet.convolutions",
            filters="convolution1d",
            norm="batch_normalization",
        ),
        "encoder.embedding.table": "embedding",
        "encoder.stack.layers.0": "encoder.lstm",
        "decoder.query_cells.cells.0.layers.0": "decoder.attention_rnn",
        "decoder.output_cells.cells.0.layers.0": "decoder.decoder_rnn",
        "decoder.head.projection": "decoder.linear_projection.linear_layer",
        "decoder.head.stop.projection": "decoder.stopnet.1.linear_layer",
    }


def names1(model: Tacotron) -> Names:
    """The modules of their Tacotron 1 by ours."""
    encoder: Any = model.encoder
    postnet: Any = model.postnets["linear"]
    return {
        **_attention(),
        **_prenet("encoder", encoder.prenet),
        **_prenet("decoder", model.decoder.prenet),
        **_cbhg("encoder.cbhg", "encoder.cbhg.cbhg", encoder.cbhg),
        **_cbhg("postnets.linear.cbhg", "postnet.cbhg", postnet.cbhg),
        "encoder.embedding.table": "embedding",
        "decoder.query_cells.cells.0.layers.0": "decoder.attention_rnn",
        "decoder.output_cells.projection": "decoder.project_to_decoder_in",
        "decoder.output_cells.cells.0.layers.0": "decoder.decoder_rnns.0",
        "decoder.output_cells.cells.1.layers.0": "decoder.decoder_rnns.1",
        "decoder.head.projection": "decoder.proj_to_mel",
        "decoder.head.stop.projection": "decoder.stopnet.linear",
        "postnets.linear.projection": "last_linear",
    }


def _attention() -> dict[str, Find]:
    """Location-sensitive attention; the bias of v is that of the sigmoid."""
    score, theirs = "decoder.attention.score", "decoder.attention"
    return {
        f"{score}.content.query_projection": f"{theirs}.query_layer.linear_layer",
        f"{score}.content.key_projection": f"{theirs}.inputs_layer.linear_layer",
        f"{score}.content.v": f"{theirs}.v.linear_layer.weight",
        f"{score}.filters": f"{theirs}.location_layer.location_conv1d",
        f"{score}.location_projection": transposed(f"{theirs}.location_layer.location_dense.linear_layer.weight"),
        "decoder.attention.alignment.bias": lambda find: find(f"{theirs}.v.linear_layer.bias").squeeze(0),
    }


def _prenet(side: str, prenet: Any) -> dict[str, Find]:
    """The prenet of the encoder or of the decoder."""
    theirs = f"{side}.prenet.linear_layers.{{}}.linear_layer"
    return numbered(f"{side}.prenet.layers.{{}}", theirs, len(prenet.layers))


def _cbhg(ours: str, theirs: str, module: Any) -> dict[str, Find]:
    """A CBHG, whose linear layer before the highways is there only if widths differ."""
    table: dict[str, Find] = {f"{ours}.stack.layers.0": f"{theirs}.gru"}
    for blocks, our_part, kind, their_part in (
        (module.bank, "bank.{}.convolution.filters", "conv1d_banks", "conv1d"),
        (module.bank, "bank.{}.norm", "conv1d_banks", "bn"),
        (module.projections, "projections.{}.convolution.filters", "conv1d_projections", "conv1d"),
        (module.projections, "projections.{}.norm", "conv1d_projections", "bn"),
        (module.highways, "highways.{}.transform", "highways", "H"),
        (module.highways, "highways.{}.gate", "highways", "T"),
    ):
        table |= numbered(f"{ours}.{our_part}", f"{theirs}.{kind}.{{}}.{their_part}", len(blocks))
    if module.map is not None:
        table[f"{ours}.map"] = f"{theirs}.pre_highway"
    return table
