"""The checker of annotations in tests: an int is a float, as everywhere in Python."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache, wraps
from typing import Any, get_type_hints

import torch
from beartype import BeartypeConf, beartype
from beartype.door import is_bearable

_checks = beartype(conf=BeartypeConf(is_pep484_tower=True))


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with its arguments and result checked, but not while it is exported: checks would fix every size.

    The tensors of a look, and of what a part prepares from, are arguments like any other: their letters are those of
    the function's annotations.
    """
    strict = _checks(function)

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_exporting():
            return function(*args, **kwargs)
        for value in (*args, *kwargs.values()):
            if type(value).__module__ == "regard.attention.contract" and dataclasses.is_dataclass(value):
                _check_fields(value)
        return strict(*args, **kwargs)

    return called


def _check_fields(value: Any) -> None:
    for name, hint in _hints(type(value)).items():
        field = getattr(value, name)
        if dataclasses.is_dataclass(field):
            _check_fields(field)
        elif not is_bearable(field, hint):
            shape = tuple(field.shape) if isinstance(field, torch.Tensor) else field
            raise TypeError(f"{type(value).__name__}.{name} {shape} is not {hint}")


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)
