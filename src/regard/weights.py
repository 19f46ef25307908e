"""Files of a module's weights: safetensors, which cannot hold code, with a checksum."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from regard.errors import DataError, RegardError, newer_format
from regard.files import replace_file

FORMAT = 2
"""The format of files of weights; format 1 had no checksum."""
HEADER = "regard"
"""The only key of the metadata: safetensors writes several in any order, but equal models should give equal files."""

DAMAGED = "The file is damaged: copy it again from its origin, or train again."


def snapshot(module: nn.Module) -> dict[str, Tensor]:
    """Copies of all parameters and buffers, on the CPU; tied ones under each of their names."""
    copies = {}
    for name, value in module.state_dict().items():
        if not isinstance(value, Tensor):
            raise RegardError(
                f"{type(module).__name__}.state_dict() has {name!r}, a {type(value).__name__}. Only tensors are saved: "
                "make it a buffer, or keep it in the configuration."
            )
        copies[name] = value.detach().to("cpu", copy=True).contiguous()
    return copies


def write(weights: Mapping[str, Tensor], path: Path, *, extra: Mapping[str, Any] | None = None) -> str:
    """Writes weights, which are on the CPU and contiguous, into a file with ordinary permissions; returns their digest.

    Args:
        extra: plain values for the header, which is in the same file so that a kill cannot separate them.
    """
    sha256 = digest(weights)
    header = {"format": FORMAT, "sha256": sha256, **(extra or {})}
    path.write_bytes(safetensors.torch.save(dict(weights), {HEADER: json.dumps(header)}))
    return sha256


def save(weights: Mapping[str, Tensor], path: Path) -> None:
    """Writes weights to `path`, and replaces it if it exists."""
    replace_file(path, lambda partial: write(weights, partial))


def restore(module: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Loads weights into a module that has exactly these names and shapes."""
    try:
        module.load_state_dict(dict(weights))
    except RuntimeError as error:
        raise RegardError(
            f"The saved weights do not fit this {type(module).__name__}; has the model changed?\n{error}"
        ) from error


def load(path: Path) -> dict[str, Tensor]:
    """Reads weights.

    Raises:
        FileNotFoundError: if there is no such file.
        DataError: for a file that is damaged, was changed since it was written, or is of a newer format.
    """
    return read(path)[0]


def read(path: Path, *, advice: str = DAMAGED) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The weights and the header of a file; errors as in `load`. The header is empty for files of format 1.

    Args:
        advice: the remedy in the error of a damaged file.
    """
    if not path.exists():
        raise FileNotFoundError(2, "No such file or directory", str(path))
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            metadata = file.metadata() or {}
            header = json.loads(metadata.get(HEADER, "{}"))
            names = list(file.keys())
            weights = {} if header.get("format", 1) > FORMAT else {name: file.get_tensor(name) for name in names}
    except (SafetensorError, OSError, ValueError, TypeError, AttributeError, RuntimeError) as error:
        size = path.stat().st_size
        raise DataError(f"{path}: the weights cannot be read ({size:,} bytes; {error}).\n  {advice}") from error
    if header.get("format", 1) > FORMAT:
        raise newer_format(path, header["format"], FORMAT)
    if "sha256" in header and header["sha256"] != digest(weights):
        raise DataError(f"{path}: the weights are not those that were saved: their checksum is wrong.\n  {advice}")
    return weights, header


def digest(weights: Mapping[str, Tensor]) -> str:
    """SHA-256 of names, types, shapes and bytes, in the order of the names, in hexadecimal digits."""
    result = hashlib.sha256()
    for name in sorted(weights):
        value = weights[name]
        result.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
        if value.numel():
            result.update(value.reshape(-1).view(torch.uint8).numpy().tobytes())
    return result.hexdigest()


def mean(paths: Sequence[Path]) -> dict[str, Tensor]:
    """The mean of the weights in several files, summed in float64; whole numbers are those of the last file."""
    result = load(paths[-1])
    dtypes = {name: value.dtype for name, value in result.items() if value.is_floating_point()}
    sums = {name: torch.zeros_like(result[name], dtype=torch.float64) for name in dtypes}
    for path in paths:
        weights = load(path)
        for name in sums:
            sums[name] += weights[name].double()
    return result | {name: (total / len(paths)).to(dtypes[name]) for name, total in sums.items()}
