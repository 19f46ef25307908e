"""A module's weights in files: safetensors, which can hold nothing that runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from regard.errors import RegardError
from regard.training.files import replace_file


def snapshot(module: nn.Module) -> dict[str, Tensor]:
    """Copies of all parameters and buffers, on the CPU. Tied ones come under each of their names."""
    copies = {}
    for name, value in module.state_dict().items():
        if not isinstance(value, Tensor):
            raise RegardError(
                f"{type(module).__name__}.state_dict() has {name!r}, a {type(value).__name__}. Only tensors are saved: "
                "keep it in a buffer, or in the configuration."
            )
        copies[name] = value.detach().to("cpu", copy=True).contiguous()
    return copies


def save(weights: Mapping[str, Tensor], path: Path) -> None:
    """Writes weights in the place of `path`."""
    replace_file(path, lambda partial: save_file(dict(weights), partial))


def restore(module: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Puts weights into a module that has exactly these names and shapes."""
    try:
        module.load_state_dict(dict(weights))
    except RuntimeError as error:
        raise RegardError(
            f"The saved weights do not fit this {type(module).__name__}: was the model changed since?\n{error}"
        ) from error


def load(path: Path) -> dict[str, Tensor]:
    """Reads weights."""
    try:
        return load_file(path)
    except FileNotFoundError as error:
        error.filename = str(path)
        raise
    except Exception as error:
        raise RegardError(f"{path}: these weights cannot be read ({error}).") from error


def mean(paths: Sequence[Path]) -> dict[str, Tensor]:
    """The mean of the weights in several files, summed in float64; what is not floating is taken from the last."""
    result = load(paths[-1])
    dtypes = {name: value.dtype for name, value in result.items() if value.is_floating_point()}
    sums = {name: torch.zeros_like(result[name], dtype=torch.float64) for name in dtypes}
    for path in paths:
        weights = load(path)
        for name in sums:
            sums[name] += weights[name].double()
    return result | {name: (total / len(paths)).to(dtypes[name]) for name, total in sums.items()}
