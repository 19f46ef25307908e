"""Errors about queries and memories of another size than the mechanism was built for."""

from __future__ import annotations

from torch import Tensor

from regard.errors import ShapeError
from regard.shapes import describe


def check_query(query: Tensor, size: int | None, *, sequence: bool = False) -> None:
    """One step's queries are (R, Q), those of a sequence (R, T, Q).

    Args:
        size: Q, or None where any number of features will do.

    Raises:
        ShapeError: with the sizes and what to call or build instead.
    """
    axes = 3 if sequence else 2
    if query.dim() == axes and (size is None or query.shape[-1] == size):
        return
    shown = describe({"query": ("R T Q" if query.dim() == 3 else "R Q", query)})
    if query.dim() != axes:
        right = (
            "forward takes the queries of all steps, (R, T, Q)" if sequence else "step takes one query a row, (R, Q)"
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
        f"(torch.nn.Linear({query.shape[-1]}, {size}))."
    )


def check_memory(name: str, given: Tensor, size: int | None) -> None:
    """What is prepared has as many features as the part that projects or reads it was built for.

    Args:
        name: keys or values.
        size: M, or None where any number of features will do.

    Raises:
        ShapeError: with the sizes and what to build instead.
    """
    if size is None or given.shape[-1] == size:
        return
    raise ShapeError(
        f"The mechanism was built for {name} of M={size} features.\n{describe({name: ('B S M', given)})}\n"
        f"  Build it with memory_size={given.shape[-1]}, or bring the {name} to {size} features "
        f"(torch.nn.Linear({given.shape[-1]}, {size}))."
    )
