"""The task of writing texts about pictures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from regard.config.texts import TransformerDecoderConfig, check_directions
from regard.data import Findings
from regard.data.objects import WrittenData
from regard.errors import ConfigError, counted
from regard.metrics.translation import TRANSLATION_METRICS
from regard.models import EncoderDecoder
from regard.runs.automatic_settings import AutomaticSettings, two_digits
from regard.runs.contract import AbstractTask, Metric, drawn
from regard.runs.fingerprints import DataFile
from regard.runs.plan import Plan, choose_steps, falling_dropout
from regard.runs.trained_items import DataItem
from regard.tasks.image_to_text.batches import bucket_pictures
from regard.tasks.image_to_text.build import build_model
from regard.tasks.image_to_text.config import ImageToTextConfig
from regard.tasks.image_to_text.evaluation import CAPTION_FIGURES, EXPRESSION_FIGURES, data_items, items_of
from regard.tasks.image_to_text.model import ImageToText, reader_of
from regard.tasks.image_to_text.objects import write_pictures
from regard.tasks.image_to_text.reading import Material, Split, check, read_material
from regard.tasks.image_to_text.trainee import ImageTrainee
from regard.tasks.text_generation.checks import check_attentions, check_decoder_learns, learned_pieces, load_field

DRAFT_SYMBOLS = 8
"""The number of symbols of a vocabulary in a draft."""
DRAFT_PIXELS = 40
"""Height and width of the picture of a draft."""
IN_ORDER = ("guided_attention", "forward_sum")
"""Losses on alignments that need positions in order."""
REFERENCE = 9_000
"""Texts of the reference data."""
PICTURES, LEAST_PICTURES, MOST_PICTURES = 16, 8, 64
STEPS, STEPS_GROWTH, LEAST_STEPS = 20_000, 0.4, 3_000
VALIDATIONS = 25
VALIDATED = 2.0
"""The time of a picture's greedy validation relative to its training (measured: 1.5 to 2.6)."""
LARGE = 100_000
"""Texts from which on decoders are larger."""
ROOM, EXTRA_SYMBOLS = 1.2, 10
"""The greatest length of outputs: a multiple of the longest training text, and some symbols more."""


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
                    f"{name} needs inputs that are read from the first position to the last, and cells of a picture "
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

    def write_data(self, config: ImageToTextConfig, data: Any, folder: Path, name: str) -> WrittenData:
        return write_pictures(config.data, data, folder, name)

    def read(self, config: ImageToTextConfig) -> Material:
        return read_material(config, reader_of(config))

    def check(self, config: ImageToTextConfig, material: Material) -> Findings:
        return check(material)

    def items(self, material: Material) -> tuple[Iterator[DataItem], Iterator[DataItem]]:
        """The readable pictures with their texts."""
        normalise = material.target.normalisation
        train, dev = (
            data_items(items_of(split.pictures, normalise), normalise) for split in (material.train, material.dev)
        )
        return train, dev

    def continued(self, config: ImageToTextConfig, material: Material, base: ImageToText) -> Material:
        """The pictures, with the symbols of the model added, and its pieces unless the configuration names a file."""
        if config.data.target.sentencepiece_model is not None:
            return material
        chosen = {key: value for key, value in material.chosen.items() if not key.endswith("vocabulary_size")}
        return replace(material, target=base.target.extended(material.target), chosen=chosen)

    def adapted(self, config: ImageToTextConfig) -> Mapping[str, Any]:
        """The pictures of another table are beside it."""
        return {"data.image_folder": ...}

    def learned(self, config: ImageToTextConfig, folder: Path) -> Mapping[str, Any]:
        return learned_pieces(config.data, folder, "target")

    def sizes(self, material: Material) -> tuple[int, int]:
        return len(material.train.pictures), len(material.dev.pictures)

    def joined(self, material: Material, former: Material, *, train: float, dev: float, seed: int) -> Material:
        def joined(own: Split, others: Split, share: float) -> Split:
            return own.joined(others, drawn(len(others.pictures), share, seed))

        return replace(
            material, train=joined(material.train, former.train, train), dev=joined(material.dev, former.dev, dev)
        )

    def resolve(self, config: ImageToTextConfig, material: Material, report: Findings) -> Plan[ImageToTextConfig]:
        """Chooses batches, steps, sizes and dropout by the number n of training texts.

        With some 9,000 handwritten formulas as the reference,

            pictures in a batch = 16 · (n / 9,000)^¼, of 8 to 64        steps = max(3,000, 20,000 · (n / 9,000)^0.4)

        so that 300 pictures give 5,000 steps of 8, and 300,000 give 80,000 of 38. Epochs, warm-up and validations
        follow from the steps. Dropout falls by 0.1 for ten times as many texts, and decoders of many texts are wider.
        """
        used, training = material.used, config.training
        shapes, lengths = material.train.sizes[material.train.owners[used]], material.train.lengths[used]
        held_out = len(material.dev.pictures)
        held_out = min(training.validation_pictures or held_out, held_out)
        count = len(lengths)
        growth = max(count, 1) / REFERENCE
        keys = AutomaticSettings(config, dict(material.chosen))
        decoder = config.model.decoder
        keys.choose("model.encoder.dropout", falling_dropout(growth, at_one=0.2, decay=0.1, least=0.1, most=0.3))
        keys.choose("model.decoder.dropout", falling_dropout(growth, at_one=0.3, decay=0.1, least=0.1, most=0.4))
        size, rate = 512 if count >= LARGE else 256, 0.001
        if isinstance(decoder, TransformerDecoderConfig):
            heads, rate = 2 * decoder.heads, 0.0005
            keys.choose("model.decoder.size", max(size // heads, 1) * heads)
            keys.choose("model.decoder.layers", 6 if count >= LARGE else 3)
        else:
            keys.choose("model.decoder.size", size)
        if training.schedule != "noam":
            keys.choose("training.learning_rate", rate)
        keys.choose("decoding.max_length", int(ROOM * lengths.max(initial=1)) + EXTRA_SYMBOLS)
        pictures = min(max(PICTURES * growth**0.25, LEAST_PICTURES), MOST_PICTURES)
        mean = float(shapes.prod(1).mean()) if count else 1.0
        pixels = keys.choose("training.batch_pixels", two_digits(max(pictures * mean, 1)))
        batches = len(bucket_pictures(shapes, batch_pixels=pixels, seed=config.seed, epoch=0))
        goal = max(STEPS * growth**STEPS_GROWTH, LEAST_STEPS)
        cost = VALIDATED * config.decoding.validation_beam * held_out / max(count, 1)
        steps_per_epoch = choose_steps(keys, batches=batches, steps=goal, validations=VALIDATIONS, validation_cost=cost)
        amount = f"{counted(count, 'text|texts')}, {counted(int(lengths.sum()) + count, 'symbol|symbols')}"
        batch = f"of up to {pixels:,} pixels"
        return Plan(keys, amount, batch, "training.batch_pixels", steps_per_epoch, validation_cost=cost)

    def build(self, config: ImageToTextConfig, material: Material, *, name: str) -> ImageToText:
        return ImageToText.build(config, material.target, name=name)

    def trainee(self, model: ImageToText, material: Material) -> ImageTrainee:
        return ImageTrainee(model, material)

    def restore(self, config: ImageToTextConfig, folder: Path, *, name: str) -> ImageToText:
        return ImageToText.build(config, load_field(folder, "target"), name=name, published=False)


TASK = ImageToTextTask()
