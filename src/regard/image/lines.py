"""Lines drawn with a round pen."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from regard.errors import RegardError, ShapeError
from regard.shapes import Float, describe

FARTHEST = 1e15
"""The largest coordinate, whose square float32 can hold."""
PIECE = 4
"""Pixels of the pieces that segments are divided into, so that few pixels are far from each."""
PIECES = 4096
"""Pieces that are drawn at once."""


def draw_lines(
    segments: Float[Tensor, "segments 4"], height: int, width: int, *, pen: float
) -> Float[Tensor, "height width"]:
    """How much of each pixel the ink of some straight lines covers, from 0 to 1, antialiased; without derivatives.

    The pen is a disc of radius r = pen / 2. With d the distance from the centre of a pixel to the nearest segment,

        coverage = min(max(r + 1/2 - d, 0), 1),

    so ink fades over one pixel across its edge. Segments that meet do not show where, and their order does not matter.
    What lies outside the picture is not drawn.

    Args:
        segments: x and y of one end and of the other, in pixels, y down: the centre of the first pixel is (0.5, 0.5).
            Both ends may be one point, which is a dot.
        height, width: of the picture.
        pen: the pen's width in pixels. Below 1 lines become paler rather than thinner.

    Raises:
        ShapeError: for another shape.
        RegardError: for an end that is not finite or beyond 10¹⁵ pixels, a negative size, or a pen that is not
            wider than 0.

    Cost: the pixels near each segment, computed in float64.

    >>> import torch
    >>> ink = draw_lines(torch.tensor([[1.5, 1.5, 3.5, 1.5]]), 3, 5, pen=1)
    >>> ink[1].tolist()
    [0.0, 1.0, 1.0, 1.0, 0.0]
    """
    if segments.dim() != 2 or segments.shape[1] != 4 or not segments.is_floating_point():
        raise ShapeError(f"segments must be (segments, 4) real numbers.\n{describe({'segments': ('P 4', segments)})}")
    if min(height, width) < 0:
        raise RegardError(f"A picture has at least 0 rows and columns; got height={height}, width={width}.")
    if not (pen > 0 and math.isfinite(pen)):
        raise RegardError(f"A pen is wider than 0 pixels; got pen={pen}.")
    within = segments.abs() <= FARTHEST
    if not bool(within.all()):
        where = int((~within).any(1).nonzero()[0])
        raise RegardError(
            f"Ends of segments are finite and within {FARTHEST:g} pixels; segment {where} is "
            f"{segments[where].tolist()}."
        )
    reach = pen / 2 + 0.5
    nearest = torch.full((height * width,), reach**2, dtype=torch.float64)
    if nearest.numel():
        first, last = _pieces(*_visible(segments.detach().double().cpu(), height, width, reach))
        side = torch.arange(math.ceil(PIECE + 2 * reach) + 1)
        for a, b in zip(first.split(PIECES), last.split(PIECES), strict=True):
            corner = (torch.minimum(a, b) - reach - 0.5).ceil().long()
            x, y = (corner[:, i, None] + side for i in (0, 1))
            squares = _squared_distances(a, b, x + 0.5, y + 0.5)
            inside = ((y >= 0) & (y < height))[:, :, None] & ((x >= 0) & (x < width))[:, None]
            places = y[:, :, None] * width + x[:, None]
            nearest.scatter_reduce_(0, places[inside], squares[inside], "amin")
    ink = (reach - nearest.sqrt()).clamp(0, 1)
    return ink.view(height, width).to(segments)


def _visible(segments: Tensor, height: int, width: int, reach: float) -> tuple[Tensor, Tensor]:
    """Both ends (segments, 2) of the parts of segments whose ink may lie in the picture."""
    start, way = segments[:, :2], segments[:, 2:] - segments[:, :2]
    least, most = segments.new_tensor([-reach, -reach]), segments.new_tensor([width + reach, height + reach])
    # where along a segment, from 0 to 1, it enters and leaves the picture's columns and rows
    still = way == 0
    sides = torch.stack([least - start, most - start]) / torch.where(still, 1, way)
    enter = torch.where(still, 0, sides.amin(0)).amax(1).clamp(min=0)
    leave = torch.where(still, 1, sides.amax(0)).amin(1).clamp(max=1)
    outside = (still & ((start < least) | (start > most))).any(1)
    seen = (enter <= leave) & ~outside
    start, way, enter, leave = start[seen], way[seen], enter[seen, None], leave[seen, None]
    return start + enter * way, start + leave * way


def _pieces(first: Tensor, last: Tensor) -> tuple[Tensor, Tensor]:
    """Both ends of pieces of segments, none longer than `PIECE`."""
    counts = ((last - first).norm(dim=1) / PIECE).ceil().clamp(min=1).long()
    number = torch.arange(int(counts.sum())) - (counts.cumsum(0) - counts).repeat_interleave(counts)
    start, way = first.repeat_interleave(counts, 0), (last - first).repeat_interleave(counts, 0)
    share = (number / counts.repeat_interleave(counts))[:, None]
    step = (1 / counts.repeat_interleave(counts))[:, None]
    return start + share * way, start + (share + step) * way


def _squared_distances(a: Tensor, b: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """(P, Y, X), from points with abscissas x (P, X) and ordinates y (P, Y) to the segments from a to b (P, 2)."""
    way = (b - a)[:, :, None, None]
    px, py = (x - a[:, :1])[:, None], (y - a[:, 1:])[:, :, None]
    squared = way.square().sum(1)
    share = ((px * way[:, 0] + py * way[:, 1]) / torch.where(squared > 0, squared, 1)).clamp(0, 1)
    return (px - share * way[:, 0]).square() + (py - share * way[:, 1]).square()
