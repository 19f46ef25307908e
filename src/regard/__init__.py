"""regard: attention you can trust, look at and afford.

>>> import regard
>>> model = regard.load("g2p-en")                                     # doctest: +SKIP
>>> model.predict(["attention"])[0].text                              # doctest: +SKIP
'AH T EH N SH AH N'

Packages: `regard.attention` (mechanisms), `regard.layers`, `regard.models`, `regard.losses`, `regard.decoding`,
`regard.training`, `regard.tasks`, `regard.data`, `regard.audio`, `regard.config`, `regard.metrics`, `regard.viz`,
`regard.record`, `regard.testing`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.decoding import Prediction, Search, SimpleDecoder, force_align
    from regard.decoding.free_run import free_run  # the package's names are also those of modules
    from regard.decoding.search import search
    from regard.errors import ConfigError, DataError, RegardError, ShapeError, UnsupportedError
    from regard.ops import plain
    from regard.record import record_attention
    from regard.tasks import TextToText, load, train
    from regard.viz import load_alignment, plot_alignment, save_alignment

__version__ = "0.1.0"

_PACKAGES = {
    "decoding": ("Prediction", "Search", "SimpleDecoder", "force_align", "free_run", "search"),
    "ops": ("plain",),
    "errors": ("ConfigError", "DataError", "RegardError", "ShapeError", "UnsupportedError"),
    "record": ("record_attention",),
    "tasks": ("TextToText", "load", "train"),
    "viz": ("load_alignment", "plot_alignment", "save_alignment"),
}
_HOME = {name: package for package, names in _PACKAGES.items() for name in names}

__all__ = [
    "ConfigError",
    "DataError",
    "Prediction",
    "RegardError",
    "Search",
    "ShapeError",
    "SimpleDecoder",
    "TextToText",
    "UnsupportedError",
    "__version__",
    "force_align",
    "free_run",
    "load",
    "load_alignment",
    "plain",
    "plot_alignment",
    "record_attention",
    "save_alignment",
    "search",
    "train",
]


def __getattr__(name: str) -> Any:
    """Imports public names and packages on first use, so that `import regard` is fast."""
    if name in _HOME:
        return getattr(import_module(f"regard.{_HOME[name]}"), name)
    try:
        return import_module(f"regard.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"regard.{name}":
            raise
        raise AttributeError(f"module 'regard' has no attribute {name!r}") from None


def __dir__() -> list[str]:
    return __all__
