"""Readers of other programs' files; none of them executes code."""

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
"""Classes that checkpoints may contain besides tensors and plain values; they only hold values."""


def require(path: Path) -> Path:
    """The path of an existing file."""
    if not path.is_file():
        raise DataError(f"{path}: {'it is a folder, not a file' if path.is_dir() else 'there is no such file'}.")
    return path


RESAVE = "Save it again in the program that made it, with weights (`model.state_dict()`) and options only."
"""The advice for a checkpoint with other objects."""
GLOBAL = re.compile(r"GLOBAL (?P<name>[\w.]+)")
"""A refused class or function in torch's error."""


def read_checkpoint(path: Path, *, advice: Mapping[str, str] = MappingProxyType({})) -> Any:
    """The content of a file of `torch.save`, if it consists of tensors and plain values.

    Args:
        advice: for refused classes, by the beginning of their names; `RESAVE` for others.
    """
    require(path)
    with torch.serialization.safe_globals([*HARMLESS]), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch, about files that are refused
        try:
            return torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:  # damaged files raise errors of every kind
            text = str(error).strip() or type(error).__name__
            if "TorchScript" in text:
                raise DataError(
                    f"{path}: it is a TorchScript archive, which contains code and is not read.\n  {RESAVE}"
                ) from None
            if type(error).__name__ != "UnpicklingError":
                raise DataError(f"{path}: not a checkpoint of torch, or damaged ({text.splitlines()[0]}).") from None
            match = GLOBAL.search(text)
            name = match["name"] if match else "objects"
            hint = next((hint for beginning, hint in advice.items() if name.startswith(beginning)), RESAVE)
            raise DataError(
                f"{path}: it contains {name} besides tensors and plain values; code is not read.\n  {hint}"
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
    """The path of a folder with a file of this name."""
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
    """The lines of a text file, without their ends."""
    return read_text(path).removesuffix("\n").split("\n")


def mapping(values: Any, path: Path, what: str) -> Mapping[str, Any]:
    """The values, which must be a mapping."""
    if not isinstance(values, Mapping):
        raise DataError(f"{path}: expected {what}; got {type(values).__name__}.")
    return values


def tensors(values: Any, path: Path, what: str) -> dict[str, Tensor]:
    """The values, which must be tensors by name."""
    for name, tensor in mapping(values, path, what).items():
        if not isinstance(name, str) or not isinstance(tensor, Tensor):
            raise DataError(f"{path}: {name} is not a tensor; expected {what}.")
    return dict(values)
