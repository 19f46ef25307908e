"""A section with some of its values changed from Python, under the limits of the schema."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import ValidationError

from regard.config.keys import KEYS
from regard.config.place import cut
from regard.config.schema import Section
from regard.errors import ConfigError

S = TypeVar("S", bound=Section)


def changed(section: S, name: str, **values: Any) -> S:
    """The section with these values; one that is None stays as it was.

    Args:
        section: the values so far.
        name: its key in the configuration, for error messages.

    Raises:
        ConfigError: for values out of their range, or that contradict each other.

    >>> from regard.config.schema import DecodingConfig
    >>> changed(DecodingConfig(), "decoding", beam=3, num_best=None).beam
    3
    """
    given = {key: value for key, value in values.items() if value is not None}
    if not given:
        return section
    try:
        return type(section).model_validate({**dict(section), **given})
    except ValidationError as error:
        lines = []
        for found in error.errors():
            key = found["loc"][0] if found["loc"] else None
            if key is None:
                lines.append(str(found["ctx"]["error"]))
            else:
                lines.append(f"{key}={cut(repr(given.get(str(key))))}: expected {KEYS[name, key].expected}")
        first = error.errors()[0]["loc"][:1]
        raise ConfigError("\n".join(dict.fromkeys(lines)), (name, *first)) from None
