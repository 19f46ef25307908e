"""Numbers about an alignment: does it focus, does it follow the source, what does it skip or repeat? About speech:
when it says each unit, how it reads, how long and how high it speaks. And about maps over pictures: where words look.

Every measure of an alignment is a pure function of it (a numpy array, a tensor or nested lists). Of (T, S) it returns a
plain number, of (..., T, S) an array shaped like the leading axes. Padding never counts (`Padding`).

| measure | range | healthy speech or spelling | rows that sum to less than 1 |
|---|---|---|---|
| `focus_rate` | 0 to 1 | near 1 | not normalised |
| `diagonality` | up to 1; 0 is uniform | near 1 | normalised |
| `coverage`, `soft_coverage` | 0 to 1 | near 1 | not normalised |
| `monotonicity` | 0 to 1 | near 1 | do not matter |
| `entropy`, `normalised_entropy` | 0 to log S, 0 to 1 | near 0 | normalised |
| `skips`, `repeats` | whole numbers | 0 | do not matter |

Measures of speech, from what a model attends to and says; `SpeechScores` has them all together:

| measure | of | unit |
|---|---|---|
| `unit_times`, `timing_errors` | a teacher-forced alignment, `diagonal_times` or `MeanDurations`, and labels | ms |
| `reading_errors` | the alignment of a free run | errors per 100 units |
| `duration_errors` | a free run and labels | ms, ratio |
| `clarity`, `spectral_contrast` | a spectrogram and that of a recording | ratio, share of pauses |
| `pitch_errors` | the pitch of sound and of a recording | cents |

Measures of maps over pictures, (T, S) with a grid or (T, h, w); `map_scores` has them all together:

| measure | says | range |
|---|---|---|
| `map_divergence` | whether maps depend on the word at all | 0 (identical) to 1 |
| `pointing` | whether a word's largest weight is on the object that it names | 0 to 1, beside chance |
| `ink_share` | how much weight is on ink and not on paper | 0 to 1, beside uniform attention |
"""

from regard.health.clarity import Clarity, ClarityScores, clarity, clarity_scores, spectral_contrast
from regard.health.map_scores import CaptionMaps, MapScores, MeasuredMaps, map_scores
from regard.health.maps import InkShare, Pointing, ink_share, map_divergence, pointing
from regard.health.measures import (
    AlignmentHealth,
    coverage,
    diagonality,
    entropy,
    focus_rate,
    monotonicity,
    normalised_entropy,
    repeats,
    skips,
    soft_coverage,
    summary,
)
from regard.health.monotonic_path import monotonic_path
from regard.health.padding import Padding
from regard.health.pitch_errors import PitchErrors, pitch_errors
from regard.health.reading import ReadingErrors, reading_errors
from regard.health.speech import SpeechScores, SpokenSentence
from regard.health.timing import MeanDurations, StepTimes, UnitTimes, diagonal_times, unit_times
from regard.health.timing_errors import (
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
    "AlignmentHealth",
    "CaptionMaps",
    "Clarity",
    "ClarityScores",
    "DurationDifferences",
    "DurationErrors",
    "InkShare",
    "MapScores",
    "MeanDurations",
    "MeasuredMaps",
    "Padding",
    "PitchErrors",
    "Pointing",
    "ReadingErrors",
    "SpeechScores",
    "SpokenSentence",
    "StepTimes",
    "TimingDifferences",
    "TimingErrors",
    "UnitTimes",
    "clarity",
    "clarity_scores",
    "coverage",
    "diagonal_times",
    "diagonality",
    "duration_differences",
    "duration_errors",
    "entropy",
    "focus_rate",
    "ink_share",
    "map_divergence",
    "map_scores",
    "monotonic_path",
    "monotonicity",
    "normalised_entropy",
    "pitch_errors",
    "pointing",
    "reading_errors",
    "repeats",
    "skips",
    "soft_coverage",
    "spectral_contrast",
    "summary",
    "timing_differences",
    "timing_errors",
    "unit_times",
]
