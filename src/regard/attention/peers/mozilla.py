"""The old attention cell of Mozilla TTS's first Tacotron 1."""

from __future__ import annotations

from typing import Any

from regard.attention.alignments import SigmoidAlignment
from regard.attention.contract import AbstractWindow
from regard.attention.mechanism import Mechanism
from regard.attention.peers.argmax import argmax_window
from regard.attention.reads import WeightedSum
from regard.attention.scores import AdditiveScore
from regard.attention.windows import InEvaluation
from regard.errors import UnsupportedError


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
