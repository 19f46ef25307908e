"""The task of predicting what follows in running text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from regard.data import Findings
from regard.data.text import RunningText
from regard.data.text.vocabulary import SPECIALS
from regard.models import AbstractLanguageModel
from regard.runs.contract import AbstractTask, DataFile, Metric
from regard.runs.plan import Plan
from regard.tasks.compilation import check_compilable
from regard.tasks.language_modelling.build import build_model
from regard.tasks.language_modelling.config import LanguageModellingConfig
from regard.tasks.language_modelling.defaults import resolve
from regard.tasks.language_modelling.model import LanguageModel
from regard.tasks.language_modelling.reading import check, chosen, paths, read_text
from regard.tasks.language_modelling.trainee import LanguageTrainee
from regard.tasks.text_generation.checks import load_field


class LanguageModellingTask(AbstractTask[LanguageModellingConfig]):
    """Running text, and a model that says what follows."""

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
        files = []
        for name, value in (("train", config.data.train), ("dev", config.data.dev)):
            listed = paths(value)
            for number, path in enumerate(listed):
                files.append(DataFile(f"data.{name}", f"{name}.{number}" if len(listed) > 1 else name, path))
        return files

    def read(self, config: LanguageModellingConfig) -> RunningText:
        return read_text(config.data)

    def check(self, config: LanguageModellingConfig, material: RunningText) -> Findings:
        return check(material)

    def continued(self, config: LanguageModellingConfig, material: RunningText, base: LanguageModel) -> RunningText:
        """The text with the symbols that the model knows, too."""
        field, known = base.text.extended(material.field), material.field.vocabulary
        if field.units.inventory is not None or field is material.field:
            return material
        numbers = np.concatenate([np.arange(len(SPECIALS)), field.vocabulary.ids(known.symbols)]).astype(np.int32)
        return replace(material, field=field, ids=numbers[material.ids])

    def resolve(
        self, config: LanguageModellingConfig, material: RunningText, report: Findings
    ) -> Plan[LanguageModellingConfig]:
        train, held_out = material.train.num_tokens, material.held_out.num_tokens
        return resolve(config, train, held_out=held_out, chosen=chosen(config.data, material))

    def build(self, config: LanguageModellingConfig, material: RunningText, *, name: str) -> LanguageModel:
        return LanguageModel.build(config, material.field, name=name)

    def trainee(self, model: LanguageModel, material: RunningText) -> LanguageTrainee:
        return LanguageTrainee(model, material)

    def restore(self, config: LanguageModellingConfig, folder: Path, *, name: str) -> LanguageModel:
        return LanguageModel.build(config, load_field(folder, "text"), name=name)


TASK = LanguageModellingTask()
