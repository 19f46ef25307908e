"""The task of reading texts aloud."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from regard.config.tasks.text_to_speech import TextToSpeechConfig
from regard.data import Field, Findings, bucket
from regard.errors import ConfigError
from regard.tasks.contract import AbstractTask, DataFile, Metric
from regard.tasks.open_keys import OpenKeys, two_digits
from regard.tasks.plan import Plan, choose_steps
from regard.tasks.text_to_speech.build import SpeechNetwork, build_network, front_end_of
from regard.tasks.text_to_speech.model import FIELD, SCALE, SpeechModel, load_scale
from regard.tasks.text_to_speech.reading import SpeechMaterial, check, empty_field, read_material
from regard.tasks.text_to_speech.trainee import SpeechTrainee

DRAFT_SYMBOLS = 8
REFERENCE, BATCH_FRAMES, STEPS, LEAST_STEPS = 200_000, 6_000, 6_000, 1_000
"""Frames of three quarters of an hour, the frames of a batch and the steps; both grow with the root of the frames."""
VALIDATIONS = 20


class TextToSpeechTask(AbstractTask[TextToSpeechConfig]):
    """Recorded sentences, and a model that reads texts aloud."""

    summary = "speech from texts: Tacotron 1 and 2 with any attention, measured beside recordings"
    metrics = (
        Metric("mel_cepstral_distortion", aliases=("mcd",)),
        Metric("boundary_ms"),
        Metric("reading_errors"),
        Metric("teacher_forced_loss", aliases=("loss",)),
    )

    def draft(self, config: TextToSpeechConfig) -> SpeechNetwork:
        """The network, with a few units."""
        if config.training.compile:
            raise ConfigError(
                "the lengths of sentences and the loop over frames leave nothing to compile; leave compile out",
                ("training", "compile"),
            )
        if config.training.reinforce is not None:
            raise ConfigError("REINFORCE needs log-probabilities, and frames have none", ("training", "reinforce"))
        empty_field(config.data)
        return build_network(config.model, num_symbols=DRAFT_SYMBOLS, front_end=front_end_of(config.data.front_end))

    def files(self, config: TextToSpeechConfig) -> Sequence[DataFile]:
        """The tables of sentences."""
        named = {"train": config.data.train, "dev": config.data.dev}
        return [DataFile(f"data.{name}", name, path) for name, path in named.items() if path is not None]

    def read(self, config: TextToSpeechConfig) -> SpeechMaterial:
        """The sentences, their spectrograms, units and scale."""
        return read_material(config.data)

    def check(self, config: TextToSpeechConfig, material: SpeechMaterial) -> Findings:
        """Checks the sentences."""
        return check(material, config.data)

    def resolve(
        self, config: TextToSpeechConfig, material: SpeechMaterial, report: Findings
    ) -> Plan[TextToSpeechConfig]:
        """Chooses batches and steps by the number of frames."""
        frames = np.array([len(item.mel) for item in material.train])
        units = np.array([len(material.field.split(item.text)) + 1 for item in material.train])
        growth = (int(frames.sum()) / REFERENCE) ** 0.5
        keys = OpenKeys(config, dict(material.chosen))
        size = keys.choose("training.batch_frames", max(two_digits(BATCH_FRAMES * growth), int(frames.max())))
        batches = len(bucket(units, frames, batch_tokens=size, seed=config.seed, epoch=0))
        steps = choose_steps(keys, batches=batches, steps=max(LEAST_STEPS, STEPS * growth), validations=VALIDATIONS)
        front_end = front_end_of(config.data.front_end)
        minutes = float(frames.sum()) * front_end.hop_length / front_end.sample_rate / 60
        amount = f"{len(frames):,} sentences, {minutes:.1f} minutes, {len(material.field.vocabulary.symbols):,} units"
        return Plan(keys, amount, f"of up to {size:,} frames", "training.batch_frames", steps)

    def build(self, config: TextToSpeechConfig, material: SpeechMaterial, *, name: str) -> SpeechModel:
        """An untrained model for the units of the training sentences."""
        return SpeechModel.build(config, material.field, material.scale, name=name)

    def trainee(self, model: SpeechModel, material: SpeechMaterial) -> SpeechTrainee:
        """The model with its sentences."""
        return SpeechTrainee(model, material)

    def restore(self, config: TextToSpeechConfig, folder: Path, *, name: str) -> SpeechModel:
        """The model with the saved units and scale."""
        return SpeechModel.build(config, Field.load(folder, FIELD), load_scale(folder / SCALE), name=name)
