"""Mozilla TTS's first Tacotron 1, with its old attention cell."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from regard.attention import AbstractAttention, bahdanau
from regard.models.peers import coqui
from regard.models.tacotron import Tacotron


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
        attention=attention or partial(bahdanau, like="mozilla"),
        postnet_filters=postnet_filters,
        postnet_projection=postnet_projection,
    )
