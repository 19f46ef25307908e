"""Reads and checks the recorded sentences of a configuration, and learns units, scales and durations from them."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from regard.audio import FRONT_ENDS, FrontEnd, Standardisation, read_wave, sounding
from regard.config.place import cut
from regard.data import Finding, Findings
from regard.data.defects import is_collecting, item_or_defect
from regard.data.finding import Severity, by_severity
from regard.data.speech import Intervals, read_intervals
from regard.data.speech.ljspeech import Utterance, read_ljspeech
from regard.data.split import are_held_out, suggested_fraction
from regard.data.tally import SymbolTally
from regard.data.text import Field, Normalisation, Vocabulary
from regard.data.text.field import PLAIN_UNITS
from regard.data.text.normaliser import NamedFunction, Normaliser, imported
from regard.data.text.replacements import Replacements
from regard.data.text.spoken import SpokenAbbreviations, SpokenNumbers
from regard.errors import ConfigError, DataError, RegardError, counted
from regard.files import read_array
from regard.metrics.speech import MeanDurations
from regard.runs.trained_items import DataItem, content
from regard.tasks.text_to_speech.build import has_linear
from regard.tasks.text_to_speech.config import SpeechDataConfig, TextToSpeechConfig

CACHE_VERSION = 2
"""A part of the names of cached spectrograms, which changes with their content."""
UNITS = {"characters": "character", "phones": "whitespace"}
"""The units of texts; phones are separated by blanks."""
VARYING = re.compile(r"\d+\.\d+")
"""The numbers in which messages of one kind differ; sample rates and channels make different kinds."""
DOUBTFUL = "doubtful"
"""A word of the messages about sounds that are read unchanged."""
LARGEST_OFFSET = 0.05
"""The share of the peak from which on a constant offset is doubtful."""
CLIPPED_PEAK, CLIPPED_RUN, CLIPPED_SHARE = 0.5, 4, 1e-4
"""Peaks are clipped if they are at least this high and more than a share of all samples begin a run at the peak."""
SHOWN, SHOWN_LENGTH = 5, 120
"""The most texts that a check shows before and after the normaliser, and the most characters of each."""
SCALED = 200
"""The most sentences from which the scale of linear spectrograms is computed; these are not cached."""


@dataclass(frozen=True, eq=False, slots=True)
class RecordedSentence:
    """A sentence of a training or an evaluation.

    Args:
        utterance: its id, text, sound and place.
        text: the input of the model: the text, or its phones with blanks between them.
        mel: (T, M), not standardised.
        offset: seconds that were cut at its beginning.
        labels: the times of its units, from the beginning of the spectrogram, if they are known.
    """

    utterance: Utterance
    text: str
    mel: Tensor
    offset: float = 0.0
    labels: Intervals | None = None


@dataclass(frozen=True, eq=False, slots=True)
class SpeechMaterial:
    """The sentences of a training.

    Args:
        field: units of the training texts.
        scale: mean and deviation of each mel channel of the training sentences.
        linear_scale: of each frequency of linear spectrograms; None for a model that does not make them.
        durations: of the units in labelled training sentences; None without labels.
        chosen: values of open keys that follow from the sentences, by dotted key.
        messages: about changes to the sounds.
        left_out: places of training sentences that are too long.
    """

    train: Sequence[RecordedSentence]
    dev: Sequence[RecordedSentence]
    field: Field
    scale: Standardisation
    linear_scale: Standardisation | None
    durations: MeanDurations | None
    chosen: Mapping[str, float]
    messages: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


def read_material(config: TextToSpeechConfig) -> SpeechMaterial:
    """Reads the sentences and their sounds.

    Raises:
        ConfigError: for settings that contradict the files.
        DataError: for files that cannot be read, or too few sentences.
    """
    data, chosen = config.data, {}
    utterances = read_ljspeech(data.train)
    if not utterances:
        raise DataError(f"{data.train}: there are no sentences to train on.")
    if data.dev is not None:
        held_out = list(read_ljspeech(data.dev))
        training = list(utterances)
        if not held_out:
            raise DataError(f"{data.dev}: there are no held-out sentences.")
    else:
        fraction = data.dev_fraction
        if fraction is None:
            fraction = chosen["data.dev_fraction"] = suggested_fraction(len(utterances))
        is_dev = are_held_out((item.id for item in utterances), fraction)
        if len(utterances) > 1 and fraction and not is_dev.any():
            is_dev[-1] = True
        training, held_out = ([utterances[i] for i in np.flatnonzero(part).tolist()] for part in (~is_dev, is_dev))
        if not training or not held_out:
            raise DataError(
                f"{data.train}: of {len(utterances):,} sentences {len(training):,} are for training and "
                f"{len(held_out):,} are held out; both are needed. Set data.dev or data.dev_fraction."
            )
    messages: list[str] = []
    empty = empty_field(data)
    train = read_sentences(data, training, data.train, messages, empty)
    left_out = tuple(item.utterance.place for item in train if _seconds(data, item.mel) > data.max_seconds)
    train = [item for item in train if _seconds(data, item.mel) <= data.max_seconds]
    if not train:
        raise DataError(f"{data.train}: no sentence is as short as data.max_seconds={data.max_seconds:g}.")
    dev = read_sentences(data, held_out, data.dev or data.train, messages, empty)
    texts = [empty.split(item.text) for item in train]
    field = replace(empty, vocabulary=Vocabulary.build(texts), longest=max(map(len, texts)))
    scale, linear_scale = Standardisation.fit(item.mel for item in train), None
    if has_linear(config.model):
        some = train[:: -(-len(train) // SCALED)]
        linear_scale = Standardisation.fit(linear_spectrogram(data, item.utterance) for item in some)
    labels = [item.labels for item in train if item.labels is not None]
    durations = MeanDurations.of(labels) if labels else None
    return SpeechMaterial(train, dev, field, scale, linear_scale, durations, chosen, tuple(messages), left_out)


def empty_field(data: SpeechDataConfig) -> Field:
    """Units and normalisation of a configuration, without symbols.

    Raises:
        ConfigError: for a function that cannot be imported, or a language that a package does not have.
        DataError: for a table of replacements that cannot be read.
        UnsupportedError: for a package that is not installed.
    """
    return Field(normaliser_of(data), PLAIN_UNITS[UNITS[data.units]](), Vocabulary(()))


def normaliser_of(data: SpeechDataConfig) -> Normaliser | Normalisation:
    """The normaliser of a configuration, whose function is imported."""
    plain = Normalisation(data.case, data.unicode)
    if all(each is None for each in (data.normaliser, data.replacements, data.abbreviations, data.numbers)):
        return plain
    normaliser = Normaliser(
        plain,
        None if data.normaliser is None else NamedFunction(data.normaliser, imported(data.normaliser)),
        None if data.replacements is None else Replacements.read(data.replacements),
        None if data.abbreviations is None else SpokenAbbreviations(data.abbreviations),
        None if data.numbers is None else SpokenNumbers(data.numbers),
    )
    normaliser.check()
    return normaliser


def read_sentences(
    data: SpeechDataConfig, utterances: Sequence[Utterance], table: Path, messages: list[str], field: Field
) -> list[RecordedSentence]:
    """The spectrograms, texts and labels of sentences.

    Args:
        table: the file of the sentences, next to which tables of labels are.
        messages: a list to which messages about changes to the sounds are added.
        field: normalisation and units of the texts; its symbols are not read.
    """
    front_end, labels, path = FRONT_ENDS[data.front_end], *_labels(data, table)
    sentences, plain = [], field.normalisation
    if isinstance(plain, Normaliser):
        plain = plain.plain  # labels are those of units, not of texts
    for item in utterances:
        with item_or_defect:
            mel, offset = spectrogram(data, front_end, item, messages)
            if bool((mel <= front_end.silence + 1e-3).all()):
                raise DataError(f"{item.place}: {item.sound}: the recording is silent.")
            if is_collecting():
                messages += doubts(item.sound)
            spoken = None if labels is None else labels.get(item.id)
            text = item.text
            if data.units == "phones":
                if spoken is None:
                    raise DataError(f"{item.place}: id: {item.id!r} has no phones in {path}.")
                if any(len(phone.split()) != 1 for phone in spoken.units):
                    raise DataError(f"{path}: phone: a phone of {item.id!r} has a blank: {list(spoken.units)!r:.60}.")
                text = " ".join(spoken.units)
            try:
                units = field.split(text)
            except DataError as error:
                raise DataError(f"{item.place}: text: {error}") from error
            if not units:
                raise DataError(f"{item.place}: text: {item.text!r:.40} has no units: there is nothing to read aloud.")
            if spoken is not None:
                normalised = tuple(plain(unit) or unit for unit in spoken.units)
                # with trimmed silence, pauses end with the sound
                last = _seconds(data, mel) if data.trim_silence else np.inf
                times = (np.clip(time - offset, 0, last) for time in (spoken.starts, spoken.ends))
                spoken = Intervals(normalised, *times).for_units(units, place=f"{path}: {item.id}")
            sentences.append(RecordedSentence(item, text, mel, offset, spoken))
    return sentences


def spectrogram(
    data: SpeechDataConfig, front_end: FrontEnd, item: Utterance, messages: list[str]
) -> tuple[Tensor, float]:
    """The mel spectrogram (T, M) of a sentence, float32, and the seconds cut at its beginning.

    The name of a cached one is a hash of its inputs (the bytes of the sound, the front end, and whether silence is
    trimmed), and its numbers are the same to the last bit. Several processes may fill a cache at once.

    Raises:
        ConfigError: for a cache that cannot be written.
    """
    cached = None
    if data.cache is not None:
        try:
            content = item.sound.read_bytes()
        except OSError as error:
            raise DataError(f"{item.sound}: the sound cannot be read: {error.strerror}.") from None
        settings = f"{CACHE_VERSION} {front_end!r} {data.trim_silence} {torch.__version__}"
        cached = data.cache / f"{hashlib.sha256(settings.encode() + content).hexdigest()[:32]}.npy"
        if cached.exists() and not is_collecting():  # a check reports changes to sounds in each run
            try:
                stored = read_array(cached)
                if stored.dtype == np.float32 and stored.ndim == 2 and stored.shape[1] == front_end.num_mels:
                    return torch.from_numpy(stored[1:].copy()), float(stored[0, 0]) / front_end.sample_rate
            except (OSError, ValueError, EOFError):
                pass  # a damaged file is replaced
    samples, first = samples_of(data, front_end, item, messages.append)
    try:
        mel = front_end.mel(samples)
    except DataError as error:
        raise DataError(f"{item.place}: {item.sound}: {error}") from None
    if cached is not None:
        _store(cached, first, mel)
    return mel, first / front_end.sample_rate


def linear_spectrogram(data: SpeechDataConfig, item: Utterance) -> Tensor:
    """The spectrogram (T, n_fft / 2 + 1) of a sentence without mel filters; its frames are those of `spectrogram`."""
    front_end = FRONT_ENDS[data.front_end]
    return front_end.linear(samples_of(data, front_end, item, _ignore)[0])


def samples_of(
    data: SpeechDataConfig, front_end: FrontEnd, item: Utterance, report: Callable[[str], None]
) -> tuple[Tensor, int]:
    """The samples of a sentence, and the number of samples cut at its beginning."""
    try:
        samples, _ = read_wave(item.sound, front_end.sample_rate, report=report)
    except RegardError as error:
        raise DataError(f"{item.place}: {error}") from None
    if not data.trim_silence:
        return samples, 0
    start, end = sounding(samples, margin=front_end.win_length)
    return (samples[start:end], start) if end else (samples, 0)


def check(material: SpeechMaterial, data: SpeechDataConfig) -> Findings:
    """Checks the sentences."""
    findings = []
    front_end = FRONT_ENDS[data.front_end]
    for name, sentences in (("train", material.train), ("dev", material.dev)):
        seconds = sum(_seconds(data, item.mel) for item in sentences)
        text = f"{name}: {counted(len(sentences), 'sentence|sentences')}, {seconds / 60:.1f} minutes"
        findings.append(Finding("info", text, len(sentences)))
        rates = np.array([len(material.field.split(item.text)) / len(item.mel) for item in sentences])
        relative = rates / max(float(np.median(rates)), 1e-9)
        if odd := [item for item, rate in zip(sentences, relative, strict=True) if not 1 / 3 < rate < 3]:
            text = "recording|recordings is|are three times as long or as short for its|their text|texts as most"
            findings.append(Finding("warning", f"{name}: {counted(len(odd), text)}", len(odd), _places(odd)))
        if late := [item for item in sentences if _ends_late(item, front_end)]:
            text = "sentence|sentences has|have labels that end after the sound; do they belong to another one?"
            findings.append(Finding("warning", f"{name}: {counted(len(late), text)}", len(late), _places(late)))
    if left_out := material.left_out:
        most = f"data.max_seconds={data.max_seconds:g}"
        text = counted(len(left_out), f"sentence|sentences is|are longer than {most} and left out")
        findings.append(Finding("warning", text, len(left_out), left_out[:3]))
    findings += text_findings(material, data)
    findings += sound_findings(material.messages)
    return Findings(by_severity(findings))


def text_findings(material: SpeechMaterial, data: SpeechDataConfig) -> Iterator[Finding]:
    """Findings about texts: those that the normaliser changes, digits that it leaves, and unknown units."""
    field, unknown, digits = material.field, SymbolTally(), SymbolTally()
    for item in material.dev:
        unknown.add(item.utterance.place, field.encode(item.text).unknown)
    for text in unknown.lines("held-out sentence|sentences has|have units that no training sentence has"):
        yield Finding("warning", text, unknown.num_items)
    if data.units != "characters":
        return
    for item in (*material.train, *material.dev):
        digits.add(item.utterance.place, (unit for unit in field.split(item.text) if unit.isdecimal()))
    hint = "data.numbers=LANGUAGE writes them in words" if data.numbers is None else "num2words cannot read them"
    for text in digits.lines("sentence|sentences has|have digits, which a model seldom learns to read"):
        yield Finding("warning", text, digits.num_items, details=(hint,))
    normaliser = field.normalisation
    if isinstance(normaliser, Normaliser):
        texts = dict.fromkeys(item.text for item in (*material.train, *material.dev))
        changed = [text for text in texts if normaliser(text) != normaliser.plain(text)]
        parts = ", ".join(f"{key} {value}" for key, value in normaliser.parts().items())
        text = f"{counted(len(changed), 'text|texts is|are')} changed by the normaliser ({parts})"
        shown = changed[:: max(1, -(-len(changed) // SHOWN))]
        details = tuple(f"{cut(each, SHOWN_LENGTH)!r} → {cut(normaliser(each), SHOWN_LENGTH)!r}" for each in shown)
        yield Finding("info" if changed else "warning", text, len(changed), details=details)


def sound_findings(messages: Sequence[str]) -> list[Finding]:
    """Findings about changed and doubtful sounds, one of each kind of message."""
    kinds: dict[str, list[str]] = {}
    for message in messages:
        kinds.setdefault(VARYING.sub("", message.partition(": ")[2]), []).append(message)
    findings = []
    for kind, each in kinds.items():
        text = (
            "sounds are doubtful in the same way" if DOUBTFUL in kind else "sounds are changed alike when they are read"
        )
        severity: Severity = "info" if "resampled" in kind or "averaged" in kind else "warning"
        findings.append(Finding.of_messages(severity, text, each))
    return findings


def doubts(path: Path) -> Iterator[str]:
    """Messages about a constant offset of a sound, and about clipped peaks."""
    samples, _ = read_wave(path, report=_ignore)
    size, peak, offset = samples.abs(), float(samples.abs().max()), float(samples.mean())
    if abs(offset) > LARGEST_OFFSET * peak:
        yield f"{path}: {DOUBTFUL}: a constant offset of {offset:.3f} (its mean) makes the lowest frequencies loud."
    is_top = (size >= peak - 2 / 2**15).int()
    runs = is_top.unfold(0, CLIPPED_RUN, 1).sum(1) == CLIPPED_RUN if len(size) >= CLIPPED_RUN else is_top[:0] > 0
    share = float(runs.sum()) / len(size)
    if peak > CLIPPED_PEAK and share > CLIPPED_SHARE:
        yield f"{path}: {DOUBTFUL}: peaks are cut off: {100 * share:.2f}% of the samples stand in a row at the largest."


def data_item(utterance: Utterance) -> DataItem:
    """A sentence as an item of the record of trained items: its text and its sound."""
    return DataItem(utterance.place, utterance.text, (content(utterance.sound),))


def labels_file(data: SpeechDataConfig, table: Path) -> Path:
    """The table with the times of the units of a table of sentences; it may be absent."""
    key = "phones" if data.units == "phones" else "letters"
    configured: Path | None = getattr(data, key)
    return configured or table.parent / f"{key}.tsv"


def _labels(data: SpeechDataConfig, table: Path) -> tuple[dict[str, Intervals] | None, Path]:
    """Labels of the units, and their file."""
    key = "phones" if data.units == "phones" else "letters"
    path = labels_file(data, table)
    if not path.exists():
        if getattr(data, key) is not None or key == "phones":
            raise ConfigError(f"{path}: no such file; units: {data.units} needs it", ("data", key))
        return None, path
    return read_intervals(path), path


def _seconds(data: SpeechDataConfig, mel: Tensor) -> float:
    front_end = FRONT_ENDS[data.front_end]
    return len(mel) * front_end.hop_length / front_end.sample_rate


def _ends_late(item: RecordedSentence, front_end: FrontEnd) -> bool:
    """Whether labels end after the spectrogram by more than the `n_fft` samples that rounding explains."""
    seconds = (len(item.mel) * front_end.hop_length + front_end.n_fft) / front_end.sample_rate
    return item.labels is not None and bool((item.labels.ends > seconds).any())


def _places(items: Sequence[RecordedSentence]) -> tuple[str, ...]:
    return tuple(item.utterance.place for item in items[:3])


def _store(path: Path, first: int, mel: Tensor) -> None:
    """Stores a spectrogram, after a row that begins with the index of the sound's first sample.

    Another process may have stored the same file meanwhile. A file that a crash of the machine damages is replaced
    later, so there is no flush to the disk.
    """
    begin = np.zeros((1, mel.shape[1]), np.float32)
    begin[0, 0] = first
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with partial.open("wb") as file:
                np.save(file, np.concatenate([begin, mel.numpy()]), allow_pickle=False)
            os.replace(partial, path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        text = f"{path.parent}: spectrograms cannot be kept here: {error.strerror}"
        raise ConfigError(text, ("data", "cache")) from None


def _ignore(text: str) -> None:
    """Drops messages about changes to a sound, which the reading of its mel spectrogram has reported."""
