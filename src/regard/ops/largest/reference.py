"""The largest entries by a stable sort."""

from __future__ import annotations

from torch import Tensor


def largest(values: Tensor, count: int, without: int | None = None) -> tuple[Tensor, Tensor]:
    """As the operation."""
    if without is not None:
        places = values.new_zeros(values.shape[1]).bool()
        places[without] = True
        values = values.masked_fill(places, float("-inf"))
    values, places = values.sort(dim=1, descending=True, stable=True)
    return values[:, :count].contiguous(), places[:, :count].contiguous()
