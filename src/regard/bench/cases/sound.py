"""Comparing sounds: our loops against torch's operations."""

from __future__ import annotations

from functools import partial

import torch

from regard import ops
from regard.bench.case import OURS, PLAIN, Answer, Case, Contest
from regard.testing.cases.draws import draw


def warping_path(dtype: torch.dtype, *, B: int, T: int) -> Contest:
    """Pairs of sequences of equal length; their costs along the cheapest way."""
    costs = draw(B, T, T).abs().to(dtype)
    lengths = torch.full((B,), T)
    *_, reference = ops.IMPLEMENTATIONS["warping_path"]

    def job(function: object) -> Answer:
        assert callable(function)
        pairs, counts = function(costs, lengths, lengths)
        real = torch.arange(pairs.shape[1]) < counts[:, None]
        rows = torch.arange(B)[:, None].expand_as(real)[real]
        taken = pairs[real]
        return {"cost": torch.zeros(B, dtype=dtype).index_add(0, rows, costs[rows, taken[:, 0], taken[:, 1]])}

    sides = {OURS: partial(job, ops.warping_path), PLAIN: partial(job, reference.function)}
    return Contest(sides, terms={"cost": float(2 * T * costs.max())})


SOUND = (
    Case(
        "warping-path",
        "dynamic time warping of pairs of sounds of two seconds",
        warping_path,
        {"B": 8, "T": 160},
        {"B": 2, "T": 6},
        gate={"B": 2, "T": 20},
    ),
)
