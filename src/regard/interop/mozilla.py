"""Mozilla TTS: its first Tacotron 1, with the old attention cell."""

from __future__ import annotations

from functools import partial
from typing import Any

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
from regard.tasks.text_to_speech.forms import TacotronForm


def bahdanau(
    *, query_size: int, memory_size: int, size: int = 128, window: AbstractWindow | None = None, **others: Any
) -> Mechanism:
    """Energies with a bias, σ divided by its sum, and in evaluation a window p - 3 … p + 5 around the last peak p."""
    if others:
        raise UnsupportedError(f"like='mozilla' has the options size and window; got {', '.join(others)}.")
    return Mechanism(
        AdditiveScore(query_size, memory_size, size, bias=True),
        SigmoidAlignment(normalised=True),
        WeightedSum(memory_size),
        InEvaluation(argmax_window("mozilla")) if window is None else window,
    )


tacotron1 = partial(coqui.tacotron1, num_frames=5, num_fed_frames=5, activation="sigmoid", attention=bahdanau)
"""Coqui's Tacotron 1 with the old cell: a queue of the last frames, frames through σ, additive attention.

The first states are zeros; theirs are learned.
"""

TACOTRON1_FORM = TacotronForm(
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
