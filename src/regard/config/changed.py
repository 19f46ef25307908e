"""Changes values of a section in Python, within the limits of the schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from regard.config.keys import keys
from regard.config.place import KeyPath, cut
from regard.config.schema import Section
from regard.config.spelling import suggestion
from regard.errors import ConfigError

S = TypeVar("S", bound=Section)


def changed(section: S, name: str, values: Mapping[str, Any]) -> S:
    """A copy of the section with these values.

    Raises:
        ConfigError: for values outside their range, or that contradict each other.

    >>> from regard.tasks.text_to_text.config import DecodingConfig
    >>> changed(DecodingConfig(), "decoding", {"beam": 3}).beam
    3
    """
    return checked(section, values, (name,), judged=frozenset(values)) if values else section


def checked(section: S, values: Mapping[str, Any], path: KeyPath, *, judged: frozenset[str]) -> S:
    """A checked copy of the section with these values.

    Args:
        path: where the section is in the configuration, for errors.
        judged: the names of the keys that are judged as the caller's own, not as what the section had.

    Raises:
        ConfigError: as in `changed`.
    """
    try:
        return type(section).model_validate({**dict(section), **values}, context=judged)
    except ValidationError as error:
        raise refusal(error, type(section), values, path) from None


def refusal(error: ValidationError, schema: type[BaseModel], given: Mapping[str, Any], path: KeyPath) -> ConfigError:
    """Pydantic's error as one of the library, with a line for each problem."""
    lines: dict[str, KeyPath] = {}
    for detail in error.errors():
        key = str(detail["loc"][0]) if detail["loc"] else None
        if key is None:
            cause = detail["ctx"]["error"]
            lines.setdefault(str(cause), getattr(cause, "path", ()))
        elif (known := keys(schema).get((key,))) is None:
            hint = suggestion(key, schema.model_fields)
            lines.setdefault(f"{key}={cut(repr(given.get(key)))}: unknown key; {hint}", (key,))
        else:
            meaning = f" ({known.field.description})" if known.field.description else ""
            lines.setdefault(f"{key}={cut(repr(given.get(key)))}: expected {known.expected}{meaning}", (key,))
    return ConfigError("\n".join(lines), (*path, *next(iter(lines.values()))))
