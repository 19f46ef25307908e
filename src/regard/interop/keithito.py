"""keithito's Tacotron 1, with its front end."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from regard.attention import AbstractAttention, bahdanau
from regard.audio.compression import decibels
from regard.audio.front_end import FrontEnd
from regard.interop.tacotron import TACOTRON1, TACOTRON1_FIXED, tacotron1_options
from regard.layers import CBHG, CellStack, Prenet, TokenEmbedding
from regard.models.tacotron import CbhgEncoder, CbhgPostnet, FrameHead, Tacotron, TacotronDecoder
from regard.tasks.text_to_speech.config import TacotronConfig
from regard.tasks.text_to_speech.forms import TacotronForm


def tacotron1(
    num_symbols: int,
    *,
    num_features: int = 80,
    num_frames: int = 5,
    num_linear: int = 1025,
    embedding_size: int = 256,
    prenet_sizes: tuple[int, ...] = (256, 128),
    num_filters: int = 16,
    bank_size: int = 128,
    encoder_projection: int = 128,
    encoder_size: int = 256,
    size: int = 256,
    attention: Callable[..., AbstractAttention] | None = None,
    postnet_filters: int = 8,
    postnet_projection: int = 256,
    postnet_size: int = 256,
) -> Tacotron:
    """TensorFlow's GRUs and batch normalisation (0.99 there, a momentum of 0.01 here); frames from the cells only.

    There is no stop logit: synthesis ends at silent frames (`decoding.stop_at_silence`). Attention excludes padding;
    theirs does not.
    """
    norm: dict[str, Any] = {
        "cell": "gru_reset_before",
        "bank_size": bank_size,
        "momentum": 0.01,
        "epsilon": 1e-3,
    }
    encoder = CbhgEncoder(
        TokenEmbedding(num_symbols, embedding_size, padding=None),
        Prenet(embedding_size, prenet_sizes),
        CBHG(
            prenet_sizes[-1],
            num_filters=num_filters,
            projections=(encoder_projection,),
            highway_size=encoder_size // 2,
            size=encoder_size // 2,
            **norm,
        ),
    )
    attend = partial(bahdanau, size=size) if attention is None else attention
    mechanism = attend(query_size=size, memory_size=encoder.output_size)
    cell: dict[str, Any] = {"cell": "gru_reset_before"}
    decoder = TacotronDecoder(
        Prenet(num_features, prenet_sizes),
        mechanism,
        FrameHead(size, 0, num_features, num_frames),
        query_cells=CellStack(prenet_sizes[-1] + mechanism.context_size, size, **cell),
        output_cells=CellStack(size + mechanism.context_size, size, 2, residual=True, **cell),
    )
    postnet = CBHG(
        num_features,
        num_filters=postnet_filters,
        projections=(postnet_projection,),
        highway_size=postnet_size // 2,
        size=postnet_size // 2,
        **norm,
    )
    return Tacotron(encoder, decoder, {"linear": CbhgPostnet(postnet, num_linear)})


def _options(config: TacotronConfig) -> dict[str, Any]:
    return tacotron1_options(config) | {
        "encoder_size": config.encoder.size,
        "encoder_projection": config.decoder.prenet_sizes[-1],
        "postnet_size": config.postnet.size,
    }


TACOTRON1_FORM = TacotronForm(
    TACOTRON1
    | {
        "decoder.num_frames": 5,
        "decoder.stops": False,
        "attention.recipe": "bahdanau",
        "attention.size": 256,
    },
    TACOTRON1_FIXED,
    _options,
    uniform=False,
)
FRONT_END = FrontEnd(
    sample_rate=20000,
    n_fft=2048,
    win_length=1000,
    hop_length=250,
    f_min=0.0,
    f_max=None,
    pre_emphasis=0.97,
    compression=decibels(),
)
