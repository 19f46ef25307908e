"""Attention by dot products, by the fastest implementation that takes the inputs."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from regard.errors import ShapeError
from regard.ops.choose import Implementation, choose
from regard.ops.dot_attention import fused, reference
from regard.shapes import Bool, Float, describe


def dot_attention(
    query: Float[Tensor, "B T H D"],
    keys: Float[Tensor, "B S G D"],
    values: Float[Tensor, "B S J V"],
    support: Bool[Tensor, "#B #T S"] | None = None,
    *,
    scale: float = 1.0,
    causal: bool = False,
) -> Float[Tensor, "B T H V"]:
    """c_t = Σ_s α_ts v_s with α = softmax(scale · q_t k_sᵀ) over the support; heads side by side share keys and values.

    A query without support reads zeros.

    Args:
        support: which positions each query may attend to.
        causal: whether query t may attend only to the positions 0 … t.

    Raises:
        ShapeError: for sizes that do not fit together.

    Source: Vaswani et al. 2017 (arXiv 1706.03762), equation 1, with everything already projected.

    >>> import torch
    >>> dot_attention(torch.zeros(1, 2, 4, 3), torch.zeros(1, 5, 2, 3), torch.ones(1, 5, 1, 3)).shape
    torch.Size([1, 2, 4, 3])
    """
    shapes: Any = (query.shape, keys.shape, values.shape)
    if (
        {len(shape) for shape in shapes} != {4}
        or not query.shape[0] == keys.shape[0] == values.shape[0]
        or keys.shape[1] != values.shape[1]
        or query.shape[3] != keys.shape[3]
        or any(shape[2] < 1 or query.shape[2] % shape[2] for shape in shapes)
    ):
        shown = describe({"query": ("B T H D", query), "keys": ("B S G D", keys), "values": ("B S J V", values)})
        raise ShapeError(f"The inputs must agree on B, S and D, and G and J must divide H.\n{shown}")
    implementation = choose(DOT_ATTENTION, query, keys, values, support)
    return implementation.function(query, keys, values, support, scale=scale, causal=causal)


DOT_ATTENTION = (
    Implementation("fused", fused.dot_attention, fused.refuse),
    Implementation("reference", reference.dot_attention),
)
