"""Layer norms on a GPU: every program has some whole rows.

    x̂ = s (x - m) with a row's mean m and s = 1 / √(variance + ε),  y = w x̂ + b
    g = w grad_y,  grad_x = s (g - mean of g - x̂ · mean of g x̂)
    grad_w = Σ grad_y x̂ and grad_b = Σ grad_y over all rows

Numbers are float32 in registers; y and its gradient are stored in a half type.
"""

# mypy: disable-error-code="no-untyped-def,import-untyped,import-not-found,untyped-decorator"

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

PROGRAMS = 256
"""Of the backward pass, two for each multiprocessor of a large GPU; each adds up its rows' gradients of w and b."""


def forward(
    x: Tensor, weight: Tensor, bias: Tensor, epsilon: float, kind: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    """y, and m and s of each row, from contiguous rows of float32."""
    y, (count, size, form) = torch.empty_like(x, dtype=kind), _form(x)
    means, scales = x.new_empty(2, count)
    with torch.cuda.device_of(x):
        forward_kernel[triton.cdiv(count, form["ROWS"]),](
            x, weight, bias, y, means, scales, count, size, epsilon, **form
        )
    return y, means, scales


def backward(grad_y: Tensor, x: Tensor, weight: Tensor, means: Tensor, scales: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of x, w and b, in float32."""
    grad_x, (count, size, form) = torch.empty_like(x), _form(x)
    programs = min(triton.cdiv(count, form["ROWS"]), PROGRAMS)
    # each program's part of the gradients of w and b, summed at the end in a fixed order
    shares = x.new_empty(2, programs, size)
    with torch.cuda.device_of(x):
        backward_kernel[programs,](grad_y, x, weight, means, scales, grad_x, *shares, count, size, **form)
    grad_weight, grad_bias = shares.sum(1)
    return grad_x, grad_weight, grad_bias


def _form(x: Tensor) -> tuple[int, int, dict[str, Any]]:
    """The numbers of rows and of features, and the tile of a program: about 2,048 numbers."""
    size = x.shape[-1]
    columns = triton.next_power_of_2(size)
    tile = {"ROWS": min(max(2048 // columns, 1), 16), "COLUMNS": columns, "num_warps": 4 if columns <= 2048 else 8}
    return x.numel() // size, size, tile


@triton.jit
def forward_kernel(x, weight, bias, y, means, scales, count, size, epsilon, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """y (count, size), m and s (count) of ROWS rows."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, COLUMNS)[None, :]
    inside = (row < count)[:, None] & (column < size)
    place = row[:, None].to(tl.int64) * size + column  # int64: count · size may be beyond 2³¹
    values = tl.load(x + place, mask=inside, other=0.0)
    mean = tl.sum(values, 1) / size
    centred = tl.where(inside, values - mean[:, None], 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(centred * centred, 1) / size + epsilon)
    w = tl.load(weight + column, mask=column < size, other=0.0)
    b = tl.load(bias + column, mask=column < size, other=0.0)
    tl.store(y + place, (centred * scale[:, None] * w + b).to(y.dtype.element_ty), mask=inside)
    tl.store(means + row, mean, mask=row < count)
    tl.store(scales + row, scale, mask=row < count)


@triton.jit
def backward_kernel(
    grad_y,
    x,
    weight,
    means,
    scales,
    grad_x,
    weight_shares,
    bias_shares,
    count,
    size,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """grad_x (count, size), and a program's shares (programs, size) of grad_w and grad_b."""
    column = tl.arange(0, COLUMNS)[None, :]
    w = tl.load(weight + column, mask=column < size, other=0.0)
    grad_w = tl.zeros([ROWS, COLUMNS], dtype=tl.float32)
    grad_b = tl.zeros([ROWS, COLUMNS], dtype=tl.float32)
    for start in range(tl.program_id(0) * ROWS, count, tl.num_programs(0) * ROWS):
        row = start + tl.arange(0, ROWS)
        inside = (row < count)[:, None] & (column < size)
        place = row[:, None].to(tl.int64) * size + column
        mean = tl.load(means + row, mask=row < count, other=0.0)[:, None]
        scale = tl.load(scales + row, mask=row < count, other=0.0)[:, None]
        normalised = tl.where(inside, (tl.load(x + place, mask=inside, other=0.0) - mean) * scale, 0.0)
        outer = tl.load(grad_y + place, mask=inside, other=0.0).to(tl.float32)
        grad_w += outer * normalised
        grad_b += outer
        g = outer * w
        change = tl.sum(g, 1)[:, None] / size + normalised * (tl.sum(g * normalised, 1)[:, None] / size)
        tl.store(grad_x + place, scale * (g - change), mask=inside)
    feature = tl.arange(0, COLUMNS)
    place = tl.program_id(0) * size + feature
    tl.store(weight_shares + place, tl.sum(grad_w, 0), mask=feature < size)
    tl.store(bias_shares + place, tl.sum(grad_b, 0), mask=feature < size)
