"""Random variations of pictures and strokes in every epoch."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from regard.errors import RegardError, ShapeError
from regard.image.strokes import Strokes

if TYPE_CHECKING:
    from regard.image.rendering import Rendering

Fill = Literal["paper", "edge"]
WAVES = 8  # plane waves of an elastic distortion, enough to look irregular


def item_generator(seed: int, epoch: int, item: int) -> np.random.Generator:
    """A generator that depends only on the seed, the epoch and the item.

    So resumed runs, several processes and another order of batches do not change the variations.

    Args:
        seed: of the training, at least 0.
        epoch: at least 0.
        item: the item's index in the table.

    >>> item_generator(1, 2, 3).random() == item_generator(1, 2, 3).random()
    True
    """
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(epoch, item))))


@dataclass(frozen=True, slots=True)
class StrokeAugmentation:
    """Variations of strokes: shift, scale, slant, rotation, pen, elastic distortion and jitter.

    Every number is the largest change; 0 means no change. A number f of `scale`, `stretch` or `pen` means a factor from
    1 / (1 + f) to 1 + f with a uniform logarithm; others are uniform between minus and plus the number.

    Args:
        shift: of the ink, in pixels, by which the picture grows on one side.
        scale: of the size of symbols.
        stretch: of the width, while the height changes inversely.
        slant: columns to the right for each row upwards.
        rotation: in degrees.
        pen: of the pen's width.
        elastic: standard deviation of the shift of points, in each direction, as a share of a typical symbol's size
            (elastic distortion: Simard, Steinkraus and Platt 2003). The shift is a sum of plane waves, 2 to 8 symbols
            long, so that neighbouring points move alike.
        jitter: standard deviations of the shift of each stroke, as a share of a typical symbol's size, and of the
            logarithm of its scale about its middle.

    Raises:
        RegardError: for a number that is negative or not finite.

    >>> strokes = Strokes.of([[0, 0, 0, 10], [0, 10, 10, 10]])
    >>> augmentation = StrokeAugmentation(slant=0.3)
    >>> slanted = augmentation.write(strokes, item_generator(0, 0, 0))
    >>> [line.shape for line in slanted.lines]
    [(2, 2), (2, 2)]
    """

    shift: float = 0.0
    scale: float = 0.0
    stretch: float = 0.0
    slant: float = 0.0
    rotation: float = 0.0
    pen: float = 0.0
    elastic: float = 0.0
    jitter: float = 0.0

    def __post_init__(self) -> None:
        _check(self)

    def __call__(
        self, strokes: Strokes, rendering: Rendering, generator: np.random.Generator
    ) -> tuple[Strokes, Rendering]:
        """Varied strokes and their rendering; `rendering.draw(strokes)` is the picture.

        Args:
            rendering: of the original strokes.
            generator: of this item in this epoch (`item_generator`).
        """
        across, down = generator.uniform(-self.shift, self.shift, 2).tolist()
        left, top, right, bottom = rendering.margins
        margin = (left + max(across, 0), top + max(down, 0), right + max(-across, 0), bottom + max(-down, 0))
        drawn = dataclasses.replace(
            rendering,
            margin=margin if self.shift else rendering.margin,
            unit=rendering.unit * _factor(self.scale, generator),
            pen=rendering.pen * _factor(self.pen, generator),
        )
        return self.write(strokes, generator), drawn

    def write(self, strokes: Strokes, generator: np.random.Generator) -> Strokes:
        """The strokes stretched, slanted and rotated about their middle, then distorted, then jittered."""
        factor = _factor(self.stretch, generator)
        slant = generator.uniform(-self.slant, self.slant)
        turn = math.radians(generator.uniform(-self.rotation, self.rotation))
        cos, sin = math.cos(turn), math.sin(turn)
        # for columns (x, y), y down: a slant moves upper points to the right
        matrix = (
            np.array([[cos, -sin], [sin, cos]]) @ np.array([[1, -slant], [0, 1]]) @ np.diag([factor, 1 / factor])
        ).T
        left, top, right, bottom = strokes.bounds
        middle = np.array([(left + right) / 2, (top + bottom) / 2])
        points = (np.concatenate(strokes.lines) - middle) @ matrix
        lengths, size = [len(line) for line in strokes.lines], strokes.typical_size
        waves = generator.uniform(-1, 1, (3, WAVES)), generator.normal(0, 1, (WAVES, 2))
        if self.elastic and size:
            points = points + self.elastic * size * _waves(points / size, *waves)
        if self.jitter:
            points = _jittered(points, lengths, generator.normal(0, self.jitter, (len(lengths), 3)), size)
        return strokes.mapped(np.split(points + middle, np.cumsum(lengths)[:-1]))


@dataclass(frozen=True, slots=True)
class ImageAugmentation:
    """Variations of pictures: shift, scale, slant, rotation, brightness, contrast and flips.

    Every number is the largest change; 0 means no change. A number f of `scale`, `brightness` or `contrast` means a
    factor from 1 / (1 + f) to 1 + f with a uniform logarithm; others are uniform between minus and plus the number.

    Args:
        shift: as a share of the shorter side.
        scale: of the size.
        slant: columns to the right for each row upwards.
        rotation: in degrees.
        brightness: of all values.
        contrast: of the differences from the picture's mean.
        flip: whether a random half of the pictures is mirrored, which suits neither writing nor texts that name sides.
        fill: `paper` enlarges the picture with white, so that nothing is cut off; `edge` repeats the last row and
            column and keeps the size, as for photographs.

    Raises:
        RegardError: for a number that is negative or not finite, or another `fill`.
    """

    shift: float = 0.0
    scale: float = 0.0
    slant: float = 0.0
    rotation: float = 0.0
    brightness: float = 0.0
    contrast: float = 0.0
    flip: bool = False
    fill: Fill = "paper"

    def __post_init__(self) -> None:
        _check(self)
        if self.fill not in ("paper", "edge"):
            raise RegardError(f"fill must be paper or edge; got {self.fill!r}.")

    def __call__(self, image: NDArray[np.uint8], generator: np.random.Generator) -> NDArray[np.uint8]:
        """A varied picture, (H', W', C) uint8; with `fill="edge"` of the same height and width.

        Args:
            image: (H, W, C) uint8.
            generator: of this item in this epoch (`item_generator`).

        Raises:
            ShapeError: for another shape or type.
        """
        if image.ndim != 3 or image.dtype != np.uint8 or not image.size:
            raise ShapeError(f"expected a picture, (H, W, C) uint8; got {image.shape} {image.dtype}.")
        height, width = image.shape[:2]
        move = generator.uniform(-self.shift, self.shift, 2) * min(height, width)
        factor = _factor(self.scale, generator)
        slant = generator.uniform(-self.slant, self.slant)
        turn = math.radians(generator.uniform(-self.rotation, self.rotation))
        brightness, contrast = _factor(self.brightness, generator), _factor(self.contrast, generator)
        if self.flip and generator.random() < 0.5:
            image = image[:, ::-1]
        if brightness != 1 or contrast != 1:
            values = (image - image.mean()) * contrast + image.mean()
            image = np.rint(values * brightness).clip(0, 255).astype(np.uint8)
        if self.shift or self.scale or self.slant or self.rotation:
            cos, sin = math.cos(turn), math.sin(turn)
            matrix = factor * np.array([[cos, -sin], [sin, cos]]) @ np.array([[1, -slant], [0, 1]])
            image = self._warped(image, matrix, move)
        return np.ascontiguousarray(image)

    def _warped(self, image: NDArray[np.uint8], matrix: NDArray[np.float64], move: NDArray[np.float64]) -> Any:
        """The picture under a matrix for columns (x, y) about its middle, shifted by (x, y)."""
        from regard.image.resizing import warp  # torch, which options of augmentation do not need

        height, width = image.shape[:2]
        if self.fill == "edge":
            return warp(image, matrix, move, height, width, paper=False)
        # the picture grows to the extent of its corners and the shift
        across, down = np.abs(matrix) @ (width, height)
        grown = math.ceil(down + abs(move[1]) - 1e-6), math.ceil(across + abs(move[0]) - 1e-6)
        return warp(image, matrix, move / 2, *grown, paper=True)


def _waves(points: NDArray[np.float64], draws: NDArray[np.float64], moves: NDArray[np.float64]) -> NDArray[np.float64]:
    """The shifts of points (points, 2) by a sum of plane waves, with mean 0 and variance 1 in each coordinate.

    Wave k moves a point p by m_k sqrt(2 / K) cos(2 pi d_k . p / l_k + f_k): its direction d_k, length l_k (2 to 8, with
    a uniform logarithm) and phase f_k are from `draws` (3, K), uniform from -1 to 1; `moves` (K, 2) are normal.
    """
    directions, lengths, phases = np.pi * draws[0], 4 * 2 ** draws[1], np.pi * draws[2]
    steps = 2 * np.pi * np.stack([np.cos(directions), np.sin(directions)]) / lengths
    result: NDArray[np.float64] = np.cos(points @ steps + phases) @ moves * math.sqrt(2 / len(moves))
    return result


def _jittered(
    points: NDArray[np.float64], lengths: list[int], moves: NDArray[np.float64], size: float
) -> NDArray[np.float64]:
    """The points (points, 2) of all strokes, each changed by its row of moves (strokes, 3): x, y, log of its size."""
    starts = np.cumsum([0, *lengths[:-1]])
    middles = (np.minimum.reduceat(points, starts) + np.maximum.reduceat(points, starts)) / 2
    stroke = np.repeat(np.arange(len(lengths)), lengths)
    middle, move = middles[stroke], moves[stroke]
    return (points - middle) * np.exp(move[:, 2:]) + middle + move[:, :2] * size


def _factor(largest: float, generator: np.random.Generator) -> float:
    return float((1 + largest) ** generator.uniform(-1, 1))


def _check(options: StrokeAugmentation | ImageAugmentation) -> None:
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        if isinstance(value, (int, float)) and not (value >= 0 and math.isfinite(value)):
            raise RegardError(f"{field.name} must be at least 0; got {value}.")
