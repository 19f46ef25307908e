"""A voice: a trained model with everything that reading aloud needs."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.audio import Standardisation, griffin_lim, write_wave
from regard.config.tasks.text_to_speech import TextToSpeechConfig
from regard.data import EOS, Field, Vocabulary
from regard.decoding import free_run, stop_at_logit
from regard.errors import DataError, UnsupportedError
from regard.models.tacotron import STOP
from regard.tasks.contract import AbstractModel
from regard.tasks.encoded import pad
from regard.tasks.fingerprints import DAMAGED
from regard.tasks.text_to_speech.build import SpeechNetwork, build_network, front_end_of
from regard.tasks.text_to_speech.evaluation import SpeechEvaluation, evaluate
from regard.tasks.text_to_speech.prediction import Speech

FIELD, SCALE = "source", "scale.json"
LONGEST_NAME = 40


@dataclass(eq=False, repr=False)
class SpeechModel(AbstractModel[TextToSpeechConfig]):
    """A voice: units, scale, network and configuration.

    `regard.load` returns one from a run folder.

    Args:
        config: the resolved configuration.
        field: turns texts into units.
        scale: mean and deviation of each mel channel in training.
        module: the network; set to evaluation mode.
        name: shown in messages.
        card: a text about the model, its data and its limits.
        fingerprints: SHA-256 of the training and held-out tables, by name.
    """

    config: TextToSpeechConfig
    field: Field
    scale: Standardisation
    module: SpeechNetwork
    _: KW_ONLY
    name: str = "model"
    card: str = ""
    fingerprints: dict[str, str] = dataclasses.field(default_factory=dict)

    assets = (f"{FIELD}.json", f"{FIELD}-vocabulary.json", SCALE)
    formats = ("tsv", "jsonl")

    def __post_init__(self) -> None:
        self.front_end = front_end_of(self.config.data.front_end)
        self.module.eval()

    @classmethod
    def build(
        cls, config: TextToSpeechConfig, field: Field, scale: Standardisation, *, name: str = "model"
    ) -> SpeechModel:
        """An untrained model; its weights are drawn from torch's global generator."""
        front_end = front_end_of(config.data.front_end)
        module = build_network(config.model, num_symbols=len(field.vocabulary), front_end=front_end)
        return cls(config, field, scale, module, name=name)

    def save_assets(self, folder: Path) -> None:
        """Writes the units and `scale.json`."""
        self.field.save(folder, FIELD)
        numbers = {"mean": self.scale.mean.tolist(), "deviation": self.scale.deviation.tolist()}
        (folder / SCALE).write_text(json.dumps(numbers) + "\n", encoding="utf-8")

    def vocabularies(self) -> Mapping[str, tuple[str, Vocabulary]]:
        """That of the units, whose vectors the embedding has."""
        return {"units": ("tacotron.encoder.embedding.", self.field.vocabulary)}

    def information(self) -> dict[str, Any]:
        """Facts about the model."""
        front_end = self.front_end
        return {
            "task": self.config.task,
            "parameters": self.num_parameters,
            "architecture": self.config.model.architecture,
            "attention": self.config.model.attention.recipe,
            "units": f"{len(self.field.vocabulary.symbols):,} {self.config.data.units}",
            "frames in a step": int(self.module.reduction),
            "front end": self.config.data.front_end,
            "sound": f"{front_end.sample_rate:,} Hz, {front_end.num_mels} mels, a frame every {front_end.hop_length} "
            "samples",
            "configuration": self.config.model_dump(mode="json"),
        }

    def parts(self) -> Mapping[str, nn.Module]:
        """Encoder and decoder."""
        return {"encoder": self.module.tacotron.encoder, "decoder": self.module.tacotron.decoder}

    def predict(
        self,
        inputs: Sequence[str],
        *,
        alignment: bool = True,
        strict: bool = False,
        sound: bool = True,
        vocoder: Path | str | None = None,
        directory: Path | str | None = None,
    ) -> list[Speech]:
        """Reads texts aloud, in order; batching never changes a result, except by rounding.

        Args:
            inputs: texts, or phones with blanks between them for a model of phones.
            alignment: whether predictions have their alignments.
            strict: raises an error for a text that cannot be handled, in place of a warning.
            sound: whether sounds are made of the spectrograms, by Griffin-Lim if there is no vocoder.
            vocoder: a folder of `regard data vocoder`, for models whose spectrograms have its form.
            directory: where each sound (.wav), spectrogram (.mel.npy) and alignment (.alignment.npy) is written.

        Raises:
            DataError: for a text without units, or one that cannot be handled if `strict`.
            UnsupportedError: for a vocoder of other spectrograms.
        """
        if isinstance(inputs, str) or not isinstance(inputs, Sequence):
            raise TypeError(f"predict takes a list of texts, as in predict([text]); got {type(inputs).__name__}.")
        encoded = [self.field.encode(text) for text in inputs]
        for number, (text, item) in enumerate(zip(inputs, encoded, strict=True), start=1):
            if not len(item.ids):
                raise DataError(f"input {number} ({text!r:.60}) has no units: there is nothing to read aloud.")
            if strict and item.unknown:
                raise DataError(f"input {number} ({text!r:.60}): {_unknown(item.unknown)}")
        results: list[Speech] = []
        size = self.config.decoding.batch_sentences
        synthesise = self._synthesis(vocoder) if sound else None
        for start in range(0, len(inputs), size):
            part = encoded[start : start + size]
            said = self.say([item.ids for item in part], alignment=alignment)
            for text, item, speech in zip(inputs[start : start + size], part, said, strict=True):
                warnings = [_unknown(item.unknown)] if item.unknown else []
                if speech.stop_reason == "length":
                    warnings.append(f"the model did not stop; it was cut after {speech.seconds:.1f} seconds")
                samples = None if synthesise is None else synthesise(speech.mel)
                results.append(
                    dataclasses.replace(
                        speech, text=text, tokens=(*item.tokens, "</s>"), samples=samples, warnings=tuple(warnings)
                    )
                )
        if directory is not None:
            write_speech(results, Path(directory))
        return results

    @torch.no_grad()
    def say(self, sequences: Sequence[NDArray[np.int64]], *, alignment: bool = False) -> list[Speech]:
        """Reads sequences of ids aloud, all at once, without sound; the end symbol is added to each."""
        tacotron, reduction = self.module.tacotron, int(self.module.reduction)
        decoding, device = self.config.decoding, self.device
        ids, mask = (tensor.to(device) for tensor in pad(sequences, end=EOS))
        seeds = torch.tensor([decoding.seed + zlib_of(item) for item in sequences], device=device)
        memory = tacotron.decoder.prepare(tacotron.encode(ids, mask), seeds=seeds)
        steps = (mask.sum(1) * decoding.max_frames_per_unit / reduction).ceil().long().clamp(min=1)
        runs = free_run(
            tacotron.decoder,
            memory,
            tacotron.decoder.first_inputs(memory, reduction),
            max_length=steps,
            stop=stop_at_logit(decoding.stop_threshold),
            alignment=alignment,
        )
        num_mels = self.front_end.num_mels
        frames = [run.values.reshape(-1, num_mels) for run in runs]
        lengths = torch.tensor([len(item) for item in frames])
        batch = nn.utils.rnn.pad_sequence(frames, batch_first=True).to(device)
        if "mel" in tacotron.postnets:
            real = torch.arange(batch.shape[1], device=device) < lengths.to(device)[:, None]
            batch = tacotron.refine(batch, real)["mel"]
        batch = self.scale.inverse(batch.cpu().float())
        results = []
        for row, (run, item) in enumerate(zip(runs, sequences, strict=True)):
            weights = None
            if alignment and run.alignments:
                name = tacotron.decoder.main_attention or list(run.alignments)[-1]
                weights = run.alignments[name].mean(0)[:, : len(item) + 1].clone()
            results.append(
                Speech(
                    text="",
                    tokens=(),
                    mel=batch[row, : int(lengths[row])].clone(),
                    alignment=weights,
                    stop=run.auxiliary[STOP].sigmoid().clone(),
                    samples=None,
                    sample_rate=self.front_end.sample_rate,
                    hop_length=self.front_end.hop_length,
                    num_frames=reduction,
                    stop_reason=run.stop_reason,
                )
            )
        return results

    def evaluate(
        self, path: Path | str, *, sound: bool = True, joined: int = 5, table: Path | str | None = None
    ) -> SpeechEvaluation:
        """Compares speech with recordings: alignment, reading errors, distortion, pitch and durations.

        Args:
            path: a table like that of the training.
            sound: whether sounds are made, for distortion of the way to sound and for pitch.
            joined: how many sentences are joined to long ones, which are read, too; 0: none.
            table: a file for a table with a row for each sentence.

        Raises:
            DataError: for a table without sentences, or one that the model was trained on.
        """
        self.refuse_trained(path)
        return evaluate(self, Path(path), sound=sound, joined=joined, table=None if table is None else Path(table))

    def sound_of(self, mel: Tensor) -> Tensor:
        """The sound of a spectrogram (T, M) by Griffin-Lim."""
        decoding = self.config.decoding
        magnitudes = self.front_end.mel_to_magnitudes(mel)
        return griffin_lim(magnitudes, self.front_end, iterations=decoding.iterations, seed=decoding.seed)

    def rows(self, prediction: Speech, *, scores: bool = False) -> Sequence[Sequence[str]]:
        """One row: seconds, why it ended, and with scores the mean of the largest weights."""
        row = [f"{prediction.seconds:.2f}", prediction.stop_reason]
        if scores:
            row.append("" if prediction.alignment is None else f"{float(prediction.alignment.amax(1).mean()):.4f}")
        return [row]

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

    def can_plot(self, prediction: Speech) -> bool:
        """Whether there is an alignment."""
        return prediction.alignment is not None

    def plot(self, predictions: Sequence[Speech], path: Path, *, title: str = "") -> Sequence[Path]:
        """Draws alignments; several get numbered files."""
        from regard.viz import plot_alignment

        files = (
            [path]
            if len(predictions) == 1
            else [path.with_name(f"{path.stem}-{number:02d}{path.suffix}") for number in range(1, len(predictions) + 1)]
        )
        for prediction, file in zip(predictions, files, strict=True):
            assert prediction.alignment is not None
            steps = [str(step) for step in range(len(prediction.alignment))]
            plot_alignment(prediction.alignment, file, list(prediction.tokens), steps, title=title or None)
        return files

    def _synthesis(self, vocoder: Path | str | None) -> Any:
        """From a spectrogram (T, M) to its sound."""
        if vocoder is None:
            return self.sound_of
        from regard.audio.vocoder import MelForm, load_vocoder

        loaded = load_vocoder(vocoder, device=self.device)
        differences = loaded.mel.differences(MelForm.of(self.front_end))
        if differences:
            raise UnsupportedError(
                f"{vocoder}: this vocoder is for other spectrograms than the model's (data.front_end: "
                f"{self.config.data.front_end}): {'; '.join(differences)}. Leave --vocoder out for Griffin-Lim."
            )
        return lambda mel: loaded(mel[None].to(self.device))[0].cpu()


def write_speech(predictions: Sequence[Speech], directory: Path) -> list[Path]:
    """Writes each sound (.wav), spectrogram (.mel.npy, (M, T)) and alignment (.alignment.npy, (N, S)).

    Files are called by the number of the text and its first letters.
    """
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for number, speech in enumerate(predictions, start=1):
        letters = "".join(c if c.isalnum() else "_" for c in speech.text[:LONGEST_NAME]).strip("_")
        stem = f"{number:04d}_{letters}".rstrip("_")
        if speech.samples is not None:
            written.append(write_wave(directory / f"{stem}.wav", speech.samples, speech.sample_rate))
        arrays = {"mel": speech.mel.T, "alignment": speech.alignment}
        for name, values in arrays.items():
            if values is not None:
                file = directory / f"{stem}.{name}.npy"
                np.save(file, values.contiguous().numpy(), allow_pickle=False)
                written.append(file)
    return written


def load_scale(path: Path) -> Standardisation:
    """Reads the scale that `save_assets` wrote.

    Raises:
        DataError: for a damaged file.
    """
    try:
        numbers = json.loads(path.read_text(encoding="utf-8"))
        mean, deviation = (torch.tensor(numbers[name], dtype=torch.float64) for name in ("mean", "deviation"))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: not the scale of spectrograms ({error!s:.99}).\n  {DAMAGED}") from None
    return Standardisation(mean, deviation)


def zlib_of(ids: NDArray[np.int64]) -> int:
    """A number below 2^31 that follows from a sequence, by which the prenet draws for it."""
    return int.from_bytes(hashlib.sha256(ids.astype("<i8").tobytes()).digest()[:4], "little") >> 1


def _unknown(units: Sequence[str]) -> str:
    shown = ", ".join(map(repr, dict.fromkeys(units)))
    return f"units that the training did not have: {shown:.80}"
