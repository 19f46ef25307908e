"""The options of models of other programs, and configurations made from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from regard.config.keys import keys
from regard.errors import DataError, UnsupportedError

SectionT = TypeVar("SectionT", bound=BaseModel)


class Options:
    """The options of a model by name.

    Args:
        program: for errors.
        defaults: of options that the model does not save.
    """

    def __init__(self, values: Mapping[str, Any], program: str, defaults: Mapping[str, Any]) -> None:
        self.values = {**defaults, **values}
        self.program = program

    def __getitem__(self, name: str) -> Any:
        """An option."""
        if name not in self.values:
            raise DataError(f"The model of {self.program} lacks the option {name!r}.")
        return self.values[name]

    def require(self, name: str, accepted: Sequence[Any], because: str = "it is not supported here") -> Any:
        """An option, which must have one of the accepted values."""
        value = self[name]
        if value not in accepted:
            choices = " or ".join(map(repr, accepted))
            raise UnsupportedError(
                f"The option {name} of the model of {self.program} is {value!r}, but {because}; it must be {choices}."
            )
        return value


def validated(schema: type[SectionT], values: Mapping[str, Any], source: Any) -> SectionT:
    """The values as a configuration."""
    try:
        return schema.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        path = tuple(map(str, first["loc"]))
        if first["type"] == "missing" and (key := keys(schema).get(path)) is not None:
            raise DataError(f"{source}: {'.'.join(path)} is missing: {key.field.description}.") from None
        raise DataError(f"{source}: {'.'.join(map(str, first['loc']))}: {first['msg']}.") from None
