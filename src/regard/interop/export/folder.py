"""The folder of an exported model, which appears whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, get_args

from regard.errors import RegardError, UnsupportedError
from regard.files import create_folder
from regard.interop.export.refusals import require_text_to_text

Format = Literal["onnx", "ctranslate2", "torch"]
WRITERS: Mapping[str, tuple[str, str]] = {
    "onnx": ("regard.interop.export.onnx", "write_onnx"),
    "ctranslate2": ("regard.interop.export.ctranslate2", "write_ctranslate2"),
    "torch": ("regard.interop.export.programs", "write_torch"),
}
"""By format, the module and the function that fills a folder."""
WRITTEN = frozenset(
    {
        *("encoder.onnx", "encoder.onnx.data", "step.onnx", "step.onnx.data", "decode.py", "__pycache__"),
        *("encoder.pt2", "step.pt2", "forward.pt2", "model.json", "source.model", "target.model"),
        *("model.bin", "config.json", "source_vocabulary.json", "target_vocabulary.json", "shared_vocabulary.json"),
    }
)
"""What may stand in the folder of an exported model."""
SHOWN = 5
"""How many names a message has."""


def export_model(model: Any, folder: Path | str, *, format: Format, overwrite: bool = False) -> None:
    """Writes a model as a program for another runtime; what a folder of each format has is on the page of exports.

    Args:
        model: of the task text_to_text, as `regard.load` returns one; nothing of it is changed.
        folder: appears whole at the end, or not at all.
        format: `onnx`, `ctranslate2` (Transformers) or `torch`.
        overwrite: whether it may replace the folder of another exported model.

    Raises:
        RegardError: if the folder exists, or there is a file of this name.
        UnsupportedError: for a model or an option that the format cannot express, with its name and the reason; or if
            a package that the format needs is not installed.
    """
    if format not in get_args(Format):
        raise UnsupportedError(f"format={format!r} must be one of {', '.join(get_args(Format))}.")
    path = Path(folder)
    require_free(path, overwrite=overwrite)
    loaded = copy(require_text_to_text(model))
    if loaded.trained_direction == "both":
        loaded = loaded.directed(loaded.config.decoding.direction)
    device = loaded.device
    module, name = WRITERS[format]
    write: Callable[[Any, Path], None] = getattr(import_module(module), name)
    loaded.module.to("cpu")
    try:
        create_folder(path, lambda partial: write(loaded, partial))
    finally:
        loaded.module.to(device)


def require_free(folder: Path, *, overwrite: bool) -> None:
    """Refuses to replace a file, a folder unless `overwrite`, and in any case one with files that no export writes, as
    the trained model's own; an empty folder is no obstacle.
    """
    if folder.exists() and not folder.is_dir():
        raise RegardError(f"{folder}: this is a file; choose another name for the folder.")
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if names and not overwrite:
        raise RegardError(f"{folder}: the folder exists; choose another name or add --overwrite.")
    if foreign := sorted(names - WRITTEN):
        raise RegardError(
            f"{folder}: the folder holds other things than an exported model ({', '.join(foreign[:SHOWN])}), so it is "
            "not replaced; choose another name."
        )
