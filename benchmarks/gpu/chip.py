"""What the chip can do: a copy and products of matrices, the limits that kernels are compared with."""

from __future__ import annotations

import torch
from place import FORMATS, Place, Result, rates, short
from speed.report import table


def section(place: Place) -> Result:
    """The rates in every format."""
    lines = []
    for dtype in FORMATS:
        measured = rates(place, dtype)
        lines.append([short(dtype), f"{measured.operations / 1e12:.1f}", f"{measured.traffic / 1e9:.0f}"])
    head = [
        "format",
        f"TFLOP/s of a product, {place.width} wide",
        f"GB/s of a copy of {place.megabytes} MB, read and written",
    ]
    precision = "float32 products are " + (
        "TF32" if torch.backends.cuda.matmul.allow_tf32 else "true float32, not TF32"
    )
    return Result([table(head, lines), f"{precision}."], figures=", ".join(f"{a} {b} TFLOP/s" for a, b, _ in lines))
