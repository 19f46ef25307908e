"""The task of speech synthesis."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from regard.audio import FRONT_ENDS
from regard.data import Findings, bucket, collecting
from regard.data.objects import WrittenData
from regard.data.speech.ljspeech import SOUNDS, read_ljspeech
from regard.data.text.field import REPLACEMENTS
from regard.errors import ConfigError, UnsupportedError, counted
from regard.metrics.speech import MeanDurations
from regard.runs.automatic_settings import AutomaticSettings, two_digits
from regard.runs.contract import AbstractTask, Metric
from regard.runs.fingerprints import DataFile
from regard.runs.plan import Plan, choose_steps
from regard.runs.trained_items import DataItem
from regard.tasks.text_to_speech.advice import GUIDED_STEPS
from regard.tasks.text_to_speech.build import SpeechNetwork, build_network
from regard.tasks.text_to_speech.config import TextToSpeechConfig
from regard.tasks.text_to_speech.model import FIELD, SpeechModel
from regard.tasks.text_to_speech.objects import write_recordings
from regard.tasks.text_to_speech.reading import (
    SpeechMaterial,
    check,
    data_item,
    empty_field,
    labels_file,
    read_material,
)
from regard.tasks.text_to_speech.trainee import SpeechTrainee

DRAFT_SYMBOLS = 8
REFERENCE, BATCH_FRAMES, STEPS, LEAST_STEPS = 200_000, 3_000, 8_000, 1_000
"""Frames of 45 minutes, the frames of a batch and the steps; both grow with the square root of the frames."""
VALIDATIONS = 20
SPOKEN, FORCED = 1.5, 0.3
"""The times of a sentence's synthesis and teacher-forced pass in a validation, relative to its training."""
ALIGNED = 1_500
"""Steps by which an alignment should have formed at r = 3 with 45 minutes of speech; more for a smaller r."""


class TextToSpeechTask(AbstractTask[TextToSpeechConfig]):
    """Recorded sentences, and a model that reads texts aloud."""

    summary = "speech from texts: Tacotron 1 and 2 with any attention, measured beside recordings"
    metrics = (
        Metric("mel_cepstral_distortion", aliases=("mcd",)),
        Metric("reading_errors"),
        Metric("centre_ms"),
        Metric("boundary_ms"),
        Metric("teacher_forced_loss", aliases=("loss",)),
    )

    def draft(self, config: TextToSpeechConfig) -> SpeechNetwork:
        if config.training.compile:
            raise ConfigError(
                "the lengths of sentences and the loop over frames leave nothing to compile; leave compile out",
                ("training", "compile"),
            )
        if config.training.reinforce is not None:
            raise ConfigError("REINFORCE needs log-probabilities, and frames have none", ("training", "reinforce"))
        empty_field(config.data.model_copy(update={"replacements": None}))  # the table is read with the data
        return build_network(config.model, num_symbols=DRAFT_SYMBOLS, front_end=FRONT_ENDS[config.data.front_end])

    def files(self, config: TextToSpeechConfig) -> Sequence[DataFile]:
        data, files = config.data, []
        for name, path in (("train", data.train), ("dev", data.dev)):
            if path is None:
                continue
            key, suffix = f"data.{name}", "" if name == "train" else f".{name}"
            with collecting() if data.on_error == "skip" else nullcontext():
                sounds = tuple(item.sound for item in read_ljspeech(path))
            files += [DataFile(key, name, path), DataFile(key, f"wavs{suffix}", path.parent / SOUNDS, sounds)]
            if data.units == "phones":
                files.append(DataFile("data.phones", f"phones{suffix}", labels_file(data, path)))
        if data.replacements is not None:
            files.append(DataFile("data.replacements", "replacements", data.replacements))
        return files

    def write_data(self, config: TextToSpeechConfig, data: Any, folder: Path, name: str) -> WrittenData:
        return write_recordings(config.data, data, folder, name)

    def read(self, config: TextToSpeechConfig) -> SpeechMaterial:
        return read_material(config)

    def check(self, config: TextToSpeechConfig, material: SpeechMaterial) -> Findings:
        """Checks the sentences.

        Raises:
            ConfigError: for a metric that needs labels, without labels.
        """
        validated = material.dev[: config.training.validation_sentences]
        if config.select in ("centre_ms", "boundary_ms") and not any(item.labels is not None for item in validated):
            raise ConfigError(
                f"{config.select} compares with labels, and the held-out sentences have none; give data.phones or "
                f"data.letters for the first training.validation_sentences={config.training.validation_sentences}, or "
                "select another metric",
                ("select",),
            )
        return check(material, config.data)

    def items(self, material: SpeechMaterial) -> tuple[Iterator[DataItem], Iterator[DataItem]]:
        train, dev = ((data_item(each.utterance) for each in part) for part in (material.train, material.dev))
        return train, dev

    def continued(self, config: TextToSpeechConfig, material: SpeechMaterial, base: SpeechModel) -> SpeechMaterial:
        """The sentences, with the units of the model added and with its scales."""
        material = replace(material, field=base.field.extended(material.field))
        if base.config.data.front_end != config.data.front_end:
            return material
        linear = base.linear_scale if material.linear_scale is not None else None
        return replace(material, scale=base.scale, linear_scale=linear or material.linear_scale)

    def adapted(self, config: TextToSpeechConfig) -> Mapping[str, Any]:
        """Labels are beside the new table; r and the losses on alignments are those at the end of the training.

        Raises:
            UnsupportedError: for a model whose texts a function normalises, which its folder must not import.
        """
        if config.data.normaliser is not None:
            raise UnsupportedError(
                f"The texts of this model are normalised by {config.data.normaliser}, and adapting imports no function "
                "that a folder names; train with training.start_from and data.normaliser instead."
            )
        decoder, until = config.model.decoder, config.training.alignment_losses_until
        values: dict[str, Any] = {"data.phones": ..., "data.letters": ..., "training.align_by": None}
        if decoder.reductions:
            values["model.decoder.reductions"] = [[0, max(decoder.reductions)[1]]]
        if until is not None:
            values["training.alignment_losses_until"] = 1
        return values

    def learned(self, config: TextToSpeechConfig, folder: Path) -> Mapping[str, Any]:
        """The table of replacements that is stored with the model."""
        table = folder / f"{FIELD}{REPLACEMENTS}"
        return {"data.replacements": table} if table.is_file() else {}

    def joined(
        self, material: SpeechMaterial, former: SpeechMaterial, *, train: float, dev: float, seed: int
    ) -> SpeechMaterial:
        material = super().joined(material, former, train=train, dev=dev, seed=seed)
        labels = [item.labels for item in material.train if item.labels is not None]
        return replace(material, durations=MeanDurations.of(labels) if labels else None)

    def resolve(
        self, config: TextToSpeechConfig, material: SpeechMaterial, report: Findings
    ) -> Plan[TextToSpeechConfig]:
        frames = np.array([len(item.mel) for item in material.train])
        units = np.array([len(material.field.split(item.text)) + 1 for item in material.train])
        growth = (int(frames.sum()) / REFERENCE) ** 0.5
        keys = AutomaticSettings(config, dict(material.chosen))
        size = keys.choose("training.batch_frames", max(two_digits(BATCH_FRAMES * growth), int(frames.max())))
        batches = len(bucket(units, frames, batch_tokens=size, seed=config.seed, epoch=0))
        spoken = min(config.training.validation_sentences, len(material.dev))
        cost = (SPOKEN * spoken + FORCED * len(material.dev)) / max(len(frames), 1)
        goal = max(LEAST_STEPS, STEPS * growth)
        steps = choose_steps(keys, batches=batches, steps=goal, validations=VALIDATIONS, validation_cost=cost)
        r = config.model.decoder.num_frames
        keys.choose("training.align_by", two_digits(ALIGNED * max(growth, 0.2) * max(1, 3 / r)))
        guided = GUIDED_STEPS.get(config.model.attention.recipe)
        if guided is not None and config.training.alignment_losses.guided_attention:
            keys.choose("training.alignment_losses_until", guided)
        front_end = FRONT_ENDS[config.data.front_end]
        minutes = float(frames.sum()) * front_end.hop_length / front_end.sample_rate / 60
        distinct = counted(len(material.field.vocabulary.symbols), "unit|units")
        amount = f"{counted(len(frames), 'sentence|sentences')}, {minutes:.1f} minutes, {distinct}"
        batch, notes = f"of up to {size:,} frames", (f"sound: {_vocoders(config.data.front_end)}",)
        return Plan(keys, amount, batch, "training.batch_frames", steps, notes, validation_cost=cost)

    def build(self, config: TextToSpeechConfig, material: SpeechMaterial, *, name: str) -> SpeechModel:
        return SpeechModel.build(
            config,
            material.field,
            material.scale,
            linear_scale=material.linear_scale,
            durations=material.durations,
            name=name,
        )

    def trainee(self, model: SpeechModel, material: SpeechMaterial) -> SpeechTrainee:
        return SpeechTrainee(model, material)

    def restore(self, config: TextToSpeechConfig, folder: Path, *, name: str) -> SpeechModel:
        return SpeechModel.restore(config, folder, name=name)


def _vocoders(front_end: str) -> str:
    """The vocoders for the spectrograms of a front end, which has to be chosen before the training."""
    from regard.audio.vocoder import MelForm

    try:
        differences = MelForm().differences(MelForm.of(FRONT_ENDS[front_end]))
    except ConfigError as error:
        differences = [str(error)]
    if not differences:
        return "by Griffin-Lim, or by HiFi-GAN's published vocoders (`regard data vocoder`)"
    return (
        f"by Griffin-Lim; HiFi-GAN's published vocoders cannot read spectrograms of data.front_end={front_end}. For "
        "them train with data.front_end=regard-22k (preset speech-22k)"
    )


TASK = TextToSpeechTask()
