"""A spoken sentence as pictures show it: its spectrogram, alignment and stop probabilities on one axis of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.speech.intervals import Intervals
from regard.errors import RegardError, ShapeError
from regard.metrics.speech.timing import StepTimes
from regard.viz.aligned import as_numbers


@dataclass(frozen=True, eq=False)
class AlignedSpeech:
    """The output of a model of text to speech for a sentence, from arrays, tensors or lists.

    The decoder generates r frames at a step, with `hop_length` samples from a frame to the next; frame i is centred on
    sample i·hop. Steps and frames are on the same axis of seconds (`regard.metrics.speech.StepTimes`).

    Args:
        mel: (T, M) the spectrogram, on a logarithmic scale of any unit.
        alignment: (T/r, S) the weights of each step over the symbols. T/r is rounded up: the last step may have fewer
            frames.
        symbols: the S symbols that were read.
        sample_rate: samples per second.
        hop_length: samples from a frame to the next.
        reduction: r, frames per step.
        stop: (T/r, r), (T/r, 1) for one per step, or (T,): the probability, between 0 and 1, that speech ends.
        samples: (N,) the sound, in [-1, 1]; a louder one is scaled down for playing.
        labels: when each symbol is spoken in a reference; `Intervals.for_units` fits them to the symbols.
        note: shown with the sentence, for example the reason why decoding stopped, or a warning.

    Raises:
        ShapeError: for shapes that do not fit together.
        RegardError: for numbers below 1, sound that is not finite, stop probabilities that are not between 0 and 1, or
            labels of other symbols.

    >>> sentence = AlignedSpeech(np.zeros((5, 80)), np.eye(3), "abc", 16000, 200, reduction=2)
    >>> sentence.step_edges.round(5).tolist(), sentence.seconds
    ([0.0, 0.01875, 0.04375, 0.05625], 0.05625)
    """

    mel: Any
    alignment: Any
    symbols: Sequence[str]
    sample_rate: int
    hop_length: int
    reduction: int = 1
    stop: Any = None
    samples: Any = None
    labels: Intervals | None = None
    text: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        for name in ("sample_rate", "hop_length", "reduction"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise RegardError(f"{name} must be a whole number from 1; got {value!r}.")
        arrays = {"mel": as_numbers(self.mel), "alignment": as_numbers(self.alignment)}
        for name, letters in (("mel", "T, M"), ("alignment", "T/r, S")):
            if arrays[name].ndim != 2 or not arrays[name].size:
                raise ShapeError(f"{name} must be ({letters}) of one sentence, not empty; got {arrays[name].shape}.")
        frames, (steps, positions), r = len(arrays["mel"]), arrays["alignment"].shape, self.reduction
        if steps != -(-frames // r):
            raise ShapeError(
                f"alignment must have a row for every step of r={r} frames.\n  mel        {arrays['mel'].shape}: "
                f"{-(-frames // r)} steps\n  alignment  {arrays['alignment'].shape}\n  Was only one of them cut, or is "
                "reduction wrong?"
            )
        if len(self.symbols) != positions:
            raise ShapeError(
                f"alignment must have a column for every symbol; there are {len(self.symbols)} symbols, and alignment "
                f"is {arrays['alignment'].shape}."
            )
        if self.stop is not None:
            arrays["stop"] = self._frames_of(as_numbers(self.stop), frames, steps)
        if self.samples is not None:
            arrays["samples"] = samples = as_numbers(self.samples)
            if samples.ndim != 1 or not samples.size:
                raise ShapeError(f"samples must be (N,) of one sound, not empty; got {samples.shape}.")
            if not np.isfinite(samples).all():
                where = int(np.flatnonzero(~np.isfinite(samples))[0])
                raise RegardError(f"samples[{where}] is {samples[where]}; samples are finite numbers.")
        if self.labels is not None and tuple(self.labels.units) != tuple(self.symbols):
            raise RegardError(
                f"labels have {len(self.labels.units)} units, {' '.join(self.labels.units)!r}, which are not the "
                f"{positions} symbols, {' '.join(self.symbols)!r}. labels.for_units(symbols) fits them."
            )
        object.__setattr__(self, "symbols", tuple(self.symbols))
        for name, array in arrays.items():
            object.__setattr__(self, name, array)

    def _frames_of(self, stop: NDArray[Any], frames: int, steps: int) -> NDArray[Any]:
        """(T,) the stop probability of each frame."""
        if stop.shape not in {(steps, self.reduction), (steps, 1), (frames,)}:
            raise ShapeError(
                f"stop must be (T/r, r) or (T/r, 1), here ({steps}, {self.reduction}) or ({steps}, 1), "
                f"or (T={frames},); got {stop.shape}."
            )
        if not ((stop >= 0) & (stop <= 1)).all():
            raise RegardError(
                f"stop must be probabilities between 0 and 1; got {stop.min():.3g} to {stop.max():.3g}. Logits need a "
                "sigmoid first."
            )
        if stop.ndim == 1:
            return stop
        return np.repeat(stop, self.reduction // len(stop[0]), axis=1).reshape(-1)[:frames]

    @property
    def frame_edges(self) -> NDArray[np.float64]:
        """(T + 1,) seconds: the beginning of each frame, and the end of the last one."""
        return StepTimes(self.sample_rate, self.hop_length).edges(len(self.mel))

    @property
    def step_edges(self) -> NDArray[np.float64]:
        """(T/r + 1,) seconds: the beginning of each step, and the end of the last one."""
        return self.frame_edges[np.minimum(np.arange(len(self.alignment) + 1) * self.reduction, len(self.mel))]

    @property
    def seconds(self) -> float:
        """The length of the picture: that of the frames, the sound or the labels, whichever is longest."""
        ends = [float(self.frame_edges[-1])]
        if self.samples is not None:
            ends.append(len(self.samples) / self.sample_rate)
        if self.labels is not None:
            ends.extend(map(float, self.labels.ends))
        return max(ends)

    @property
    def read(self) -> NDArray[np.int64]:
        """(T/r,) the position with the largest weight of each step; -1 for a step with a weight that is not finite."""
        finite = np.isfinite(self.alignment).all(axis=1)
        return np.where(finite, np.argmax(np.where(finite[:, None], self.alignment, 0), axis=1), -1)

    @property
    def steps_of_symbols(self) -> NDArray[np.int64]:
        """(S,) the first step that reads each symbol or, if none does, the step of its largest weight.

        >>> sentence = AlignedSpeech(np.zeros((3, 1)), [[0.1, 0.9], [0.4, 0.6], [0, 1]], "ab", 16000, 200)
        >>> sentence.steps_of_symbols.tolist()
        [1, 0]
        """
        weights = np.where(np.isfinite(self.alignment), self.alignment, -np.inf)
        steps: NDArray[np.int64] = np.argmax(weights, axis=0)
        symbols, first = np.unique(self.read, return_index=True)
        steps[symbols[symbols >= 0]] = first[symbols >= 0]
        return steps

    @property
    def levels(self) -> NDArray[np.float64]:
        """(T, M) the spectrogram from 0 to 1: from its first percentile to its maximum; NaN where it is not finite."""
        mel = np.asarray(self.mel, np.float64)
        finite = mel[np.isfinite(mel)]
        low, high = (np.percentile(finite, 1), finite.max()) if finite.size else (0.0, 0.0)
        scaled = np.clip((mel - low) / ((high - low) or 1.0), 0.0, 1.0)
        return np.where(np.isfinite(mel), scaled, np.nan)
