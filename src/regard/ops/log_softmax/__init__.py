"""Log-probabilities, in the place of the logits where a kernel takes them."""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import Tensor

from regard.ops.choose import Implementation, choose, loaded
from regard.ops.eligibility import refuse_empty, refuse_kernels, refuse_numba, refuse_types
from regard.shapes import Float

MODULE = "regard.ops.log_softmax.numba"


def _refuse(logits: Any = None) -> str | None:
    if logits is not None and (logits.dim() != 2 or not logits.is_contiguous()):
        return "it takes rows without gaps, (R, N)"
    if logits is not None and logits.requires_grad:
        return "gradients are asked for"
    return refuse_numba(MODULE, logits) or refuse_types(logits) or refuse_empty(logits) or refuse_kernels(logits)


LOG_SOFTMAX = (
    Implementation("numba", loaded(MODULE, "log_softmax"), _refuse),
    Implementation("reference", partial(Tensor.log_softmax, dim=-1)),
)


def log_softmax(logits: Float[Tensor, "*rows N"]) -> Float[Tensor, "*rows N"]:
    """x_n - log Σ_m exp(x_m), without autograd. The operation may write into the logits.

    >>> import torch
    >>> log_softmax(torch.zeros(1, 4)).exp()
    tensor([[0.2500, 0.2500, 0.2500, 0.2500]])
    """
    return choose(LOG_SOFTMAX, logits).function(logits)
