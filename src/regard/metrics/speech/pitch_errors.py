"""Errors of the pitch of speech, compared with a recording."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import ShapeError
from regard.metrics.padding import as_array
from regard.metrics.table import ItemArrays

CENTS = 1200
"""The cents of an octave."""


@dataclass(frozen=True, eq=False, slots=True)
class PitchErrors(ItemArrays):
    """Counts and sums of the errors of pitch; all arrays are (B,).

    Args:
        num_pairs: pairs of frames.
        num_voiced: pairs with both frames voiced.
        num_differing: pairs with one frame voiced.
        squared_cents: the sum of squared intervals, in cents, over pairs with both frames voiced.
    """

    num_pairs: NDArray[np.int64]
    num_voiced: NDArray[np.int64]
    num_differing: NDArray[np.int64]
    squared_cents: NDArray[np.float64]

    @property
    def cents(self) -> float:
        """The root mean square interval over all pairs with both frames voiced; NaN without any."""
        voiced = int(self.num_voiced.sum())
        return math.sqrt(float(self.squared_cents.sum()) / voiced) if voiced else float("nan")

    @property
    def voicing_error(self) -> float:
        """The share of pairs with one frame voiced; NaN without pairs."""
        pairs = int(self.num_pairs.sum())
        return int(self.num_differing.sum()) / pairs if pairs else float("nan")

    def __str__(self) -> str:
        if not self.num_pairs.sum():
            return "pitch not compared: there are no frames"
        is_known = bool(self.num_voiced.sum())
        first = (
            f"pitch {self.cents:.0f} cents off (RMS)" if is_known else "pitch not compared: no frames voiced in both"
        )
        return f"{first}, voicing differs in {100 * self.voicing_error:.1f}% of frames"


def pitch_errors(frequency: Any, reference: Any, path: Any) -> PitchErrors:
    """The errors of the pitch of sentences, along a path through them and their recordings.

    The interval of a pair (t, u) of the path with both frames voiced is 1200 · log₂(f_t / f'_u) cents.

    Args:
        frequency: (B, T) Hz, 0 where a frame is not voiced (`regard.audio.find_pitch`); (T,) for one sentence.
        reference: (B, U) or (U,), likewise.
        path: (B, P, 2) or (P, 2) pairs of frames, -1 at padding (`regard.audio.Distortion.path`). Frames beyond the
            end of a pitch track count as not voiced.

    Raises:
        ShapeError: for other shapes.

    >>> path = [[0, 0], [1, 1], [2, 1], [3, 2]]
    >>> print(pitch_errors([0.0, 100.0, 200.0, 200.0], [0.0, 100.0, 0.0], path))
    pitch 849 cents off (RMS), voicing differs in 25.0% of frames
    """
    pairs = as_array(path, "path: ")
    tracks = [as_array(values, f"{name}: ") for name, values in (("frequency", frequency), ("reference", reference))]
    if pairs.ndim == 2:
        pairs, tracks = pairs[None], [track[None] for track in tracks]
    if pairs.ndim != 3 or pairs.shape[2] != 2 or pairs.dtype.kind not in "iu":
        raise ShapeError(f"path must be (B, P, 2) integers, pairs of frames; got {pairs.shape} {pairs.dtype}.")
    if any(track.ndim != 2 or len(track) != len(pairs) for track in tracks):
        shapes = " and ".join(str(track.shape) for track in tracks)
        raise ShapeError(f"frequency and reference must be (B, T) and (B, U) with B={len(pairs)}; got {shapes}.")
    real = (pairs >= 0).all(axis=2)
    hertz = []
    for axis, track in enumerate(tracks):
        at = pairs[..., axis]
        # a further frame, not voiced, for padding and frames beyond the end
        track = np.pad(np.nan_to_num(track.astype(np.float64)), ((0, 0), (0, 1)))
        last = track.shape[1] - 1
        hertz.append(np.take_along_axis(track, np.where((at < 0) | (at > last), last, at), axis=1))
    first, second = hertz
    both = (first > 0) & (second > 0) & real
    interval = CENTS * np.log2(np.divide(first, second, out=np.ones_like(first), where=both))
    return PitchErrors(
        num_pairs=real.sum(axis=1),
        num_voiced=both.sum(axis=1),
        num_differing=(((first > 0) != (second > 0)) & real).sum(axis=1),
        squared_cents=(interval**2).sum(axis=1),
    )
