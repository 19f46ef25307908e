"""Synthetic speech, and its comparison with recordings: alignment, reading, distortion, pitch and durations."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from regard.audio import Distortion, FrontEnd, find_pitch, mel_cepstral_distortion
from regard.data.speech import Intervals, join_texts, join_units, read_ljspeech
from regard.data.tally import SymbolTally
from regard.decoding import chosen_heads
from regard.errors import ConfigError, DataError, Option
from regard.metrics import ItemTerms, ShownItem, summary
from regard.metrics.speech import (
    MeanDurations,
    PitchErrors,
    ReadingErrors,
    SpeechScores,
    SpokenSentence,
    StepTimes,
    TimingDifferences,
    UnitTimes,
    clarity,
    diagonal_times,
    duration_differences,
    pitch_errors,
    reading_errors,
    timing_differences,
    timing_errors,
    unit_times,
)
from regard.runs.observation import observed
from regard.shapes import Float
from regard.tasks.encoded import pad
from regard.tasks.text_to_speech.reading import RecordedSentence, linear_spectrogram, read_sentences, sound_findings
from regard.viz import plot_speech
from regard.viz.notebook import embedded_page, shown_text

if TYPE_CHECKING:
    from regard.tasks.text_to_speech.model import SpeechModel


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Speech:
    """The speech of a text, in N = T / r steps.

    Args:
        tokens: S units, the end symbol last.
        mel: (T, M), the spectrogram of the front end, not standardised.
        linear: (T, ·), a spectrogram without mel filters, of models that make one; else None.
        alignment: (N, S), the mean of heads; None without alignments.
        stop: (N, r) probabilities of stopping, or (N, 1); None of a model that ends with silence.
        samples: (samples,) in [-1, 1]; None without sound.
        sample_rate, hop_length: of the front end.
        num_frames: r.
        stop_reason: `stop` if the model ended the sentence, `length` if it became too long; empty without speech.
        warnings: why the text could not be handled as it is, or was cut; empty for most.
    """

    text: str = ""
    tokens: tuple[str, ...] = ()
    mel: Float[Tensor, "T M"]
    linear: Float[Tensor, "T bins"] | None = None
    alignment: Float[Tensor, "N S"] | None = None
    stop: Float[Tensor, "N r"] | None = None
    samples: Float[Tensor, " samples"] | None = None
    sample_rate: int
    hop_length: int
    num_frames: int
    stop_reason: Literal["stop", "length", ""] = "stop"
    warnings: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        """The sound with its spectrogram and alignment, for notebooks."""
        from regard.tasks.text_to_speech.model import as_picture

        if self.alignment is None or not len(self.mel):
            return shown_text(self.text, f"{self.seconds:.2f} seconds", *self.warnings)
        return embedded_page(lambda path: plot_speech(as_picture(self), path, title=self.text), self.text)

    @property
    def seconds(self) -> float:
        """The duration of the spectrogram."""
        return len(self.mel) * self.hop_length / self.sample_rate


PAUSES = ("pau", "sil", "sp", "SIL")
"""The names of phones of silence."""
Synthesis = Callable[[Sequence[Tensor], Sequence[Tensor | None]], list[Tensor]]
"""From spectrograms (T, M) and their linear spectrograms (T, ·) or None to sounds."""


@dataclass(frozen=True, slots=True)
class SpokenAndRecorded:
    """A sentence of an evaluation."""

    place: str
    prediction: Speech
    measured: SpokenSentence

    @property
    def errors(self) -> float:
        """The number of its reading errors."""
        return 0.0 if self.measured.reading is None else float(self.measured.reading.errors.sum())

    def record(self) -> dict[str, Any]:
        """The figures as a JSON object."""
        reading = self.measured.reading
        return {
            "place": self.place,
            "input": self.prediction.text,
            "references": [],
            "output": self.measured.id,
            "errors": None if reading is None else self.errors,
            "length": None if reading is None else int(reading.num_units.sum()),
            "score": None,
            "confidence": None,
            **SpeechScores([self.measured]).figures(),
        }

    def __str__(self) -> str:
        return f"{self.place}: {self.measured.id}: {SpeechScores([self.measured])}"


@dataclass(frozen=True, slots=True)
class SpeechEvaluation:
    """The speech of a table of sentences, compared with their recordings.

    Args:
        joined: the reading errors of long sentences, each of several neighbours; None if there are too few sentences.
        num_joined: the number of sentences in a long one.
        notes: changes to the sounds.
        warnings: units that the model does not know.
    """

    scores: SpeechScores
    sentences: tuple[SpokenAndRecorded, ...]
    joined: ReadingErrors | None = None
    num_joined: int = 5
    notes: tuple[str, ...] = ()
    warnings: Sequence[str] = ()

    @property
    def metrics(self) -> Mapping[str, float]:
        """All figures by name, with those of baselines, and the number of sentences."""
        figures = {**self.scores.figures(), **_baseline_figures(self.scores, "centre_ms", "boundary_ms", "near_share")}
        if self.joined is not None:
            figures["joined_reading_errors"] = self.joined.per_hundred()
            figures["joined_clean_share"] = self.joined.clean_share
        return {**figures, "sentences": len(self.sentences)}

    def terms(self) -> ItemTerms:
        """What each sentence adds to the metrics."""

        def show(index: int) -> ShownItem:
            each = self.sentences[index]
            text = each.prediction.text
            return ShownItem(each.place, text, read=text)

        places = [each.place for each in self.sentences]
        return ItemTerms(places, self.scores.terms(), show, baselines=self.scores.baseline_terms())

    @property
    def scored(self) -> Sequence[SpokenAndRecorded]:
        """The sentences, in the order of the file."""
        return self.sentences

    @property
    def worst(self) -> Sequence[SpokenAndRecorded]:
        """The sentences with reading errors, those with the most first."""
        return sorted((item for item in self.sentences if item.errors), key=lambda item: -item.errors)

    @property
    def details(self) -> Mapping[str, Any]:
        """The changes to the sounds."""
        return {"notes": list(self.notes)} if self.notes else {}

    def __str__(self) -> str:
        lines = [str(self.scores)]
        if self.joined is not None:
            lines.append(f"{self.num_joined} sentences joined: {self.joined}")
        return "\n".join([*lines, *self.notes])


def _baseline_figures(scores: SpeechScores, *names: str) -> dict[str, float]:
    """Figures of the timing errors of baselines, by the names of both."""
    return {
        f"{baseline.replace(' ', '_')}_{name}": getattr(errors, name)
        for baseline, errors in scores.baselines.items()
        for name in names
    }


def evaluate(
    model: SpeechModel,
    path: Path,
    synthesise: Synthesis | None,
    *,
    joined: int,
    table: Path | None,
) -> SpeechEvaluation:
    """As `SpeechModel.evaluate`."""
    if joined < 0:
        raise ConfigError(f"joined={joined}: give the number of sentences of a long one, or 0 for none.")
    data = model.config.data.model_copy(update={"cache": None})
    folders = [table.resolve().parent for table in (data.train, data.dev) if table is not None]
    if path.resolve().parent not in folders:
        data = data.model_copy(update={"phones": None, "letters": None})
    messages: list[str] = []
    sentences = read_sentences(data, read_ljspeech(path), path, messages, model.field)
    if not sentences:
        raise DataError(f"{path}: there are no sentences.")
    notes = list(map(str, sound_findings(messages)))
    spoken = read_aloud(model, [item.text for item in sentences])
    measured = measure(model, sentences, spoken, synthesise)
    scores = _scores(model, sentences, measured)
    long = None
    if joined and len(sentences) >= joined:
        long = read_joined(model, [item.text for item in sentences], joined)
    elif joined:
        notes.append(
            f"No long sentences are measured: each joins {joined} ({Option('--joined', 'joined')}), and the file has "
            f"{len(sentences)}."
        )
    if table is not None:
        scores.write(table)
    scored = tuple(
        SpokenAndRecorded(item.utterance.place, replace(speech, text=item.text), figures)
        for item, speech, figures in zip(sentences, spoken, measured, strict=True)
    )
    unknown = SymbolTally()
    for item in sentences:
        unknown.add(item.utterance.place, model.field.encode(item.text).unknown)
    warnings = unknown.lines(f"sentence|sentences has|have {model.config.data.units} that the training did not have")
    return SpeechEvaluation(scores, scored, long, joined, tuple(notes), warnings)


def validation_scores(model: SpeechModel, sentences: Sequence[RecordedSentence]) -> tuple[SpeechScores, list[Speech]]:
    """The scores of a validation, which makes no sounds, and the speech."""
    spoken = read_aloud(model, [item.text for item in sentences])
    measured = measure(model, sentences, spoken, None)
    return _scores(model, sentences, measured), spoken


def _scores(
    model: SpeechModel, sentences: Sequence[RecordedSentence], measured: Sequence[SpokenSentence]
) -> SpeechScores:
    """The scores of sentences, with those of the baselines."""
    timing = baseline_timing(model.front_end, sentences, model.durations)
    errors = {name: timing_errors(each for each in every if each is not None) for name, every in timing.items()}
    return SpeechScores(measured, errors, timing)


def validation_metrics(scores: SpeechScores) -> dict[str, float]:
    """The figures of a validation by name, with labels those of timing."""
    reading, timing, health = scores.reading, scores.timing, scores.alignment
    assert reading is not None
    metrics = {
        "mel_cepstral_distortion": scores.distortion,
        "reading_errors": reading.per_hundred(),
        "clean_share": reading.clean_share,
    }
    if scores.clarity is not None:
        metrics["contrast"] = scores.clarity.contrast_ratio
        if scores.clarity.pause_frames:
            metrics["pauses_kept"] = scores.clarity.pauses_kept
    if timing is not None:
        metrics |= {"centre_ms": timing.centre_ms, "boundary_ms": timing.boundary_ms, "lag_ms": timing.lag_ms}
        metrics |= _baseline_figures(scores, "centre_ms", "boundary_ms")
    if health is not None:
        metrics["focus_rate"] = float(health.focus_rate)
    return metrics


def read_aloud(model: SpeechModel, texts: Sequence[str]) -> list[Speech]:
    """The speech of texts with alignments, without sound, in batches of similar length."""
    ids = [model.field.encode(text).ids for text in texts]
    results: dict[int, Speech] = {}
    lengths = [len(item) for item in ids]
    parts = observed(_parts(model, lengths), lambda each: (len(each), sum(lengths[i] for i in each)), sum(lengths))
    for part in parts:
        results |= zip(part, model.speak([ids[i] for i in part], alignment=True), strict=True)
    return [results[i] for i in range(len(ids))]


@torch.no_grad()
def forced_alignments(model: SpeechModel, sentences: Sequence[RecordedSentence]) -> list[Tensor]:
    """The teacher-forced alignments (N, S) of sentences, the mean of heads."""
    tacotron, reduction = model.module.tacotron, int(model.module.reduction)
    results: dict[int, Tensor] = {}
    for part in _parts(model, [len(item.mel) for item in sentences]):
        sequences = [model.field.encode(sentences[i].text).ids for i in part]
        ids, mask = (tensor.to(model.device) for tensor in pad(sequences, end=model.end))
        mels = [model.scale(sentences[i].mel).float() for i in part]
        frames = pad_sequence(mels, batch_first=True).to(model.device)
        lengths = torch.tensor([len(mel) for mel in mels], device=model.device)
        real = torch.arange(frames.shape[1], device=model.device) < lengths[:, None]
        output = tacotron(ids, frames, mask, real, num_frames=reduction)
        weights = chosen_heads(output.alignments, tacotron.decoder).mean(1).cpu()
        for row, i in enumerate(part):
            steps = -(-len(mels[row]) // reduction)
            results[i] = weights[row, :steps, : len(sequences[row]) + len(model.end_units)].clone()
    return [results[i] for i in range(len(sentences))]


def measure(
    model: SpeechModel,
    sentences: Sequence[RecordedSentence],
    spoken: Sequence[Speech],
    synthesise: Synthesis | None,
) -> list[SpokenSentence]:
    """The measurements of each sentence.

    Args:
        synthesise: makes sounds, for the distortion of resynthesis and for pitch; None: both are left out.
    """
    front_end = model.front_end
    steps = step_times(front_end, int(model.module.reduction))
    distortions = list(_distortions(model, [speech.mel for speech in spoken], [item.mel for item in sentences]))
    resynthesis = [float("nan")] * len(sentences)
    pitches: list[PitchErrors | None] = [None] * len(sentences)
    clarities = [
        clarity(log_magnitudes(front_end, speech.mel), log_magnitudes(front_end, item.mel), distortion.path)
        for item, speech, distortion in zip(sentences, spoken, distortions, strict=True)
    ]
    if synthesise is not None:
        recorded = [item.mel for item in sentences]
        # from spectrograms of the kind from which the model's own sounds are made
        linear = [
            None if speech.linear is None else linear_spectrogram(model.config.data, item.utterance)
            for item, speech in zip(sentences, spoken, strict=True)
        ]
        sounds = synthesise(recorded, linear)
        mels = [front_end.mel(sound) for sound in sounds]
        resynthesis = [float(each.decibels) for each in _distortions(model, mels, recorded)]
        synthetic = synthesise([speech.mel for speech in spoken], [speech.linear for speech in spoken])
        pitches = [
            _pitch_errors(front_end, ours, theirs, distortion.path)
            for ours, theirs, distortion in zip(synthetic, sounds, distortions, strict=True)
        ]
    results = []
    for i, (item, speech, forced) in enumerate(
        zip(sentences, spoken, forced_alignments(model, sentences), strict=True)
    ):
        assert speech.alignment is not None
        units = model.units_of(item.text)
        timing = durations = None
        is_read = units_to_read(units, phones=model.config.data.units == "phones")
        seconds = len(item.mel) * front_end.hop_length / front_end.sample_rate
        if item.labels is not None:
            labels = item.labels.for_units(units)
            is_read = labels.is_heard
            timing = timing_differences(unit_times(forced, steps), labels)
            durations = duration_differences(
                unit_times(speech.alignment, steps), labels, seconds=speech.seconds, reference_seconds=seconds
            )
        reading = reading_errors(
            speech.alignment,
            is_read=is_read,
            duration=speech.seconds,
            reference_duration=seconds,
            has_ended=speech.stop_reason == "stop",
        )
        results.append(
            SpokenSentence(
                id=item.utterance.id,
                timing=timing,
                alignment=summary(forced),
                reading=reading,
                durations=durations,
                distortion=float(distortions[i].decibels),
                resynthesis=resynthesis[i],
                pitch=pitches[i],
                clarity=clarities[i],
            )
        )
    return results


def step_times(front_end: FrontEnd, reduction: int) -> StepTimes:
    """The times of steps of r frames of a front end, whose first frame may not be centred on the first sample.

    >>> from regard.audio import FRONT_ENDS
    >>> step_times(FRONT_ENDS["hifi-gan"], 1).middles(2).round(4).tolist()
    [0.0058, 0.0174]
    """
    return StepTimes(front_end.sample_rate, front_end.hop_length, reduction, float(front_end.frame_time(0)))


def units_to_read(units: Sequence[str], *, phones: bool = False) -> NDArray[np.bool_]:
    """(S,) True at units of a text without labels that have to be read: no blanks, punctuation, pauses, end symbol.

    Args:
        phones: whether units are phones, some of which are written as marks: `@` and `{` are vowels of X-SAMPA.

    >>> units_to_read(["a", ",", " ", "pau", "</s>"]).tolist()
    [True, False, False, False, False]
    >>> units_to_read(["@", "pau", "</s>"], phones=True).tolist()
    [True, False, False]
    """
    silent = {*PAUSES, "</s>"}
    return np.array(
        [unit not in silent and (phones or any(unicodedata.category(c)[0] in "LN" for c in unit)) for unit in units]
    )


def baseline_timing(
    front_end: FrontEnd, sentences: Sequence[RecordedSentence], durations: MeanDurations | None
) -> dict[str, list[TimingDifferences | None]]:
    """The differences of times from labels, for units of equal length and for the mean durations of the training
    sentences; None for a sentence without labels, and nothing without any labels."""
    hop, rate = front_end.hop_length, front_end.sample_rate
    labelled = [(item.labels, len(item.mel) * hop / rate) for item in sentences]
    if all(labels is None for labels, _ in labelled):
        return {}
    times: dict[str, Callable[[Intervals, float], UnitTimes]] = {
        "diagonal": lambda labels, seconds: diagonal_times(len(labels), seconds)
    }
    if durations is not None:
        times["mean durations"] = lambda labels, seconds: durations.times(labels.units, seconds)
    return {
        name: [
            None if labels is None else timing_differences(of(labels, seconds), labels) for labels, seconds in labelled
        ]
        for name, of in times.items()
    }


def read_joined(model: SpeechModel, texts: Sequence[str], count: int) -> ReadingErrors:
    """The reading errors of long sentences, each of `count` neighbours."""
    symbols, phones = frozenset(model.field.vocabulary.symbols), model.config.data.units == "phones"
    if phones:
        sentences = [text.split() for text in texts]
        pause = next((unit for unit in PAUSES if unit in symbols), None)
        if pause is not None:
            sentences = join_units(sentences, count, pause=pause)
        else:
            groups = [sentences[i : i + count] for i in range(0, len(sentences) - count + 1, count)]
            sentences = [[unit for sentence in group for unit in sentence] for group in groups]
        long = [" ".join(units) for units in sentences]
    else:
        comma, end = (mark if mark in symbols else "" for mark in ",.")
        long = join_texts(texts, count, separator=f"{comma} ", end=end)
    results = []
    for text, speech in zip(long, read_aloud(model, long), strict=True):
        assert speech.alignment is not None
        is_read = units_to_read(model.units_of(text), phones=phones)
        results.append(reading_errors(speech.alignment, is_read=is_read, has_ended=speech.stop_reason == "stop"))
    return ReadingErrors.joined(results)


def _parts(model: SpeechModel, lengths: Sequence[int]) -> Iterator[list[int]]:
    """Indices of items in batches of similar length."""
    order = sorted(range(len(lengths)), key=lambda i: lengths[i])
    size = model.config.decoding.batch_sentences
    yield from (order[start : start + size] for start in range(0, len(order), size))


def _distortions(model: SpeechModel, mels: Sequence[Tensor], references: Sequence[Tensor]) -> Iterator[Distortion]:
    """The distortion of each spectrogram."""
    size = model.config.decoding.batch_sentences
    for start in range(0, len(mels), size):
        pairs = [
            (pad_sequence(items, batch_first=True), torch.tensor([len(item) for item in items]))
            for items in (
                [log_magnitudes(model.front_end, mel) for mel in each[start : start + size]]
                for each in (mels, references)
            )
        ]
        (first, lengths), (second, others) = pairs
        whole = mel_cepstral_distortion(first, second, lengths, others)
        for row in range(len(first)):
            path = whole.path[row, : int(whole.path_length[row])]
            yield Distortion(whole.decibels[row], path, whole.path_length[row])


def log_magnitudes(front_end: FrontEnd, mel: Tensor) -> Tensor:
    """The natural logarithms of the mel magnitudes of a spectrogram (T, M), of any compression and power."""
    return front_end.compression.inverse(mel.double()).log() / front_end.power


def _pitch_errors(front_end: FrontEnd, synthetic: Tensor, recorded: Tensor, path: Tensor) -> PitchErrors:
    """The errors of pitch along the path of distortion."""
    first, second = (
        find_pitch(sound[None], sample_rate=front_end.sample_rate, hop_length=front_end.hop_length).frequency[0]
        for sound in (synthetic, recorded)
    )
    return pitch_errors(first, second, path)
