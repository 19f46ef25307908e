"""The task of writing texts about pictures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from regard.config.texts import check_directions
from regard.data import Findings
from regard.errors import ConfigError
from regard.metrics.translation import TRANSLATION_METRICS
from regard.models import EncoderDecoder
from regard.runs.contract import AbstractTask, DataFile, Metric
from regard.runs.plan import Plan
from regard.runs.trained_items import DataItem
from regard.tasks.image_to_text.build import build_model
from regard.tasks.image_to_text.config import ImageToTextConfig
from regard.tasks.image_to_text.defaults import resolve
from regard.tasks.image_to_text.evaluation import CAPTION_FIGURES, EXPRESSION_FIGURES, data_items, items_of
from regard.tasks.image_to_text.model import ImageToText, reader_of
from regard.tasks.image_to_text.reading import Material, check, read_material
from regard.tasks.image_to_text.trainee import ImageTrainee
from regard.tasks.text_generation.checks import check_attentions, check_decoder_learns, load_field

DRAFT_SYMBOLS = 8
"""Symbols of a vocabulary before there is one."""
DRAFT_PIXELS = 40
"""Height and width of the picture that a draft is tried with."""
IN_ORDER = ("guided_attention", "forward_sum")
"""Losses on alignments that want the positions to be read in order."""


class ImageToTextTask(AbstractTask[ImageToTextConfig]):
    """Pictures with texts, and a model that writes the text of a picture."""

    summary = "captions of pictures, LaTeX of handwritten formulas: any text of an image"
    metrics = (
        Metric("sequence_error_rate", aliases=("wer",)),
        Metric("symbol_error_rate", aliases=("per",)),
        Metric("teacher_forced_loss", aliases=("loss",)),
        *(Metric(name, larger_is_better=True) for name in (*EXPRESSION_FIGURES, *CAPTION_FIGURES)),
        *(Metric(name, larger_is_better=True, package="sacrebleu", extra="text") for name in TRANSLATION_METRICS),
    )

    def draft(self, config: ImageToTextConfig) -> EncoderDecoder:
        channels = reader_of(config).fitting.num_channels
        module = build_model(
            config.model, num_channels=channels, num_target=DRAFT_SYMBOLS, max_length=config.data.max_length
        )
        check_directions(config.data.target.direction, config.decoding, config.training)
        for name in IN_ORDER:
            if getattr(config.training.alignment_losses, name):
                raise ConfigError(
                    f"{name} wants the input to be read from its first position to its last, and cells of a picture "
                    "have no such order; leave it out",
                    ("training", "alignment_losses", name),
                )
        if config.training.compile:
            raise ConfigError(
                "the sizes of pictures differ from batch to batch and leave little to compile; leave compile out",
                ("training", "compile"),
            )
        check_decoder_learns(
            module.decoder, config.model.attention, config.training, memory_size=module.encoder.output_size
        )

        def memory() -> object:
            images = torch.zeros(1, channels, DRAFT_PIXELS, DRAFT_PIXELS)
            return module.decoder.prepare(module.encoder.encode(images, None))

        decoding = config.decoding
        check_attentions(
            module, memory, [(("decoding", "alignment"), decoding.alignment_layer, decoding.alignment_head)]
        )
        return module

    def files(self, config: ImageToTextConfig) -> Sequence[DataFile]:
        """The tables, and a sentencepiece model; not the pictures."""
        files, pieces = list(super().files(config)), config.data.target.sentencepiece_model
        if pieces is not None:
            files.append(DataFile("data.target.sentencepiece_model", "target.model", pieces))
        return files

    def read(self, config: ImageToTextConfig) -> Material:
        return read_material(config, reader_of(config))

    def check(self, config: ImageToTextConfig, material: Material) -> Findings:
        return check(material)

    def items(self, material: Material) -> tuple[Iterator[DataItem], Iterator[DataItem]]:
        """The pictures with their texts; one that cannot be read is none."""
        normalise = material.target.normalisation
        train, dev = (
            data_items(items_of(split.pictures, normalise), normalise) for split in (material.train, material.dev)
        )
        return train, dev

    def continued(self, config: ImageToTextConfig, material: Material, base: ImageToText) -> Material:
        """The pictures with the symbols that the model knows, too, and its pieces unless a file of pieces is named."""
        if config.data.target.sentencepiece_model is not None:
            return material
        chosen = {key: value for key, value in material.chosen.items() if not key.endswith("vocabulary_size")}
        return replace(material, target=base.target.extended(material.target), chosen=chosen)

    def resolve(self, config: ImageToTextConfig, material: Material, report: Findings) -> Plan[ImageToTextConfig]:
        kept = material.kept
        shapes = material.train.sizes[material.train.owners[kept]]
        most, held_out = config.training.validation_pictures, len(material.dev.pictures)
        held_out = held_out if most is None else min(most, held_out)
        return resolve(config, shapes, material.train.lengths[kept], held_out=held_out, chosen=material.chosen)

    def build(self, config: ImageToTextConfig, material: Material, *, name: str) -> ImageToText:
        return ImageToText.build(config, material.target, name=name)

    def trainee(self, model: ImageToText, material: Material) -> ImageTrainee:
        return ImageTrainee(model, material)

    def restore(self, config: ImageToTextConfig, folder: Path, *, name: str) -> ImageToText:
        return ImageToText.build(config, load_field(folder, "target"), name=name, published=False)


TASK = ImageToTextTask()
