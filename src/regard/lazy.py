"""Imports on first use: public names of a package (PEP 562), values of tables, and optional packages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, Generic, TypeVar

from regard.errors import UnsupportedError

T = TypeVar("T")


class OnDemand(Mapping[str, T], Generic[T]):
    """A table whose values are imported on first use.

    Args:
        places: for each key, `module:name` of its value.

    >>> OnDemand[Any]({"pi": "math:pi"})["pi"]
    3.141592653589793
    """

    def __init__(self, places: Mapping[str, str]) -> None:
        self.places = dict(places)

    def __getitem__(self, key: str) -> T:
        module, _, name = self.places[key].partition(":")
        value: T = getattr(import_module(module), name)
        return value

    def __contains__(self, key: object) -> bool:
        return key in self.places

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)


def optional(module: str, purpose: str, *, extra: str = "text") -> Any:
    """A module of a package that an extra of regard installs.

    Args:
        purpose: the beginning of the error, for example "BLEU needs".
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

    The package also imports these names under `TYPE_CHECKING` and lists them in `__all__`, for type checkers.

    Args:
        package: the package's `__name__`.
        homes: for each module, by its name in the package or its full name, the public names that it defines. No public
            name may be that of a module of the package, since the imported module would hide it.

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
        module = home[name] if home[name].startswith("regard.") else f"{package}.{home[name]}"
        return getattr(import_module(module), name)

    return find
