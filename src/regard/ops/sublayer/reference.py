"""The sublayers of a Transformer in torch's operations, differentiable as often as asked for.

n = norm(x), y = x + m ⊙ f(n)   if the norm is first (pre-norm);  else  y = norm(x + m ⊙ f(x))
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import gelu, layer_norm, linear, silu

from regard.ops.dot_attention import reference

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": torch.relu, "gelu": gelu, "silu": silu, "swiglu": silu}
"""φ, by name; `swiglu` is gated."""


def feed_forward_sublayer(
    x: Tensor,
    norm_weight: Tensor,
    norm_bias: Tensor,
    inner_weight: Tensor,
    inner_bias: Tensor | None,
    outer_weight: Tensor,
    outer_bias: Tensor | None,
    gate_weight: Tensor | None = None,
    gate_bias: Tensor | None = None,
    mask: Tensor | None = None,
    inner_mask: Tensor | None = None,
    *,
    p: float = 0.0,
    activation: str = "relu",
    epsilon: float = 1e-5,
    norm_first: bool = True,
) -> Tensor:
    """f(n) = W₂ (m₁ ⊙ h) + b₂ with h = φ(W₁ n + b₁) or, gated, φ(W_g n + b_g) ⊙ (W₁ n + b₁)."""
    function = ACTIVATIONS[activation]

    def change(n: Tensor) -> Tensor:
        hidden = linear(n, inner_weight, inner_bias)
        hidden = function(hidden) if gate_weight is None else function(linear(n, gate_weight, gate_bias)) * hidden
        return linear(hidden if inner_mask is None else hidden * inner_mask, outer_weight, outer_bias)

    return around(change, x, norm_weight, norm_bias, mask, epsilon, norm_first)


def self_attention_sublayer(
    x: Tensor,
    norm_weight: Tensor,
    norm_bias: Tensor,
    query_weight: Tensor,
    key_weight: Tensor,
    value_weight: Tensor,
    output_weight: Tensor,
    query_bias: Tensor | None = None,
    key_bias: Tensor | None = None,
    value_bias: Tensor | None = None,
    output_bias: Tensor | None = None,
    mask: Tensor | None = None,
    support: Tensor | None = None,
    turn: Tensor | None = None,
    *,
    num_heads: int = 1,
    num_key_value_heads: int = 1,
    scale: float = 1.0,
    causal: bool = False,
    epsilon: float = 1e-5,
    norm_first: bool = True,
) -> Tensor:
    """f(n) = W_o attention(R W_q n, R W_k n, W_v n) + b_o."""

    def change(n: Tensor) -> Tensor:
        q = turned(linear(n, query_weight, query_bias).unflatten(-1, (num_heads, -1)), turn)
        k = turned(linear(n, key_weight, key_bias).unflatten(-1, (num_key_value_heads, -1)), turn)
        v = linear(n, value_weight, value_bias).unflatten(-1, (num_key_value_heads, -1))
        context = reference.dot_attention(q, k, v, support, scale=scale, causal=causal).flatten(2)
        return written(context, output_weight, output_bias, support, causal)

    return around(change, x, norm_weight, norm_bias, mask, epsilon, norm_first)


def cross_attention_sublayer(
    x: Tensor,
    norm_weight: Tensor,
    norm_bias: Tensor,
    query_weight: Tensor,
    keys: Tensor,
    values: Tensor,
    output_weight: Tensor,
    query_bias: Tensor | None = None,
    output_bias: Tensor | None = None,
    mask: Tensor | None = None,
    support: Tensor | None = None,
    turn: Tensor | None = None,
    *,
    num_heads: int = 1,
    scale: float = 1.0,
    epsilon: float = 1e-5,
    norm_first: bool = True,
) -> Tensor:
    """f(n) = W_o attention(R W_q n, keys, values) + b_o."""

    def change(n: Tensor) -> Tensor:
        q = turned(linear(n, query_weight, query_bias).unflatten(-1, (num_heads, -1)), turn)
        context = reference.dot_attention(q, keys, values, support, scale=scale).flatten(2)
        return written(context, output_weight, output_bias, support, False)

    return around(change, x, norm_weight, norm_bias, mask, epsilon, norm_first)


def around(
    change: Callable[[Tensor], Tensor],
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    mask: Tensor | None,
    epsilon: float,
    norm_first: bool,
) -> Tensor:
    """The norm, the dropout m and the residual connection around f."""

    def norm(total: Tensor) -> Tensor:
        return layer_norm(total, x.shape[-1:], weight, bias, epsilon)

    changed = change(norm(x) if norm_first else x)
    total = x + (changed if mask is None else changed * mask)
    return total if norm_first else norm(total)


def turned(x: Tensor, turn: Tensor | None) -> Tensor:
    """x (B, T, H, D) with neighbouring features turned as complex numbers, by (T, D / 2)."""
    if turn is None:
        return x
    pairs = torch.view_as_complex(x.contiguous().unflatten(-1, (turn.shape[-1], 2)))
    return torch.view_as_real(pairs * turn[:, None]).flatten(-2)


def written(context: Tensor, weight: Tensor, bias: Tensor | None, support: Tensor | None, causal: bool) -> Tensor:
    """W_o c + b_o, and 0 for a query without support, which has no bias either."""
    change = linear(context, weight, bias)
    if bias is None or support is None:
        return change
    return change.masked_fill(~has_support(support, causal), 0)


def has_support(support: Tensor, causal: bool) -> Tensor:
    """(B, 1 or T, 1): which queries may attend to any position.

    Args:
        support: (B, 1, S) bool.
        causal: whether query t attends to positions up to t only.
    """
    return support.cumsum(2).transpose(1, 2) > 0 if causal else support.any(2, keepdim=True)
