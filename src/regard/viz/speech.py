"""Spoken sentences as a picture, or as an HTML page that plays them.

The page contains its sound, data, style and script and sends no requests.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from regard.errors import RegardError, printable
from regard.viz.aligned_speech import AlignedSpeech
from regard.viz.colours import WARM, hexadecimal, ramp
from regard.viz.files import DRAWN, check_highest, suffix_of
from regard.viz.labels import visible
from regard.viz.page import BYTE_UNIT, as_bytes, embedded, filled


def plot_speech(
    sentences: AlignedSpeech | Sequence[AlignedSpeech],
    path: str | Path,
    *,
    title: str | None = None,
    highest: float | Literal["largest"] = 1.0,
) -> Path:
    """Draws spectrogram, alignment and stop probability of spoken sentences on one axis of time.

    PNG, SVG and PDF show a sentence: the mel spectrogram; below it the alignment with time across and the symbols as
    rows, the first one on top, darker is more weight; below it the stop probability of each frame. The labels of a
    reference are outlined in the alignment, and their boundaries are drawn through the spectrogram. HTML is one file
    with any number of sentences: it plays the sound while a line moves over the picture and the symbol that is being
    read is marked; a click on a symbol or a time jumps there.

    Args:
        sentences: one, or for .html also several.
        path: ends in .png, .svg, .pdf or .html; missing folders are created.
        title: the text above everything; for a picture the sentence's text if None.
        highest: the weight of the darkest colour, or "largest", the largest weight of the sentences.

    Raises:
        RegardError: for another suffix, no sentence, or several sentences in a picture.

    >>> import tempfile
    >>> mel = np.sin(np.arange(40 * 80) / 50).reshape(40, 80)
    >>> sentence = AlignedSpeech(mel, np.repeat(np.eye(4), 5, axis=0), "read", 16000, 200, reduction=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     plot_speech(sentence, folder + "/read.png").name, plot_speech([sentence] * 2, folder + "/read.html").name
    ('read.png', 'read.html')
    """
    target = Path(path)
    suffix = suffix_of(target, DRAWN)
    items = [sentences] if isinstance(sentences, AlignedSpeech) else list(sentences)
    if not items:
        raise RegardError("sentences is empty: there is nothing to draw.")
    if len(items) > 1 and suffix != ".html":
        raise RegardError(f"{target}: a picture shows one sentence; got {len(items)}. Write .html for several.")
    check_highest(highest)
    largest = (float(np.max(item.alignment, where=np.isfinite(item.alignment), initial=0)) for item in items)
    scale = (max(largest) or 1.0) if highest == "largest" else highest
    target.parent.mkdir(parents=True, exist_ok=True)
    if suffix == ".html":
        target.write_text(_page(items, title=title, highest=scale), encoding="utf-8")
    else:
        from regard.viz.speech_picture import draw_speech

        draw_speech(items[0], title=title, highest=scale).savefig(target)
    return target


def _page(sentences: Sequence[AlignedSpeech], *, title: str | None, highest: float) -> str:
    """The text of the HTML page."""
    colours = {
        name: {
            "weights": hexadecimal(ramp(17, dark=name == "dark")),
            "levels": hexadecimal(ramp(17, dark=name == "dark", hues=WARM)),
        }
        for name in ("light", "dark")
    }
    items = [_item(sentence, highest) for sentence in sentences]
    data = {"unit": BYTE_UNIT, "highest": highest, "colours": colours, "items": items}
    return filled("speech_page.html", title or "Speech", data=embedded(data))


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
    from regard.audio.riff import encode  # which imports torch

    wave = encode(samples / max(1.0, float(np.abs(samples).max())), sample_rate)
    return "data:audio/wav;base64," + b64encode(wave).decode("ascii")
