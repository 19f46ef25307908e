"""The errors a user can meet: all are `ValueError`, so old `except` clauses keep working."""

from __future__ import annotations


class RegardError(ValueError):
    """Base of every error that regard raises on purpose."""


class ShapeError(RegardError):
    """Tensors whose sizes or types do not fit together."""


class ConfigError(RegardError):
    """A configuration that cannot be read or does not make sense.

    Args:
        message: what was expected, what came, what to do.
        path: the key's place in the configuration, as `("model", "encoder", "size")`. Whoever knows the file
            turns it into line and column (`regard.config.Configuration.explain`).
    """

    def __init__(self, message: str, path: tuple[str | int, ...] = ()) -> None:
        super().__init__(message)
        self.path = path


class DataError(RegardError):
    """Data that cannot be read; the text names file, line, field and value."""


class UnsupportedError(RegardError):
    """A combination that is refused; the text says why and what to use instead."""
