"""The task of turning texts into texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.config.texts import SideConfig, check_directions
from regard.data import Finding, Pairs, Selection
from regard.data.objects import WrittenData
from regard.data.pairs import JoinedPairs
from regard.data.text import Field, Report
from regard.errors import ConfigError
from regard.metrics.translation import TRANSLATION_METRICS
from regard.models import EncoderDecoder, PointerDecoder, TransformerDecoder, TransformerEncoder
from regard.runs.contract import AbstractTask, Metric, drawn
from regard.runs.fingerprints import DataFile
from regard.runs.plan import Plan
from regard.runs.trained_items import DataItem, TrainedItems
from regard.tasks.compilation import check_compilable
from regard.tasks.text_generation.checks import (
    check_attentions,
    check_decoder_learns,
    check_self_attention,
    learned_pieces,
    load_field,
)
from regard.tasks.text_to_text import copying
from regard.tasks.text_to_text.architectures import build_model
from regard.tasks.text_to_text.cached import read_data
from regard.tasks.text_to_text.config import TextToTextConfig
from regard.tasks.text_to_text.copying import check_pointer
from regard.tasks.text_to_text.defaults import resolve
from regard.tasks.text_to_text.mixture import check_mixture, data_files
from regard.tasks.text_to_text.model import TextToText
from regard.tasks.text_to_text.objects import write_pairs
from regard.tasks.text_to_text.reading import PairTrainingData
from regard.tasks.text_to_text.teachers import check_teachers, check_teaching
from regard.tasks.text_to_text.trainee import PairTrainee

DRAFT_SYMBOLS = 8
"""The number of symbols of a vocabulary in a draft."""


class TextToTextTask(AbstractTask[TextToTextConfig]):
    """Pairs of texts, and a model that turns one into the other."""

    summary = "any text to any text: pronunciation, translation, inflection, dates"
    metrics = (
        Metric("sequence_error_rate", aliases=("wer",)),
        Metric("symbol_error_rate", aliases=("per",)),
        Metric("teacher_forced_loss", aliases=("loss",)),
        *(Metric(name, larger_is_better=True, package="sacrebleu", extra="text") for name in TRANSLATION_METRICS),
    )

    def draft(self, config: TextToTextConfig) -> EncoderDecoder:
        module = build_model(
            config.model, num_source=DRAFT_SYMBOLS, num_target=DRAFT_SYMBOLS, max_length=config.data.max_length
        )
        if config.model.shared_embeddings and not (config.data.joint_vocabulary or config.data.autoencode):
            raise ConfigError(
                "shared_embeddings needs the same symbols on both sides; set data.joint_vocabulary: true",
                ("model", "shared_embeddings"),
            )
        check_mixture(config.data)
        _check_references(config)
        _check_direction(config)
        check_pointer(config)
        _check_attentions(config, module)
        _check_learnable(config, module)
        check_compilable(config.training)
        check_teaching(config)
        return module

    def files(self, config: TextToTextConfig) -> Sequence[DataFile]:
        return data_files(config.data)

    def write_data(self, config: TextToTextConfig, data: Any, folder: Path, name: str) -> WrittenData:
        return write_pairs(config.data, data, folder, name)

    def read(self, config: TextToTextConfig) -> PairTrainingData:
        return read_data(config.data, are_alike=config.model.pointer is not None)

    def check(self, config: TextToTextConfig, material: PairTrainingData) -> Report:
        report = material.check()
        if config.model.pointer is not None:
            report = replace(report, findings=(*report.findings, *copying.findings(report)))
        return report

    def items(self, material: PairTrainingData) -> tuple[Iterator[DataItem], Iterator[DataItem]]:
        source, target = material.source.normalisation, material.target.normalisation
        train, dev = (
            (DataItem(pair.place, source(pair.source), (target(pair.target),)) for pair in pairs)
            for pairs in (material.train, material.dev)
        )
        return train, dev

    def trained_items(self, material: PairTrainingData) -> TrainedItems:
        return material.reading.trained

    def shared_items(self, material: PairTrainingData, *, refused: bool) -> Iterator[Finding]:
        return material.reading.shared.findings(refused=refused)

    def continued(self, config: TextToTextConfig, material: PairTrainingData, base: TextToText) -> PairTrainingData:
        """The pairs, with the symbols of the model added, and its pieces unless the configuration names a file."""

        def extended(side: SideConfig, field: Field, saved: Field) -> Field:
            return field if side.sentencepiece_model is not None else saved.extended(field)

        source = extended(config.data.source, material.source, base.source)
        is_shared = material.target is material.source
        target = source if is_shared else extended(config.data.target, material.target, base.target)
        chosen = {key: value for key, value in material.chosen.items() if not key.endswith("vocabulary_size")}
        return replace(material, source=source, target=target, chosen=chosen, findings=None)

    def adapted(self, config: TextToTextConfig) -> Mapping[str, Any]:
        """Without reference alignments, which belong to the lines of the former file."""
        if config.data.alignments is None:
            return {}
        losses = "training.alignment_losses.supervision"
        return dict.fromkeys(
            ("data.alignments", "data.alignment_units", losses, f"{losses}_layer", f"{losses}_head"), ...
        )

    def learned(self, config: TextToTextConfig, folder: Path) -> Mapping[str, Any]:
        return {"data.alignments": None, **learned_pieces(config.data, folder, "source", "target")}

    def joined(
        self, material: PairTrainingData, former: PairTrainingData, *, train: float, dev: float, seed: int
    ) -> PairTrainingData:
        def joined(own: Pairs, others: Pairs, share: float) -> Pairs:
            return JoinedPairs(own, Selection(others, np.array(drawn(len(others), share, seed), np.int64)))

        return replace(
            material,
            train=joined(material.train, former.train, train),
            dev=joined(material.dev, former.dev, dev),
            first_reading=None,
            findings=None,
        )

    def resolve(self, config: TextToTextConfig, material: PairTrainingData, report: Report) -> Plan[TextToTextConfig]:
        lengths = report.train.source.lengths, report.train.target.lengths
        growth = 1.0 if material.mixture is None else material.mixture.growth
        return resolve(config, *lengths, held_out=len(material.dev), chosen=material.chosen, growth=growth)

    def build(self, config: TextToTextConfig, material: PairTrainingData, *, name: str) -> TextToText:
        model = TextToText.build(config, material.source, material.target, name=name)
        check_teachers(model)
        return model

    def trainee(self, model: TextToText, material: PairTrainingData) -> PairTrainee:
        return PairTrainee(model, material.train, material.dev, material.reading, material.mixture)

    def restore(self, config: TextToTextConfig, folder: Path, *, name: str) -> TextToText:
        return TextToText.build(config, load_field(folder, "source"), load_field(folder, "target"), name=name)


def _check_learnable(config: TextToTextConfig, module: EncoderDecoder) -> None:
    """Refuses attention that training would leave at its random initial values."""
    decoder = module.decoder.core if isinstance(module.decoder, PointerDecoder) else module.decoder
    for name, side in (("encoder", module.encoder), ("decoder", decoder)):
        if isinstance(side, TransformerEncoder | TransformerDecoder):
            config_of_side: Any = getattr(config.model, name)
            check_self_attention(side, config_of_side.self_attention, ("model", name, "self_attention"))
    check_decoder_learns(decoder, config.model.attention, config.training, memory_size=module.encoder.output_size)


def _check_references(config: TextToTextConfig) -> None:
    """Refuses reference alignments without the loss that reads them, and the loss without them."""
    losses, data, path = config.training.alignment_losses, config.data, ("training", "alignment_losses")
    if losses.supervision and data.alignments is None:
        text = "supervision needs reference alignments: set data.alignments to their file, or leave it out"
        raise ConfigError(text, (*path, "supervision"))
    for key in ("supervision_layer", "supervision_head"):
        if getattr(losses, key) is not None and not losses.supervision:
            text = f"{key} has no effect without supervision; set it, or leave {key} out"
            raise ConfigError(text, (*path, key))
    if data.alignment_units != "symbol" and data.alignments is None:
        text = "alignment_units has no effect without alignments; set them, or leave it out"
        raise ConfigError(text, ("data", "alignment_units"))
    if data.alignments is not None and not losses.supervision:
        text = "alignments have no effect without training.alignment_losses.supervision; set it, or leave them out"
        raise ConfigError(text, ("data", "alignments"))


def _check_attentions(config: TextToTextConfig, module: EncoderDecoder) -> None:
    """Refuses attentions and heads that the decoder does not have."""
    losses, decoding = config.training.alignment_losses, config.decoding

    def memory() -> object:
        ids = torch.full((1, 2), DRAFT_SYMBOLS - 1)
        copied = {"source_ids": ids, "extension": ids.new_zeros(1, 0, dtype=torch.bool)}
        return module.prepare(ids, **(copied if isinstance(module.decoder, PointerDecoder) else {}))

    chosen = [
        (("training", "alignment_losses", "supervision"), losses.supervision_layer, losses.supervision_head),
        (("decoding", "alignment"), decoding.alignment_layer, decoding.alignment_head),
    ]
    check_attentions(module, memory, chosen)


def _check_direction(config: TextToTextConfig) -> None:
    """Refuses losses and searches that contradict the order in which outputs are written."""
    check_directions(config.data.target.direction, config.decoding, config.training)
    losses = config.training.alignment_losses
    for name in ("guided_attention", "forward_sum"):
        if config.data.is_reversed and getattr(losses, name):
            raise ConfigError(
                f"{name} needs inputs that are read from left to right, but outputs are written from right to left "
                "(data.target.direction); leave out one of them",
                ("training", "alignment_losses", name),
            )


TASK = TextToTextTask()
