"""The weights of torch's attention functions, computed from the arguments of their calls.

    α = softmax(scale · q kᵀ + bias), in float32, or in float64 if q is; before dropout

A query that may attend to no position has weights of 0. The result is filled in blocks, which bounds temporary memory.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention.bias import CausalBias

from regard.errors import ShapeError
from regard.shapes import Float

BLOCK = 1 << 22
"""The number of weights of a block."""


@dataclass(frozen=True)
class Keep:
    """Which heads are kept, and how.

    Args:
        heads: their numbers, negative ones from the last; all if None.
        dtype, device: of the kept weights; those of the computation if None.
    """

    heads: tuple[int, ...] | None = None
    dtype: torch.dtype | None = None
    device: torch.device | None = None

    def choose(self, num_heads: int) -> list[int]:
        """The numbers of the kept heads, from 0.

        Raises:
            ShapeError: for a missing head.
        """
        chosen = range(num_heads) if self.heads is None else self.heads
        if any(not -num_heads <= head < num_heads for head in chosen):
            raise ShapeError(f"heads={list(chosen)}, but an attention of the model has {num_heads} heads.")
        return [head % num_heads for head in chosen]

    def copy(self, weights: Float[Tensor, "R H T S"]) -> Tensor:
        """A copy of the kept heads."""
        if self.heads is not None:
            weights = weights[:, self.choose(weights.shape[1])]
        return weights.detach().to(device=self.device, dtype=self.dtype, copy=True)


def softmax_weights(
    query: Float[Tensor, "B H T D"],
    key: Float[Tensor, "B G S D"],
    bias: Tensor | None,
    keep: Keep,
    *,
    scale: float,
    causal: bool = False,
) -> Float[Tensor, "B H T S"]:
    """The weights of the kept heads.

    Args:
        bias: (·, ·, T, S) that broadcasts: True where a position may be attended to, or numbers to add to energies.
        causal: whether query t may attend only to positions 0 … t.
    """
    batch, num_heads, steps, _ = query.shape
    positions, shared = key.shape[2], num_heads // max(key.shape[1], 1)
    heads = keep.choose(num_heads)
    groups = [head // shared for head in heads]
    kind = torch.float64 if query.dtype == torch.float64 else torch.float32
    result = torch.empty(
        batch, len(heads), steps, positions, dtype=keep.dtype or kind, device=keep.device or query.device
    )
    if not result.numel():
        return result
    if bias is not None and bias.shape[1] > 1:
        bias = bias[:, heads]
    columns = torch.arange(positions, device=query.device)
    rows = min(steps, max(1, BLOCK // (len(heads) * positions)))
    items = max(1, BLOCK // (len(heads) * positions * rows))
    for first in range(0, batch, items):
        some = slice(first, first + items)
        q, k = query[some, heads].to(kind), key[some, groups].to(kind).mT
        local = bias if bias is None or len(bias) == 1 else bias[some]
        for start in range(0, steps, rows):
            part = slice(start, start + rows)
            energies = (scale * q[:, :, part]) @ k
            if local is not None:
                some_bias = local if local.shape[2] == 1 else local[:, :, part]
                if some_bias.dtype == torch.bool:
                    energies = energies.masked_fill(~some_bias, float("-inf"))
                else:
                    energies = energies + some_bias.to(kind)
            if causal:
                at = torch.arange(start, start + energies.shape[2], device=query.device)
                energies = energies.masked_fill(columns > at[:, None], float("-inf"))
            dead = energies.amax(-1, keepdim=True) == float("-inf")
            result[some, :, part] = energies.softmax(-1).masked_fill(dead, 0).to(result)
    return result


def of_scaled_dot_product(
    keep: Keep,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """The weights of `scaled_dot_product_attention`; without heads H = 1, and further axes are a part of B.

    Query, key and mask broadcast to each other, as in the products and sums that the function computes.
    """
    if scale is None:
        scale = query.size(-1) ** -0.5  # nested tensors have no shape
    if query.is_nested:
        return _of_nested(keep, query, key, scale=scale, causal=is_causal)
    mask: Any = attn_mask._materialize(query.device) if isinstance(attn_mask, CausalBias) else attn_mask
    if mask is not None and mask.dim() < 2:
        mask = mask.view(1, -1)
    if enable_gqa and query.dim() == 3:  # heads without a batch
        query, key = query[None], key[None]
    of_key = (*key.shape[:-3], query.shape[-3]) if enable_gqa else key.shape[:-2]
    lead = torch.broadcast_shapes(query.shape[:-2], of_key, () if mask is None else mask.shape[:-2])
    query = query.expand(*lead, *query.shape[-2:])
    parts = [None if x is None else _four_axes(x, lead) for x in (query, key, mask)]
    return softmax_weights(
        cast(Tensor, parts[0]), cast(Tensor, parts[1]), parts[2], keep, scale=scale, causal=is_causal
    )


def _four_axes(x: Tensor, lead: Sequence[int]) -> Tensor:
    """(…, ·, ·) as (B, ·, ·, ·), where `lead` are the axes of the weights before T and S, the last of them the heads.

    Heads are not expanded: keys may have fewer, and a mask one for all.
    """
    if len(lead) < 2:  # no heads
        x = x.expand(*lead, *x.shape[-2:]).unsqueeze(-3)
        return x if lead else x[None]
    heads = x.shape[-3] if x.dim() > 2 else 1
    return x.expand(*lead[:-1], heads, *x.shape[-2:]).flatten(0, -4)


def _of_nested(keep: Keep, query: Tensor, key: Tensor, *, scale: float, causal: bool) -> Tensor:
    """The weights of nested tensors of sentences (H, T, D), padded with 0."""
    sentences = [
        softmax_weights(q[None], k[None], None, keep, scale=scale, causal=causal)[0]
        for q, k in zip(query.unbind(), key.unbind(), strict=True)
    ]
    sizes = torch.tensor([weights.shape for weights in sentences]).amax(0).tolist()
    result = sentences[0].new_zeros(len(sentences), *sizes)
    for row, weights in zip(result, sentences, strict=True):
        row[:, : weights.shape[1], : weights.shape[2]] = weights
    return result


_MULTI_HEAD = inspect.signature(F.multi_head_attention_forward)


def of_multi_head(keep: Keep, *args: Any, **kwargs: Any) -> Tensor:
    """The weights of `multi_head_attention_forward`, which projects (T, B, E) or, without a batch, (T, E)."""
    bound = _MULTI_HEAD.bind(*args, **kwargs)
    bound.apply_defaults()
    named = bound.arguments
    query, key = named["query"], named["key"]
    has_batch = query.dim() == 3
    if not has_batch:
        query, key = query[:, None], key[:, None]
    size, num_heads = query.shape[2], named["num_heads"]
    if named["use_separate_proj_weight"]:
        of_query, of_key = named["q_proj_weight"], named["k_proj_weight"]
    else:
        of_query, of_key, _ = named["in_proj_weight"].chunk(3)
    biases = (None,) * 3 if named["in_proj_bias"] is None else named["in_proj_bias"].chunk(3)
    q = _project(query.transpose(0, 1), of_query, biases[0]).unflatten(2, (num_heads, -1)).transpose(1, 2)
    if named["static_k"] is not None:
        k = named["static_k"].unflatten(0, (-1, num_heads))
    else:
        k = _project(key.transpose(0, 1), of_key, biases[1])
        if named["bias_k"] is not None:
            k = torch.cat([k, named["bias_k"].to(k).expand(len(k), 1, -1)], 1)
        k = k.unflatten(2, (num_heads, -1)).transpose(1, 2)
    if named["add_zero_attn"]:
        k = torch.cat([k, torch.zeros_like(k[:, :, :1])], 2)
    padding = named["key_padding_mask"]
    if padding is not None and not has_batch:
        padding = padding[None]
    bias = _joined(named["attn_mask"], padding, num_heads, k.shape[2], q.dtype)
    return softmax_weights(q, k, bias, keep, scale=(size // num_heads) ** -0.5)


def _joined(
    attn_mask: Tensor | None, padding: Tensor | None, num_heads: int, positions: int, kind: torch.dtype
) -> Tensor | None:
    """The bias (·, ·, T, S) of energies from masks of `nn.MultiheadAttention`, where True leaves a position out.

    Further positions (`bias_k`, `add_zero_attn`) are always allowed.
    """
    masks = []
    if attn_mask is not None:
        masks.append(attn_mask[None, None] if attn_mask.dim() == 2 else attn_mask.unflatten(0, (-1, num_heads)))
    if padding is not None:
        masks.append(padding[:, None, None])
    for index, mask in enumerate(masks):
        if mask.dtype == torch.bool:
            mask = torch.zeros_like(mask, dtype=kind).masked_fill(mask, float("-inf"))
        masks[index] = F.pad(mask, (0, positions - mask.shape[-1]))
    return sum(masks[1:], masks[0]) if masks else None


def _project(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x Wᵀ + b in float32 or wider."""
    kind = torch.float64 if x.dtype == torch.float64 else torch.float32
    return F.linear(x.to(kind), weight.to(kind), None if bias is None else bias.to(kind))


def of_native_multi_head(keep: Keep, *args: Any) -> Tensor:
    """The weights of the fused path of `nn.MultiheadAttention` in inference: self-attention of (B, T, E), or nested."""
    query, _, _, _, num_heads, weight, bias, _, _, mask, _, _, mask_type = args
    return _of_itself(keep, query, num_heads, weight, bias, mask, mask_type)


def of_encoder_layer(keep: Keep, *args: Any) -> Tensor:
    """The weights of the fused path of `nn.TransformerEncoderLayer` in inference."""
    x, _, num_heads, weight, bias, _, _, _, norm_first, eps, norm_weight, norm_bias = args[:12]
    if norm_first:
        x = F.layer_norm(x, norm_weight.shape, norm_weight, norm_bias, eps)
    return _of_itself(keep, x, num_heads, weight, bias, *args[18:20])


def _of_itself(
    keep: Keep,
    x: Tensor,
    num_heads: int,
    weight: Tensor,
    bias: Tensor,
    mask: Tensor | None = None,
    mask_type: int | None = None,
) -> Tensor:
    """The weights of self-attention of x (B, T, E). The fused paths leave out positions at which the mask is not 0."""
    if x.is_nested:
        lengths = torch.tensor([len(sentence) for sentence in x.unbind()], device=x.device)
        x = x.to_padded_tensor(0.0)
        allowed: Tensor | None = torch.arange(x.shape[1], device=x.device) < lengths[:, None, None, None]
    else:
        lengths, allowed = None, None if mask is None else mask == 0
        if allowed is not None and mask_type in (0, 1):  # (T, S), or the padding (B, S)
            allowed = allowed[None, None] if mask_type == 0 else allowed[:, None, None]
    # the weights of queries and keys; those of the values are not needed
    query, key = (
        _project(x, weight[: 2 * x.shape[2]], bias[: 2 * x.shape[2]]).unflatten(2, (2, num_heads, -1)).unbind(2)
    )
    scale = query.shape[3] ** -0.5
    weights = softmax_weights(query.transpose(1, 2), key.transpose(1, 2), allowed, keep, scale=scale)
    if lengths is not None:  # a nested sentence has no queries beyond its end
        ended = torch.arange(x.shape[1], device=x.device)[:, None] >= lengths[:, None, None, None]
        weights = weights.masked_fill(ended.to(weights.device), 0)
    return weights


Weigh = Callable[..., Tensor]
WEIGH: dict[Any, Weigh] = {
    F.scaled_dot_product_attention: of_scaled_dot_product,
    torch.ops.aten.scaled_dot_product_attention: of_scaled_dot_product,
    torch.ops.aten.scaled_dot_product_attention.default: of_scaled_dot_product,
    F.multi_head_attention_forward: of_multi_head,
    torch._native_multi_head_attention: of_native_multi_head,
    torch._transformer_encoder_layer_fwd: of_encoder_layer,
}
"""By function of torch, a function that computes its weights (B, H, T, S) from the same arguments."""
