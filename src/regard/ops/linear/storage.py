"""How weights are stored that are laid out for many products: as they are, or as bytes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal

Storage = Literal["float32", "int8"]

_STORAGE: ContextVar[Storage] = ContextVar("how weights are stored for products", default="float32")


@contextmanager
def storing(storage: Storage) -> Iterator[None]:
    """Within it, products that are prepared (`Product`, the steps of Transformers) store their weights so."""
    token = _STORAGE.set(storage)
    try:
        yield
    finally:
        _STORAGE.reset(token)


def stores_bytes() -> bool:
    """Whether weights are stored as bytes at present."""
    return _STORAGE.get() == "int8"
