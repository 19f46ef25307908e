"""The cases, their sizes and their data: the same for all, whoever runs them."""

from __future__ import annotations

import numpy as np

FULL = {"B": 64, "T": 20, "S": 20, "E": 128, "D": 256, "N": 5000, "K": 5}
QUICK = {"B": 8, "T": 6, "S": 6, "E": 16, "D": 32, "N": 100, "K": 3}
LAYER, QUICK_LAYER = {"B": 32, "T": 40, "S": 50, "D": 512}, {"B": 4, "T": 5, "S": 6, "D": 32}
"""Of a whole attention layer: queries and memory are D wide, too."""
LEARNING_RATE, CLIP_NORM = 0.001, 1.0
SPECIAL = 4
"""Ids below are padding, beginning, end and unknown, in any order."""


def ids(rows: int, length: int, num_tokens: int, seed: int) -> np.ndarray:
    """(rows, length) random ids of words."""
    return np.random.default_rng(seed).integers(SPECIAL, num_tokens, (rows, length))


def numbers(*shape: int, seed: int) -> np.ndarray:
    """Normal float32 numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
