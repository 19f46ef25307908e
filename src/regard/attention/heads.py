"""Splitting projections into heads, and attending to a memory that hypotheses share."""

from __future__ import annotations

from torch import Tensor

from regard.attention.contract import Parts
from regard.errors import ShapeError
from regard.shapes import Float, num_hypotheses


def head_size(size: int, num_heads: int, name: str = "size") -> int:
    """size / num_heads, or an error that says which sizes fit."""
    if num_heads < 1 or size < 1:
        raise ShapeError(f"{name}={size} and num_heads={num_heads} must be 1 or more.")
    if size % num_heads:
        raise ShapeError(f"{name}={size} must be a multiple of num_heads={num_heads}.")
    return size // num_heads


def group_size(num_heads: int, num_key_value_heads: int | None) -> int:
    """How many heads share a key-value head, or an error that names both counts; None means that none share.

    Adjacent heads share: head h uses key-value head h // group_size, as in torch and Keras.
    """
    groups = num_heads if num_key_value_heads is None else num_key_value_heads
    if groups < 1 or num_heads % groups:
        raise ShapeError(f"num_heads={num_heads} must be a multiple of num_key_value_heads={groups}.")
    return num_heads // groups


def refuse_heads(parts: Parts, num_heads: int, says: str, *, shared: str | None = None) -> str | None:
    """Why a part for so many heads cannot work with the score, or None.

    Args:
        says: what the part does, up to the number.
        shared: what all heads share if the part has one; None if then, too, the score must have as many.
    """
    heads = parts.score.num_heads
    if heads == num_heads or (shared is not None and num_heads == 1):
        return None
    sharing = "" if shared is None else f", or 1 for {shared} that they share"
    return f"{says} {num_heads} heads and the score has {heads}: give it num_heads={heads}{sharing}."


def split(projected: Float[Tensor, "*rows HD"], num_heads: int) -> Float[Tensor, "*rows H D"]:
    """(…, H·D) as (…, H, D), a view."""
    return projected.unflatten(-1, (num_heads, -1))


def share(query: Float[Tensor, "R H D"], keys: Float[Tensor, "B S G D"]) -> Float[Tensor, "B K H D"]:
    """Queries grouped by the sentence whose memory they read: (R, H, D) as (B, K, H, D), a view."""
    return query.view(keys.shape[0], num_hypotheses(query.shape[0], keys.shape[0]), *query.shape[1:])
