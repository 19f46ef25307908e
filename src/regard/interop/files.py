"""Reads files of other programs, none of which can run code here."""

from __future__ import annotations

import argparse
import json
import re
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import safetensors.torch
import torch
import yaml
from safetensors import SafetensorError
from torch import Tensor

from regard.errors import DataError

HARMLESS: tuple[Any, ...] = (argparse.Namespace,)
"""Classes that checkpoints may hold beside tensors and plain values: they hold values and do nothing."""


def require(path: Path) -> Path:
    """The path of a file that there is."""
    if not path.is_file():
        raise DataError(f"{path}: {'it is a folder, not a file' if path.is_dir() else 'there is no such file'}.")
    return path


RESAVE = "Save it again in the program that made it, with weights (`model.state_dict()`) and options only."
"""What to do about a checkpoint that holds more than is read."""
GLOBAL = re.compile(r"GLOBAL (?P<name>[\w.]+)")
"""How torch names a class or function in a checkpoint that it does not read."""


def read_checkpoint(path: Path, *, advice: Mapping[str, str] = MappingProxyType({})) -> Any:
    """What `torch.save` wrote, if it is tensors and plain values.

    Args:
        advice: by the beginning of the name of a class that is not read, what to do about it; `RESAVE` for others.
    """
    require(path)
    with torch.serialization.safe_globals([*HARMLESS]), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's are about files that are refused
        try:
            return torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:  # damaged files fail in as many ways as they are damaged
            text = str(error).strip() or type(error).__name__
            if "TorchScript" in text:
                raise DataError(
                    f"{path}: it is a TorchScript archive, which holds code and is not read.\n  {RESAVE}"
                ) from None
            if type(error).__name__ != "UnpicklingError":
                raise DataError(f"{path}: not a checkpoint of torch, or damaged ({text.splitlines()[0]}).") from None
            found = GLOBAL.search(text)
            name = found["name"] if found else "objects"
            hint = next((hint for beginning, hint in advice.items() if name.startswith(beginning)), RESAVE)
            raise DataError(
                f"{path}: it holds {name} beside tensors and plain values, and what could run code is not read.\n"
                f"  {hint}"
            ) from None


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file, by name."""
    require(path)
    try:
        return safetensors.torch.load_file(path)
    except (SafetensorError, ValueError) as error:
        raise DataError(f"{path}: not a safetensors file, or damaged ({error}).") from None


def read_arrays(path: Path) -> dict[str, Tensor]:
    """The arrays of an `.npz` file, by name, as tensors."""
    require(path)
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: torch.from_numpy(np.array(archive[name])) for name in archive.files}
    except (ValueError, TypeError, AttributeError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(f"{path}: not an archive of numpy arrays of numbers, or damaged ({error}).") from None


def read_text(path: Path) -> str:
    """The text of a file."""
    try:
        return require(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 ({error}).") from None


def require_folder(path: Path, name: str, what: str) -> Path:
    """The path of a folder that has a file of this name."""
    if not path.exists():
        raise DataError(f"{path}: there is no such folder; a model of {what} is a folder with {name}.")
    if not (path / name).is_file():
        fault = "has none" if path.is_dir() else "is a file"
        raise DataError(f"{path}: a model of {what} is a folder with {name}, and this {fault}.")
    return path


def read_json(path: Path) -> Any:
    """The values of a JSON file."""
    text = read_text(path)
    try:
        return json.loads(text)
    except ValueError as error:
        raise DataError(f"{path}: not JSON ({error}).") from None


def read_yaml(path: Path) -> Any:
    """The values of a YAML file."""
    text = read_text(path)
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as error:
        raise DataError(f"{path}: not plain YAML ({error}).") from None


def read_lines(path: Path) -> list[str]:
    """The lines of a text file, without their ends.

    Raises:
        DataError: for a file that is missing or not UTF-8.
    """
    return read_text(path).removesuffix("\n").split("\n")


def mapping(values: Any, path: Path, what: str) -> Mapping[str, Any]:
    """The values, if they are a mapping."""
    if not isinstance(values, Mapping):
        raise DataError(f"{path}: expected {what}; got {type(values).__name__}.")
    return values


def tensors(values: Any, path: Path, what: str) -> dict[str, Tensor]:
    """The values, if they are tensors by name."""
    for name, tensor in mapping(values, path, what).items():
        if not isinstance(name, str) or not isinstance(tensor, Tensor):
            raise DataError(f"{path}: {name} is no tensor; expected {what}.")
    return dict(values)
