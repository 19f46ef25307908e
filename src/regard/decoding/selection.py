"""Choosing the largest entries, the same ones every time."""

from __future__ import annotations

from torch import Tensor


def largest(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` largest entries of each row (all, where there are fewer) and their places, largest first.

    Among equal ones the first come first. `Tensor.topk` alone promises neither their order nor which of them are
    chosen; a full sort is paid for only where equal finite entries lie on both sides of the cut.

    >>> import torch
    >>> largest(torch.tensor([[1.0, 3.0, 1.0, 1.0]]), 2)
    (tensor([[3., 1.]]), tensor([[1, 0]]))
    """
    width = values.shape[1]
    count = min(count, width)
    top, places = values.topk(min(count + 1, width), 1)
    if top.shape[1] > count and bool(((top[:, count - 1] == top[:, count]) & top[:, count].isfinite()).any()):
        top, places = values.sort(dim=1, descending=True, stable=True)
        return top[:, :count].contiguous(), places[:, :count].contiguous()
    places, order = places[:, :count].sort(1)
    top, order = top[:, :count].gather(1, order).sort(dim=1, descending=True, stable=True)
    return top, places.gather(1, order)
