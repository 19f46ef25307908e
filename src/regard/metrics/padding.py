"""Removing the padding of alignments, before they are measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.errors import RegardError, ShapeError

Matrix = NDArray[np.float64]
"""(T, S) finite weights without padding; T or S may be 0."""

Measured = Any
"""A plain number for an alignment (T, S); an array shaped like the leading axes for (..., T, S)."""


class Padding(TypedDict, total=False):
    """Which part of a padded alignment is real; all of it by default.

    Each argument covers the first leading axes: an alignment (B, H, T, S) takes lengths of shape () or (B,) or (B, H),
    and masks of shape (S,) or (B, S) or (B, H, S).

    Args:
        source_length: integers between 0 and S. At most one of source_length and source_mask.
        target_length: integers between 0 and T. At most one of target_length and target_mask.
        source_mask: bool, True at real source positions.
        target_mask: bool, True at real target steps.
    """

    source_length: ArrayLike | None
    target_length: ArrayLike | None
    source_mask: ArrayLike | None
    target_mask: ArrayLike | None


def measure(function: Callable[[Matrix], float], alignment: Any, **padding: Unpack[Padding]) -> Measured:
    """Applies a measure of a matrix to an alignment with any number of leading axes, after removing padding.

    Args:
        function: from a matrix (T, S) to a number.
        alignment: (..., T, S) numpy array, tensor or nested lists; finite and not negative.

    Raises:
        ShapeError: for fewer than two axes, or lengths and masks that do not fit.
        RegardError: for weights that are NaN, infinite or negative where they are not padding.
    """
    weights, sources, targets, leading = flatten(alignment, **padding)
    results = [function(matrix[t][:, s]) for matrix, s, t in zip(weights, sources, targets, strict=True)]
    return np.array(results).reshape(leading) if leading else results[0]


def flatten(
    alignment: Any, **padding: Unpack[Padding]
) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], tuple[int, ...]]:
    """Weights (N, T, S) that are 0 at padding, the masks (N, S) and (N, T) of real positions, and the leading axes.

    Arguments and errors are those of `measure`.
    """
    weights = as_array(alignment)
    if weights.ndim < 2:
        raise ShapeError(
            f"An alignment must have at least the axes (T, S); got shape {weights.shape}.\n"
            "  For a single step (S,) use alignment[None]."
        )
    leading, (steps, positions) = weights.shape[:-2], weights.shape[-2:]
    sources = real_positions("source", positions, leading, padding.get("source_length"), padding.get("source_mask"))
    targets = real_positions("target", steps, leading, padding.get("target_length"), padding.get("target_mask"))
    real = targets[..., :, None] & sources[..., None, :]
    weights = np.where(real, weights.astype(np.float64), 0.0)
    wrong = np.argwhere(~np.isfinite(weights) | (weights < 0))
    if len(wrong):
        *index, step, position = wrong[0].tolist()
        raise RegardError(
            f"Weights must be finite and not negative; alignment{index or ''} has {weights[tuple(wrong[0])]} "
            f"at target step {step}, source position {position}.\n"
            "  For energies apply the alignment first; for a padded batch give its lengths or masks."
        )
    count = int(np.prod(leading, dtype=np.int64))
    sources, targets = sources.reshape(count, positions), targets.reshape(count, steps)
    return weights.reshape(count, steps, positions), sources, targets, leading


def as_array(values: Any, name: str = "") -> NDArray[Any]:
    """A numpy array from an array, nested lists or a tensor of any device and type; floating types become float64.

    Args:
        name: the beginning of messages, such as `source_length: `.
    """
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        values = values.double() if values.is_floating_point() else values
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ShapeError(f"{name}Expected an array, a tensor or nested lists of equal length ({error}).") from None
    if array.dtype.kind not in "biuf":
        raise ShapeError(f"{name}Expected an array, a tensor or nested lists of numbers; got {array.dtype}.")
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def real_positions(name: str, size: int, leading: tuple[int, ...], length: Any, mask: Any) -> NDArray[np.bool_]:
    """(..., size) bool, True at real positions."""
    if length is not None and mask is not None:
        raise ShapeError(f"Give {name}_length or {name}_mask, not both: each says which positions are real.")
    if length is None and mask is None:
        return np.ones((*leading, size), bool)
    if length is not None:
        lengths = as_array(length, f"{name}_length: ")
        axes = lengths.shape
        if lengths.dtype.kind not in "iu" or (lengths.size and not 0 <= lengths.min() <= lengths.max() <= size):
            raise ShapeError(f"{name}_length must be integers between 0 and {size}; got {lengths.tolist()}.")
        keep = np.arange(size) < lengths[..., None]
    else:
        keep = as_array(mask, f"{name}_mask: ")
        axes = keep.shape[:-1]
        if keep.dtype != bool or keep.shape[-1:] != (size,):
            raise ShapeError(f"{name}_mask must be (..., {size}) bool, True where real; got {keep.shape} {keep.dtype}.")
    if axes != leading[: len(axes)]:
        raise ShapeError(
            f"{name}_{'mask' if length is None else 'length'} must have the first leading axes of the alignment.\n"
            f"  the alignment's leading axes are {leading}, got {axes}"
        )
    return np.broadcast_to(keep.reshape(*axes, *(1,) * (len(leading) - len(axes)), size), (*leading, size))
