"""How weights are stored that are laid out for many products: as they are, or as bytes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import Any, Literal

import torch
from torch import Tensor

from regard.errors import UnsupportedError
from regard.ops.eligibility import refuse_device, refuse_kernels, refuse_numba, refuse_types

Storage = Literal["float32", "int8"]

BYTES = "regard.ops.linear.numba"
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


def refuse_bytes(*weights: Tensor) -> str | None:
    """Why products have no weights of bytes (`storing`), or None."""
    return (
        refuse_kernels(*weights)
        or refuse_numba(BYTES, *weights)
        or refuse_device("cpu", *weights)
        or refuse_types(*weights, types=(torch.float32,))
    )


def byte_product(weight: Tensor) -> Any:
    """x Wᵀ + b with the weight as bytes.

    Raises:
        UnsupportedError: if there are no kernels for it.
    """
    if (reason := refuse_bytes(weight)) is not None:
        raise UnsupportedError(f"weights: int8 is impossible here: {reason}.")
    return import_module(BYTES).ByteProduct(weight)
