"""y = x Wᵀ + b by oneDNN, which torch contains and uses for other types than float32.

On AMD's processors with AVX-512 it is a tenth to a half faster than MKL, most with a packed weight and several threads.
On processors with AVX2 only, MKL is as fast or up to twice as fast, except for few rows times a large packed weight,
which are the only products of oneDNN there. It multiplies bfloat16 only with AVX-512.

oneDNN generates code for every shape of a product and caches that of the last 1,024 shapes. As numbers of rows vary
from product to product, this code would take more than a gigabyte. Importing this module therefore lowers both limits
to `CACHED_SHAPES`, unless the environment sets them.
"""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import Tensor

from regard.ops.eligibility import device_reason, gradient_reason, kernel_reason, type_reason

MIN_WORK = 1 << 21
"""The fewest multiply-adds for which oneDNN is faster."""
MIN_WORK_PACKED = 1 << 19
"""The same for a packed weight."""
MIN_WEIGHT = 3 << 17
"""The fewest numbers of a packed weight for which oneDNN is faster with AVX2 only."""
IS_WIDE = torch.backends.cpu.get_cpu_capability() != "AVX2"
"""Whether the processor has AVX-512, which MKL uses only on Intel's processors."""

CACHED_SHAPES = 40
"""Shapes whose generated code is cached, about a megabyte each."""

for _setting in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):  # oneDNN's own cache, and torch's above it
    os.environ.setdefault(_setting, str(CACHED_SHAPES))  # read once, when the first product is computed

_multiply: Any = getattr(torch.ops.mkldnn, "_linear_pointwise", None)
_reorder: Any = getattr(torch.ops.mkldnn, "_reorder_linear_weight", None)


def unsupported_reason(x: Any = None, weight: Any = None, bias: Any = None, *, packs: bool = False) -> str | None:
    """Why oneDNN does not compute x Wᵀ, or None.

    Args:
        packs: whether the weight will be packed.
    """
    if _multiply is None or _reorder is None or not torch.backends.mkldnn.is_available():
        return "torch was built without oneDNN"
    if not torch._C._get_mkldnn_enabled():
        return "torch.backends.mkldnn is switched off"
    if not IS_WIDE and not packs:
        return "torch's own products are as fast on a processor without AVX-512"
    if x is not None and weight is not None:
        if x.numel() * weight.shape[0] < (MIN_WORK_PACKED if packs else MIN_WORK):
            return "the product is too small"
        if not IS_WIDE and weight.numel() < MIN_WEIGHT:
            return "the weight is too small"
    return (
        kernel_reason(x, weight, bias)
        or device_reason("cpu", x)
        or type_reason(x, weight, types=(torch.float32, torch.bfloat16) if packs and IS_WIDE else (torch.float32,))
        or gradient_reason(x, weight, bias)
    )


def outer_reason(left: Any = None, right: Any = None) -> str | None:
    """Why oneDNN does not compute leftᵀ right, or None."""
    if left is None or right is None:
        return unsupported_reason()
    # (N, M) and (K, M), both transposed: what `linear` multiplies
    return unsupported_reason(left.t(), right.t())


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x Wᵀ + b; the weight may be packed."""
    # without a fused activation, its numbers and its variant
    return _multiply(_dense(x), weight if weight.is_mkldnn else _dense(weight), bias, "none", [], "")


def outer(left: Tensor, right: Tensor) -> Tensor:
    """leftᵀ right (N, K) of (M, N) and (M, K)."""
    return _multiply(_dense(left.t()), _dense(right.t()), None, "none", [], "")


def pack(weight: Tensor, rows: int) -> Tensor:
    """A weight in oneDNN's layout for products with this number of rows."""
    return _reorder(weight.detach().contiguous(), rows)


def _dense(x: Tensor) -> Tensor:
    """x if it or its transpose is contiguous, else a copy: oneDNN's other loops may be a thousand times as slow."""
    return x if x.is_contiguous() or (x.dim() == 2 and x.t().is_contiguous()) else x.contiguous()
