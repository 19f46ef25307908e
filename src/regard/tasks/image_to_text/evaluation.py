"""Texts of pictures, pictures with their references, and the figures of both."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.pictures import Pictures
from regard.data.text import Field
from regard.decoding import Prediction
from regard.errors import DataError
from regard.image import Strokes
from regard.metrics import MetricTerms, caption_scores, caption_terms, expression_rates, ratio_terms
from regard.runs.trained_items import DataItem, content
from regard.tasks.image_to_text.pixels import Image
from regard.tasks.text_generation.evaluation import Evaluation, Scored
from regard.tasks.text_generation.model import output_symbols
from regard.viz import plot_captioned_image
from regard.viz.notebook import embedded_page, shown_text


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class ImagePrediction(Prediction):
    """The text of a picture; `alignment` (T, S) has a column for each of its S = h · w cells, row by row.

    Args:
        image: (H, W, C) uint8, the picture as the encoder read it; None if it could not be read.
        grid: (h, w), rows and columns of cells.
        cell_size: the side of a cell in pixels.
        shift: the offset of the centre of a cell's receptive field from the centre of the cell, in pixels to the right
            and down.
        strokes: handwriting in pixels of `image`; None of a picture.
    """

    name: str = ""
    image: NDArray[np.uint8] | None = None
    grid: tuple[int, int] = (0, 0)
    cell_size: int = 1
    shift: float = 0.0
    strokes: Strokes | None = None

    def _repr_html_(self) -> str:
        """The picture with the map of every symbol and the text, for notebooks."""
        from regard.tasks.image_to_text.model import captioned

        if self.image is None or self.alignment is None:
            return shown_text(f"{self.name}: {self.text}", *self.warnings)
        return embedded_page(lambda path: plot_captioned_image([captioned(self)], path), f"{self.name}: {self.text}")

    @classmethod
    def of(cls, prediction: Prediction, **further: Any) -> ImagePrediction:
        """The prediction with the fields of its picture."""
        return cls(**{each.name: getattr(prediction, each.name) for each in fields(Prediction)}, **further)


EXPRESSION_FIGURES = {
    "expression_rate": "exact",
    "expression_rate_1": "within_1",
    "expression_rate_2": "within_2",
    "expression_rate_3": "within_3",
}
"""Metrics, with their names in `regard.metrics.expression_rates`."""
CAPTION_FIGURES = ("bleu_1", "bleu_2", "bleu_3", "bleu_4", "rouge_l", "cider", "cider_d")


@dataclass(frozen=True, slots=True, eq=False)
class PictureEntry:
    """A picture of a table.

    Args:
        image: the picture; None if the entry cannot be read.
    """

    name: str
    image: Image | None
    reason: str = ""

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, eq=False)
class PictureItem:
    """A picture with its references."""

    source: PictureEntry
    references: tuple[str, ...]
    place: str


def entry_of(pictures: Pictures, index: int) -> PictureEntry:
    """The picture with this index, without its texts."""
    try:
        picture = pictures.read(index)
    except DataError as error:
        return PictureEntry(f"{pictures.path}: entry {index + 1}", None, str(error))
    return PictureEntry(picture.id, picture.image)


def items_of(pictures: Pictures, normalise: Callable[[str], str]) -> list[PictureItem]:
    """The pictures of a table with their references; an entry that cannot be read counts as wrong."""
    items = []
    for index in range(len(pictures)):
        try:
            picture = pictures.read(index)
        except DataError:
            source = entry_of(pictures, index)
            items.append(PictureItem(source, _distinct(_known_texts(pictures, index), normalise), source.name))
            continue
        references = _distinct(picture.texts, normalise)
        items.append(PictureItem(PictureEntry(picture.id, picture.image), references, picture.place))
    return items


def data_items(items: Iterable[PictureItem], normalise: Callable[[str], str] = str) -> Iterator[DataItem]:
    """Pictures as items of the record of trained items: the content of their files, or their strokes, and the texts."""
    for item in items:
        image = item.source.image
        if isinstance(image, Strokes):
            identity = " ".join(hashlib.blake2b(line.tobytes(), digest_size=8).hexdigest() for line in image.lines)
        elif isinstance(image, Path):
            identity = content(image)
        else:
            continue
        yield DataItem(item.place, identity, tuple(map(normalise, item.references)))


def _known_texts(pictures: Pictures, index: int) -> tuple[str, ...]:
    """The texts of an entry whose picture cannot be read; a question mark if they are unreadable, too."""
    try:
        return pictures.texts(index)
    except DataError:
        return ("?",)


def _distinct(texts: Sequence[str], normalise: Callable[[str], str]) -> tuple[str, ...]:
    """The first text of each normalised form, in order."""
    first: dict[str, str] = {}
    for text in texts:
        first.setdefault(normalise(text), text)
    return tuple(first.values())


def figures_of(scored: Sequence[Scored], target: Field, *, captions: bool) -> Mapping[str, float]:
    """Shares of texts with at most 0 to 3 wrong symbols, and figures of captions; empty without texts.

    Args:
        target: the field of the texts, which normalises references as outputs.
        captions: whether figures of captions are computed even if no picture has several references.
    """
    if not scored:
        return {}
    references = [[target.split(text) for text in entry.item.references] for entry in scored]
    rates: Mapping[str, Any] = expression_rates([output_symbols(entry.prediction) for entry in scored], references)
    figures: dict[str, float] = {name: rates[rate] for name, rate in EXPRESSION_FIGURES.items()}
    if captions or any(len(entry.item.references) > 1 for entry in scored):
        texts = [list(map(target.normalisation, entry.item.references)) for entry in scored]
        scores = caption_scores([entry.prediction.text for entry in scored], texts)
        figures |= {name: float(value) for name, value in scores.items() if isinstance(value, float)}
    return figures


def terms_of(evaluation: Evaluation, target: Field) -> Mapping[str, MetricTerms]:
    """What each picture adds to the figures of `figures_of`."""
    scored = evaluation.scored
    errors = np.array([entry.errors for entry in scored])
    terms = {
        name: ratio_terms(errors <= most, larger_is_better=True, is_share=True)
        for most, name in enumerate(EXPRESSION_FIGURES)
    }
    if "cider" in evaluation.further:
        texts = [list(map(target.normalisation, entry.item.references)) for entry in scored]
        terms |= caption_terms([entry.prediction.text for entry in scored], texts)
    return terms
