"""All measures of the attention maps of captions, for each caption and all together, as text and as a table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.errors import RegardError, ShapeError
from regard.metrics.alignment import focus_rate, normalised_entropy
from regard.metrics.maps import Pointing, ink_share, map_divergence, pointing, read_cells
from regard.metrics.table import AbstractScores, Row, mean_of_known

IDENTICAL = 0.01
"""The divergence in bits below which maps count as independent of the word."""
MAPS = {"map_divergence": "divergence", "focus_rate": "focus_rate", "entropy": "entropy"}
INK = {"ink_share": "ink", "uniform_ink_share": "uniform_ink"}
"""The names of figures, and the attributes of `MeasuredMaps` that they are the means of."""
POINTING = {
    "pointing": "hit",
    "pointing_chance": "chance",
    "centre_pointing": "centre_hit",
    "centre_pointing_chance": "centre_chance",
    "weight_on_object": "weight",
}
"""The names of figures, and the attributes of `Pointing` that they are the means of."""


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class CaptionMaps:
    """The maps of a caption, with the boxes and the image that they are compared with.

    Args:
        id: the name of the picture.
        maps: (T, S) with a grid, or (T, h, w); a map for each word.
        grid: h and w, for maps (T, S).
        mask: (S,) or (h, w) bool, True at real cells; all if None.
        boxes: the boxes of each word, as in `pointing`; None to leave out pointing.
        image: of the area that the grid covers, as in `ink_share`; None to leave out the share of ink.
        size: height and width of the area that the grid covers, for the boxes; those of the image if None.
    """

    id: str
    maps: Any
    grid: tuple[int, int] | None = None
    mask: Any = None
    boxes: Sequence[Any] | None = None
    image: Any = None
    size: tuple[int, int] | None = None


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class MeasuredMaps:
    """The measures of a caption's maps; NaN or None without boxes or an image.

    Args:
        id: the name of the picture.
        num_words: T.
        divergence: `map_divergence`.
        focus_rate, entropy: `regard.metrics.focus_rate` and `normalised_entropy` of the real cells.
        pointing: of its words that name an object.
        ink, uniform_ink: `ink_share`, and that of uniform attention.
    """

    id: str
    num_words: int
    divergence: float
    focus_rate: float
    entropy: float
    pointing: Pointing | None = None
    ink: float = math.nan
    uniform_ink: float = math.nan


@dataclass(frozen=True, eq=False, slots=True)
class MapScores(AbstractScores):
    """The measures of captions: `print(scores)`, `scores.figures()`, and `scores.write(path)` for a table."""

    first_columns = ("id", "words")

    captions: Sequence[MeasuredMaps]

    @property
    def pointing(self) -> Pointing | None:
        """The pointing of all words that name an object; None if no caption has boxes."""
        parts = [one.pointing for one in self.captions if one.pointing is not None]
        return Pointing.joined(parts) if parts else None

    @property
    def are_identical(self) -> bool:
        """Whether the mean divergence is below 0.01 bits: maps do not depend on the word."""
        return self.figures()["map_divergence"] < IDENTICAL

    def figures(self) -> dict[str, float]:
        """The figures by the names of the table's columns: pointing over all words, others over captions.

        Those of pointing and ink are included if a caption has boxes or an image.
        """
        figures = {name: mean_of_known(getattr(one, of) for one in self.captions) for name, of in MAPS.items()}
        if (points := self.pointing) is not None:
            figures |= {name: points.mean(of) for name, of in POINTING.items()} | {"naming_words": len(points)}
        ink = {name: mean_of_known(getattr(one, of) for one in self.captions) for name, of in INK.items()}
        return figures | ({} if math.isnan(ink["ink_share"]) else ink)

    def rows(self) -> Iterator[Row]:
        for one in self.captions:
            yield {"id": one.id, "words": one.num_words, **MapScores([one]).figures()}

    def __str__(self) -> str:
        if not self.captions:
            return "no maps"
        figures = self.figures()
        divergence, focus, entropy = (figures[name] for name in ("map_divergence", "focus_rate", "entropy"))
        lines = [
            f"divergence of maps {_shown(divergence, '.3f', ' bits')}, focus {_shown(focus, '.2f')}, entropy "
            f"{_shown(entropy, '.0%')} ({len(self.captions):,} captions)"
        ]
        if self.are_identical:
            lines.append("  maps are IDENTICAL for all words of a caption: they follow from the picture only")
        if self.pointing is not None:
            lines.append(str(self.pointing))
        if "ink_share" in figures:
            lines.append(f"weight on ink {figures['ink_share']:.1%} (uniform {figures['uniform_ink_share']:.1%})")
        return "\n".join(lines)


def map_scores(captions: Iterable[CaptionMaps]) -> MapScores:
    """All measures of the maps of captions.

    Raises:
        ShapeError, RegardError: as the measures, with the name of the picture before the text.

    >>> maps = np.eye(4)[[1, 1, 2]]
    >>> caption = CaptionMaps(id="a.png", maps=maps, grid=(2, 2), boxes=[None, (5, 0, 8, 3), (5, 0, 8, 3)], size=(8, 8))
    >>> print(map_scores([caption]))  # doctest: +NORMALIZE_WHITESPACE
    divergence of maps 0.667 bits, focus 1.00, entropy 0% (1 captions)
    pointing 50.0% (chance 25.0%), by the centre of the cell 50.0% (chance 25.0%), weight on the object 50.0%
    (2 words)
    """
    return MapScores([_measure(caption) for caption in captions])


def _measure(caption: CaptionMaps) -> MeasuredMaps:
    where = {"grid": caption.grid, "mask": caption.mask}
    try:
        cells = read_cells(caption.maps, caption.grid, caption.mask, need_grid=False)
        points = None
        if caption.boxes is not None:
            size = caption.size
            if size is None:
                if caption.image is None:
                    raise ShapeError("boxes need the size of the picture, or an image.")
                size = np.shape(caption.image)[0], np.shape(caption.image)[1]
            points = pointing(caption.maps, caption.boxes, size=size, **where)
        ink = None if caption.image is None else ink_share(caption.maps, caption.image, **where)
    except RegardError as error:
        raise type(error)(f"{caption.id}: {error}") from None
    real = cells.weights[:, cells.is_real]
    return MeasuredMaps(
        id=caption.id,
        num_words=len(real),
        divergence=map_divergence(caption.maps, **where),
        focus_rate=focus_rate(real),
        entropy=normalised_entropy(real),
        pointing=points,
        ink=math.nan if ink is None else ink.share,
        uniform_ink=math.nan if ink is None else ink.uniform,
    )


def _shown(value: float, form: str, unit: str = "") -> str:
    return "–" if math.isnan(value) else f"{value:{form}}{unit}"
