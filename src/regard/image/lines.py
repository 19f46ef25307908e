"""Drawing lines with a round pen."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from regard.errors import RegardError, ShapeError
from regard.shapes import Float, describe

FARTHEST = 1e15
"""The largest coordinate whose square float32 can represent."""
PIECE = 4
"""The length, in pixels, of the pieces of segments, each of which is drawn in a square around it."""
PIECES = 4096
"""Pieces that are drawn at once."""


def draw_lines(
    segments: Float[Tensor, "segments 4"], height: int, width: int, *, pen: float
) -> Float[Tensor, "height width"]:
    """The share of each pixel that the ink of straight lines covers, antialiased; without derivatives.

    The pen is a disc of radius r = pen / 2. With the distance d from the centre of a pixel to the nearest segment,

        coverage = min(max(r + 1/2 - d, 0), 1),

    so that ink fades over one pixel across its edge. Joints of segments are invisible, and their order has no effect.

    Args:
        segments: x and y of both ends, in pixels, y down; the centre of the first pixel is (0.5, 0.5). Segments of
            length 0 are dots.
        height, width: of the picture, outside of which nothing is drawn.
        pen: the pen's width in pixels. Below 1 lines become paler rather than thinner.

    Raises:
        ShapeError: for another shape.
        RegardError: for an end that is not finite or beyond 10¹⁵ pixels, a negative size, or a pen of width 0.

    Cost: the pixels near each segment, computed in float64.

    >>> import torch
    >>> ink = draw_lines(torch.tensor([[1.5, 1.5, 3.5, 1.5]]), 3, 5, pen=1)
    >>> ink[1].tolist()
    [0.0, 1.0, 1.0, 1.0, 0.0]
    """
    if segments.dim() != 2 or segments.shape[1] != 4 or not segments.is_floating_point():
        raise ShapeError(f"segments must be (segments, 4) real numbers.\n{describe({'segments': ('P 4', segments)})}")
    if min(height, width) < 0:
        raise RegardError(f"A picture needs at least 0 rows and columns; got height={height}, width={width}.")
    if not (pen > 0 and math.isfinite(pen)):
        raise RegardError(f"The pen must be wider than 0 pixels; got pen={pen}.")
    within = segments.abs() <= FARTHEST
    if not bool(within.all()):
        where = int((~within).any(1).nonzero()[0])
        raise RegardError(
            f"Ends of segments must be finite and within {FARTHEST:g} pixels; segment {where} is "
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
    """Both ends (segments, 2) of the parts of segments with ink in the picture, clipped to its margin."""
    start, vector = segments[:, :2], segments[:, 2:] - segments[:, :2]
    least, most = segments.new_tensor([-reach, -reach]), segments.new_tensor([width + reach, height + reach])
    # the positions along a segment, from 0 to 1, at which it enters and leaves the columns and rows
    still = vector == 0
    sides = torch.stack([least - start, most - start]) / torch.where(still, 1, vector)
    enter = torch.where(still, 0, sides.amin(0)).amax(1).clamp(min=0)
    leave = torch.where(still, 1, sides.amax(0)).amin(1).clamp(max=1)
    outside = (still & ((start < least) | (start > most))).any(1)
    seen = (enter <= leave) & ~outside
    start, vector, enter, leave = start[seen], vector[seen], enter[seen, None], leave[seen, None]
    return start + enter * vector, start + leave * vector


def _pieces(first: Tensor, last: Tensor) -> tuple[Tensor, Tensor]:
    """Both ends of pieces of segments, of at most the length `PIECE`."""
    counts = ((last - first).norm(dim=1) / PIECE).ceil().clamp(min=1).long()
    number = torch.arange(int(counts.sum())) - (counts.cumsum(0) - counts).repeat_interleave(counts)
    start, vector = first.repeat_interleave(counts, 0), (last - first).repeat_interleave(counts, 0)
    share = (number / counts.repeat_interleave(counts))[:, None]
    step = (1 / counts.repeat_interleave(counts))[:, None]
    return start + share * vector, start + (share + step) * vector


def _squared_distances(a: Tensor, b: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """(P, Y, X), from points with abscissas x (P, X) and ordinates y (P, Y) to the segments from a to b (P, 2)."""
    vector = (b - a)[:, :, None, None]
    px, py = (x - a[:, :1])[:, None], (y - a[:, 1:])[:, :, None]
    squared = vector.square().sum(1)
    share = ((px * vector[:, 0] + py * vector[:, 1]) / torch.where(squared > 0, squared, 1)).clamp(0, 1)
    return (px - share * vector[:, 0]).square() + (py - share * vector[:, 1]).square()
