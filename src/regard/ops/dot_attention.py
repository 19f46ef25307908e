"""Attention by dot products, by the fastest implementation that takes the inputs."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from regard.errors import ShapeError
from regard.ops.autograd import without_autocast
from regard.ops.choose import Implementation, choose
from regard.ops.eligibility import compiles, empty_reason, kernel_reason
from regard.ops.softmax import masked_softmax
from regard.shapes import Bool, Float, describe

WIDE, MIN_PAIRS = 128, 1 << 16
"""On the CPU, for heads of fewer than `MIN_PAIRS` weights, plain products are faster if they are wider than `WIDE`, and
torch's gradients in a half type take two to twelve times as long as those in float32."""


def dot_attention(
    query: Float[Tensor, "B T H D"],
    keys: Float[Tensor, "B S G D"],
    values: Float[Tensor, "B S J V"],
    support: Bool[Tensor, "#B #T S"] | None = None,
    *,
    scale: float = 1.0,
    causal: bool = False,
) -> Float[Tensor, "B T H V"]:
    """c_t = Σ_s α_ts v_s with α = softmax(scale · q_t k_sᵀ) over the support; adjacent heads share keys and values.

    A query without support has a context of zeros.

    Args:
        support: which positions each query may attend to.
        causal: whether query t may attend only to the positions 0 … t.

    Raises:
        ShapeError: for sizes that disagree.

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


def reference(
    query: Float[Tensor, "B T H D"],
    keys: Float[Tensor, "B S G D"],
    values: Float[Tensor, "B S J V"],
    support: Bool[Tensor, "#B #T S"] | None = None,
    *,
    scale: float = 1.0,
    causal: bool = False,
) -> Float[Tensor, "B T H V"]:
    """The formula of `dot_attention`, with several tensors of T·S weights for every head."""
    if causal:
        past = query.new_ones(query.shape[1], keys.shape[1], dtype=torch.bool).tril()
        support = past[None] if support is None else support & past
    # n adjacent heads share keys: (B, T, G, n, D) × (B, S, G, D) to (B, G, n, T, S), heads joined again
    shared = query.unflatten(2, (keys.shape[2], -1))
    energies = scale * torch.einsum("btgnd,bsgd->bgnts", shared, keys).flatten(1, 2)
    weights = masked_softmax(energies, None if support is None else support[:, None])
    # values may be shared by another number of heads, J groups
    context = torch.einsum("bjnts,bsjv->btjnv", weights.unflatten(1, (values.shape[2], -1)), values)
    return context.flatten(2, 3)


def unsupported_reason(*inputs: Any, **options: Any) -> str | None:
    """Why torch's fused kernels cannot be taken for some inputs, or None."""
    if not inputs:
        return None
    query, keys, values = inputs[:3]
    if not compiles() and (reason := kernel_reason(*inputs)) is not None:
        return reason
    if not query.dtype == keys.dtype == values.dtype:
        return "query, keys and values are of different types"
    if keys.shape[3] != values.shape[3]:
        return f"the kernels need keys as wide as values; these have {keys.shape[3]} and {values.shape[3]} features"
    if (reason := empty_reason(query, keys, values)) is not None:
        return reason
    if keys.shape[3] > WIDE and _is_short_on_cpu(query, keys):
        return f"plain products are faster for heads of {keys.shape[3]} features and few weights"
    return None


def _is_short_on_cpu(query: Tensor, keys: Tensor) -> bool:
    return query.device.type == "cpu" and query.shape[1] * keys.shape[1] < MIN_PAIRS


def fused(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    support: Tensor | None = None,
    *,
    scale: float = 1.0,
    causal: bool = False,
) -> Tensor:
    """As the reference, by torch's fused kernels, which keep no weights: memory grows with T + S."""
    differentiable = torch.is_grad_enabled() and any(x.requires_grad for x in (query, keys, values))
    # a compiler differentiates the kernels itself
    if not differentiable or torch.compiler.is_compiling():
        return attend(query, keys, values, support, scale, causal)
    inputs = query, keys, values
    if query.dtype.itemsize < 4 and _is_short_on_cpu(query, keys):
        with without_autocast("cpu"):
            context: Tensor = _DotAttention.apply(*(x.float() for x in inputs), support, scale, causal)  # type: ignore[no-untyped-call]
        return context.to(query.dtype)
    return _DotAttention.apply(*inputs, support, scale, causal)  # type: ignore[no-untyped-call]


def attend(query: Tensor, keys: Tensor, values: Tensor, support: Tensor | None, scale: float, causal: bool) -> Tensor:
    """The context (B, T, H, V) by torch's kernels, which take (B, H, T, D).

    A query without support, for which some kernels give NaN, attends to all positions, and its context is set to 0.
    """
    if causal and support is not None:
        # torch may not take both a mask and `is_causal`: the triangle joins the support
        support, causal = support & support.new_ones(query.shape[1], keys.shape[1]).tril(), False
    # `enable_gqa` needs as many groups of keys as of values; otherwise both are repeated for every head
    heads = query.shape[2]
    if keys.shape[2] != values.shape[2]:
        keys, values = _for_heads(keys, heads), _for_heads(values, heads)
    # (B, T, 1); softmax over no position would be NaN in some kernels, and so would the gradients
    dead = None if support is None else ~support.any(-1, keepdim=True)
    context: Tensor = scaled_dot_product_attention(
        query.transpose(1, 2),
        keys.transpose(1, 2),
        values.transpose(1, 2),
        attn_mask=None if support is None or dead is None else (support | dead)[:, None],
        scale=scale,
        is_causal=causal,
        enable_gqa=keys.shape[2] != heads,
    ).transpose(1, 2)
    return context if dead is None else context.masked_fill(dead[..., None], 0)


def _for_heads(x: Tensor, heads: int) -> Tensor:
    """(B, S, G, ·) for every head, a view where G is 1."""
    if x.shape[2] == 1:
        return x.expand(-1, -1, heads, -1)
    return x.repeat_interleave(heads // x.shape[2], 2)


class _DotAttention(torch.autograd.Function):
    """Keeps the kernels' own graph; second derivatives, which they lack, are those of the reference."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, keys: Tensor, values: Tensor, *options: Any) -> Tensor:
        inputs = query, keys, values
        ctx.options = options
        ctx.save_for_backward(*inputs)
        # torch's graph from detached inputs to the context, which `backward` runs, whichever kernel torch has chosen
        leaves = [x.detach().requires_grad_(need) for x, need in zip(inputs, ctx.needs_input_grad, strict=False)]
        with torch.enable_grad():
            context = attend(leaves[0], leaves[1], leaves[2], *options)
        ctx.graph = context, leaves
        return context.detach()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        for_options = None, None, None
        if not torch.is_grad_enabled():
            context, leaves = ctx.graph
            needed = [x for x in leaves if x.requires_grad]
            # retained, as the outer graph may run backward again
            gradients = iter(torch.autograd.grad(context, needed, gradient, retain_graph=True))
            return *(next(gradients) if x.requires_grad else None for x in leaves), *for_options
        support, scale, causal = ctx.options
        function = partial(reference, support=support, scale=scale, causal=causal)
        return *torch.func.vjp(function, *ctx.saved_tensors)[1](gradient), *for_options


DOT_ATTENTION = (
    Implementation("fused", fused, unsupported_reason),
    Implementation("reference", reference),
)
