"""Goldens: numbers that original implementations gave, read back as tensors."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

FOLDER = Path(__file__).parent

Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class Golden:
    """One mechanism of one original, in one precision.

    Args:
        inputs, weights: what went in; floats have the precision.
        probes: r, by output: the probe is Σ r · output.
        outputs: what came out, (B, T, …) where there are steps; alignments (B, H, T, S).
        gradients: of the probe, by the name of the input or weight.
    """

    inputs: Tensors
    weights: Tensors
    probes: Tensors
    outputs: Tensors
    gradients: Tensors


def load(original: str, mechanism: str, dtype: torch.dtype = torch.float64) -> Golden:
    """The golden of a mechanism of an original."""
    precision = str(dtype).removeprefix("torch.")
    with np.load(FOLDER / original / f"{mechanism}.npz") as kept:
        arrays = {name: torch.from_numpy(kept[name]) for name in kept.files}

    def group(name: str) -> Tensors:
        found = {key.removeprefix(f"{name}/"): value for key, value in arrays.items() if key.startswith(f"{name}/")}
        return {key: value.to(dtype) if value.is_floating_point() else value for key, value in found.items()}

    return Golden(
        group("input"), group("weight"), group("probe"), group(f"{precision}/output"), group(f"{precision}/gradient")
    )


def mechanisms(original: str) -> list[str]:
    """Every mechanism of an original that has a golden."""
    return sorted(path.stem for path in (FOLDER / original).glob("*.npz"))
