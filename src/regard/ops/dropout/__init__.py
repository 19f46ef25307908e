"""Dropout whose mask belongs to the item, by the fastest implementation that takes the inputs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from regard.ops.choose import Implementation, choose
from regard.ops.eligibility import refuse_kernels, refuse_numba, refuse_triton
from regard.shapes import Float, Int

MODULE = "regard.ops.dropout"


def dropout(
    x: Float[Tensor, "N F"],
    items: Int[Tensor, " N"],
    positions: Int[Tensor, " N"],
    p: float = 0.5,
    key: tuple[int, int] = (0, 0),
    site: int = 0,
) -> Float[Tensor, "N F"]:
    """x_nf / (1 − p), or 0 with probability p, as a hash of (key, site, item, position, feature) decides.

    Nothing else matters: not the other rows, their order or number, not the device, not what was drawn before.

    Args:
        items: which item each row belongs to; 32 bits count.
        positions: which position of it; 32 bits count.
        p: below 1.
        key: two numbers of 32 bits, as a seed and a step.
        site: 32 bits; tells apart the sites of a model.

    Source: Srivastava et al. 2014, Dropout; the hash is `reference.philox`.

    >>> items, positions = torch.tensor([3, 8, 3]), torch.tensor([0, 0, 0])
    >>> dropout(torch.ones(3, 8), items, positions)
    tensor([[0., 0., 0., 0., 0., 0., 2., 2.],
            [2., 0., 2., 2., 2., 2., 2., 2.],
            [0., 0., 0., 0., 0., 0., 2., 2.]])
    """
    width = int(x.shape[1])  # torch.jit.trace makes it a tensor
    return x * dropout_mask(items, positions, width, p=p, key=key, site=site, dtype=x.dtype)


def dropout_mask(
    items: Int[Tensor, " N"],
    positions: Int[Tensor, " N"],
    width: int,
    *,
    p: float,
    key: tuple[int, int],
    site: int,
    dtype: torch.dtype = torch.float32,
) -> Float[Tensor, "N F"]:
    """The mask that `dropout` multiplies by, 0 or 1 / (1 − p), for F = `width` features."""
    name = choose(DROPOUT, items).name
    return _mask(name, items, positions, width, p=p, key=key, site=site, dtype=dtype)


def _refuse(name: str, refuse: Callable[..., str | None], *inputs: Any, **options: Any) -> str | None:
    return refuse_kernels(*inputs) or refuse(f"{MODULE}.{name}", *inputs)


def _with(
    name: str,
    x: Tensor,
    items: Tensor,
    positions: Tensor,
    p: float = 0.5,
    key: tuple[int, int] = (0, 0),
    site: int = 0,
) -> Tensor:
    """Dropout by the named implementation."""
    return x * _mask(name, items, positions, x.shape[1], p=p, key=key, site=site, dtype=x.dtype)


def _mask(name: str, *rows: Any, dtype: torch.dtype, **options: Any) -> Tensor:
    # half types: made in float32 and then rounded, so that which elements are dropped is the same in all types
    working = dtype if dtype in (torch.float32, torch.float64) else torch.float32
    mask: Tensor = import_module(f"{MODULE}.{name}").dropout_mask(*rows, dtype=working, **options)
    return mask.to(dtype)


DROPOUT = (
    Implementation("triton", partial(_with, "triton"), partial(_refuse, "triton", refuse_triton)),
    Implementation("numba", partial(_with, "numba"), partial(_refuse, "numba", refuse_numba)),
    Implementation("reference", partial(_with, "reference")),
)
