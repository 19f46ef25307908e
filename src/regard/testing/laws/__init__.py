"""The laws of mechanisms, decoders, searches and free runs: functions of a subject, named by what they require."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any


def laws_of(*modules: ModuleType) -> dict[str, Callable[[Any], None]]:
    """The laws in modules by their names: all public functions with the single parameter `subject`, in order."""
    return {
        name: function
        for module in modules
        for name, function in vars(module).items()
        if inspect.isfunction(function)
        and function.__module__ == module.__name__
        and not name.startswith("_")
        and list(inspect.signature(function).parameters) == ["subject"]
    }
