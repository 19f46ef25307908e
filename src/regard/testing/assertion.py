"""Assertions whose messages have the place and the size of a difference."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor

from regard import tree


def require(condition: bool, message: str) -> None:
    """Raises AssertionError with `message`, also under `python -O`."""
    if not condition:
        raise AssertionError(message)


def require_close(actual: Tensor, expected: Tensor, what: str, tolerance: float) -> None:
    """Requires that two tensors agree to a tolerance, absolute and relative; NaN equals nothing, infinity itself.

    >>> require_close(torch.tensor([1.0, 2.5]), torch.tensor([1.0, 2.0]), "context", 1e-6)
    Traceback (most recent call last):
    AssertionError: context differs at (1,): 2.5 instead of 2.0; 1e-06 is allowed.
    """
    require(
        actual.shape == expected.shape, f"{what} has shape {tuple(actual.shape)} instead of {tuple(expected.shape)}."
    )
    if actual.numel() == 0:
        return
    if not (actual.is_floating_point() and expected.is_floating_point()):
        tolerance = 0.0
    actual, expected = actual.detach().double(), expected.detach().double()
    wrong = ~(((actual - expected).abs() <= tolerance * (1 + expected.abs())) | (actual == expected))
    if bool(wrong.any()):
        excess = torch.where(wrong, (actual - expected).abs().nan_to_num(nan=torch.inf), -1.0)
        place = tuple(int(i) for i in torch.unravel_index(excess.argmax(), actual.shape))
        raise AssertionError(
            f"{what} differs at {place}: {float(actual[place])} instead of {float(expected[place])}; "
            f"{tolerance:g} is allowed."
        )


def require_close_trees(actual: Any, expected: Any, what: str, tolerance: float) -> None:
    """Requires that two trees have the same tensors."""
    ours, theirs = list(tree.leaves(actual)), list(tree.leaves(expected))
    require(len(ours) == len(theirs), f"{what} has {len(ours)} tensors instead of {len(theirs)}.")
    for index, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        require_close(a, b, f"{what}, tensor {index},", tolerance)


def require_finite(actual: Tensor, what: str) -> None:
    """Requires a tensor without NaN and infinity."""
    bad = ~torch.isfinite(actual)
    require(not bool(bad.any()), f"{what} has {int(bad.sum())} numbers of {bad.numel()} that are NaN or infinite.")


def require_rows(value: Any, rows: int, what: str) -> None:
    """Requires a tree (tensors, None, tuples, dicts and dataclasses) whose tensors have `rows` rows."""
    try:
        count = tree.rows(value)
    except (TypeError, ValueError) as error:
        raise AssertionError(f"the {what} is not a tree of rows: {error}") from error
    require(count == rows, f"the {what} has {count} rows instead of {rows}.")


def require_same_in_threads(run: Callable[[int], Any], count: int) -> None:
    """Requires that `run(0)`, … have the same results in two threads as in a single one."""
    expected = [run(number) for number in range(count)]
    with ThreadPoolExecutor(2) as pool:
        for ours, theirs in zip(pool.map(run, range(count)), expected, strict=True):
            require_close_trees(ours, theirs, "the result of one of two threads", 0.0)


def equally_wide(*alignments: Tensor) -> tuple[Tensor, ...]:
    """Alignments (…, S) of a growing memory, the narrower ones extended by zeros.

    >>> equally_wide(torch.ones(1), torch.ones(2))
    (tensor([1., 0.]), tensor([1., 1.]))
    """
    width = max(weights.shape[-1] for weights in alignments)
    return tuple(torch.nn.functional.pad(weights, (0, width - weights.shape[-1])) for weights in alignments)
