"""The task of labelling the tokens of sentences."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from regard.data import Findings, bucket
from regard.data.objects import WrittenData
from regard.data.text import Vocabulary
from regard.errors import ConfigError, counted
from regard.runs.automatic_settings import AutomaticSettings, two_digits
from regard.runs.contract import AbstractTask, Metric
from regard.runs.plan import Plan, choose_steps
from regard.runs.trained_items import DataItem
from regard.tasks.labelling.config import LabellingConfig
from regard.tasks.labelling.model import Tagger
from regard.tasks.labelling.network import Labeller
from regard.tasks.labelling.objects import write_sentences
from regard.tasks.labelling.reading import LabellingMaterial, check, data_item, read_material
from regard.tasks.labelling.trainee import LabellingTrainee

DRAFT_SYMBOLS = 8
REFERENCE, BATCH_TOKENS, STEPS, LEAST_STEPS = 20_000, 512, 2_000, 1_000
"""Tokens of a small corpus, the tokens of its batches and its steps; both grow with the square root of the tokens."""
VALIDATIONS = 20
VALIDATED = 0.9
"""The time of a sentence's validation relative to its training (measured: 0.87)."""
SPAN_METRICS = ("span_f1", "span_f1_strict")


class LabellingTask(AbstractTask[LabellingConfig]):
    """Sentences, and a model that predicts a label for each token."""

    summary = "a label for each token: parts of speech, names, chunks"
    metrics = (
        Metric("token_error_rate", aliases=("error_rate",)),
        Metric("sentence_error_rate"),
        Metric("macro_f1", larger_is_better=True),
        Metric("span_f1", larger_is_better=True),
        Metric("span_f1_strict", larger_is_better=True),
        Metric("loss"),
    )

    def draft(self, config: LabellingConfig) -> Labeller:
        return Labeller(config.model, num_tokens=DRAFT_SYMBOLS, num_characters=DRAFT_SYMBOLS, num_labels=DRAFT_SYMBOLS)

    def write_data(self, config: LabellingConfig, data: Any, folder: Path, name: str) -> WrittenData:
        return write_sentences(config.data, data, folder, name)

    def read(self, config: LabellingConfig) -> LabellingMaterial:
        return read_material(config.data)

    def check(self, config: LabellingConfig, material: LabellingMaterial) -> Findings:
        return check(material, config.data.max_length)

    def items(self, material: LabellingMaterial) -> tuple[Iterator[DataItem], Iterator[DataItem]]:
        return map(data_item, material.train), map(data_item, material.dev)

    def continued(self, config: LabellingConfig, material: LabellingMaterial, base: Tagger) -> LabellingMaterial:
        """The sentences, with the tokens, characters and labels of the model added."""
        return replace(
            material,
            tokens=base.tokens.extended(material.tokens),
            characters=base.characters.extended(material.characters),
            labels=base.labels.extended(material.labels),
        )

    def resolve(self, config: LabellingConfig, material: LabellingMaterial, report: Findings) -> Plan[LabellingConfig]:
        """Chooses sizes, batches and steps by the number of tokens, and the scheme of spans by the labels."""
        lengths = np.array([len(each.tokens) for each in material.train])
        lengths = lengths[lengths <= config.data.max_length]
        growth = (max(int(lengths.sum()), 1) / REFERENCE) ** 0.5
        keys = AutomaticSettings(config)
        scheme = material.spans.scheme
        keys.choose("data.span_scheme", "none" if scheme is None else scheme.name)
        if scheme is None and config.select in SPAN_METRICS:
            reason = "data.span_scheme is none" if config.data.span_scheme == "none" else "the labels do not mark spans"
            raise ConfigError(
                f"{reason}, so there is no {config.select}; choose token_error_rate, sentence_error_rate, macro_f1 or "
                "loss, or name the scheme in data.span_scheme",
                ("select",),
            )
        keys.choose("model.encoder.size", 128 if growth < 5 else 256)
        keys.choose("model.encoder.dropout", 0.4 if growth < 5 else 0.3)
        batch_tokens = keys.choose("training.batch_tokens", two_digits(BATCH_TOKENS * growth))
        batches = len(bucket(lengths, lengths, batch_tokens=batch_tokens, seed=config.seed, epoch=0))
        goal = max(STEPS * growth, LEAST_STEPS)
        cost = VALIDATED * len(material.dev) / max(len(lengths), 1)
        steps_per_epoch = choose_steps(keys, batches=batches, steps=goal, validations=VALIDATIONS, validation_cost=cost)
        amount = f"{counted(len(lengths), 'sentence|sentences')}, {counted(int(lengths.sum()), 'token|tokens')}"
        batch = f"of up to {counted(batch_tokens, 'token|tokens')}"
        return Plan(keys, amount, batch, "training.batch_tokens", steps_per_epoch, validation_cost=cost)

    def build(self, config: LabellingConfig, material: LabellingMaterial, *, name: str) -> Tagger:
        return Tagger.build(config, material.tokens, material.characters, material.labels, name=name)

    def trainee(self, model: Tagger, material: LabellingMaterial) -> LabellingTrainee:
        return LabellingTrainee(model, material)

    def restore(self, config: LabellingConfig, folder: Path, *, name: str) -> Tagger:
        saved = [Vocabulary.load(folder / file) for file in Tagger.assets]
        return Tagger.build(config, *saved, name=name)


TASK = LabellingTask()
