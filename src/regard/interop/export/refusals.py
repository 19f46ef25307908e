"""What cannot be exported, by name and with the reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from regard.config.search import Search
from regard.errors import UnsupportedError
from regard.models import EncoderDecoder, PointerDecoder
from regard.tasks import TextToText

READ = {"method", "beam", "num_best", "length_penalty", "alpha", "length_counts_begin", "min_length"}
READ |= {"beta", "diversity", "patience"}
"""Settings of the search that the program beside an ONNX model reads, and those that only refused ones give a meaning.
"""
NARROWER = {"direction", "alignment_layer", "alignment_head", "max_length", "validation_beam"}
"""Keys of `decoding` that are limits, say what is shown, or do not change what is searched for."""
LIMITS = {"max_length_ratio", "max_length_extra", "max_length_cap", "min_length_ratio", "max_source_length"}
"""Further limits."""
OF_FACTS = {"beam", "num_best", "length_penalty", "alpha", "length_counts_begin", "max_length", "min_length"}
OF_FACTS |= {"alignment_layer", "alignment_head"} | LIMITS
"""Settings that `model.json` or the step of torch's programs follow."""
EMPTY: Mapping[Any, str] = {None: "null", "": "''", (): "'[]'"}
"""How a command line has values that say nothing."""
KNOWN = READ | NARROWER | LIMITS | {"batch_tokens"}


def require_text_to_text(model: Any) -> TextToText:
    """The model, if it turns texts into texts by an encoder and a decoder of its own."""
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
    """Refuses settings of a search that the program beside an ONNX model does not know."""
    if decoding.method != "beam":
        raise _unsupported({"method": (decoding.method, "beam")}, "it searches with a beam")
    fields = type(decoding).model_fields
    others = {name: (getattr(decoding, name), fields[name].default) for name in fields if name not in KNOWN}
    if unknown := {name: values for name, values in others.items() if values[0] != values[1]}:
        raise _unsupported(
            unknown, "it does not know this setting" if len(unknown) == 1 else "it does not know these settings"
        )


def require_effect(format: str, names: Iterable[str]) -> None:
    """Refuses settings of a search that change nothing in a folder of this format.

    Args:
        names: keys of `decoding` that are given for the export.
    """
    effective = {"torch": OF_FACTS | {"direction"}, "ctranslate2": {"direction"}}
    for name in names:
        if format in effective and name not in effective[format]:
            raise UnsupportedError(
                f"--{name.replace('_', '-')} has no effect with --format {format}, whose search is the caller's; leave "
                "it out."
            )


def _unsupported(settings: Mapping[str, tuple[Any, Any]], reason: str) -> UnsupportedError:
    """The error about settings, of which there are the values and the defaults."""
    said = ", ".join(f"decoding.{name} is {value}" for name, (value, _) in settings.items())
    without = " ".join(_flag(name, default) for name, (_, default) in settings.items())
    return UnsupportedError(
        f"{said}, which the program that decodes an ONNX model cannot do: {reason}. Export with {without}, or leave "
        "the settings out of the configuration."
    )


def _flag(name: str, default: Any) -> str:
    """The flag that sets a key to its default."""
    flag = name.replace("_", "-")
    return f"--no-{flag}" if default is False else f"--{flag} {EMPTY.get(default, default)}"
