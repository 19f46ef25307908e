"""Reads files of other programs, none of which can run code here."""

from __future__ import annotations

import argparse
import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
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
    """The path of a file that there is.

    Raises:
        DataError: if there is none.
    """
    if not path.is_file():
        raise DataError(f"{path}: {'it is a folder, not a file' if path.is_dir() else 'there is no such file'}.")
    return path


def read_checkpoint(path: Path, *, classes: Sequence[Any] = ()) -> Any:
    """What `torch.save` wrote, if it is tensors and plain values.

    Args:
        path: the file.
        classes: further classes, or pairs of a class and its name in the file, that are as harmless as `HARMLESS`.

    Raises:
        DataError: for a file that is missing or damaged, or that would run code.
    """
    require(path)
    with torch.serialization.safe_globals([*HARMLESS, *classes]):
        try:
            return torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:  # damaged files fail in as many ways as they are damaged
            first, *others = str(error).strip().splitlines() or [type(error).__name__]
            if type(error).__name__ != "UnpicklingError":
                raise DataError(f"{path}: not a checkpoint of torch, or damaged ({first}).") from None
            named = next((line.strip() for line in others if "GLOBAL" in line or "Unsupported" in line), first)
            raise DataError(
                f"{path}: it is no checkpoint of tensors and plain values alone, and what could run code is not read: "
                f"{named}\n  Save it again in the program that made it, with weights and options only."
            ) from None


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file, by name.

    Raises:
        DataError: for a file that is missing or damaged.
    """
    require(path)
    try:
        return safetensors.torch.load_file(path)
    except (SafetensorError, ValueError) as error:
        raise DataError(f"{path}: not a safetensors file, or damaged ({error}).") from None


def read_arrays(path: Path) -> dict[str, Tensor]:
    """The arrays of an `.npz` file, by name, as tensors.

    Raises:
        DataError: for a file that is missing or damaged, or that has objects, which could run code.
    """
    require(path)
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: torch.from_numpy(np.array(archive[name])) for name in archive.files}
    except (ValueError, TypeError, AttributeError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(f"{path}: not an archive of numpy arrays of numbers, or damaged ({error}).") from None


def read_text(path: Path) -> str:
    """The text of a file.

    Raises:
        DataError: for a file that is missing or not UTF-8.
    """
    try:
        return require(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 ({error}).") from None


def read_json(path: Path) -> Any:
    """The values of a JSON file.

    Raises:
        DataError: for a file that is missing or damaged.
    """
    text = read_text(path)
    try:
        return json.loads(text)
    except ValueError as error:
        raise DataError(f"{path}: not JSON ({error}).") from None


def read_yaml(path: Path) -> Any:
    """The values of a YAML file.

    Raises:
        DataError: for a file that is missing or damaged.
    """
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
    """The values, if they are a mapping.

    Raises:
        DataError: if they are not.
    """
    if not isinstance(values, Mapping):
        raise DataError(f"{path}: expected {what}; got {type(values).__name__}.")
    return values


def tensors(values: Any, path: Path, what: str) -> dict[str, Tensor]:
    """The values, if they are tensors by name.

    Raises:
        DataError: if they are not; the text has the name of the first that is none.
    """
    for name, tensor in mapping(values, path, what).items():
        if not isinstance(name, str) or not isinstance(tensor, Tensor):
            raise DataError(f"{path}: {name} is no tensor; expected {what}.")
    return dict(values)
