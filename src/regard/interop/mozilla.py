"""Mozilla TTS's first Tacotron 1, with its old attention cell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from regard.attention import AbstractAttention
from regard.attention.alignments import SigmoidAlignment
from regard.attention.contract import AbstractWindow
from regard.attention.mechanism import Mechanism
from regard.attention.reads import WeightedSum
from regard.attention.scores import AdditiveScore
from regard.attention.windows import InEvaluation
from regard.errors import UnsupportedError
from regard.interop import coqui
from regard.interop.tacotron import QUEUE_FIXED, TACOTRON1, queue_options
from regard.interop.windows import argmax_window
from regard.models.tacotron import Tacotron
from regard.tasks.text_to_speech.forms import TacotronForm


def bahdanau(
    *, query_size: int, memory_size: int, size: int = 128, window: AbstractWindow | None = None, **others: Any
) -> Mechanism:
    """The old cell of Mozilla TTS's first Tacotron 1.

    Energies with a bias, σ divided by its sum, and in evaluation a window p - 3 … p + 5 around the last peak p.
    """
    if others:
        raise UnsupportedError(f"like='mozilla' has the options size and window; got {', '.join(others)}.")
    return Mechanism(
        AdditiveScore(query_size, memory_size, size, bias=True),
        SigmoidAlignment(normalised=True),
        WeightedSum(memory_size),
        InEvaluation(argmax_window("mozilla")) if window is None else window,
    )


def tacotron1(
    num_symbols: int,
    *,
    num_features: int = 80,
    num_frames: int = 5,
    num_fed_frames: int = 5,
    num_linear: int = 513,
    embedding_size: int = 256,
    encoder_prenet_sizes: tuple[int, ...] = (256, 128),
    num_filters: int = 16,
    bank_size: int = 128,
    recurrent_size: int = 128,
    prenet_sizes: tuple[int, ...] = (256, 128),
    size: int = 256,
    attention: Callable[..., AbstractAttention] | None = None,
    postnet_filters: int = 8,
    postnet_projection: int = 256,
) -> Tacotron:
    """Coqui's Tacotron 1 with the old cell: a queue of the last frames, frames through σ, additive attention.

    The first states are zeros; theirs are learned.
    """
    return coqui.tacotron1(
        num_symbols,
        num_features=num_features,
        num_frames=num_frames,
        num_fed_frames=num_fed_frames,
        num_linear=num_linear,
        embedding_size=embedding_size,
        encoder_prenet_sizes=encoder_prenet_sizes,
        num_filters=num_filters,
        bank_size=bank_size,
        recurrent_size=recurrent_size,
        prenet_sizes=prenet_sizes,
        size=size,
        activation="sigmoid",
        attention=attention or bahdanau,
        postnet_filters=postnet_filters,
        postnet_projection=postnet_projection,
    )


FORM = TacotronForm(
    TACOTRON1
    | {
        "decoder.num_frames": 5,
        "decoder.num_fed_frames": 5,
        "attention.recipe": "bahdanau",
        "attention.like": "mozilla",
    },
    QUEUE_FIXED,
    queue_options,
    equal=(("postnet.size", "encoder.size"),),
    uniform=False,
)
