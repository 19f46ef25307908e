"""Measures of the alignments and the sound of speech; `SpeechScores` has all of them.

| measure | of | unit |
|---|---|---|
| `unit_times`, `timing_errors` | a teacher-forced alignment, `diagonal_times` or `MeanDurations`, and labels | ms |
| `reading_errors` | the alignment of a free run | errors per 100 units |
| `duration_errors` | a free run and labels | ms, ratio |
| `clarity`, `spectral_contrast` | a spectrogram and that of a recording | ratio, share of pauses |
| `pitch_errors` | the pitch of sound and of a recording | cents |
"""

from regard.metrics.speech.clarity import Clarity, ClarityScores, clarity, clarity_scores, spectral_contrast
from regard.metrics.speech.pitch_errors import PitchErrors, pitch_errors
from regard.metrics.speech.reading import ReadingErrors, reading_errors
from regard.metrics.speech.scores import SpeechScores, SpokenSentence
from regard.metrics.speech.timing import MeanDurations, StepTimes, UnitTimes, diagonal_times, unit_times
from regard.metrics.speech.timing_errors import (
    DurationDifferences,
    DurationErrors,
    TimingDifferences,
    TimingErrors,
    duration_differences,
    duration_errors,
    timing_differences,
    timing_errors,
)

__all__ = [
    "Clarity",
    "ClarityScores",
    "DurationDifferences",
    "DurationErrors",
    "MeanDurations",
    "PitchErrors",
    "ReadingErrors",
    "SpeechScores",
    "SpokenSentence",
    "StepTimes",
    "TimingDifferences",
    "TimingErrors",
    "UnitTimes",
    "clarity",
    "clarity_scores",
    "diagonal_times",
    "duration_differences",
    "duration_errors",
    "pitch_errors",
    "reading_errors",
    "spectral_contrast",
    "timing_differences",
    "timing_errors",
    "unit_times",
]
