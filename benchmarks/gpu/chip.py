"""What the chip can do: a copy and products of matrices, which are the limits that kernels are held against."""

from __future__ import annotations

import torch
from place import FORMATS, Place, Result, rates, short

from regard.bench.report import table


def section(place: Place) -> Result:
    """Rates in every format."""
    lines = []
    for dtype in FORMATS:
        found = rates(place, dtype)
        lines.append([short(dtype), f"{found.operations / 1e12:.1f}", f"{found.traffic / 1e9:.0f}"])
    head = [
        "format",
        f"TFLOP/s of a product, {place.width} wide",
        f"GB/s of a copy of {place.megabytes} MB, read and written",
    ]
    said = "float32 products are " + ("TF32" if torch.backends.cuda.matmul.allow_tf32 else "true float32, not TF32")
    return Result([table(head, lines), f"{said}."], figures=", ".join(f"{a} {b} TFLOP/s" for a, b, _ in lines))
