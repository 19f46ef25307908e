"""What is imported on first use: public names of a package (PEP 562), and packages that need not be installed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from regard.errors import UnsupportedError


def optional(module: str, purpose: str, *, extra: str = "text") -> Any:
    """A module of a package that an extra of regard installs.

    Args:
        purpose: what needs it, with the verb, for example "BLEU needs".
        extra: the extra's name.

    Raises:
        UnsupportedError: if the package is not installed.
    """
    try:
        return import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise UnsupportedError(f"{purpose} the {package} package: pip install 'regard[{extra}]'.") from None


def on_demand(package: str, homes: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """The `__getattr__` of a package, for modules that are slow to import and seldom needed.

    The package still imports these names under `TYPE_CHECKING` and lists them in `__all__`, for type checkers and
    readers.

    Args:
        package: the package's `__name__`.
        homes: for each module of the package, the public names that it defines. No public name may equal the name of
            a module: once imported, the module would hide it.

    >>> find = on_demand("regard.viz", {"labels": ["shortened"]})
    >>> find("shortened")("incomprehensibilities", 8)
    'incompr…'
    >>> find("shorted")
    Traceback (most recent call last):
    AttributeError: module 'regard.viz' has no attribute 'shorted'
    """
    home = {name: module for module, names in homes.items() for name in names}

    def find(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{home[name]}"), name)

    return find
