"""Errors about queries and memories whose size is not the one that the mechanism was built for."""

from __future__ import annotations

from torch import Tensor

from regard.errors import ShapeError
from regard.shapes import describe


def check_query(query: Tensor, size: int | None, *, sequence: bool = False) -> None:
    """Checks that the queries of a step are (R, Q), or those of a sequence (R, T, Q).

    Args:
        size: Q, or None if any number of features will do.

    Raises:
        ShapeError: with the sizes and what to call or build instead.
    """
    axes = 3 if sequence else 2
    if query.dim() == axes and (size is None or query.shape[-1] == size):
        return
    shown = describe({"query": ("R T Q" if query.dim() == 3 else "R Q", query)})
    if query.dim() != axes:
        right = (
            "forward takes the queries of all steps, (R, T, Q)" if sequence else "step takes one query per row, (R, Q)"
        )
        advice = (
            "For one step call step, or give query[:, None]."
            if sequence
            else "For all steps of a sequence call the mechanism itself (forward); for step t give query[:, t]."
        )
        raise ShapeError(f"{right}.\n{shown}\n  {advice}")
    raise ShapeError(
        f"The mechanism was built for queries of Q={size} features.\n{shown}\n"
        f"  Build it with query_size={query.shape[-1]}, or bring the queries to {size} features "
        f"(Linear({query.shape[-1]}, {size}))."
    )


def check_grid(grid: tuple[int, int], values: Tensor) -> None:
    """Checks that the values (B, S, M) are as many as the grid (h, w) has cells.

    Raises:
        ShapeError: with both numbers.
    """
    rows, columns = grid
    if rows >= 0 and columns >= 0 and rows * columns == values.shape[1]:
        return
    raise ShapeError(
        f"A grid of h={rows} by w={columns} cells needs S={rows * columns} positions, s = y·w + x.\n"
        + describe({"values": ("B S M", values)})
    )


def check_memory(name: str, tensor: Tensor, size: int | None) -> None:
    """Checks that keys or values have the number of features that the part was built for.

    Args:
        name: "keys" or "values".
        size: M, or None if any number of features will do.

    Raises:
        ShapeError: with the sizes and what to build instead.
    """
    if size is None or tensor.shape[-1] == size:
        return
    raise ShapeError(
        f"The mechanism was built for {name} of M={size} features.\n{describe({name: ('B S M', tensor)})}\n"
        f"  Build it with memory_size={tensor.shape[-1]}, or bring the {name} to {size} features "
        f"(Linear({tensor.shape[-1]}, {size}))."
    )
