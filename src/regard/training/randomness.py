"""The states of all random generators that training draws from, as tensors and plain containers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Generator


def seed(value: int, generator: Generator) -> None:
    """Seeds all generators: torch's on every device, Python's, numpy's and the training loop's."""
    torch.manual_seed(value)
    random.seed(value)
    np.random.seed(value % 2**32)
    generator.manual_seed(value)


def capture(generator: Generator) -> dict[str, Any]:
    """The states of all generators."""
    numpy: Any = np.random.get_state(legacy=False)
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else [],
        "python": random.getstate(),
        "numpy": {**numpy, "state": {**numpy["state"], "key": numpy["state"]["key"].tolist()}},
        "generator": generator.get_state(),
    }


def restore(state: dict[str, Any], generator: Generator) -> None:
    """Restores the states of all generators."""
    torch.set_rng_state(state["torch"])
    if state["cuda"] and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"][: torch.cuda.device_count()])
    random.setstate(state["python"])
    numpy = state["numpy"]
    np.random.set_state({**numpy, "state": {**numpy["state"], "key": np.array(numpy["state"]["key"], dtype=np.uint32)}})
    generator.set_state(state["generator"])


@contextmanager
def preserved(generator: Generator) -> Iterator[None]:
    """Restores all generators after the block, so that draws inside it do not change later ones."""
    before = capture(generator)
    try:
        yield
    finally:
        restore(before, generator)
