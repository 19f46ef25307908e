"""Lines drawn with a round pen, by the fastest implementation that takes the inputs."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor

from regard.errors import RegardError, ShapeError
from regard.ops.choose import Implementation, choose, loaded
from regard.ops.draw_lines import reference
from regard.ops.eligibility import refuse_empty, refuse_gradients, refuse_kernels, refuse_numba, refuse_types
from regard.shapes import Float, describe

MODULE = "regard.ops.draw_lines.numba"
FARTHEST = 1e15
"""The largest coordinate, whose square float32 can hold."""


def _refuse(segments: Any = None, *inputs: Any, **options: Any) -> str | None:
    return (
        refuse_kernels(segments)
        or refuse_numba(MODULE, segments)
        or refuse_types(segments)
        or refuse_gradients(segments)
        or refuse_empty(segments)
    )


DRAW_LINES = (
    Implementation("numba", loaded(MODULE, "draw_lines"), _refuse),
    Implementation("reference", reference.draw_lines),
)


def draw_lines(
    segments: Float[Tensor, "segments 4"], height: int, width: int, *, pen: float
) -> Float[Tensor, "height width"]:
    """How much of each pixel the ink of some straight lines covers, from 0 to 1, antialiased.

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

    Cost: the pixels near each segment; the reference compares all pixels with all segments.

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
    return choose(DRAW_LINES, segments).function(segments, height, width, pen=pen)


__all__ = ["DRAW_LINES", "draw_lines"]
