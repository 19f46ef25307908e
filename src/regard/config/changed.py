"""Changes values of a section in Python, within the limits of the schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from regard.config.keys import keys
from regard.config.place import cut
from regard.config.schema import Section
from regard.errors import ConfigError

S = TypeVar("S", bound=Section)


def changed(section: S, name: str, values: Mapping[str, Any]) -> S:
    """A copy of the section with these values.

    Args:
        section: the section.
        name: its key in the configuration, for error messages.

    Raises:
        ConfigError: for values outside their range, or that contradict each other.

    >>> from regard.config.tasks.text_to_text import DecodingConfig
    >>> changed(DecodingConfig(), "decoding", {"beam": 3}).beam
    3
    """
    if not values:
        return section
    try:
        return type(section).model_validate({**dict(section), **values})
    except ValidationError as error:
        lines = []
        for detail in error.errors():
            key = detail["loc"][0] if detail["loc"] else None
            if key is None:
                lines.append(str(detail["ctx"]["error"]))
            else:
                lines.append(f"{key}={cut(repr(values.get(str(key))))}: expected {keys(type(section))[key,].expected}")
        first = error.errors()[0]["loc"][:1]
        raise ConfigError("\n".join(dict.fromkeys(lines)), (name, *first)) from None
