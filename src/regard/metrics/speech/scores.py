"""All figures of synthesised speech, of each sentence and of all together, as text and as a table."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from regard.metrics.alignment import AlignmentHealth
from regard.metrics.bootstrap import MetricTerms, ratio_terms
from regard.metrics.speech.clarity import Clarity, ClarityScores, clarity_scores
from regard.metrics.speech.pitch_errors import PitchErrors
from regard.metrics.speech.reading import ReadingErrors
from regard.metrics.speech.timing_errors import (
    DurationDifferences,
    DurationErrors,
    TimingDifferences,
    TimingErrors,
    duration_errors,
    timing_errors,
    timing_terms,
)
from regard.metrics.table import AbstractScores, Row, mean_of_known


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class SpokenSentence:
    """The measures of a sentence; None or NaN if not measured.

    Args:
        id: its name.
        timing: differences of the teacher-forced alignment from the labels.
        alignment: the measures of that alignment, plain numbers.
        reading: the reading errors of the free run.
        durations: differences of the free run's durations from the labels.
        distortion: the mel cepstral distortion of the free run, in dB.
        resynthesis: the distortion of the recording's spectrogram converted to sound: the part that does not depend on
            the model.
        pitch: the errors of the free run's pitch.
        clarity: the contrast of the free run's sounds, and its pauses.
    """

    id: str
    timing: TimingDifferences | None = None
    alignment: AlignmentHealth | None = None
    reading: ReadingErrors | None = None
    durations: DurationDifferences | None = None
    distortion: float = math.nan
    resynthesis: float = math.nan
    pitch: PitchErrors | None = None
    clarity: Clarity | None = None


@dataclass(frozen=True, eq=False, slots=True)
class SpeechScores(AbstractScores):
    """The figures of sentences together: `print(scores)`, `scores.figures()`, and `scores.write(path)` for a table.

    Args:
        sentences: the measures of each sentence.
        baselines: timing errors of baselines, by name (`diagonal_times`, `MeanDurations`).
        baseline_timing: their differences for each sentence; None for one without labels.

    >>> from regard.metrics.speech import reading_errors
    >>> reading = reading_errors(np.eye(4))
    >>> scores = SpeechScores([SpokenSentence(id="a", reading=reading, distortion=6.0, resynthesis=4.5)])
    >>> print(scores)
    mel cepstral distortion 6.00 dB; the recordings' own spectrograms as sound: 4.50 dB
    reading errors 0.00 per 100 units (0 skipped, 0 repeated, 0 cut, 0 babble), 1 of 1 sentences read through
    """

    sentences: Sequence[SpokenSentence]
    baselines: Mapping[str, TimingErrors] = field(default_factory=dict)
    baseline_timing: Mapping[str, Sequence[TimingDifferences | None]] = field(default_factory=dict)

    @property
    def timing(self) -> TimingErrors | None:
        """The timing errors of all units together."""
        differences = [sentence.timing for sentence in self.sentences if sentence.timing is not None]
        return timing_errors(differences) if differences else None

    @property
    def is_aligned(self) -> bool | None:
        """Whether centres and boundaries are nearer to the labels than those of all baselines; None if not measured."""
        timing = self.timing
        return timing.is_better_than(*self.baselines.values()) if timing is not None and self.baselines else None

    @property
    def alignment(self) -> AlignmentHealth | None:
        """The mean measures of the alignments."""
        health = [sentence.alignment for sentence in self.sentences if sentence.alignment is not None]
        if not health:
            return None
        names = [entry.name for entry in dataclasses.fields(AlignmentHealth)]
        return AlignmentHealth(*(np.array([getattr(one, name) for one in health], float) for name in names)).mean()

    @property
    def reading(self) -> ReadingErrors | None:
        """The reading errors, with an entry for each sentence."""
        errors = [sentence.reading for sentence in self.sentences if sentence.reading is not None]
        return ReadingErrors.joined(errors) if errors else None

    @property
    def durations(self) -> DurationErrors | None:
        """The errors of durations over all sentences."""
        differences = [sentence.durations for sentence in self.sentences if sentence.durations is not None]
        return duration_errors(differences) if differences else None

    @property
    def distortion(self) -> float:
        """The mean of the sentences' mel cepstral distortions, dB; NaN if there are none."""
        return mean_of_known([sentence.distortion for sentence in self.sentences])

    @property
    def resynthesis(self) -> float:
        """The mean of the distortions of the recordings' own spectrograms, dB; NaN if there are none."""
        return mean_of_known([sentence.resynthesis for sentence in self.sentences])

    @property
    def pitch(self) -> PitchErrors | None:
        """The errors of pitch, with an entry for each sentence."""
        errors = [sentence.pitch for sentence in self.sentences if sentence.pitch is not None]
        return PitchErrors.joined(errors) if errors else None

    @property
    def clarity(self) -> ClarityScores | None:
        """The contrast of the sounds of all sentences, and their pauses."""
        each = [sentence.clarity for sentence in self.sentences if sentence.clarity is not None]
        return clarity_scores(each) if each else None

    def figures(self) -> dict[str, float]:
        """The figures by the names of the table's columns; rates and medians are over all sentences."""
        clarity, reading, durations, pitch = self.clarity, self.reading, self.durations, self.pitch
        timing, alignment = self.timing, self.alignment
        figures: dict[str, float] = {}
        if not math.isnan(self.distortion):
            figures["mcd_db"] = self.distortion
        if not math.isnan(self.resynthesis):
            figures["resynthesis_mcd_db"] = self.resynthesis
        if clarity is not None:
            figures |= {"contrast": clarity.contrast_ratio, "pauses_kept": clarity.pauses_kept}
        if reading is not None:
            figures |= {
                "read_units": int(reading.num_units.sum()),
                "reading_errors": reading.per_hundred(),
                "skipped": int(reading.skipped.sum()),
                "repeated": int(reading.repeated.sum()),
                "cut": int(reading.is_cut.sum()),
                "babble": int(reading.is_babble.sum()),
                "ended": float(reading.has_ended.mean()) if len(reading) else math.nan,
                "clean": reading.clean_share,
            }
        if durations is not None:
            figures |= {"duration_ratio": durations.ratio, "duration_ms": durations.unit_ms}
        if pitch is not None:
            figures |= {"pitch_cents": pitch.cents, "voicing_error": pitch.voicing_error}
        if timing is not None:
            figures |= {
                "centre_ms": timing.centre_ms,
                "boundary_ms": timing.boundary_ms,
                "near_share": timing.near_share,
                "lag_ms": timing.lag_ms,
                "lagless_boundary_ms": timing.lagless_ms,
                "labelled_units": timing.num_units,
                "without_weight": timing.num_missing,
            }
        if alignment is not None:
            figures |= {
                name: float(getattr(alignment, name)) for name in ("focus_rate", "coverage", "skips", "repeats")
            }
        return figures

    def terms(self) -> dict[str, MetricTerms]:
        """What each sentence adds to the metrics that are means, rates or roots of means."""
        sentences, metrics = self.sentences, {}
        distortion = np.array([one.distortion for one in sentences])
        readings = [one.reading for one in sentences]
        if np.isfinite(distortion).any():
            metrics["mcd_db"] = ratio_terms(np.nan_to_num(distortion), np.isfinite(distortion))
        if all(readings):
            reading = ReadingErrors.joined(one for one in readings if one is not None)
            metrics["reading_errors"] = ratio_terms(reading.errors, reading.num_units, scale=100)
            metrics["clean"] = ratio_terms(reading.is_clean, larger_is_better=True, is_share=True)
        if self.timing is not None:
            metrics |= timing_terms([one.timing for one in sentences])
        if any(one.clarity is not None and one.clarity.num_pause_frames for one in sentences):
            pauses = [(0, 0) if c is None else (c.num_kept, c.num_pause_frames) for c in (s.clarity for s in sentences)]
            metrics["pauses_kept"] = ratio_terms(*np.array(pauses).T, larger_is_better=True, is_share=True)
        return metrics

    def baseline_terms(self) -> dict[str, dict[str, MetricTerms]]:
        """The same of the baselines, which have timing only, by name."""
        return {name: timing_terms(each) for name, each in self.baseline_timing.items()}

    def rows(self) -> Iterator[Row]:
        for one in self.sentences:
            yield {"id": one.id, **SpeechScores([one]).figures()}

    def __str__(self) -> str:
        lines: list[str] = []
        if not math.isnan(self.distortion):
            beside = f"; the recordings' own spectrograms as sound: {self.resynthesis:.2f} dB"
            lines.append(
                f"mel cepstral distortion {self.distortion:.2f} dB"
                + (beside if not math.isnan(self.resynthesis) else "")
            )
        lines += [str(one) for one in (self.clarity, self.reading, self.durations, self.pitch) if one is not None]
        if self.timing is not None:
            lines.append(f"attention, teacher-forced: {self.timing}")
            lines += [f"  {name}: {errors}" for name, errors in self.baselines.items()]
            if self.is_aligned is not None:
                verdict = "nearer" if self.is_aligned else "NOT nearer"
                lines.append(f"  {verdict} to the labels in centres and boundaries than {' and '.join(self.baselines)}")
        if self.alignment is not None:
            lines.append(f"weights: {self.alignment.text}")
        return "\n".join(lines) or "nothing was measured"
