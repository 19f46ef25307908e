"""Draws spoken sentences into a file of the kind that its suffix names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from regard.errors import RegardError
from regard.viz.aligned_speech import AlignedSpeech
from regard.viz.files import check_highest, suffix_of
from regard.viz.plot import PICTURES


def plot_speech(
    sentences: AlignedSpeech | Sequence[AlignedSpeech],
    path: str | Path,
    *,
    title: str | None = None,
    highest: float | Literal["largest"] = 1.0,
) -> Path:
    """Draws what was said and what was read meanwhile: spectrogram, alignment and stop probability on one axis of time.

    PNG, SVG and PDF show a sentence: the mel spectrogram; below it the alignment with time across and the symbols as
    rows, the first one on top, darker is more weight; below it the stop probability of each frame. The labels of a
    reference are outlined in the alignment, and their boundaries go through the spectrogram. HTML is one file that
    sends no requests, with any number of sentences: it plays the sound while a line moves over the picture and the
    symbol that is read is marked; a click on a symbol or a time goes there.

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
    suffix = suffix_of(target, (*PICTURES, ".html"))
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
        from regard.viz.speech_page import speech_page

        target.write_text(speech_page(items, title=title, highest=scale), encoding="utf-8")
        return target
    from regard.viz.speech_picture import draw_speech

    draw_speech(items[0], title=title, highest=scale).savefig(target)
    return target
