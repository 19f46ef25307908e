"""Products by oneDNN, which torch has on board and takes for other types than float32.

On processors without Intel's instructions for matrices it is a tenth to a half faster than MKL, most with a weight
that is packed once for many products and with more than one thread.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.ops.eligibility import refuse_device, refuse_gradients, refuse_kernels, refuse_types

ENOUGH = 1 << 21
"""Multiply-adds from which on a call is worth its preparation."""

_multiply: Any = getattr(torch.ops.mkldnn, "_linear_pointwise", None)
_reorder: Any = getattr(torch.ops.mkldnn, "_reorder_linear_weight", None)


def refuse(x: Any = None, weight: Any = None, bias: Any = None) -> str | None:
    """Why it does not compute x Wᵀ, or None."""
    if _multiply is None or _reorder is None or not torch.backends.mkldnn.is_available():
        return "torch was built without oneDNN"
    if not torch._C._get_mkldnn_enabled():
        return "torch.backends.mkldnn is switched off"
    if x is not None and weight is not None and x.numel() * weight.shape[0] < ENOUGH:
        return "the product is too small"
    return (
        refuse_kernels(x, weight, bias)
        or refuse_device("cpu", x)
        or refuse_types(x, weight, types=(torch.float32,))
        or refuse_gradients(x, weight, bias)
    )


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x Wᵀ + b; the weight may be packed."""
    found: Tensor = _multiply(_dense(x), weight if weight.is_mkldnn else _dense(weight), bias, "none", [], "")
    return found


def pack(weight: Tensor, rows: int) -> Tensor:
    """A weight laid out for products with so many rows."""
    packed: Tensor = _reorder(weight.detach().contiguous(), rows)
    return packed


def _dense(x: Tensor) -> Tensor:
    """Without gaps, as it stands or transposed: else oneDNN may fall back to loops a thousand times as slow."""
    return x if x.is_contiguous() or (x.dim() == 2 and x.t().is_contiguous()) else x.contiguous()
