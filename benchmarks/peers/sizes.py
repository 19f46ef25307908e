"""The cases, their sizes and their data: the same for all, whoever runs them."""

from __future__ import annotations

import numpy as np

FULL = {"B": 64, "T": 20, "S": 20, "E": 128, "D": 256, "N": 5000, "K": 5}
QUICK = {"B": 8, "T": 6, "S": 6, "E": 16, "D": 32, "N": 100, "K": 3}
LAYER, QUICK_LAYER = {"B": 32, "T": 40, "S": 50, "D": 512}, {"B": 4, "T": 5, "S": 6, "D": 32}
"""Of a whole attention layer: queries and memory are D wide, too."""
LEARNING_RATE, CLIP_NORM = 0.001, 1.0
NATURAL = {"words": {"N": 45, "shortest": 3, "longest": 14}, "sentences": {"N": 5000, "shortest": 5, "longest": 40}}
"""Sources of drawn lengths, decoded by a beam; each output is as long as its source."""
SPECIAL = 4
"""Ids below are padding, beginning, end and unknown, in any order."""


def ids(rows: int, length: int, num_tokens: int, seed: int) -> np.ndarray:
    """(rows, length) random ids of words."""
    return np.random.default_rng(seed).integers(SPECIAL, num_tokens, (rows, length))


def numbers(*shape: int, seed: int) -> np.ndarray:
    """Normal float32 numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def natural(kind: str, size: dict[str, int], padding: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Batches of sources (B, S) and their lengths (B,): four batches' worth, sorted by length, longest first."""
    told = NATURAL[kind]
    count = size["B"] if kind == "words" else size["B"] // 2
    draw = np.random.default_rng(3)
    lengths = -np.sort(-draw.integers(told["shortest"], told["longest"] + 1, 4 * count))
    batches = []
    for part in lengths.reshape(4, count):
        source = draw.integers(SPECIAL, told["N"] - 1, (count, part[0]))
        batches.append((np.where(np.arange(part[0]) < part[:, None], source, padding), part))
    return batches
