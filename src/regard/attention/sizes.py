"""Sizes: splitting projections into heads, and checks of queries and memories."""

from __future__ import annotations

from torch import Tensor

from regard.attention.contract import Parts
from regard.errors import ShapeError
from regard.shapes import Float, describe, num_hypotheses


def head_size(size: int, num_heads: int, name: str = "size") -> int:
    """size / num_heads.

    Raises:
        ShapeError: if the size is not a multiple of the number of heads, or either is below 1.
    """
    if num_heads < 1 or size < 1:
        raise ShapeError(f"{name}={size} and num_heads={num_heads} must be 1 or more.")
    if size % num_heads:
        raise ShapeError(f"{name}={size} must be a multiple of num_heads={num_heads}.")
    return size // num_heads


def group_size(num_heads: int, num_key_value_heads: int | None) -> int:
    """The number of heads that share a key-value head: head h uses number h // group_size, as in torch and Keras.

    Args:
        num_key_value_heads: one for each head if None.

    Raises:
        ShapeError: if the number of heads is not a multiple of it.
    """
    groups = num_heads if num_key_value_heads is None else num_key_value_heads
    if groups < 1 or num_heads % groups:
        raise ShapeError(f"num_heads={num_heads} must be a multiple of num_key_value_heads={groups}.")
    return num_heads // groups


def heads_reason(parts: Parts, num_heads: int, description: str, *, shared: str | None = None) -> str | None:
    """Why a part with this number of heads cannot work with the score, or None.

    Args:
        description: the beginning of the reason, up to the number.
        shared: what the heads of the score share if the part has only one; None if they cannot.
    """
    heads = parts.score.num_heads
    if heads == num_heads or (shared is not None and num_heads == 1):
        return None
    sharing = "" if shared is None else f", or 1 for {shared} that they share"
    return f"{description} {num_heads} heads and the score has {heads}: give it num_heads={heads}{sharing}."


def split(projected: Float[Tensor, "*rows HD"], num_heads: int) -> Float[Tensor, "*rows H D"]:
    """(…, H·D) as (…, H, D), a view."""
    return projected.unflatten(-1, (num_heads, -1))


def share(query: Float[Tensor, "R H D"], keys: Float[Tensor, "B S G D"]) -> Float[Tensor, "B K H D"]:
    """Queries grouped by the sentence whose memory they read: (R, H, D) as (B, K, H, D), a view."""
    return query.view(keys.shape[0], num_hypotheses(query.shape[0], keys.shape[0]), *query.shape[1:])


def check_query(query: Tensor, size: int | None, *, sequence: bool = False) -> None:
    """Checks that the queries of a step are (R, Q), or those of a sequence (R, T, Q).

    Args:
        size: Q; any if None.

    Raises:
        ShapeError: for another shape.
    """
    axes = 3 if sequence else 2
    if query.dim() == axes and (size is None or query.shape[-1] == size):
        return
    shown = describe({"query": ("R T Q" if query.dim() == 3 else "R Q", query)})
    if query.dim() != axes:
        if sequence:
            expected = "forward takes the queries of all steps, (R, T, Q)"
            advice = "For one step call step, or give query[:, None]."
        else:
            expected = "step takes one query per row, (R, Q)"
            advice = "For all steps of a sequence call the mechanism itself (forward); for step t give query[:, t]."
        raise ShapeError(f"{expected}.\n{shown}\n  {advice}")
    raise ShapeError(
        f"The mechanism was built for queries of Q={size} features.\n{shown}\n"
        f"  Build it with query_size={query.shape[-1]}, or bring the queries to {size} features "
        f"(Linear({query.shape[-1]}, {size}))."
    )


def check_grid(grid: tuple[int, int], values: Tensor) -> None:
    """Checks that S = h·w for a grid (h, w) and values (B, S, M).

    Raises:
        ShapeError: otherwise.
    """
    rows, columns = grid
    if rows >= 0 and columns >= 0 and rows * columns == values.shape[1]:
        return
    raise ShapeError(
        f"A grid of h={rows} by w={columns} cells needs S={rows * columns} positions, s = y·w + x.\n"
        + describe({"values": ("B S M", values)})
    )


def check_memory(name: str, tensor: Tensor, size: int | None) -> None:
    """Checks the number of features of keys or values.

    Args:
        name: "keys" or "values".
        size: M; any if None.

    Raises:
        ShapeError: for another number.
    """
    if size is None or tensor.shape[-1] == size:
        return
    raise ShapeError(
        f"The mechanism was built for {name} of M={size} features.\n{describe({name: ('B S M', tensor)})}\n"
        f"  Build it with memory_size={tensor.shape[-1]}, or bring the {name} to {size} features "
        f"(Linear({tensor.shape[-1]}, {size}))."
    )
