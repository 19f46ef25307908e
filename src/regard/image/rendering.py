"""Drawing strokes into pictures."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from regard.errors import RegardError
from regard.image.fitting import Fitting
from regard.image.lines import draw_lines
from regard.image.strokes import Strokes


@dataclass(frozen=True, slots=True)
class Placement:
    """The map from strokes to pixels of their picture: (point - origin) · scale + corner.

    Args:
        height, width: of the picture, in pixels.
        scale: pixels for each unit of the strokes.
        origin: x and y of the left and upper end of the ink, in units of the strokes.
        corner: the pixel of the origin.
    """

    height: int
    width: int
    scale: float
    origin: tuple[float, float]
    corner: tuple[float, float]

    def apply(self, points: NDArray[np.floating]) -> NDArray[np.float32]:
        """The pixels (…, 2) of points (…, 2), x and y; the centre of the first pixel is (0.5, 0.5)."""
        moved = (np.asarray(points, dtype=np.float64) - self.origin) * self.scale + self.corner
        return moved.astype(np.float32)


@dataclass(frozen=True, slots=True)
class Rendering:
    """Draws strokes as pictures of the size of the ink and its margin.

    A typical symbol is `unit` pixels high, so that short and long formulas have symbols of the same size.

    Args:
        unit: pixels of a symbol's typical height (`Strokes.typical_size`).
        pen: the pen's width in pixels.
        margin: white around the ink in pixels: one number, or left, top, right and bottom.
        max_pixels: the most pixels of a picture; larger ones are scaled down, with the same pen.

    Raises:
        RegardError: for sizes that are not positive, or a picture without room for ink.

    >>> Rendering(unit=20).draw(Strokes.of([[0, 0, 100, 100], [100, 0, 0, 100]])).shape
    (30, 30, 1)
    """

    unit: float = 24.0
    pen: float = 2.0
    margin: float | tuple[float, float, float, float] = 4.0
    max_pixels: int = 1_000_000

    def __post_init__(self) -> None:
        for name in ("unit", "pen"):
            if not (getattr(self, name) > 0 and math.isfinite(getattr(self, name))):
                raise RegardError(f"{name} must be above 0 pixels; got {getattr(self, name)}.")
        if not all(each >= 0 and math.isfinite(each) for each in self.margins):
            raise RegardError(f"margin must be at least 0 pixels; got {self.margin}.")
        smallest = math.prod(size + 2 for size in self._paper)
        if self.max_pixels < smallest:
            raise RegardError(
                f"max_pixels={self.max_pixels} has no room for ink: margin and pen need {math.ceil(smallest):,} pixels."
            )

    @property
    def margins(self) -> tuple[float, float, float, float]:
        """Left, top, right and bottom."""
        return self.margin if isinstance(self.margin, tuple) else (self.margin,) * 4

    @property
    def _paper(self) -> tuple[float, float]:
        """Width and height of the picture of a single point."""
        left, top, right, bottom = self.margins
        return left + right + self.pen, top + bottom + self.pen

    def place(self, strokes: Strokes) -> Placement:
        """Size and scale of the picture of some strokes."""
        left, top, right, bottom = strokes.bounds
        width, height = right - left, bottom - top
        typical = strokes.typical_size
        scale = self.unit / typical if typical > 0 else 1.0
        across, down = self._paper
        if (scale * width + across + 1) * (scale * height + down + 1) > self.max_pixels:
            # (w s + a) (h s + d) = max_pixels for s, with a pixel of each side for rounding up
            a, d = across + 1, down + 1
            linear, rest = width * d + height * a, self.max_pixels - a * d
            # the root without cancellation, also for strokes without width or height
            scale = 2 * rest / (linear + math.sqrt(linear * linear + 4 * width * height * rest))
        return Placement(
            math.ceil(scale * height + down),
            math.ceil(scale * width + across),
            scale,
            (left, top),
            (self.margins[0] + self.pen / 2, self.margins[1] + self.pen / 2),
        )

    def draw(self, strokes: Strokes) -> NDArray[np.uint8]:
        """The picture, (H, W, 1) uint8, black on white: antialiased straight lines between points, by a round pen."""
        placement = self.place(strokes)
        ink = draw_lines(_segments(strokes, placement), placement.height, placement.width, pen=self.pen).numpy()
        # 255 - round(255 c), in place
        np.multiply(ink, -255, out=ink)
        np.add(ink, 255.5, out=ink)
        return ink.astype(np.uint8)[..., None]


def pixel_strokes(strokes: Strokes, rendering: Rendering | None = None, fitting: Fitting | None = None) -> Strokes:
    """The strokes in pixels of a network's input, to relate them to the cells of its grid.

    Args:
        strokes: in their own unit.
        rendering: `Rendering()` if None.
        fitting: of the picture to the input; none if None.

    Raises:
        DataError: for a picture that is too small for the fitting.

    >>> strokes = Strokes.of([[0, 0, 100, 100]])
    >>> pixel_strokes(strokes, Rendering(unit=20, pen=2, margin=4)).lines[0].tolist()
    [[5.0, 5.0], [25.0, 25.0]]
    """
    placement = (rendering or Rendering()).place(strokes)
    lines = [placement.apply(line) for line in strokes.lines]
    if fitting is None:
        return strokes.mapped(lines)
    size = placement.height, placement.width
    frame = fitting.frame(*size, place=strokes.place)
    return strokes.mapped(frame.apply(line, *size) for line in lines)


def _segments(strokes: Strokes, placement: Placement) -> torch.Tensor:
    """x and y of both ends of the segments of strokes (segments, 4), in pixels, with a segment for a single point."""
    points = placement.apply(np.concatenate(strokes.lines))
    lengths = np.array([len(line) for line in strokes.lines])
    ends = np.cumsum(lengths)
    starts = np.ones(len(points), dtype=bool)
    starts[ends - 1] = lengths == 1
    first = np.flatnonzero(starts)
    last = np.minimum(first + 1, np.repeat(ends - 1, lengths)[first])
    return torch.from_numpy(np.concatenate([points[first], points[last]], axis=1))
