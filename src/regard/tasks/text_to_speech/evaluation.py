"""Speech beside recordings: alignment, reading, distortion, pitch and durations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from regard.audio import FrontEnd, find_pitch, mel_cepstral_distortion
from regard.data import EOS, Intervals, join_texts, join_units, read_ljspeech
from regard.errors import DataError
from regard.health import (
    MeanDurations,
    ReadingErrors,
    SpeechScores,
    SpokenSentence,
    StepTimes,
    TimingErrors,
    diagonal_times,
    duration_differences,
    pitch_errors,
    reading_errors,
    summary,
    timing_differences,
    timing_errors,
    unit_times,
)
from regard.tasks.encoded import pad
from regard.tasks.text_to_speech.prediction import Speech
from regard.tasks.text_to_speech.reading import RecordedSentence, read_sentences

if TYPE_CHECKING:
    from regard.tasks.text_to_speech.model import SpeechModel


@dataclass(frozen=True, slots=True)
class SpokenAndRecorded:
    """A sentence of an evaluation."""

    place: str
    prediction: Speech
    measured: SpokenSentence

    @property
    def errors(self) -> float:
        """Reading errors; a sentence that was cut has more."""
        return 0.0 if self.measured.reading is None else float(self.measured.reading.errors.sum())

    def record(self) -> dict[str, Any]:
        """The figures as a JSON object."""
        return {"id": self.measured.id, "place": self.place, **SpeechScores([self.measured]).figures()}

    def __str__(self) -> str:
        return f"{self.place}: {self.measured.id}: {SpeechScores([self.measured])}"


@dataclass(frozen=True, slots=True)
class SpeechEvaluation:
    """The speech of a table of sentences beside their recordings.

    Args:
        scores: of all sentences.
        sentences: each with its speech.
        joined: the reading errors of long sentences, each several neighbours; None if there are too few sentences.
        num_joined: of how many sentences a long one is made.
        notes: what was changed in sounds.
    """

    scores: SpeechScores
    sentences: tuple[SpokenAndRecorded, ...]
    joined: ReadingErrors | None = None
    num_joined: int = 5
    notes: tuple[str, ...] = ()

    @property
    def metrics(self) -> Mapping[str, float]:
        """All figures by name, those of baselines with theirs, and the number of sentences."""
        figures = {**self.scores.figures()}
        for name, errors in self.scores.baselines.items():
            figures[f"{name.replace(' ', '_')}_boundary_ms"] = errors.boundary_ms
            figures[f"{name.replace(' ', '_')}_near_share"] = errors.near_share
        if self.joined is not None:
            figures["joined_reading_errors"] = self.joined.per_hundred()
            figures["joined_clean_share"] = self.joined.clean_share
        return {**figures, "sentences": len(self.sentences)}

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
        """What was changed in sounds."""
        return {"notes": list(self.notes)} if self.notes else {}

    def __str__(self) -> str:
        lines = [str(self.scores)]
        if self.joined is not None:
            lines.append(f"{self.num_joined} sentences joined: {self.joined}")
        return "\n".join([*lines, *self.notes])


def evaluate(model: SpeechModel, path: Path, *, sound: bool, joined: int, table: Path | None) -> SpeechEvaluation:
    """As `SpeechModel.evaluate`."""
    data, notes = model.config.data, []
    same = path.parent == data.train.parent
    if not same:
        data = data.model_copy(update={"phones": None, "letters": None})
    sentences = read_sentences(data, read_ljspeech(path), path, notes)
    if not sentences:
        raise DataError(f"{path}: there are no sentences.")
    spoken = speak(model, sentences)
    training = _training_labels(model)
    measured = measure(model, sentences, spoken, sound=sound)
    scores = SpeechScores(measured, baselines(model.front_end, sentences, training))
    if table is not None:
        scores.write(table)
    long = None
    if joined and len(sentences) >= joined:
        long = read_joined(model, sentences, joined)
    scored = tuple(
        SpokenAndRecorded(item.utterance.place, speech, one)
        for item, speech, one in zip(sentences, spoken, measured, strict=True)
    )
    return SpeechEvaluation(scores, scored, long, joined, tuple(notes))


def quick_scores(
    model: SpeechModel, sentences: Sequence[RecordedSentence], training: Sequence[RecordedSentence]
) -> tuple[dict[str, float], list[Speech]]:
    """Figures of validations, and the speech they are of: no sound is made."""
    spoken = speak(model, sentences)
    measured = measure(model, sentences, spoken, sound=False)
    labels = [item.labels for item in training if item.labels is not None]
    scores = SpeechScores(measured, baselines(model.front_end, sentences, labels))
    figures = {name: value for name, value in scores.figures().items() if value == value}
    timing, health = scores.timing, scores.alignment
    metrics = {"mel_cepstral_distortion": scores.distortion}
    if timing is not None:
        metrics["boundary_ms"] = timing.boundary_ms
        metrics["is_aligned"] = float(bool(scores.is_aligned))
        metrics |= {
            f"{name.replace(' ', '_')}_boundary_ms": errors.boundary_ms for name, errors in scores.baselines.items()
        }
    if health is not None:
        metrics["focus_rate"] = float(health.focus_rate)
    del figures
    reading = ReadingErrors.joined([item.reading for item in measured if item.reading is not None])
    metrics["reading_errors"] = reading.per_hundred()
    metrics["clean_share"] = reading.clean_share
    return metrics, spoken


def speak(model: SpeechModel, sentences: Sequence[RecordedSentence]) -> list[Speech]:
    """The sentences read aloud, with alignments, without sound; those of like length together."""
    ids = [model.field.encode(item.text).ids for item in sentences]
    order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
    results: list[Speech | None] = [None] * len(ids)
    size = model.config.decoding.batch_sentences
    for start in range(0, len(order), size):
        part = order[start : start + size]
        for i, speech in zip(part, model.say([ids[i] for i in part], alignment=True), strict=True):
            results[i] = speech
    return [speech for speech in results if speech is not None]


@torch.no_grad()
def forced_alignments(model: SpeechModel, sentences: Sequence[RecordedSentence]) -> list[Tensor]:
    """The teacher-forced alignments (N, S) of sentences, the mean of heads."""
    tacotron, reduction = model.module.tacotron, int(model.module.reduction)
    results: list[Tensor | None] = [None] * len(sentences)
    order = sorted(range(len(sentences)), key=lambda i: len(sentences[i].mel))
    size = model.config.decoding.batch_sentences
    for start in range(0, len(order), size):
        part = order[start : start + size]
        sequences = [model.field.encode(sentences[i].text).ids for i in part]
        ids, mask = (tensor.to(model.device) for tensor in pad(sequences, end=EOS))
        mels = [model.scale(sentences[i].mel).float() for i in part]
        frames = torch.nn.utils.rnn.pad_sequence(mels, batch_first=True).to(model.device)
        lengths = torch.tensor([len(mel) for mel in mels], device=model.device)
        real = torch.arange(frames.shape[1], device=model.device) < lengths[:, None]
        output = tacotron(ids, frames, mask, real, num_frames=reduction)
        name = tacotron.decoder.main_attention or list(output.alignments)[-1]
        weights = output.alignments[name].mean(1).cpu()
        for row, i in enumerate(part):
            steps = -(-len(mels[row]) // reduction)
            results[i] = weights[row, :steps, : len(sequences[row]) + 1].clone()
    return [result for result in results if result is not None]


def measure(
    model: SpeechModel, sentences: Sequence[RecordedSentence], spoken: Sequence[Speech], *, sound: bool
) -> list[SpokenSentence]:
    """What can be measured of each sentence."""
    front_end = model.front_end
    steps = StepTimes(front_end.sample_rate, front_end.hop_length, int(model.module.reduction))
    results = []
    for item, speech, forced in zip(sentences, spoken, forced_alignments(model, sentences), strict=True):
        assert speech.alignment is not None
        units = (*model.field.split(item.text), "</s>")
        timing = durations = None
        is_read = np.array([*(not unit.isspace() for unit in units[:-1]), False])
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
        distortion = mel_cepstral_distortion(speech.mel[None], item.mel[None])
        resynthesis, pitch = float("nan"), None
        if sound:
            again = front_end.mel(model.sound_of(item.mel))
            resynthesis = float(mel_cepstral_distortion(again[None], item.mel[None]).decibels)
            pitch = _pitch(model, speech, item, distortion)
        results.append(
            SpokenSentence(
                id=item.utterance.id,
                timing=timing,
                alignment=summary(forced),
                reading=reading,
                durations=durations,
                distortion=float(distortion.decibels),
                resynthesis=resynthesis,
                pitch=pitch,
            )
        )
    return results


def baselines(
    front_end: FrontEnd, sentences: Sequence[RecordedSentence], training: Sequence[Intervals]
) -> dict[str, TimingErrors]:
    """The timing errors without any attention: equally long units, and mean durations of the training sentences."""
    labelled = [(item, item.labels) for item in sentences if item.labels is not None]
    if not labelled:
        return {}
    seconds = [len(item.mel) * front_end.hop_length / front_end.sample_rate for item, _ in labelled]
    result = {
        "diagonal": timing_errors(
            timing_differences(diagonal_times(len(labels), long), labels)
            for (_, labels), long in zip(labelled, seconds, strict=True)
        )
    }
    if training:
        means = MeanDurations.of(training)
        result["mean durations"] = timing_errors(
            timing_differences(means.times(labels.units, long), labels)
            for (_, labels), long in zip(labelled, seconds, strict=True)
        )
    return result


def read_joined(model: SpeechModel, sentences: Sequence[RecordedSentence], count: int) -> ReadingErrors:
    """The reading errors of every `count` neighbours as one sentence."""
    if model.config.data.units == "phones":
        texts = [" ".join(units) for units in join_units([item.text.split() for item in sentences], count)]
    else:
        texts = join_texts([item.text for item in sentences], count)
    results = []
    for text in texts:
        speech = model.say([model.field.encode(text).ids], alignment=True)[0]
        assert speech.alignment is not None
        units = model.field.split(text)
        is_read = np.array([*(not unit.isspace() for unit in units), False])
        results.append(reading_errors(speech.alignment, is_read=is_read, has_ended=speech.stop_reason == "stop"))
    return ReadingErrors.joined(results)


def _training_labels(model: SpeechModel) -> list[Intervals]:
    """The labels of the training sentences, if they are still there."""
    from regard.data import read_intervals

    data = model.config.data
    key = "phones" if data.units == "phones" else "letters"
    path = getattr(data, key) or data.train.parent / f"{key}.tsv"
    if not path.exists() or not data.train.exists():
        return []
    held = set() if data.dev is None or not data.dev.exists() else {item.id for item in read_ljspeech(data.dev)}
    training = {item.id for item in read_ljspeech(data.train)} - held
    return [labels for name, labels in read_intervals(path).items() if name in training]


def _pitch(model: SpeechModel, speech: Speech, item: RecordedSentence, distortion: Any) -> Any:
    """The errors of pitch along the path of distortion, between both spectrograms made into sound."""
    front_end = model.front_end
    found = [
        find_pitch(model.sound_of(mel)[None], sample_rate=front_end.sample_rate, hop_length=front_end.hop_length)
        for mel in (speech.mel, item.mel)
    ]
    lengths = len(speech.mel), len(item.mel)
    frequencies = [
        torch.nn.functional.pad(pitch.frequency, (0, max(0, size - pitch.frequency.shape[-1])))[..., :size]
        for pitch, size in zip(found, lengths, strict=True)
    ]
    return pitch_errors(*frequencies, distortion.path)
