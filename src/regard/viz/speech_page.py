"""Spoken sentences as one HTML file that plays them; it contains its sound, data, style and script and sends no
requests."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.audio.riff import encode
from regard.errors import printable
from regard.viz.aligned_speech import AlignedSpeech
from regard.viz.colours import WARM, hexadecimal, ramp
from regard.viz.labels import visible
from regard.viz.page import BYTE_UNIT, as_bytes, filled


def speech_page(sentences: Sequence[AlignedSpeech], *, title: str | None = None, highest: float = 1.0) -> str:
    """The text of the page."""
    heading = printable(title or "Speech")
    colours = {
        name: {
            "weights": hexadecimal(ramp(17, dark=name == "dark")),
            "levels": hexadecimal(ramp(17, dark=name == "dark", hues=WARM)),
        }
        for name in ("light", "dark")
    }
    items = [_item(sentence, highest) for sentence in sentences]
    data = {"unit": BYTE_UNIT, "highest": highest, "colours": colours, "items": items}
    return filled("speech_page.html", heading, data)


def _item(sentence: AlignedSpeech, highest: float) -> dict[str, Any]:
    labels = sentence.labels
    weights = np.clip(np.asarray(sentence.alignment, np.float64) / highest, 0.0, 1.0)
    return {
        "text": printable(sentence.text),
        "note": printable(sentence.note),
        "symbols": [visible(symbol) for symbol in sentence.symbols],
        "seconds": sentence.seconds,
        "frames": _milliseconds(sentence.frame_edges),
        "steps": _milliseconds(sentence.step_edges),
        "filters": int(sentence.levels.shape[1]),
        "mel": as_bytes(sentence.levels),
        "weights": as_bytes(weights),
        "read": sentence.read.tolist(),
        "found": sentence.steps_of_symbols.tolist(),
        "stop": None if sentence.stop is None else np.asarray(sentence.stop, np.float64).round(4).tolist(),
        "labels": None if labels is None else [_milliseconds(labels.starts), _milliseconds(labels.ends)],
        "sound": None if sentence.samples is None else _sound(sentence.samples, sentence.sample_rate),
    }


def _milliseconds(seconds: NDArray[np.float64]) -> list[float]:
    return np.asarray(seconds * 1000, np.float64).round(3).tolist()


def _sound(samples: NDArray[Any], sample_rate: int) -> str:
    """A WAV file as a data URI; scaled down if it is louder than 1."""
    wave = encode(samples / max(1.0, float(np.abs(samples).max())), sample_rate)
    return "data:audio/wav;base64," + b64encode(wave).decode("ascii")
