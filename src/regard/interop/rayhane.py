"""Rayhane Mamah's Tacotron 2, with its front end."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor, nn

from regard.attention import AbstractAttention, location_sensitive
from regard.audio.compression import decibels
from regard.audio.front_end import FrontEnd
from regard.interop.tacotron import TACOTRON2, ZONEOUT_FIXED, tacotron2_options
from regard.layers import CBHG, CellStack, ConvolutionBlock, Prenet, TokenEmbedding
from regard.layers.convolution import ConvolutionActivation
from regard.layers.linear import Linear
from regard.models.tacotron import (
    BidirectionalCells,
    CbhgPostnet,
    ConvolutionalEncoder,
    FrameHead,
    StopHead,
    Tacotron,
    TacotronDecoder,
)
from regard.shapes import Bool, Float
from regard.tasks.text_to_speech.config import TacotronConfig
from regard.tasks.text_to_speech.forms import TacotronForm


class ProjectedPostnet(nn.Module):
    """y + W net(y) + b: convolutions of equal width, and a linear layer back to frames.

    Args:
        blocks: convolutions (`ConvolutionBlock`) from F features on.
        size: the width of the last block.
        num_features: F.
    """

    def __init__(self, blocks: list[ConvolutionBlock], size: int, num_features: int) -> None:
        super().__init__()
        self.num_outputs = num_features
        self.convolutions = nn.ModuleList(blocks)
        self.projection = Linear(size, num_features)

    def forward(self, frames: Float[Tensor, "B T F"], mask: Bool[Tensor, "B T"] | None = None) -> Tensor:
        """Refined frames (B, T, F); those at padding are undefined.

        Args:
            mask: True at real frames; all if None.
        """
        x = frames
        for block in self.convolutions:
            x = block(x, mask)
        return frames + self.projection(x)


def tacotron2(
    num_symbols: int,
    *,
    num_features: int = 80,
    num_frames: int = 1,
    num_linear: int | None = 1025,
    embedding_size: int = 512,
    num_convolutions: int = 3,
    encoder_size: int = 512,
    prenet_size: int = 256,
    prenet_layers: int = 2,
    size: int = 1024,
    zoneout: float = 0.1,
    attention: Callable[..., AbstractAttention] | None = None,
    postnet_size: int = 512,
    postnet_layers: int = 5,
    postnet_filters: int = 8,
    bank_size: int = 128,
    postnet_projection: int = 256,
) -> Tacotron:
    """Two LSTMs over the prenet and the last context, the upper one is the query; frames from [s; c].

    ReLU and tanh precede batch normalisation; zoneout is on the states of the encoder's and the decoder's LSTMs, not on
    their outputs; a second postnet makes linear spectrograms. A momentum of 0.01 is TensorFlow's 0.99.
    """
    norm: dict[str, Any] = {"norm": "after", "momentum": 0.01, "epsilon": 1e-3}
    states: dict[str, Any] = {"zoneout": zoneout, "zones_output": False}
    widths = [embedding_size, *[encoder_size] * num_convolutions]
    encoder = ConvolutionalEncoder(
        TokenEmbedding(num_symbols, embedding_size, padding=None),
        [ConvolutionBlock(before, encoder_size, 5, dropout=0.5, **norm) for before in widths[:-1]],
        BidirectionalCells(*(CellStack(widths[-1], encoder_size // 2, **states) for _ in range(2))),
    )
    attend = partial(location_sensitive, size=128) if attention is None else attention
    mechanism = attend(query_size=size, memory_size=encoder.output_size)
    context = mechanism.context_size
    decoder = TacotronDecoder(
        Prenet(num_features, (prenet_size,) * prenet_layers, drops="always"),
        mechanism,
        FrameHead(size, context, num_features, num_frames, stop=StopHead(size, context, num_frames)),
        query_cells=CellStack(prenet_size + context, size, 2, **states),
    )
    kinds: list[ConvolutionActivation] = ["tanh" for _ in range(postnet_layers - 1)]
    kinds.append("none")
    widths = [num_features, *[postnet_size] * postnet_layers]
    blocks = [
        ConvolutionBlock(before, postnet_size, 5, activation=kind, dropout=0.5, **norm)
        for before, kind in zip(widths[:-1], kinds, strict=True)
    ]
    postnets: dict[str, nn.Module] = {"mel": ProjectedPostnet(blocks, postnet_size, num_features)}
    if num_linear is not None:
        cbhg = CBHG(
            num_features,
            num_filters=postnet_filters,
            bank_size=bank_size,
            projections=(postnet_projection,),
            highway_size=bank_size,
            size=bank_size,
            cell="gru_reset_before",
            **norm,
        )
        postnets["linear"] = CbhgPostnet(cbhg, num_linear)
    return Tacotron(encoder, decoder, postnets)


def _options(config: TacotronConfig) -> dict[str, Any]:
    return tacotron2_options(config) | {"encoder_size": config.encoder.size, "zoneout": config.decoder.zoneout}


TACOTRON2_FORM = TacotronForm(
    TACOTRON2 | {"decoder.query": "top", "decoder.dropout": None, "decoder.zoneout": 0.1},
    ZONEOUT_FIXED,
    _options,
    linear_postnet=True,
)
FRONT_END = FrontEnd(
    sample_rate=22050,
    n_fft=2048,
    win_length=1100,
    hop_length=275,
    f_min=55.0,
    pre_emphasis=0.97,
    padding="zeros",
    power=2.0,
    peak=0.999,
    compression=decibels(bound=4, symmetric=True),
)
