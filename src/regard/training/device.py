"""The device and the CPU threads of a training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from regard import tree
from regard.errors import ConfigError, counted
from regard.training.processes import local_device, num_started


def choose(name: str) -> torch.device:
    """The device by its name: auto (a GPU if there is one), cpu, cuda or cuda:1."""
    if name == "auto":
        return local_device("cuda" if torch.cuda.is_available() else "cpu")
    kind, _, index = name.partition(":")
    if kind not in ("cpu", "cuda") or (index and not index.isdecimal()) or (kind == "cpu" and index):
        raise ConfigError(
            f"training.device is {name!r}; use auto, cpu, cuda, or cuda:1 for the second GPU.",
            ("training", "device"),
        )
    num_gpus = torch.cuda.device_count() if kind == "cuda" else 0
    if kind == "cuda" and int(index or 0) >= num_gpus:
        raise ConfigError(
            f"training.device is {name!r}, but torch {torch.__version__} sees {counted(num_gpus, 'GPU|GPUs')}. "
            "Use auto or cpu, or install a build of torch with CUDA.",
            ("training", "device"),
        )
    if index and num_started() > 1:
        raise ConfigError(
            f"training.device is {name!r}, one GPU for {num_started()} processes. "
            "Set it to cuda, so that each process uses its own.",
            ("training", "device"),
        )
    return torch.device(name) if index else local_device(kind)


def move(batch: Any, device: torch.device) -> Any:
    """A batch on the device, by its method `to` or leaf by leaf."""
    if hasattr(batch, "to") and not isinstance(batch, Tensor):
        return batch.to(device)
    return tree.to(batch, device, non_blocking=True)


@contextmanager
def threads(count: int | None) -> Iterator[None]:
    """Uses `count` CPU threads inside the block; None leaves torch's number."""
    before = torch.get_num_threads()
    if count is not None:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
