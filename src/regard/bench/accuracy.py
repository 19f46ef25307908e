"""Errors of additive energies against float64 over scales of the inputs, compared with the plain formula's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from regard.bench.case import OURS, PLAIN
from regard.bench.cases.energies import contest
from regard.bench.gate import Error, errors

SCALES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
SIZES = {"B": 4, "T": 40, "S": 50, "D": 512}


def grad_scale(
    scales: Sequence[float] = SCALES, sizes: Mapping[str, int] = SIZES, dtype: torch.dtype = torch.float32
) -> dict[float, dict[str, Error]]:
    """Errors of energies and of the three gradients, for each standard deviation of query and keys."""
    results, lengths = {}, dict[str, Any](sizes)
    for scale in scales:
        exact, rough = (contest(kind, backward=True, scale=scale, **lengths) for kind in (torch.float64, dtype))
        results[scale] = errors(rough.sides[OURS](), [rough.sides[PLAIN]()], exact.sides[PLAIN](), exact.terms)
    return results
