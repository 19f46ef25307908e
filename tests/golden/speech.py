"""What whole Tacotrons are recorded with: tiny sizes, 20 steps, running statistics that are not those of a new model.

Dropout is taken out of the originals while they run, also where they never turn it off: masks are drawn by torch's
generators there. Sentences have the same length, since the originals let convolutions read padding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from record import Arrays, draw, record

SYMBOLS, FEATURES, SOURCE, STEPS, BATCH = 7, 4, 6, 20, 2
BUFFER = "buffer."


def inputs(build: Callable[[], Any], num_frames: int = 1) -> Arrays:
    """Ids, frames to force, and the running statistics of the module."""
    ids = np.random.default_rng(0).integers(1, SYMBOLS, (BATCH, SOURCE))
    given: Arrays = {"ids": ids, "frames": draw(1, BATCH, STEPS * num_frames, FEATURES)}
    for number, (name, value) in enumerate(build().named_buffers()):
        if name.endswith("running_mean"):
            given[BUFFER + name] = draw(200 + number, *value.shape, scale=0.2)
        elif name.endswith("running_var"):
            given[BUFFER + name] = np.abs(draw(200 + number, *value.shape)) + np.float32(0.5)
    return given


@contextmanager
def without_dropout() -> Iterator[None]:
    """torch's dropout, by whatever name it is called, changes nothing."""
    original = torch.nn.functional.dropout
    torch.nn.functional.dropout = lambda x, *args, **options: x
    try:
        yield
    finally:
        torch.nn.functional.dropout = original


def record_speech(
    path: str,
    build: Callable[[], Any],
    run: Callable[[Any, torch.Tensor, torch.Tensor], dict[str, torch.Tensor]],
    num_frames: int = 1,
) -> None:
    """Records a whole model in evaluation mode; `run(module, ids, frames)` gives outputs by name."""

    def evaluated(module: Any, ids: torch.Tensor, frames: torch.Tensor, **buffers: torch.Tensor) -> dict[str, Any]:
        module.eval()
        for name, value in buffers.items():
            module.get_buffer(name.removeprefix(BUFFER)).copy_(value)
        with torch.no_grad(), without_dropout():
            return run(module, ids, frames)

    record(path, build, evaluated, inputs(build, num_frames), scale=0.4, differentiable=False)


def joined(sentences: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    """Outputs of sentences that ran alone, as free-running ones."""
    return {f"free_{name}": torch.cat([one[name] for one in sentences]) for name in sentences[0]}
