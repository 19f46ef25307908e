"""The largest entries by a stable sort."""

from __future__ import annotations

from torch import Tensor


def largest(values: Tensor, count: int, without: int | None = None) -> tuple[Tensor, Tensor]:
    """As the operation."""
    if without is not None:
        indices = values.new_zeros(values.shape[1]).bool()
        indices[without] = True
        values = values.masked_fill(indices, float("-inf"))
    values, indices = values.sort(dim=1, descending=True, stable=True)
    return values[:, :count].contiguous(), indices[:, :count].contiguous()
