"""What cannot be exported, by name and with the reason."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from regard.config.search import Search
from regard.errors import UnsupportedError
from regard.models import EncoderDecoder, PointerDecoder
from regard.tasks import TextToText

READ = {"method", "beam", "num_best", "length_penalty", "alpha", "min_length", "beta", "diversity", "patience"}
"""Settings of the search that the program beside an ONNX model reads, and those that only refused ones give a meaning.
"""
NARROWER = {"direction", "alignment_layer", "alignment_head", "max_length", "validation_beam"}
"""Keys of `decoding` that are limits, say what is shown, or do not change what is searched for."""
OF_FACTS = {"beam", "num_best", "length_penalty", "alpha", "max_length", "max_length_ratio", "min_length"}
OF_FACTS |= {"min_length_ratio", "max_source_length", "alignment_layer", "alignment_head"}
"""Settings that `model.json` or the step of torch's programs follow."""
OF_TASK = {"max_length_ratio", "min_length_ratio", "max_source_length", "batch_tokens"}


def require_text_to_text(model: Any) -> TextToText:
    """The model, if it turns texts into texts by an encoder and a decoder of its own.

    Raises:
        UnsupportedError: for another task, and for a pointer.
    """
    if not isinstance(model, TextToText):
        raise UnsupportedError(
            f"task: {model.config.task} cannot be exported yet; models of text_to_text can. Its parts are modules of "
            "torch: see how to export your own modules in the documentation."
        )
    if type(model.module) is not EncoderDecoder:
        raise UnsupportedError(f"{type(model.module).__name__} cannot be exported: export the models one by one.")
    if any(isinstance(part, PointerDecoder) for part in model.module.modules()):
        raise UnsupportedError(
            "model.pointer cannot be exported: the symbols that it copies have other ids in every input, which an "
            "exported vocabulary does not have."
        )
    return model


def require_plain_search(decoding: Search) -> None:
    """Refuses settings of a search that the program beside an ONNX model does not know.

    Raises:
        UnsupportedError: with the key, its value, and how to export the model without it.
    """
    if decoding.method != "beam":
        raise _refused("method", decoding.method, "it searches with a beam", "beam")
    for name, field in type(decoding).model_fields.items():
        value = getattr(decoding, name)
        if name not in READ | NARROWER | OF_TASK and value != field.default:
            raise _refused(name, value, "it does not know this setting", field.default)


def require_effect(format: str, names: Iterable[str]) -> None:
    """Refuses settings of a search that change nothing in a folder of this format.

    Args:
        names: keys of `decoding` that are given for the export.

    Raises:
        UnsupportedError: with the first such setting.
    """
    effective = {"torch": OF_FACTS | {"direction"}, "ctranslate2": {"direction"}}
    for name in names:
        if format in effective and name not in effective[format]:
            raise UnsupportedError(
                f"--{name.replace('_', '-')} has no effect with --format {format}, whose search is the caller's; leave "
                "it out."
            )


def _refused(name: str, value: Any, reason: str, default: Any) -> UnsupportedError:
    flag = name.replace("_", "-")
    text = {None: "null", "": "''", (): "'[]'"}.get(default, default)
    without = f"--no-{flag}" if default is False else f"--{flag} {text}"
    return UnsupportedError(
        f"decoding.{name} is {value}, which the program that decodes an ONNX model cannot do: {reason}. Export with "
        f"{without}, or leave the setting out of the configuration."
    )
