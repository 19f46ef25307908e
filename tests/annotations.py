"""The checker of annotations in tests: an int is a float, as everywhere in Python."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from beartype import BeartypeConf, beartype

_checks = beartype(conf=BeartypeConf(is_pep484_tower=True))


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with its arguments and result checked, but not while it is exported: checks would fix every size."""
    strict = _checks(function)

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        return (function if torch.compiler.is_exporting() else strict)(*args, **kwargs)

    return called
