"""The folder of an exported model, and the models and settings that cannot be exported to any."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from regard.errors import Option, UnsupportedError
from regard.files import create_folder, require_replaceable
from regard.models import EncoderDecoder, PointerDecoder
from regard.tasks import TextToText

Format = Literal["onnx", "ctranslate2", "torch"]
WRITERS: Mapping[str, tuple[str, str]] = {
    "onnx": ("regard.interop.export.onnx", "write_onnx"),
    "ctranslate2": ("regard.interop.export.ctranslate2", "write_ctranslate2"),
    "torch": ("regard.interop.export.programs", "write_torch"),
}
"""By format, the module and the function that writes a folder."""
FILES = frozenset(
    {
        *("encoder.onnx", "encoder.onnx.data", "step.onnx", "step.onnx.data", "decode.py", "__pycache__"),
        *("encoder.pt2", "step.pt2", "forward.pt2", "model.json", "source.model", "target.model"),
        *("model.bin", "config.json", "source_vocabulary.json", "target_vocabulary.json", "shared_vocabulary.json"),
    }
)
"""The names of the files of an exported model, of any format."""


def export_model(model: Any, folder: Path | str, *, format: Format, overwrite: bool = False) -> None:
    """Writes a model as a program for another runtime; the page on exports lists the files of each format.

    Args:
        model: of the task text_to_text, from `regard.load`; is not changed.
        folder: appears whole or not at all.
        format: `onnx`, `ctranslate2` (Transformers) or `torch`.
        overwrite: whether the folder of another exported model is replaced.

    Raises:
        RegardError: for a folder that exists, or a file of this name.
        UnsupportedError: for a model or an option that the format cannot express, with its name and the reason; or for
            a package that is not installed.
    """
    if format not in WRITERS:
        raise UnsupportedError(f"format={format!r} must be one of {', '.join(WRITERS)}.")
    path = Path(folder)
    require_replaceable(path, lambda: FILES, kind="an exported model", overwrite=overwrite)
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


def require_text_to_text(model: Any) -> TextToText:
    """The model, which must have an encoder and a decoder of text_to_text."""
    if not isinstance(model, TextToText):
        raise UnsupportedError(
            f"task: {model.config.task} cannot be exported yet; models of text_to_text can. Its parts are modules of "
            "torch; the documentation describes how to export modules."
        )
    if type(model.module) is not EncoderDecoder:
        raise UnsupportedError(f"{type(model.module).__name__} cannot be exported; export its models one by one.")
    if any(isinstance(part, PointerDecoder) for part in model.module.modules()):
        raise UnsupportedError(
            "model.pointer cannot be exported: the symbols that it copies have ids that depend on the input, and an "
            "exported vocabulary is fixed."
        )
    return model


OF_FACTS = {"beam", "num_best", "length_penalty", "alpha", "length_counts_begin", "max_length", "min_length"}
OF_FACTS |= {"alignment_layer", "alignment_head", "max_length_ratio", "max_length_extra", "max_length_cap"}
OF_FACTS |= {"min_length_ratio", "max_source_length"}
"""Settings with an effect on `model.json` or on the step of torch's programs."""


def require_effect(format: str, names: Iterable[str]) -> None:
    """Refuses settings of a search without effect on a folder of this format.

    Args:
        names: given keys of `decoding`.
    """
    effective = {"torch": OF_FACTS | {"direction"}, "ctranslate2": {"direction"}}
    for name in names:
        if format in effective and name not in effective[format]:
            setting = Option(f"--{name.replace('_', '-')}", f"decoding.{name}")
            chosen = Option(f"--format {format}", f"format={format}")
            raise UnsupportedError(f"{setting} has no effect with {chosen}, which has no search; leave it out.")
