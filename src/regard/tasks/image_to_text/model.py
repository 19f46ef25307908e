"""Image to text: a trained model with everything that prediction needs."""

from __future__ import annotations

import json
import operator
import os
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal
from zlib import crc32

import numpy as np
import torch
from numpy.typing import NDArray

from regard.config.search import Search
from regard.data import text_file
from regard.data.csv_fields import csv_line
from regard.data.pictures import Picture, Pictures
from regard.data.pictures.tables import SUFFIXES, is_divided
from regard.data.text import Field, Vocabulary
from regard.decoding import Prediction, SearchSource
from regard.errors import ConfigError, DataError, UnsupportedError
from regard.image import Strokes, image_size, pad_images, read_image, read_inkml
from regard.image.read import is_pillow
from regard.metrics import CaptionMaps, MetricTerms, map_scores
from regard.metrics.translation import Metric, scorer_of
from regard.models import EncoderDecoder
from regard.models.vision import ImageEncoder, LearnedPlanePositions
from regard.runs.calibration import Stated
from regard.runs.contract import STATED, shown_json
from regard.runs.given import of_data
from regard.runs.trained_items import DataItem
from regard.tasks.image_to_text.batches import in_batches
from regard.tasks.image_to_text.build import build_model
from regard.tasks.image_to_text.config import CaptionDecodingConfig, ImageToTextConfig
from regard.tasks.image_to_text.evaluation import (
    CAPTION_FIGURES,
    ImagePrediction,
    PictureEntry,
    PictureItem,
    data_items,
    entry_of,
    figures_of,
    items_of,
    terms_of,
)
from regard.tasks.image_to_text.maps import PlacedWords, map_figures
from regard.tasks.image_to_text.pixels import Image, PictureReader
from regard.tasks.image_to_text.reading import open_table
from regard.tasks.text_generation.directions import different_directions
from regard.tasks.text_generation.ensembles import differences_of_fields
from regard.tasks.text_generation.evaluation import Evaluation, Scored
from regard.tasks.text_generation.model import AbstractWriter, size_of_field
from regard.tasks.text_generation.source import EncodedSources, InputSource, Spelling
from regard.viz import CaptionedImage, plot_captioned_image, plot_strokes
from regard.viz.captions import png_uri
from regard.viz.files import PICTURES, numbered_files, suffix_of

KEPT_BYTES = 1 << 30
"""Bytes of the pictures of a call that stay in memory; further pictures are read again when they are encoded."""
MOST_SENT = 25_000_000
"""The most pixels of a picture that a server gets."""
MOST_MAPS = 512
"""Pictures whose maps are in memory at once in an evaluation."""
ALL_IN_ONE = (".html", ".pdf")
"""Suffixes of files that show any number of pictures."""
TABLES = (*SUFFIXES, ".txt")
BLANKS = dict.fromkeys(map(ord, "\t\r\n"), " ")
READ_DIFFERENTLY = "pictures: they are read differently (data.image)"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ImageSource(InputSource):
    """A picture as it is read.

    Args:
        shape: (H, W) of the encoder's input; (0, 0) if the picture cannot be read.
        values: (C, H, W), the encoder's input; None if it is read again when it is encoded.
    """

    image: Image | None
    shape: tuple[int, int] = (0, 0)
    values: NDArray[np.float32] | None = None


@dataclass(eq=False, repr=False)
class ImageToText(AbstractWriter[ImageToTextConfig, ImageSource]):
    """A model that writes texts about pictures or handwriting.

    An input is the path of a picture or of an InkML file, the content of the file of a picture, `Strokes`, a picture
    (H, W, C) uint8, or a `Picture` of a table.
    """

    config: ImageToTextConfig
    target: Field
    module: EncoderDecoder
    reader: PictureReader = field(init=False)
    """Turns pictures into inputs of the encoder."""

    output_column = 1
    input_kind = "file"
    most_inputs = 512
    formats = ("tsv", "jsonl", "text", "csv")
    assets = ("target.json", "target.model")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.reader = reader_of(self.config)

    @classmethod
    def build(
        cls, config: ImageToTextConfig, target: Field, *, name: str = "model", published: bool = True
    ) -> ImageToText:
        """An untrained model; its weights are drawn from torch's global generator.

        Args:
            published: whether published weights are read where the configuration names some.
        """
        module = build_model(
            config.model,
            num_channels=reader_of(config).fitting.num_channels,
            num_target=len(target.vocabulary),
            max_length=config.data.max_length,
            published=published,
        )
        return cls(config, module, target, name=name)

    def save_assets(self, folder: Path) -> None:
        self.target.save(folder, "target")

    def vocabularies(self) -> Mapping[str, tuple[str, Vocabulary]]:
        return {"target": ("decoder.", self.target.vocabulary)}

    def unlike(self, other: ImageToText) -> Sequence[str]:
        lines = [READ_DIFFERENTLY] * (self.reader != other.reader)
        if self.target.normalisation != other.target.normalisation:
            saved = other.target.normalisation
            lines.append(f"target: its texts were normalised differently ({saved}), which is not copied")
        return lines

    def sources(self, inputs: Sequence[Any], decoding: CaptionDecodingConfig | None = None) -> list[ImageSource]:
        if isinstance(inputs, str | bytes | Path | Strokes | np.ndarray) or not isinstance(inputs, Sequence):
            raise TypeError(f"predict takes a list of pictures, as in predict([picture]); got {type(inputs).__name__}.")
        sources, num_bytes = [], 0
        for number, given in enumerate(inputs, start=1):
            source = self._source(given, number, keeps=num_bytes < KEPT_BYTES)
            num_bytes += 0 if source.values is None else source.values.nbytes
            sources.append(source)
        return sources

    def lengths(
        self, sources: Sequence[ImageSource], decoding: CaptionDecodingConfig
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        most = decoding.max_length or self.config.data.max_length
        return np.full(len(sources), decoding.min_length, np.int64), np.full(len(sources), most, np.int64)

    def batches(
        self, sources: Sequence[ImageSource], decoding: CaptionDecodingConfig, *, in_order: bool = False
    ) -> Iterator[NDArray[np.int64]]:
        """Batches of at most `decoding.batch_pixels` pixels, of similar size."""
        shapes = np.array([source.shape for source in sources], dtype=np.int64).reshape(-1, 2)
        return in_batches(shapes, decoding.batch_pixels, in_order=in_order)

    def encode(self, sources: Sequence[ImageSource]) -> EncodedSources:
        values = [self._values(source) for source in sources]
        images, mask = pad_images(values)
        real = torch.from_numpy(mask).to(self.device)
        encoder = self.module.encoder
        with torch.inference_mode():
            encoded = encoder.encode(torch.from_numpy(images).to(self.device), None if mask.all() else real)
            memory = self.module.decoder.prepare(encoded)
        first = encoded[0] if isinstance(encoded, tuple) else encoded
        grids = [self.grid(source.shape) for source in sources]
        positions = [(torch.arange(h)[:, None] * first.grid[1] + torch.arange(w)).flatten() for h, w in grids]
        cells = None if first.mask is None else first.mask.cpu()
        return EncodedSources(memory, SearchSource(None, cells), positions)

    def grid(self, shape: tuple[int, int]) -> tuple[int, int]:
        """(h, w), rows and columns of cells of a picture of (H, W) pixels."""
        return -(-shape[0] // self.stride), -(-shape[1] // self.stride)

    @property
    def stride(self) -> int:
        """The side of a cell in pixels."""
        first: ImageEncoder = self._encoders[0]
        return first.stride

    def check_grid(self, grid: tuple[int, int], *, place: str = "") -> None:
        """Refuses a picture with more cells than learned positions."""
        for encoder in self._encoders:
            positions = encoder.positions
            if isinstance(positions, LearnedPlanePositions) and any(map(operator.gt, grid, positions.max_grid)):
                most = " × ".join(map(str, positions.max_grid))
                raise DataError(
                    f"{place and f'{place}: '}the picture has {grid[0]} × {grid[1]} cells of {self.stride} pixels "
                    f"(rows × columns), but positions are learned for {most}; sinusoidal ones have no such limit"
                )

    @property
    def _encoders(self) -> Any:
        """The encoder, or those of an ensemble."""
        encoder = self.module.encoder
        return getattr(encoder, "members", [encoder])

    def differences(self, other: ImageToText) -> Sequence[str]:
        lines = [f"target: {line}" for line in differences_of_fields(self.target, other.target)]
        lines += different_directions([self, other])
        if self.reader != other.reader:
            lines.append(READ_DIFFERENTLY)
        if self.stride != other.stride:
            lines.append(f"cells: {self.stride} and {other.stride} pixels wide")
        return lines

    def completed(self, prediction: Prediction, source: ImageSource) -> ImagePrediction:
        image = strokes = None
        if source.size and prediction.alignment is not None:
            assert source.image is not None
            image, strokes = self.reader.picture(self._values(source)), self.reader.strokes(source.image)
        return ImagePrediction.of(
            prediction,
            name=source.name,
            image=image,
            grid=self.grid(source.shape),
            cell_size=self.stride,
            shift=self._encoders[0].shift,
            strokes=strokes,
        )

    def read(self, argument: str) -> Path:
        return Path(argument)

    def from_json(self, value: Any) -> bytes | Strokes:
        """A picture `{"image": base64}`, or handwriting `{"strokes": [[[x, y], …], …]}`."""
        if not isinstance(value, dict) or len(value) != 1 or not {"image", "strokes"} & value.keys():
            raise DataError(f'expected {{"image": …}} or {{"strokes": …}}; got {shown_json(value)}.')
        if "strokes" in value:
            return Strokes.of(value["strokes"], place="strokes")
        try:
            content = b64decode(value["image"], validate=True)
        except (TypeError, ValueError):
            raise DataError(f"image: expected a picture in base64; got {shown_json(value['image'])}.") from None
        height, width = image_size(content)
        if height * width > MOST_SENT:
            raise DataError(f"image: {width:,} × {height:,} pixels; at most {MOST_SENT:,} are read. Make it smaller.")
        return content

    def input_schema(self) -> dict[str, Any]:
        point = {"type": "array", "items": {"type": "number"}, "minItems": 2}
        strokes = {"type": "array", "items": {"type": "array", "items": point, "minItems": 1}, "minItems": 1}
        image = {"type": "string", "contentEncoding": "base64"}
        return {
            "anyOf": [
                {"type": "object", "properties": {name: form}, "required": [name], "additionalProperties": False}
                for name, form in (("image", image), ("strokes", strokes))
            ]
        }

    def inputs(self, argument: str) -> Iterator[tuple[str, Any]]:
        """The pictures of a command-line argument with their names: one, or those of a table or folder."""
        path = Path(argument)
        if not (path.is_dir() or text_file.suffix_of(path) in TABLES):
            yield argument, self.read(argument)
            return
        pictures = open_table(self.config, path, with_texts=False)
        for index in range(len(pictures)):
            entry = entry_of(pictures, index)
            yield entry.name, entry

    def check_trained(self, *paths: Path | str) -> None:
        """Refuses files on which the model was trained, except those with a part that it has not seen."""
        super().check_trained(*(path for path in paths if not is_divided(path)))

    @of_data
    def evaluate(
        self,
        path: Path | str,
        *,
        source_field: str | int | Sequence[str | int] | None = None,
        target_field: str | int | None = None,
        metrics: Sequence[Metric] | None = None,
        tokenize: str | None = None,
        search: Search | None = None,
        boxes: Path | str | None = None,
    ) -> Evaluation:
        """Compares free-running outputs for the pictures of a table with their texts, which are references.

        Args:
            path: a table like that of the training, or a folder; of a file that divides its pictures, such as
                Karpathy's, the part `test`.
            source_field, target_field: columns or fields of the picture and its text; those of the training if None.
            metrics: metrics of all outputs together: `bleu`, `chrf` by sacrebleu. If None, both if outputs are
                sentences (units `word` or `sentencepiece`) and sacrebleu is installed.
            tokenize: how BLEU splits texts into words; with it alone, `metrics` is `bleu`.
            search: as in `predict`.
            boxes: a file of boxes of the objects in the pictures (`regard.data.pictures.read_boxes`), with which the
                maps of the outputs are compared. Words that output and file have in common count.

        Raises:
            DataError: for a file without pictures or that the model was trained on, or boxes of other pictures.
            UnsupportedError: for boxes if the model has no maps.
        """
        self.check_trained_together(self._search_settings(search), path)
        if source_field is not None and not isinstance(source_field, str | int):
            if len(source_field) != 1:
                raise ConfigError(f"source_field: {', '.join(map(str, source_field))}: a picture has one column.")
            (source_field,) = source_field
        fields: dict[str, Any] = {"image_field": source_field, "text_field": target_field}
        pictures = open_table(self.config, Path(path), part="test", **fields)
        if metrics is None:
            metrics = self.automatic_metrics(tokenize)
        items = self.items(pictures)
        if boxes is None:
            return self.evaluate_items(items, metrics=metrics, tokenize=tokenize, search=search)
        for name in metrics:
            scorer_of(name, tokenize=tokenize)  # raises before anything is decoded
        places = PlacedWords.read(Path(boxes), [item.source for item in items], self.reader, self.target)
        predictions: list[Prediction] = []
        scores = map_scores(self._maps(items, places, predictions, search))
        evaluation = self.evaluation(items, predictions, metrics=metrics, tokenize=tokenize)
        return replace(evaluation, further={**evaluation.further, **map_figures(scores)})

    def evaluated_items(self, evaluation: Evaluation, path: Path | str) -> Iterator[DataItem]:
        items: Iterator[Any] = (entry.item for entry in evaluation.scored)
        return data_items(items, self.target.normalisation)

    def _maps(
        self,
        items: Sequence[PictureItem],
        places: PlacedWords,
        predictions: list[Prediction],
        search: Search | None,
    ) -> Iterator[CaptionMaps]:
        """The maps of pictures, of few at a time to save memory; appends the predictions without maps."""
        for start in range(0, len(items), MOST_MAPS):
            some = items[start : start + MOST_MAPS]
            for item, prediction in zip(some, self.predict([item.source for item in some], search=search), strict=True):
                if isinstance(prediction, ImagePrediction) and prediction.image is not None:
                    maps = places.maps(item.source, prediction)
                    if len(maps.maps):
                        yield maps
                elif prediction.alignment is None and not prediction.warnings:
                    raise UnsupportedError(
                        f"{self.name} has no attention over pictures, so there are no maps to compare with boxes."
                    )
                predictions.append(
                    replace(prediction, alignment=None, alignments={}, image=None, strokes=None, alternatives=())
                    if isinstance(prediction, ImagePrediction)
                    else prediction
                )

    def training_data(self, material: Any) -> Pictures:
        pictures: Pictures = material.train.pictures
        return pictures

    def items(self, pictures: Pictures) -> list[PictureItem]:
        """The pictures of a table with their references."""
        return items_of(pictures, self.target.normalisation)

    def further_figures(self, scored: Sequence[Scored]) -> Mapping[str, float]:
        return figures_of(scored, self.target, captions=self.config.select in CAPTION_FIGURES)

    def further_terms(self, evaluation: Evaluation) -> Mapping[str, MetricTerms]:
        return terms_of(evaluation, self.target)

    def rows(self, prediction: Prediction, *, scores: bool = False) -> Sequence[Sequence[str]]:
        """A row for each output, with the name of the picture first."""
        name = prediction.name if isinstance(prediction, ImagePrediction) else ""
        return [(name, *row) for row in super().rows(prediction, scores=scores)]

    def record(self, prediction: Prediction) -> dict[str, Any]:
        """Picture, text, tokens, score, log-probability and, if it has one, alignment with the grid of its cells."""
        record = prediction.record()
        record.pop("source_tokens", None)
        if not isinstance(prediction, ImagePrediction):
            return record
        shape = {"grid": list(prediction.grid), "cell_size": prediction.cell_size} if "alignment" in record else {}
        return {"image": prediction.name, **record, **shape}

    def lines(
        self,
        predictions: Sequence[Any],
        format: str,
        *,
        scores: bool = False,
        alignments: bool = False,
        stated: Stated = STATED,
    ) -> Iterable[str]:
        """The texts of pictures, in lines of picture, tab and text."""
        if alignments and format != "jsonl":
            raise UnsupportedError(f"{format} has no room for weights: use jsonl.")
        for prediction in predictions:
            if format == "jsonl":
                yield json.dumps(self.stated_record(prediction, stated), ensure_ascii=False, allow_nan=False)
                continue
            for name, *row in self.stated_rows(prediction, stated, scores=scores):
                columns = row if format == "text" else [name, *row]
                yield csv_line(columns) if format == "csv" else "\t".join(each.translate(BLANKS) for each in columns)

    def heading(self, format: str, *, scores: bool = False, stated: Stated = STATED) -> Sequence[str]:
        count = 2 if scores or self._search_settings(None).num_best > 1 else 1
        names = ["image", *self.column_names[:count], *["confidence"] * stated.shown]
        return [csv_line(names)] if format == "csv" else ()

    def views(self, prediction: ImagePrediction) -> Mapping[str, Mapping[str, Any]]:  # type: ignore[override]
        """The alignments, whose columns are named by row and column of their cells, from 1."""
        height, width = prediction.grid
        cells = [f"{row}, {column}" for row in range(1, height + 1) for column in range(1, width + 1)]
        return super().views(replace(prediction, source_tokens=cells))

    def details(self, prediction: ImagePrediction) -> dict[str, Any]:
        """The views, and the picture as the encoder reads it with its rows and columns of cells."""
        details = super().details(prediction)
        if prediction.alignment is None or prediction.image is None:
            return details
        height, width = prediction.image.shape[:2]
        facts = {"height": height, "width": width, "grid": list(prediction.grid), "cell": prediction.cell_size}
        return {**details, "picture": {"image": png_uri(prediction.image), **facts, "shift": prediction.shift}}

    def plot(
        self,
        predictions: Sequence[Prediction],
        path: Path,
        *,
        title: str = "",
        highest: Literal["largest"] | float | None = None,
        end_symbol: bool = True,
        cells: bool = False,
        strokes: bool = False,
    ) -> Sequence[Path]:
        """Draws for each symbol its map over the picture (`regard.viz.plot_captioned_image`), or the strokes.

        Args:
            highest: the weight of the strongest colour; None: the largest of each symbol.
            end_symbol: whether the end symbol has a map.
            cells: whether maps are drawn as rectangles, not smoothly between the centres of cells.
            strokes: whether handwriting is drawn in the colours of the symbols that attended to each stroke, in place
                of maps (`regard.viz.plot_strokes`).

        Raises:
            UnsupportedError: for `strokes` of a picture without strokes, or together with `highest` or `cells`, which
                are options of maps.
        """
        read = [prediction for prediction in predictions if isinstance(prediction, ImagePrediction)]
        if strokes:
            if cells or highest is not None:
                name = "cells" if cells else "highest"
                raise UnsupportedError(f"{name} is an option of maps, and strokes draws none: leave one of them out.")
            return _plot_strokes(read, path, title=title, end_symbol=end_symbol)
        shown = list(map(captioned, read))
        options: dict[str, Any] = {"end_symbol": end_symbol, "highest": "word" if highest is None else highest}
        options["smooth"] = not cells
        if path.suffix.lower() in ALL_IN_ONE or len(shown) == 1:
            return [plot_captioned_image(shown, path, title=title or None, **options)]
        files = numbered_files(path, len(shown))
        return [plot_captioned_image(item, file, **options) for item, file in zip(shown, files, strict=True)]

    def description(self) -> dict[str, Any]:
        return {
            "cells": f"{self.stride} × {self.stride} pixels",
            "target": size_of_field(self.target, self.config.data.target.units),
        }

    def _source(self, given: Any, number: int, *, keeps: bool) -> ImageSource:
        common: dict[str, Any] = {"spelling": Spelling.of(self.target), "columns": []}
        image, name = given, f"input {number}"
        reports: list[str] = []
        try:
            if isinstance(given, PictureEntry | Picture):
                image, name = given.image, given.name if isinstance(given, PictureEntry) else given.id
            elif isinstance(given, str | os.PathLike):
                image, name = Path(given), str(given)
                if image.suffix.lower() == ".inkml":
                    image = read_inkml(image)
            elif isinstance(given, Strokes):
                name = given.place or name
            elif isinstance(given, bytes) or is_pillow(given):
                options: dict[str, Any] = {"colour": self.reader.fitting.colour, "report": reports.append}
                image = read_image(given, max_pixels=self.reader.max_file_pixels, **options)
                name = getattr(given, "filename", "") or name
            elif not isinstance(given, np.ndarray):
                kinds = "paths, contents of files, strokes, arrays or pictures of Pillow"
                raise TypeError(f"predict takes pictures: {kinds}; got a {type(given).__name__}.")
            if image is None:
                raise DataError(given.reason)
            values = self.reader(image, report=reports.append)
            self.check_grid(self.grid((values.shape[1], values.shape[2])))
        except DataError as error:
            return ImageSource(
                name=name, size=0, content=np.zeros(0, np.int64), image=None, warnings=(str(error),), **common
            )
        shape = values.shape[1:]
        content = np.array([crc32(values.tobytes())], np.int64)
        return ImageSource(
            name=name,
            size=int(np.prod(shape)),
            content=content,
            image=image,
            shape=(shape[0], shape[1]),
            values=values if keeps else None,
            warnings=tuple(reports),
            **common,
        )

    def _values(self, source: ImageSource) -> NDArray[np.float32]:
        """The encoder's input for a readable picture."""
        if source.values is not None:
            return source.values
        assert source.image is not None
        return self.reader(source.image)


def captioned(prediction: ImagePrediction) -> CaptionedImage:
    """A prediction in the form in which it is drawn."""
    return CaptionedImage(
        prediction.image,
        prediction.tokens,
        prediction.alignment,
        grid=prediction.grid,
        cell_size=prediction.cell_size,
        shift=prediction.shift,
        text=prediction.text,
        note="; ".join(prediction.warnings),
    )


def _plot_strokes(
    predictions: Sequence[ImagePrediction], path: Path, *, title: str, end_symbol: bool
) -> Sequence[Path]:
    """Draws the strokes of each prediction into a file of its own."""
    suffix_of(path, PICTURES)
    drawn = []
    for prediction in predictions:
        if prediction.strokes is None:
            raise UnsupportedError(
                f"{prediction.name}: no strokes are known of a picture, only of InkML and of tables with strokes."
            )
        item = captioned(prediction)
        drawn.append((prediction.strokes, item if end_symbol else item.without_end()))
    if len(drawn) == 1:
        return [plot_strokes(*drawn[0], path, title=title or None)]
    return [plot_strokes(*each, file) for each, file in zip(drawn, numbered_files(path, len(drawn)), strict=True)]


def reader_of(config: ImageToTextConfig) -> PictureReader:
    """The reader of a configuration's pictures.

    Raises:
        ConfigError: for options that contradict each other.
    """
    encoder = config.model.encoder
    pretrained = bool(getattr(encoder, "weights", None) or getattr(encoder, "pretrained", False))
    return PictureReader.of(config.data.image, pretrained=pretrained)
