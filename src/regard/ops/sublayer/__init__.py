"""Sublayers of a Transformer with their norm, dropout and residual connection, by the fastest implementation."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from regard.errors import ShapeError, UnsupportedError
from regard.ops.choose import Implementation, choose
from regard.ops.eligibility import (
    refuse_autocast,
    refuse_device,
    refuse_empty,
    refuse_kernels,
    refuse_numba,
    refuse_types,
)
from regard.ops.sublayer import reference
from regard.ops.sublayer.attention import CrossAttention, SelfAttention
from regard.ops.sublayer.feed_forward import FeedForward
from regard.ops.sublayer.fused import run
from regard.shapes import Bool, Float, describe

MIN_ROWS = 16
"""Positions of a batch from which on a sublayer is worth its preparation."""


def feed_forward_sublayer(
    x: Float[Tensor, "B T D"],
    norm_weight: Tensor,
    norm_bias: Tensor,
    inner_weight: Tensor,
    inner_bias: Tensor | None,
    outer_weight: Tensor,
    outer_bias: Tensor | None,
    gate_weight: Tensor | None = None,
    gate_bias: Tensor | None = None,
    mask: Float[Tensor, "B T D"] | None = None,
    inner_mask: Float[Tensor, "B T F"] | None = None,
    *,
    p: float = 0.0,
    activation: str = "relu",
    epsilon: float = 1e-5,
    norm_first: bool = True,
) -> Float[Tensor, "B T D"]:
    """x + m ⊙ f(norm(x)) or norm(x + m ⊙ f(x)), with f(n) = W₂ (m₁ ⊙ φ(W₁ n + b₁)) + b₂.

    Gated: f(n) = W₂ (m₁ ⊙ φ(W_g n + b_g) ⊙ (W₁ n + b₁)) + b₂.

    Args:
        norm_weight, norm_bias: of the layer norm.
        inner_weight, inner_bias, outer_weight, outer_bias: W₁ (F, D), b₁, W₂ (D, F), b₂.
        gate_weight, gate_bias: W_g (F, D) and b_g, only with `swiglu`.
        mask, inner_mask: m and m₁, the masks of dropout; None without.
        p: of the dropout m₁, which is 0 or 1 / (1 - p).
        activation: φ: `relu`, `gelu`, `silu`, or `swiglu`, a gated silu.
        epsilon: is added to the variance in the layer norm.
        norm_first: which of the two forms: pre-norm or post-norm.

    Raises:
        ShapeError: for sizes that do not fit together.
        UnsupportedError: for another activation, a gate without `swiglu` or the opposite.

    Source: Vaswani et al. 2017 (arXiv 1706.03762), sections 3.1 and 3.3; gated: Shazeer 2020 (arXiv 2002.05202).
    """
    size, hidden = x.shape[-1], inner_weight.shape[0]
    if inner_weight.shape[1] != size or outer_weight.shape != (size, hidden):
        raise _unfit({"x": ("B T D", x), "inner_weight": ("F D", inner_weight), "outer_weight": ("D F", outer_weight)})
    if activation not in reference.ACTIVATIONS:
        raise UnsupportedError(f"activation={activation!r} must be one of {', '.join(reference.ACTIVATIONS)}.")
    if (gate_weight is not None) != (activation == "swiglu"):
        raise UnsupportedError("A gate belongs to activation='swiglu', and to no other.")
    if gate_weight is not None and (
        gate_weight.shape != inner_weight.shape or (gate_bias is None) != (inner_bias is None)
    ):
        raise _unfit({"inner_weight": ("F D", inner_weight), "gate_weight": ("F D", gate_weight)})
    inputs = (
        x, norm_weight, norm_bias, inner_weight, inner_bias, outer_weight, outer_bias, gate_weight, gate_bias, mask,
        inner_mask,
    )  # fmt: skip
    options: dict[str, Any] = {"p": p, "activation": activation, "epsilon": epsilon, "norm_first": norm_first}
    return choose(FEED_FORWARD_SUBLAYER, *inputs, **options).function(*inputs, **options)


def self_attention_sublayer(
    x: Float[Tensor, "B T D"],
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
    mask: Float[Tensor, "B T D"] | None = None,
    support: Bool[Tensor, "B 1 T"] | None = None,
    turn: Tensor | None = None,
    *,
    num_heads: int = 1,
    num_key_value_heads: int = 1,
    scale: float = 1.0,
    causal: bool = False,
    epsilon: float = 1e-5,
    norm_first: bool = True,
) -> Float[Tensor, "B T D"]:
    """x + m ⊙ f(norm(x)) or norm(x + m ⊙ f(x)), with f(n) = W_o attention(R W_q n, R W_k n, W_v n) + b_o.

    Args:
        mask, epsilon, norm_first: as in `feed_forward_sublayer`.
        query_weight, …, output_bias: W_q, …, b_o.
        support: True at positions that may be attended to; a step without any gets f = 0.
        turn: R, complex numbers (T, E / 2) by which neighbouring features of queries and keys are turned; or None.
        num_heads, num_key_value_heads: H and G, a divisor of H.
        scale: on the energies.
        causal: whether step t attends to the positions 0 … t only.

    Raises:
        ShapeError: for sizes that do not fit together.

    Source: Vaswani et al. 2017 (arXiv 1706.03762), sections 3.1 and 3.2.
    """
    size = x.shape[-1]
    weights = {"query_weight": query_weight, "key_weight": key_weight, "value_weight": value_weight}
    if (
        any(weight.shape[1] != size for weight in weights.values())
        or num_heads % num_key_value_heads
        or any(len(weight) % num_key_value_heads for weight in weights.values())
        or len(key_weight) * num_heads != len(query_weight) * num_key_value_heads
        or output_weight.shape != (size, len(value_weight) * num_heads // num_key_value_heads)
    ):
        shown = {name: ("N D", weight) for name, weight in weights.items()}
        raise _unfit({"x": ("B T D", x), **shown, "output_weight": ("D V", output_weight)})
    inputs = (
        x, norm_weight, norm_bias, query_weight, key_weight, value_weight, output_weight, query_bias, key_bias,
        value_bias, output_bias, mask, support, turn,
    )  # fmt: skip
    options: dict[str, Any] = {"num_heads": num_heads, "num_key_value_heads": num_key_value_heads, "scale": scale}
    options |= {"causal": causal, "epsilon": epsilon, "norm_first": norm_first}
    return choose(SELF_ATTENTION_SUBLAYER, *inputs, **options).function(*inputs, **options)


def cross_attention_sublayer(
    x: Float[Tensor, "B T D"],
    norm_weight: Tensor,
    norm_bias: Tensor,
    query_weight: Tensor,
    keys: Float[Tensor, "B S G E"],
    values: Float[Tensor, "B S G V"],
    output_weight: Tensor,
    query_bias: Tensor | None = None,
    output_bias: Tensor | None = None,
    mask: Float[Tensor, "B T D"] | None = None,
    support: Bool[Tensor, "B 1 S"] | None = None,
    turn: Tensor | None = None,
    *,
    num_heads: int = 1,
    scale: float = 1.0,
    epsilon: float = 1e-5,
    norm_first: bool = True,
) -> Float[Tensor, "B T D"]:
    """x + m ⊙ f(norm(x)) or norm(x + m ⊙ f(x)), with f(n) = W_o attention(R W_q n, keys, values) + b_o.

    Args:
        mask, epsilon, norm_first: as in `feed_forward_sublayer`.
        query_weight, …, output_bias: W_q, W_o, b_q, b_o.
        keys, values: already projected, for G heads; G divides H.
        support: True at positions that may be attended to; a sentence without any gets f = 0.
        turn: R, as in `self_attention_sublayer`, of the queries only; the keys are turned already.
        num_heads: H.
        scale: on the energies.

    Raises:
        ShapeError: for sizes that do not fit together.

    Source: Vaswani et al. 2017 (arXiv 1706.03762), sections 3.1 and 3.2.
    """
    groups, width = keys.shape[2:]
    if (
        keys.shape[:3] != values.shape[:3]
        or keys.shape[0] != x.shape[0]
        or num_heads % groups
        or query_weight.shape != (num_heads * width, x.shape[-1])
        or output_weight.shape != (x.shape[-1], num_heads * values.shape[3])
    ):
        raise _unfit(
            {"x": ("B T D", x), "query_weight": ("N D", query_weight), "keys": ("B S G E", keys)}
            | {"values": ("B S G V", values), "output_weight": ("D V", output_weight)}
        )
    inputs = (
        x, norm_weight, norm_bias, query_weight, keys, values, output_weight, query_bias, output_bias, mask, support,
        turn,
    )  # fmt: skip
    options: dict[str, Any] = {"num_heads": num_heads, "scale": scale, "epsilon": epsilon, "norm_first": norm_first}
    return choose(CROSS_ATTENTION_SUBLAYER, *inputs, **options).function(*inputs, **options)


def refuse(*inputs: Any, **options: Any) -> str | None:
    """Why a sublayer of these inputs cannot be one node, or None."""
    tensors = [x for x in inputs if x is not None]
    if (reason := refuse_kernels(*tensors)) is not None or not tensors:
        return reason or refuse_numba(MODULE)
    x = tensors[0]
    return (
        refuse_device("cpu", *tensors)
        or refuse_types(*(tensor for tensor in tensors if tensor.is_floating_point()))
        or refuse_autocast(x)
        or refuse_empty(*tensors)
        or _refuse_shape(x)
        or refuse_numba(MODULE, x)
    )


def _refuse_shape(x: Any) -> str | None:
    if x.dim() != 3:
        return "it takes whole sequences"
    return "there are too few positions" if x.numel() < MIN_ROWS * x.shape[-1] else None


def _feed_forward(
    x: Tensor,
    norm_weight: Tensor,
    norm_bias: Tensor,
    *given: Any,
    p: float = 0.0,
    activation: str = "relu",
    **options: Any,
) -> Tensor:
    *weights, mask, inner_mask = (*given, *[None] * 4)[:8]
    inner = FeedForward(p, activation)
    return run(inner, x, norm_weight, norm_bias, mask, (*weights, inner_mask), **options)


def _self_attention(
    x: Tensor,
    norm_weight: Tensor,
    norm_bias: Tensor,
    *given: Any,
    num_heads: int = 1,
    num_key_value_heads: int = 1,
    scale: float = 1.0,
    causal: bool = False,
    **options: Any,
) -> Tensor:
    *weights, mask, support, turn = (*given, *[None] * 7)[:11]
    inner = SelfAttention(num_heads, num_key_value_heads, scale, causal)
    return run(inner, x, norm_weight, norm_bias, mask, (*weights, support, turn), **options)


def _cross_attention(
    x: Tensor,
    norm_weight: Tensor,
    norm_bias: Tensor,
    *given: Any,
    num_heads: int = 1,
    scale: float = 1.0,
    **options: Any,
) -> Tensor:
    *weights, mask, support, turn = (*given, *[None] * 5)[:9]
    inner = CrossAttention(num_heads, scale)
    return run(inner, x, norm_weight, norm_bias, mask, (*weights, support, turn), **options)


def _unfit(shown: dict[str, tuple[str, Tensor]]) -> ShapeError:
    return ShapeError(f"The weights of a sublayer must fit together and to its input.\n{describe(shown)}")


def _table(function: Any, plain: Any) -> tuple[Implementation, ...]:
    return Implementation("fused", function, refuse), Implementation("reference", plain)


MODULE = "regard.ops.sublayer.numba"
FEED_FORWARD_SUBLAYER = _table(_feed_forward, reference.feed_forward_sublayer)
SELF_ATTENTION_SUBLAYER = _table(_self_attention, reference.self_attention_sublayer)
CROSS_ATTENTION_SUBLAYER = _table(_cross_attention, reference.cross_attention_sublayer)
