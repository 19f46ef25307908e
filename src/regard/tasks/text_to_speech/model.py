"""Speech: a trained model with everything that synthesis needs."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from math import inf
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from regard.audio import FRONT_ENDS, Standardisation, encode_wave, griffin_lim, write_wave
from regard.data.input_rows import InputRow, InputTable
from regard.data.speech.ljspeech import BAR, is_id, read_ljspeech
from regard.data.tally import longer_than_training, unknown_symbols
from regard.data.text import EOS, Encoding, Field, Vocabulary
from regard.data.text.field import REPLACEMENTS
from regard.data.text.normaliser import Normaliser, TextFunction
from regard.decoding import SearchSource, Stop, free_run, main_alignment, stop_at_logit, stop_at_silence
from regard.errors import ConfigError, DataError, Option, UnsupportedError
from regard.files import replace_file
from regard.metrics import ItemTerms
from regard.metrics.speech import MeanDurations
from regard.models.tacotron import STOP
from regard.runs.contract import AbstractModel, check_strict, check_texts
from regard.runs.fingerprints import DAMAGED
from regard.runs.given import of_data, of_inputs
from regard.runs.predictions import rounded
from regard.runs.trained_items import DataItem
from regard.tasks.encoded import pad
from regard.tasks.text_to_speech.build import SpeechNetwork, build_network
from regard.tasks.text_to_speech.config import TextToSpeechConfig
from regard.tasks.text_to_speech.evaluation import Speech, SpeechEvaluation, Synthesis, evaluate
from regard.tasks.text_to_speech.reading import data_item
from regard.viz import AlignedSpeech
from regard.viz.files import numbered_files

if TYPE_CHECKING:
    from regard.runs.report import ReportFacts

END = "</s>"
"""The name of the end symbol in alignments."""
FIELD, SCALE, DURATIONS = "source", "scale.json", "durations.json"
SEED_BITS = 31


@dataclass(eq=False, repr=False)
class SpeechModel(AbstractModel[TextToSpeechConfig]):
    """A model of speech: units, scale, network and configuration.

    Args:
        scale: mean and deviation of each mel channel in training.
        linear_scale: of each frequency of linear spectrograms; None for a model that does not make them.
        durations: the mean durations of units in labelled training sentences, a baseline; None without labels.
    """

    config: TextToSpeechConfig
    field: Field
    scale: Standardisation
    module: SpeechNetwork
    _: KW_ONLY
    linear_scale: Standardisation | None = None
    durations: MeanDurations | None = None

    no_confidence = "there are many right ways to read a text; `regard evaluate` measures errors of reading instead"
    assets = (f"{FIELD}.json", f"{FIELD}{REPLACEMENTS}", SCALE, DURATIONS)
    formats = ("tsv", "jsonl", "csv")
    file_formats = ("wav", "mel.npy", "alignment.npy")
    terms_only = MappingProxyType({"sound": False, "joined": 0})
    sounds = ("wav",)
    longest_text = 1_000

    def __post_init__(self) -> None:
        super().__post_init__()
        self.front_end = FRONT_ENDS[self.config.data.front_end]

    @classmethod
    def build(
        cls,
        config: TextToSpeechConfig,
        field: Field,
        scale: Standardisation,
        *,
        linear_scale: Standardisation | None = None,
        durations: MeanDurations | None = None,
        name: str = "model",
    ) -> SpeechModel:
        """An untrained model; its weights are drawn from torch's global generator."""
        front_end = FRONT_ENDS[config.data.front_end]
        module = build_network(config.model, num_symbols=len(field.vocabulary), front_end=front_end)
        return cls(config, module, field, scale, linear_scale=linear_scale, durations=durations, name=name)

    @classmethod
    def restore(cls, config: TextToSpeechConfig, folder: Path, *, name: str) -> SpeechModel:
        """The model with the units, scales and durations that `save_assets` wrote.

        Raises:
            DataError: for a damaged file.
        """
        scales = _scales(folder / SCALE)
        if "mel" not in scales:
            raise DataError(f"{folder / SCALE}: there is no scale of mel spectrograms.\n  {DAMAGED}")
        durations = _durations(folder / DURATIONS) if (folder / DURATIONS).exists() else None
        field, linear = Field.load(folder, FIELD), scales.get("linear")
        return cls.build(config, field, scales["mel"], linear_scale=linear, durations=durations, name=name)

    def save_assets(self, folder: Path) -> None:
        self.field.save(folder, FIELD)
        scales = {"mel": self.scale} | ({} if self.linear_scale is None else {"linear": self.linear_scale})
        stored = {
            name: {"mean": scale.mean.tolist(), "deviation": scale.deviation.tolist()} for name, scale in scales.items()
        }
        (folder / SCALE).write_text(json.dumps(stored) + "\n", encoding="utf-8")
        if self.durations is not None:
            text = json.dumps(dataclasses.asdict(self.durations), ensure_ascii=False)
            (folder / DURATIONS).write_text(f"{text}\n", encoding="utf-8")

    def vocabularies(self) -> Mapping[str, tuple[str, Vocabulary]]:
        return {"units": ("tacotron.encoder.embedding.", self.field.vocabulary)}

    def unlike(self, other: Any) -> Sequence[str]:
        lines = []
        ours, theirs = (getattr(each.config.data, "front_end", None) for each in (self, other))
        if theirs not in (None, ours):
            lines.append(f"data.front_end is {ours} here and {theirs} there")
        if self.field.normalisation != other.field.normalisation:
            lines.append(f"its texts were normalised differently ({_described(other.field)}), which is not copied")
        return lines

    def description(self) -> dict[str, Any]:
        front_end = self.front_end
        return {
            "architecture": self.config.model.architecture,
            **({} if self.config.model.like is None else {"like": self.config.model.like}),
            "attention": self.config.model.attention.recipe,
            "units": f"{len(self.field.vocabulary.symbols):,} {self.config.data.units}",
            **({"texts": _described(self.field)} if isinstance(self.field.normalisation, Normaliser) else {}),
            "frames in a step": int(self.module.reduction),
            "front end": self.config.data.front_end,
            "sound": f"{front_end.sample_rate:,} Hz, {front_end.num_mels} mels, a frame every {front_end.hop_length} "
            "samples",
        }

    def use_normaliser(self, function: TextFunction) -> None:
        normaliser = self.field.normalisation
        if not isinstance(normaliser, Normaliser) or normaliser.function is None:
            raise ConfigError("normaliser: the texts of this model are not normalised by a function; leave it out.")
        self.field = dataclasses.replace(self.field, normalisation=normaliser.with_function(function))

    @property
    def end(self) -> int | None:
        """The id that follows every text, if one does."""
        return EOS if self.config.data.source_end else None

    @property
    def end_units(self) -> tuple[str, ...]:
        """The name of the symbol that follows every text, if one does."""
        return () if self.end is None else (END,)

    def units_of(self, text: str) -> tuple[str, ...]:
        """The units of a text, with the symbol that follows it."""
        return (*self.field.split(text), *self.end_units)

    @of_inputs
    def predict(
        self,
        inputs: Sequence[str],
        *,
        alignment: bool = True,
        strict: bool = False,
        sound: bool = True,
        vocoder: Path | str | None = None,
    ) -> list[Speech]:
        """The speech of texts, in order; batching changes results by rounding only.

        Args:
            inputs: texts, or phones with blanks between them for a model of phones.
            alignment: whether predictions have their alignments.
            strict: raises an error for a text with a warning.
            sound: whether sounds are made from the spectrograms, by Griffin-Lim if there is no vocoder.
            vocoder: a folder of `regard data vocoder`, for models whose spectrograms have its form.

        Raises:
            DataError: for the first text with a warning, if `strict`.
            UnsupportedError: for a vocoder of other spectrograms.
        """
        check_texts(inputs)
        encoded = [self.field.encode(text) for text in inputs]
        problems = [self._warnings(item) for item in encoded]
        if strict:
            check_strict(inputs, problems)
        size, synthesise = self.config.decoding.batch_sentences, self.synthesis(vocoder) if sound else None
        results = [self._unreadable(text, warnings) for text, warnings in zip(inputs, problems, strict=True)]
        readable = [i for i, item in enumerate(encoded) if len(item.ids)]
        for start in range(0, len(readable), size):
            part = readable[start : start + size]
            spoken = self.speak([encoded[i].ids for i in part], alignment=alignment)
            sounds: Sequence[Tensor | None] = [None] * len(part)
            if synthesise is not None:
                sounds = synthesise([speech.mel for speech in spoken], [speech.linear for speech in spoken])
            for i, speech, samples in zip(part, spoken, sounds, strict=True):
                warnings = problems[i]
                if speech.stop_reason == "length":
                    warnings += (f"the model did not stop; it was cut after {speech.seconds:.1f} seconds",)
                tokens = (*encoded[i].tokens, *self.end_units)
                results[i] = dataclasses.replace(
                    speech, text=inputs[i], tokens=tokens, samples=samples, warnings=warnings
                )
        return results

    def _warnings(self, encoding: Encoding) -> tuple[str, ...]:
        """Why a text cannot be handled as it is."""
        if not len(encoding.ids):
            return (encoding.refusal or "there are no units to read aloud: the text is empty",)
        hint = " (the model reads phones with blanks between them)" if self.config.data.units == "phones" else ""
        subject = f"units that the training did not have{hint}"
        warnings = [unknown_symbols(encoding.unknown, subject)] if encoding.unknown else []
        count, most = len(encoding.tokens), self.field.longest
        if most is not None and count > most:
            warnings.append(longer_than_training(count, most, "units"))
        return tuple(warnings)

    @torch.no_grad()
    def speak(self, sequences: Sequence[NDArray[np.int64]], *, alignment: bool = False) -> list[Speech]:
        """The speech of sequences of ids in one batch, without sound; end symbols, if the model has them, are added."""
        tacotron, reduction = self.module.tacotron, int(self.module.reduction)
        decoding, device = self.config.decoding, self.device
        ids, mask = (tensor.to(device) for tensor in pad(sequences, end=self.end))
        seeds = torch.tensor([decoding.seed + _number(item) for item in sequences], device=device)
        pace = None if decoding.pace == 1.0 else torch.full((len(ids),), decoding.pace, device=device)
        memory = tacotron.decoder.prepare(tacotron.encode(ids, mask), seeds=seeds, pace=pace)
        steps = (mask.sum(1) * decoding.max_frames_per_unit / reduction).ceil().long().clamp(min=1)
        runs = free_run(
            tacotron.decoder,
            memory,
            tacotron.decoder.first_inputs(memory, reduction),
            max_length=steps,
            stop=self._end(reduction),
            attention_stop=decoding.attention_stop,
            source=SearchSource(mask=mask),
            alignment=alignment,
        )
        frames = [run.values.reshape(-1, self.front_end.num_mels) for run in runs]
        logits = [run.auxiliary.get(STOP) for run in runs]
        lengths = torch.tensor([len(item) for item in frames])
        batch = pad_sequence(frames, batch_first=True).to(device)
        real = torch.arange(batch.shape[1], device=device) < lengths.to(device)[:, None]
        refined = tacotron.refine(batch, real)
        mels, linear = self.scale.inverse(refined.get("mel", batch).cpu().float()), None
        if "linear" in refined and self.linear_scale is not None:
            linear = self.linear_scale.inverse(refined["linear"].cpu().float())
        results = []
        for row, (run, item, logit) in enumerate(zip(runs, sequences, logits, strict=True)):
            weights = main_alignment(run.alignments, tacotron.decoder) if alignment else None
            if weights is not None:
                weights = weights[:, : len(item) + len(self.end_units)].clone()
            count = int(lengths[row])
            results.append(
                self._speech(
                    mel=mels[row, :count].clone(),
                    linear=None if linear is None else linear[row, :count].clone(),
                    alignment=weights,
                    stop=None if logit is None else logit.sigmoid().clone(),
                    num_frames=reduction,
                    stop_reason=run.stop_reason,
                )
            )
        return results

    def _end(self, reduction: int) -> Stop:
        """The criterion of the end of a sentence: its logits, or a step of silence if the network has none."""
        decoding = self.config.decoding
        if self.config.model.decoder.stops:
            return stop_at_logit(decoding.stop_threshold)
        silence = self.scale(self.front_end.silence).float().to(self.device)
        return stop_at_silence((silence + decoding.silence_threshold).repeat(reduction))

    def _speech(self, **fields: Any) -> Speech:
        return Speech(sample_rate=self.front_end.sample_rate, hop_length=self.front_end.hop_length, **fields)

    def _unreadable(self, text: str, warnings: tuple[str, ...]) -> Speech:
        """The speech of a text that cannot be read."""
        mel, count = torch.zeros(0, self.front_end.num_mels), int(self.module.reduction)
        stop = torch.zeros(0, count) if self.config.model.decoder.stops else None
        return self._speech(text=text, mel=mel, stop=stop, num_frames=count, stop_reason="", warnings=warnings)

    @of_data
    def evaluate(
        self,
        path: Path | str,
        *,
        sound: bool = True,
        joined: int = 5,
        table: Path | str | None = None,
        vocoder: Path | str | None = None,
    ) -> SpeechEvaluation:
        """Compares speech with recordings: alignment, reading errors, distortion, pitch and durations.

        Args:
            path: a table like that of the training.
            sound: whether sounds are made, for the distortion of resynthesis and for pitch.
            joined: the number of neighbours in a long sentence, which tests the attention; 0: no long sentences.
            table: the file of a table with a row for each sentence.
            vocoder: as in `predict`.

        Raises:
            DataError: for a table without sentences, or one that the model was trained on.
            UnsupportedError: for a vocoder of other spectrograms.
        """
        self.check_trained(path)
        synthesise = self.synthesis(vocoder) if sound else None
        return evaluate(self, Path(path), synthesise, joined=joined, table=None if table is None else Path(table))

    def report_facts(self, evaluation: SpeechEvaluation) -> ReportFacts:
        """Errors of reading by units; the worst sentences are spoken again."""
        from regard.runs.report import ReportFacts

        return ReportFacts(
            lambda entry: self.field.encode(entry.prediction.text).tokens,
            self.field.vocabulary,
            noun="units",
            inputs=lambda entry: entry.prediction.text or None,
        )

    def evaluated_items(self, evaluation: SpeechEvaluation, path: Path | str) -> Iterator[DataItem]:
        return map(data_item, read_ljspeech(Path(path)))

    def item_terms(self, evaluation: SpeechEvaluation) -> ItemTerms:
        return evaluation.terms()

    def synthesis(self, vocoder: Path | str | None = None) -> Synthesis:
        """The function from spectrograms to sounds: a vocoder, or Griffin-Lim, of linear spectrograms where present.

        Raises:
            UnsupportedError: for a vocoder of other spectrograms.
        """
        if vocoder is None:
            return self._griffin_lim
        from regard.audio.vocoder import MelForm, load_vocoder

        loaded = load_vocoder(vocoder, device=self.device)
        differences = loaded.mel.differences(MelForm.of(self.front_end))
        if differences:
            raise UnsupportedError(
                f"{vocoder}: this vocoder is for other spectrograms than the model's (data.front_end: "
                f"{self.config.data.front_end}): {'; '.join(differences)}. Leave "
                f"{Option('--vocoder', 'vocoder')} out for Griffin-Lim."
            )

        def synthesise(mels: Sequence[Tensor], linear: Sequence[Tensor | None]) -> list[Tensor]:
            hop = self.front_end.hop_length
            lengths = torch.tensor([len(mel) for mel in mels], device=self.device)
            samples = loaded(pad_sequence(list(mels), batch_first=True).to(self.device), lengths).cpu()
            return [row[: len(mel) * hop].clone() for row, mel in zip(samples, mels, strict=True)]

        return synthesise

    def _griffin_lim(self, mels: Sequence[Tensor], linear: Sequence[Tensor | None]) -> list[Tensor]:
        """Sounds by Griffin-Lim, in batches of sentences."""
        decoding, front_end, results = self.config.decoding, self.front_end, []
        for start in range(0, len(mels), decoding.batch_sentences):
            part = slice(start, start + decoding.batch_sentences)
            magnitudes = [
                front_end.mel_to_magnitudes(mel) if other is None else front_end.linear_to_magnitudes(other)
                for mel, other in zip(mels[part], linear[part], strict=True)
            ]
            lengths = torch.tensor([len(each) for each in magnitudes])
            sounds = griffin_lim(
                pad_sequence(magnitudes, batch_first=True),
                front_end,
                lengths=lengths,
                iterations=decoding.iterations,
                seed=decoding.seed,
            )
            counts = front_end.num_samples(lengths).tolist()
            results += [
                sound[:count].clone() if count else sound.new_zeros(front_end.hop_length)  # one frame has no sound
                for sound, count in zip(sounds, counts, strict=True)
            ]
        return results

    def input_table(self, name: str, head: Sequence[str], *, is_table: bool = False) -> InputTable | None:
        """Tables `id|text|normalised`, whose last column is read, as in training."""
        lines = [line.split(BAR) for line in head if line.strip()]
        if not lines or (not is_table and not all(len(columns) in (2, 3) and is_id(columns[0]) for columns in lines)):
            return None

        def rows(lines: Iterable[str], name: str) -> Iterator[InputRow]:
            for number, line in enumerate(lines, start=1):
                columns, place = line.split(BAR), f"{name}:{number}"
                if len(columns) in (2, 3):
                    yield InputRow(place, columns[-1].strip(), columns)
                elif line.strip():
                    yield InputRow(place, "", columns, f"expected id|text|normalised; got {len(columns)} columns")

        return InputTable("a table id|text|normalised; the last column is read aloud", rows)

    def rows(self, prediction: Speech, *, scores: bool = False) -> Sequence[Sequence[str]]:
        """One row: seconds, the reason of the end, and with `scores` the mean of the largest weights."""
        row = [f"{prediction.seconds:.2f}", prediction.stop_reason]
        if scores:
            row.append("" if prediction.alignment is None else f"{float(prediction.alignment.amax(1).mean()):.4f}")
        return [row]

    column_names = ("seconds", "ended_by", "largest_weight")

    def is_number(self, column: str) -> bool:
        return column in ("seconds", "largest_weight")

    def has_failed(self, prediction: Speech) -> bool:
        return not prediction.stop_reason

    def record(self, prediction: Speech) -> dict[str, Any]:
        """The speech as a JSON object, without spectrogram and sound."""
        result: dict[str, Any] = {
            "text": prediction.text,
            "seconds": round(prediction.seconds, 4),
            "frames": len(prediction.mel),
            "stop_reason": prediction.stop_reason,
            "warnings": list(prediction.warnings),
        }
        if prediction.alignment is not None:
            result["tokens"] = list(prediction.tokens)
            result["alignment"] = [[round(x, 4) for x in row] for row in prediction.alignment.tolist()]
        return result

    def write(self, prediction: Speech, stem: Path) -> Sequence[Path]:
        """Writes a sound (.wav), its spectrogram (.mel.npy, (M, T)) and its alignment (.alignment.npy, (N, S)).

        The spectrogram has the form of the inputs of vocoders: channels first.
        """
        written = []
        if prediction.samples is not None:
            path = stem.with_name(f"{stem.name}.wav")
            written.append(write_wave(path, prediction.samples, prediction.sample_rate))
        for name, values in (("mel", prediction.mel.T), ("alignment", prediction.alignment)):
            if values is not None and values.numel():
                path = stem.with_name(f"{stem.name}.{name}.npy")
                replace_file(path, partial(_store, values.contiguous().numpy()))
                written.append(path)
        return written

    def sound(self, prediction: Speech) -> bytes | None:
        return None if prediction.samples is None else encode_wave(prediction.samples, prediction.sample_rate)

    def details(self, prediction: Speech) -> dict[str, Any]:
        """Spectrogram from 0 to 1, times of frames and steps in seconds, stop probabilities, symbols that are read."""
        if prediction.alignment is None or not len(prediction.mel):
            return {}
        drawn = as_picture(prediction)
        return {
            "levels": rounded(drawn.levels, 3),
            "frame_edges": rounded(drawn.frame_edges),
            "step_edges": rounded(drawn.step_edges),
            "stop": None if drawn.stop is None else rounded(drawn.stop, 4),
            "read": drawn.read.tolist(),
        }

    def plot(self, predictions: Sequence[Speech], path: Path, *, title: str = "") -> Sequence[Path]:
        """Draws spectrograms, alignments and stop probabilities; a page (.html) plays the sounds.

        Pictures of several sentences get numbered files.
        """
        from regard.viz import plot_speech

        items = [as_picture(prediction) for prediction in predictions]
        if path.suffix.lower() == ".html" or len(items) == 1:
            return [plot_speech(items, path, title=title or None)]
        return [plot_speech(item, file) for item, file in zip(items, numbered_files(path, len(items)), strict=True)]


def _described(field: Field) -> str:
    """The parts of the normalisation of a field."""
    normaliser = field.normalisation
    parts = normaliser.parts() if isinstance(normaliser, Normaliser) else {}
    plain = {name: getattr(normaliser, name) for name in ("case", "unicode")}
    return ", ".join(f"{key} {value}" for key, value in {**parts, **plain}.items())


def as_picture(prediction: Speech) -> AlignedSpeech:
    """Speech in the form in which it is drawn."""
    ended = [] if prediction.stop_reason == "stop" else ["did not stop"]
    return AlignedSpeech(
        prediction.mel,
        prediction.alignment,
        prediction.tokens,
        prediction.sample_rate,
        prediction.hop_length,
        reduction=prediction.num_frames,
        stop=prediction.stop,
        samples=prediction.samples,
        text=prediction.text,
        note="; ".join(prediction.warnings or ended),
    )


def _scales(path: Path) -> dict[str, Standardisation]:
    """The means and deviations of a file of scales, by the kind of spectrogram."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        result = {}
        for name, numbers in stored.items():
            mean, deviation = (torch.tensor(numbers[key], dtype=torch.float64) for key in ("mean", "deviation"))
            if mean.dim() != 1 or mean.shape != deviation.shape:
                raise ValueError("mean and deviation are lists of as many numbers")
            for key, tensor, positive in (("mean", mean, False), ("deviation", deviation, True)):
                wrong = ~tensor.float().isfinite() | (positive & (tensor <= 0))
                if wrong.any():
                    raise ValueError(f"`{key}` of {name} has {float(tensor[wrong][0])}")
            result[name] = Standardisation(mean, deviation)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path}: not the scale of spectrograms ({error!s:.99}).\n  {DAMAGED}") from None
    return result


def _durations(path: Path) -> MeanDurations:
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        means = {str(unit): float(seconds) for unit, seconds in stored["means"].items()}
        overall = float(stored["overall"])
        for unit, seconds in {"overall": overall, **means}.items():
            if not 0 <= seconds < inf:
                raise ValueError(f"{unit!r} lasts {seconds} seconds")
        return MeanDurations(means, overall)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path}: not the durations of units ({error!s:.99}).\n  {DAMAGED}") from None


def _store(values: NDArray[Any], path: Path) -> None:
    with path.open("wb") as file:
        np.save(file, values, allow_pickle=False)


def _number(ids: NDArray[np.int64]) -> int:
    """A number below 2^31 that follows from a sequence, which seeds the draws of its prenet."""
    return int.from_bytes(hashlib.sha256(ids.astype("<i8").tobytes()).digest()[:4], "little") >> (32 - SEED_BITS)
