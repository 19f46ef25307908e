"""The task of predicting the next token of running text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.data import Findings
from regard.data.objects import WrittenData
from regard.data.text import RunningText
from regard.data.text.vocabulary import SPECIALS
from regard.errors import counted
from regard.models import AbstractLanguageModel
from regard.runs.automatic_settings import AutomaticSettings, two_digits
from regard.runs.contract import AbstractTask, Metric
from regard.runs.fingerprints import DataFile
from regard.runs.plan import Plan, choose_steps, falling_dropout
from regard.tasks.compilation import check_compilable
from regard.tasks.language_modelling.build import build_model, parts_of
from regard.tasks.language_modelling.config import LanguageModellingConfig, RecurrentLanguageConfig
from regard.tasks.language_modelling.model import LanguageModel
from regard.tasks.language_modelling.objects import write_text
from regard.tasks.language_modelling.reading import check, chosen, paths, read_text
from regard.tasks.language_modelling.trainee import LanguageTrainee
from regard.tasks.text_generation.checks import load_field

REFERENCE = 100_000
"""Tokens of the reference text."""
BATCH_SIZE, BATCH_GROWTH, MOST_BATCH = 8, 0.5, 256
BASE_STEPS, STEPS_GROWTH, LEAST_STEPS = 1_500, 0.37, 1_000
VALIDATIONS = 15
VALIDATED = 0.5
"""The time of a token's validation relative to its training (measured: 0.47)."""
DROPOUT, DROPOUT_DECAY, MOST_DROPOUT = 0.2, 0.1, 0.4
"""Dropout at the reference, its decrease for ten times as many tokens, and its upper end."""
SIZES = ((0, 128), (2_000_000, 256), (20_000_000, 512))
"""The size of a Transformer from a number of tokens on; that of a recurrent model is twice as large."""


class LanguageModellingTask(AbstractTask[LanguageModellingConfig]):
    """Running text, and a model that predicts its next token."""

    summary = "running text: what follows, character by character or word by word"
    metrics = (
        Metric("perplexity", aliases=("ppl",)),
        Metric("bits_per_character", aliases=("bpc",)),
        Metric("loss", aliases=("nats_per_token",)),
    )

    def draft(self, config: LanguageModellingConfig) -> AbstractLanguageModel:
        module = build_model(config, num_tokens=2 * len(SPECIALS))
        check_compilable(config.training)
        return module

    def files(self, config: LanguageModellingConfig) -> Sequence[DataFile]:
        data = config.data
        return [*DataFile.numbered("train", paths(data.train)), *DataFile.numbered("dev", paths(data.dev))]

    def write_data(self, config: LanguageModellingConfig, data: Any, folder: Path, name: str) -> WrittenData:
        return write_text(config.data, data, folder, name)

    def read(self, config: LanguageModellingConfig) -> RunningText:
        return read_text(config.data)

    def check(self, config: LanguageModellingConfig, material: RunningText) -> Findings:
        return check(material)

    def continued(self, config: LanguageModellingConfig, material: RunningText, base: LanguageModel) -> RunningText:
        """The text, with the symbols of the model added."""
        return material.of(base.text.extended(material.field))

    def sizes(self, material: RunningText) -> tuple[int, int]:
        return material.train.num_tokens, material.held_out.num_tokens

    def joined(self, material: RunningText, former: RunningText, *, train: float, dev: float, seed: int) -> RunningText:
        """The new text with passages of the former one, evenly spaced."""
        return material.joined(former, train=train, dev=dev)

    def known_to(self, material: RunningText, model: LanguageModel) -> RunningText:
        return material.of(model.text)

    def resolve(
        self, config: LanguageModellingConfig, material: RunningText, report: Findings
    ) -> Plan[LanguageModellingConfig]:
        """Chooses batches, steps, sizes and dropout by the number n of tokens of the training text.

        With a text of 100,000 tokens as the reference,

            batch_size = 8 · (n / 100,000)^½        steps = max(1,000, 1,500 · (n / 100,000)^0.37)

        Epochs, warm-up and validations follow from the steps. Dropout falls by 0.1 for ten times as many tokens, and
        models of large texts are wider. The exponents are those of text to text; the numbers have not been tuned.
        """
        num_tokens, held_out = material.train.num_tokens, material.held_out.num_tokens
        growth = max(num_tokens, 1) / REFERENCE
        keys = AutomaticSettings(config, dict(chosen(config.data, material)))
        size = next(size for least, size in reversed(SIZES) if num_tokens >= least)
        if isinstance(config.model, RecurrentLanguageConfig):
            size = 2 * size // (parts := parts_of(config.model)) * parts
        else:
            size = size // (2 * config.model.heads) * 2 * config.model.heads
        keys.choose("model.size", max(size, 1))
        dropout = falling_dropout(growth, at_one=DROPOUT, decay=DROPOUT_DECAY, least=0.0, most=MOST_DROPOUT)
        keys.choose("model.dropout", dropout)
        rows = min(max(two_digits(BATCH_SIZE * growth**BATCH_GROWTH), 4), MOST_BATCH)
        batch_size, training = keys.choose("training.batch_size", rows), config.training
        windows = math.ceil(num_tokens / (training.window + 1 - training.context))
        goal, batches = max(BASE_STEPS * growth**STEPS_GROWTH, LEAST_STEPS), math.ceil(windows / batch_size)
        cost = VALIDATED * held_out / max(num_tokens, 1)
        steps_per_epoch = choose_steps(keys, batches=batches, steps=goal, validations=VALIDATIONS, validation_cost=cost)
        batch = f"of up to {counted(batch_size, 'window|windows')} of {counted(training.window, 'token|tokens')}"
        amount = counted(num_tokens, "token|tokens")
        return Plan(keys, amount, batch, "training.batch_size", steps_per_epoch, validation_cost=cost)

    def build(self, config: LanguageModellingConfig, material: RunningText, *, name: str) -> LanguageModel:
        return LanguageModel.build(config, material.field, name=name)

    def trainee(self, model: LanguageModel, material: RunningText) -> LanguageTrainee:
        return LanguageTrainee(model, material)

    def restore(self, config: LanguageModellingConfig, folder: Path, *, name: str) -> LanguageModel:
        return LanguageModel.build(config, load_field(folder, "text"), name=name)


TASK = LanguageModellingTask()
