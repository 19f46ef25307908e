"""Pictures with their references, and the figures of what was written about them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from regard.data import Pictures, caption_scores
from regard.errors import DataError
from regard.tasks.image_to_text.pixels import Image
from regard.tasks.writing.evaluation import Scored

MOST_ERRORS = 3
"""Rates of expressions are those with at most so many errors."""
CAPTION_FIGURES = ("bleu_1", "bleu_2", "bleu_3", "bleu_4", "rouge_l", "cider", "cider_d")


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """A picture of a table.

    Args:
        name: how messages and results show it.
        image: the picture; None if the entry cannot be read.
        reason: why it cannot be read.
    """

    name: str
    image: Image | None
    reason: str = ""

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, eq=False)
class PictureItem:
    """A picture with its references.

    Args:
        source: the picture.
        references: texts, distinct after normalisation.
        place: where it is from.
    """

    source: Entry
    references: tuple[str, ...]
    place: str


def entry_of(pictures: Pictures, index: int) -> Entry:
    """The picture with this index, without its texts."""
    try:
        picture = pictures.read(index)
    except DataError as error:
        return Entry(f"{pictures.path}: entry {index + 1}", None, str(error))
    return Entry(picture.id, picture.image)


def items_of(pictures: Pictures, normalise: Callable[[str], str]) -> list[PictureItem]:
    """The pictures of a table with their references; an entry that cannot be read counts as wrong."""
    items = []
    for index in range(len(pictures)):
        try:
            picture = pictures.read(index)
        except DataError:
            source = entry_of(pictures, index)
            items.append(PictureItem(source, ("?",), source.name))
            continue
        distinct = {normalise(text): text for text in reversed(picture.texts)}
        references = tuple(reversed(distinct.values()))
        items.append(PictureItem(Entry(picture.id, picture.image), references, picture.place))
    return items


def figures_of(scored: Sequence[Scored], *, captions: bool) -> Mapping[str, float]:
    """Shares of texts with at most 0 to 3 wrong symbols, and figures of captions.

    Args:
        captions: whether those of captions are computed even if no picture has several references.
    """
    count = max(len(scored), 1)
    figures = {"expression_rate": sum(entry.errors == 0 for entry in scored) / count}
    for most in range(1, MOST_ERRORS + 1):
        figures[f"expression_rate_{most}"] = sum(entry.errors <= most for entry in scored) / count
    if scored and (captions or any(len(entry.item.references) > 1 for entry in scored)):
        scores = caption_scores([e.prediction.text for e in scored], [list(e.item.references) for e in scored])
        figures |= {name: float(value) for name, value in scores.items() if isinstance(value, float)}
    return figures
