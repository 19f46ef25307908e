"""Pictures from strokes: our loops over the pixels near each line against torch's operations over all pixels."""

from __future__ import annotations

from functools import partial

import torch

from regard import ops
from regard.bench.case import OURS, PLAIN, Answer, Case, Contest
from regard.testing.cases.draws import draw


def draw_lines(dtype: torch.dtype, *, segments: int, height: int, width: int) -> Contest:
    """A formula: short lines from everywhere; a pixel is at most 1."""
    starts = (0.5 + 0.2 * draw(segments, 2)) * torch.tensor([width, height])
    ends = starts + 3 * draw(segments, 2, seed=1)
    lines = torch.cat([starts, ends], dim=1).to(dtype)
    *_, reference = ops.IMPLEMENTATIONS["draw_lines"]

    def job(function: object) -> Answer:
        assert callable(function)
        return {"ink": function(lines, height, width, pen=2.0)}

    sides = {OURS: partial(job, ops.draw_lines), PLAIN: partial(job, reference.function)}
    return Contest(sides, terms={"ink": float(max(height, width))})


PICTURES = (
    Case(
        "draw-lines",
        "the picture of a handwritten formula",
        draw_lines,
        {"segments": 300, "height": 75, "width": 300},
        {"segments": 4, "height": 6, "width": 9},
        gate={"segments": 40, "height": 30, "width": 60},
    ),
)
