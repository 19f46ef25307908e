"""A step of the layers of a Transformer decoder in operations of torch."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from regard.ops.transformer_step.layers import AbstractLayerSteps, Affine, AttentionWeights, LayerNorm, Present


class LayerSteps(AbstractLayerSteps):
    """As the abstract class says."""

    def run(
        self, x: Tensor, first: int, present: Present, *, weights: Literal["self", "cross"] | None = None
    ) -> Tensor | None:
        layout, rows = self.layout, len(x)
        seen = []
        for number, layer in enumerate(self.weights):
            norms = iter(layer.norms)
            # self-attention: k and v into their slots, then all slots of a row by the table
            u, norm = self._enter(x, next(norms))
            attention = layer.attention
            assert attention.key is not None
            assert attention.value is not None
            turn = present.turn if layout.rotated else None
            key = self._headed(_affine(attention.key, u), layout.num_key_value_heads, layout.normalised, turn)
            self.buffers.keys[number, first : first + rows] = key.flatten(1)
            self.buffers.values[number, first : first + rows] = _affine(attention.value, u)
            query = self._headed(_affine(attention.query, u), layout.num_heads, layout.normalised, turn)
            slots = present.slots.long()
            buffers = self.buffers.keys[number], self.buffers.values[number]
            keys, values = (part[slots].unflatten(2, (layout.num_key_value_heads, -1)) for part in buffers)
            steps = torch.arange(slots.shape[1])
            bias = None if present.bias is None else present.bias[number][:, steps.flip(0)]
            context, alpha = _attend(query * attention.scale, keys, values, steps >= present.begins[:, None], bias)
            self._leave(x, _output(attention, context, alpha), norm)
            seen += [alpha] if weights == "self" else []
            if layer.cross_attention is not None:
                assert self.sources is not None
                attention = layer.cross_attention
                u, norm = self._enter(x, next(norms))
                turn = present.turn if layout.cross_rotated else None
                query = self._headed(_affine(attention.query, u), layout.cross_heads, layout.cross_normalised, turn)
                keys, values = (part[number][present.sentences] for part in (self.sources.keys, self.sources.values))
                mask = None if self.sources.mask is None else self.sources.mask[present.sentences]
                context, alpha = _attend(query * attention.scale, keys, values, mask, None)
                self._leave(x, _output(attention, context, alpha), norm)
                seen += [alpha] if weights == "cross" else []
            u, norm = self._enter(x, next(norms))
            inner = _affine(layer.inner, u)
            if layer.gate is None:
                inner = _FUNCTIONS[layout.activation](inner)
            else:
                inner = _FUNCTIONS[layout.activation](_affine(layer.gate, u)) * inner
            self._leave(x, _affine(layer.outer, inner), norm)
        return torch.stack(seen) if weights is not None else None

    def _enter(self, x: Tensor, norm: LayerNorm) -> tuple[Tensor, LayerNorm]:
        return (_norm(x, norm) if self.layout.is_pre else x), norm

    def _leave(self, x: Tensor, change: Tensor, norm: LayerNorm) -> None:
        x += change
        if not self.layout.is_pre:
            x.copy_(_norm(x, norm))

    def _headed(self, x: Tensor, heads: int, normalised: bool, turn: Tensor | None) -> Tensor:
        """(R, H, D), of length 1 if `normalised`, rotated."""
        x = x.unflatten(1, (heads, -1))
        if normalised:
            x = functional.normalize(x, dim=-1)
        if turn is None:
            return x
        cos, sin = turn
        pairs = len(cos)
        shape, pair = ((pairs, 2), -1) if self.layout.interleaved else ((2, pairs), -2)
        a, b = x[..., : 2 * pairs].unflatten(-1, shape).unbind(pair)
        turned = torch.stack([a * cos - b * sin, a * sin + b * cos], pair).flatten(-2)
        return torch.cat([turned, x[..., 2 * pairs :]], -1)


_FUNCTIONS = {"relu": torch.relu, "gelu": functional.gelu, "silu": functional.silu}


def _affine(affine: Affine, x: Tensor) -> Tensor:
    return functional.linear(x, affine.weight, affine.bias)


def _norm(x: Tensor, norm: LayerNorm) -> Tensor:
    return functional.layer_norm(x, x.shape[-1:], norm.weight, norm.bias, norm.epsilon)


def _attend(
    query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, bias: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Contexts (R, H·V) and weights (R, H, S) of queries (R, H, D), keys and values (R, S, G, ·), mask (R, S)."""
    sharing = query.shape[1] // keys.shape[2]
    keys, values = (part.repeat_interleave(sharing, 2) for part in (keys, values))
    energies = torch.einsum("rhd,rshd->rhs", query, keys)
    energies = energies if bias is None else energies + bias
    if mask is not None:
        energies = energies.masked_fill(~mask[:, None], float("-inf"))
    alpha = energies.softmax(-1)
    if mask is not None:  # a row that may attend to nothing gets zeros
        alpha = alpha.masked_fill(~mask[:, None], 0)
    return torch.einsum("rhs,rshv->rhv", alpha, values).flatten(1), alpha


def _output(attention: AttentionWeights, context: Tensor, alpha: Tensor) -> Tensor:
    """W_o c + b, and zeros for rows without weights."""
    return _affine(attention.output, context).masked_fill(~(alpha != 0).flatten(1).any(1, keepdim=True), 0)
