"""Additive attention by the fastest implementation that takes the inputs."""

from __future__ import annotations

from torch import Tensor

from regard.errors import ShapeError
from regard.ops.additive_attention import blocks, reference
from regard.ops.choose import Implementation, choose
from regard.shapes import Bool, Float, describe


def additive_attention(
    query: Float[Tensor, "B T H D"],
    keys: Float[Tensor, "B S H D"],
    v: Float[Tensor, "H D"],
    values: Float[Tensor, "B S G V"],
    mask: Bool[Tensor, "B S"] | None = None,
    *,
    sharpening: float = 1.0,
) -> Float[Tensor, "B T H V"]:
    """c_t = Σ_s α_ts h_s with α = softmax(β v · tanh(q_t + k_s)) over the mask; heads side by side share values.

    A sentence without any position reads zeros.

    Args:
        sharpening: β.

    Raises:
        ShapeError: for sizes that do not fit together.

    Source: Bahdanau, Cho & Bengio 2015 (arXiv 1409.0473), equations 5 and 6, with everything already projected.

    >>> import torch
    >>> query, keys, values = torch.zeros(1, 2, 4, 3), torch.zeros(1, 5, 4, 3), torch.ones(1, 5, 1, 6)
    >>> additive_attention(query, keys, torch.ones(4, 3), values).shape
    torch.Size([1, 2, 4, 6])
    """
    if (
        {query.dim(), keys.dim(), values.dim()} != {4}
        or not len(query) == len(keys) == len(values)
        or keys.shape[1] != values.shape[1]
        or not query.shape[2:] == keys.shape[2:] == v.shape
        or values.shape[2] < 1
        or query.shape[2] % values.shape[2]
    ):
        named = {"query": ("B T H D", query), "keys": ("B S H D", keys), "v": ("H D", v), "values": ("B S G V", values)}
        raise ShapeError(f"The inputs must agree on B, S, H and D, and G must divide H.\n{describe(named)}")
    implementation = choose(ADDITIVE_ATTENTION, query, keys, v, values, mask)
    return implementation.function(query, keys, v, values, mask, sharpening=sharpening)


ADDITIVE_ATTENTION = (
    Implementation("blocks", blocks.additive_attention, blocks.refuse),
    Implementation("reference", reference.additive_attention),
)
