"""The spectral contrast of speech, and its pauses, compared with a recording."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import ShapeError
from regard.metrics.padding import as_array

QUIET_DECIBELS = 30.0
"""Frames that are quieter than the loud ones of their sentence by more than this belong to pauses."""
LOUD_QUANTILE = 0.95
"""The quantile of a sentence's loudness that frames are compared with, which is robust to single frames."""
PAUSE_FRAMES = 6
"""The fewest frames of a pause; 75 ms with frames of 12.5 ms. Stops are shorter."""


@dataclass(frozen=True, slots=True)
class Clarity:
    """The clarity of a sentence of speech; NaN without frames.

    Args:
        contrast, reference_contrast: `spectral_contrast` of the speech and of the recording.
        num_pause_frames: frames of pauses within the recording.
        num_kept: those of them that are paired with a quiet frame of the speech.
    """

    contrast: float
    reference_contrast: float
    num_pause_frames: int
    num_kept: int


@dataclass(frozen=True, slots=True)
class ClarityScores:
    """The clarity of sentences together.

    Args:
        contrast_ratio: the contrast of all speech divided by that of the recordings. 1: as distinct; below, sounds are
            blurred, which is heard as mumbling; above, there is noise.
        pauses_kept: the share of the recordings' pauses that are pauses in the speech, too; NaN without pauses.
        pause_frames: the number of frames of these pauses.
    """

    contrast_ratio: float
    pauses_kept: float
    pause_frames: int

    def __str__(self) -> str:
        pauses = f"{100 * self.pauses_kept:.0f}% of the recordings' pauses kept"
        if not self.pause_frames:
            pauses = "the recordings have no pauses within sentences"
        return f"contrast of sounds {self.contrast_ratio:.2f} of the recordings' (below 1: blurred together); {pauses}"


def spectral_contrast(log_mel: Any) -> float:
    """The differences between the spectra of spoken frames: the root mean square, in nepers, of

        e_tm = d_tm - mean_t d_tm        with        d_tm = x_tm - mean_m x_tm,

    over the frames t of x that are not quiet and all mel bands m; NaN without such frames. It depends neither on
    loudness nor on the voice's average spectrum. By Parseval's theorem it is the global variance of all mel cepstral
    coefficients but the first, which models of speech reduce when they average over different sounds.

    Args:
        log_mel: (T, M) natural logarithms of mel magnitudes.

    Source: Toda & Tokuda 2007, A speech parameter generation algorithm considering global variance for HMM-based speech
        synthesis (IEICE Transactions on Information and Systems E90-D).

    >>> frames = np.array([[2.0, 0.0], [0.0, 2.0]] * 8)
    >>> spectral_contrast(frames), spectral_contrast(frames / 2), spectral_contrast(frames[:1])
    (1.0, 0.5, 0.0)
    """
    values = _spectrogram(log_mel, "log_mel")
    spoken = values[~is_quiet(values)]
    if not len(spoken):
        return float("nan")
    shapes = spoken - spoken.mean(axis=1, keepdims=True)
    return float(np.sqrt(((shapes - shapes.mean(axis=0)) ** 2).mean()))


def is_quiet(log_mel: Any) -> NDArray[np.bool_]:
    """(T,) whether each frame is more than 30 dB quieter than the 95 % quantile of the sentence.

    Args:
        log_mel: (T, M) natural logarithms of mel magnitudes.
    """
    values = _spectrogram(log_mel, "log_mel")
    if not len(values):
        return np.zeros(0, bool)
    loudness = 10 / np.log(10) * np.logaddexp.reduce(2 * values, axis=1)
    quiet: NDArray[np.bool_] = loudness < np.quantile(loudness, LOUD_QUANTILE) - QUIET_DECIBELS
    return quiet


def pauses(log_mel: Any) -> NDArray[np.bool_]:
    """(T,) whether each frame belongs to a pause: six or more quiet frames between spoken ones.

    Args:
        log_mel: (T, M) natural logarithms of mel magnitudes.
    """
    quiet = is_quiet(log_mel)
    spoken = np.flatnonzero(~quiet)
    result = np.zeros(len(quiet), bool)
    for before, after in pairwise(spoken.tolist()):
        if after - before > PAUSE_FRAMES:
            result[before + 1 : after] = True
    return result


def clarity(log_mel: Any, reference: Any, path: Any) -> Clarity:
    """The clarity of a sentence, compared with its recording.

    Args:
        log_mel, reference: (T, M) and (U, M) natural logarithms of mel magnitudes.
        path: (P, 2) pairs of frames of both (`regard.audio.Distortion.path`); -1 at padding.

    Raises:
        ShapeError: for other shapes.
    """
    values, recorded = _spectrogram(log_mel, "log_mel"), _spectrogram(reference, "reference")
    pairs = as_array(path, "path: ")
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise ShapeError(f"path must be (P, 2) integers, pairs of frames; got {pairs.shape} {pairs.dtype}.")
    pairs = pairs[(pairs >= 0).all(axis=1)]
    paused = pauses(recorded)[pairs[:, 1]]
    kept = is_quiet(values)[pairs[:, 0]] & paused
    return Clarity(spectral_contrast(values), spectral_contrast(recorded), int(paused.sum()), int(kept.sum()))


def clarity_scores(sentences: Iterable[Clarity]) -> ClarityScores:
    """The clarity of sentences together: the ratio of mean contrasts, and the share of pause frames.

    >>> print(clarity_scores([Clarity(0.6, 1.0, 10, 9), Clarity(0.8, 1.0, 0, 0)]))
    contrast of sounds 0.70 of the recordings' (below 1: blurred together); 90% of the recordings' pauses kept
    """
    each = [one for one in sentences if one.reference_contrast > 0 and np.isfinite(one.contrast)]
    count = sum(one.num_pause_frames for one in each)
    return ClarityScores(
        contrast_ratio=(
            float(np.mean([one.contrast for one in each]) / np.mean([one.reference_contrast for one in each]))
            if each
            else float("nan")
        ),
        pauses_kept=sum(one.num_kept for one in each) / count if count else float("nan"),
        pause_frames=count,
    )


def _spectrogram(values: Any, name: str) -> NDArray[np.float64]:
    array = as_array(values, f"{name}: ").astype(np.float64)
    if array.ndim != 2:
        raise ShapeError(f"{name} must be (T, M), the logarithmic mel spectrogram of a sentence; got {array.shape}.")
    return array
