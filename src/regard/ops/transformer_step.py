"""One step of the layers of a Transformer decoder, without autograd, with keys and values in buffers of all steps.

For each row r (a hypothesis), with `pre` (with `post`, u = x, and x ← norm(x + …)):

    u = norm_1(x)        q = W_q u,  k = W_k u,  v = W_v u          k and v into slot n + r of the layer's buffers
                         e_j = q · k_slot(r,j) + bias(t - j),  α = softmax(e),  x ← x + W_o Σ_j α_j v_slot(r,j)
    u = norm_2(x)        the same over the source's keys and values,                x ← x + W_o' Σ_j α_j v_j
    u = norm_3(x)        x ← x + W_2 f(W_1 u)  or, with a gate,  x ← x + W_2 (f(W_g u) ⊙ W_1 u)

The table `slots` (R, T) has the slots of the keys and values of a hypothesis' steps. Hypotheses with a common beginning
share its slots, and reordering hypotheses moves only the table. Slots are written once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

Activation = Literal["relu", "gelu", "silu"]


@dataclass(frozen=True, slots=True)
class Affine:
    """W x + b.

    Args:
        weight: (N, K).
        bias: (N,) or None.
    """

    weight: Tensor
    bias: Tensor | None = None


@dataclass(frozen=True, slots=True)
class NormWeights:
    """g ⊙ (x - mean) / √(variance + ε) + b."""

    weight: Tensor
    bias: Tensor
    epsilon: float


@dataclass(frozen=True, slots=True)
class AttentionWeights:
    """The linear maps of an attention; those of keys and values are None if its memory was prepared.

    Args:
        scale: of q · k.
    """

    query: Affine
    output: Affine
    scale: float
    key: Affine | None = None
    value: Affine | None = None


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """The weights of a layer.

    Args:
        norms: one for each sublayer.
        cross_attention: None in a layer without it.
        inner, outer, gate: W_1, W_2, and W_g or None.
    """

    norms: tuple[NormWeights, ...]
    attention: AttentionWeights
    cross_attention: AttentionWeights | None
    inner: Affine
    outer: Affine
    gate: Affine | None = None


@dataclass(frozen=True, slots=True)
class Layout:
    """The options that all layers have in common.

    Args:
        num_heads, num_key_value_heads: of self-attention; adjacent heads share keys and values.
        cross_heads, cross_key_value_heads: of cross-attention; 0 without it.
        normalised, cross_normalised: whether queries, and keys of self-attention, are divided by their norms, head by
            head, before they are rotated and scaled.
        is_pre: whether norms are before the sublayers.
        interleaved: whether rotated pairs are adjacent features, or features of both halves.
        rotated, cross_rotated: whether `Present.turn` rotates queries and keys of self-attention, and queries of
            cross-attention, whose keys are rotated already.
    """

    num_heads: int
    num_key_value_heads: int
    cross_heads: int = 0
    cross_key_value_heads: int = 0
    normalised: bool = False
    cross_normalised: bool = False
    is_pre: bool = True
    activation: Activation = "relu"
    interleaved: bool = True
    rotated: bool = False
    cross_rotated: bool = False


@dataclass(frozen=True, slots=True)
class Sources:
    """The memory of cross-attention, of B sentences.

    Args:
        keys, values: of each layer (B, S, G, D).
        mask: (B, S) or None.
    """

    keys: tuple[Tensor, ...]
    values: tuple[Tensor, ...]
    mask: Tensor | None


@dataclass(frozen=True, slots=True)
class Present:
    """The rows of a step.

    Args:
        slots: (R, T) of 32 bits, with the new slot in the last column.
        begins: (R,) long, the first column that each row attends to.
        sentences: (R,) long, the number of each row's source.
        bias: (L, H, ≥ T) by distance t - j, or None.
        turn: (2, P), the cosines and sines of this step's rotation; None if nothing is rotated.
    """

    slots: Tensor
    begins: Tensor
    sentences: Tensor
    bias: Tensor | None = None
    turn: Tensor | None = None


@dataclass(slots=True)
class Buffers:
    """Keys and values of all steps, (L, slots, G·D) each, and the number of slots in use."""

    keys: Tensor
    values: Tensor
    filled: int = 0


class AbstractLayerSteps(ABC):
    """The steps of a decoder's layers in one search, with their buffers.

    Args:
        weights: of every layer.
        sources: None without cross-attention.
    """

    def __init__(self, weights: tuple[LayerWeights, ...], layout: Layout, sources: Sources | None) -> None:
        self.weights, self.layout, self.sources = weights, layout, sources
        key = weights[0].attention.key
        assert key is not None
        self.width = key.weight.shape[0]
        nothing = key.weight.new_empty(len(weights), 0, self.width)
        self.buffers = Buffers(nothing, nothing)

    def reserve(self, count: int) -> int:
        """Reserves slots and returns the number of the first; full buffers double their size."""
        buffers = self.buffers
        first, buffers.filled = buffers.filled, buffers.filled + count
        if buffers.filled > buffers.keys.shape[1]:
            capacity = max(buffers.filled, 2 * buffers.keys.shape[1], 64)
            buffers.keys = self._grown(buffers.keys, capacity, first)
            buffers.values = self._grown(buffers.values, capacity, first)
        return first

    def _grown(self, part: Tensor, capacity: int, filled: int) -> Tensor:
        wider = part.new_empty(len(part), capacity, self.width)
        wider[:, :filled] = part[:, :filled]
        return wider

    def fill(self, keys: tuple[Tensor, ...], values: tuple[Tensor, ...]) -> Tensor:
        """Copies prepared keys and values of each layer, (B, S, G, D), and returns their slots (B, S)."""
        rows, steps = keys[0].shape[:2]
        first = self.reserve(rows * steps)
        last = self.buffers.filled
        for layer, (key, value) in enumerate(zip(keys, values, strict=True)):
            self.buffers.keys[layer, first:last] = key.reshape(rows * steps, self.width)
            self.buffers.values[layer, first:last] = value.reshape(rows * steps, self.width)
        return torch.arange(first, last, dtype=torch.int32).view(rows, steps)

    @abstractmethod
    def run(
        self, x: Tensor, first: int, present: Present, *, weights: Literal["self", "cross"] | None = None
    ) -> Tensor | None:
        """Overwrites x (R, D) with the output of the last layer; returns weights (L, R, H, T or S), or None.

        Args:
            first: the slot of row 0; those of the others follow.
            weights: the attention whose weights are returned.
        """


class LayerSteps(AbstractLayerSteps):
    """By operations of torch."""

    def run(
        self, x: Tensor, first: int, present: Present, *, weights: Literal["self", "cross"] | None = None
    ) -> Tensor | None:
        layout, rows = self.layout, len(x)
        seen = []
        for number, layer in enumerate(self.weights):
            norms = iter(layer.norms)
            # self-attention: k and v into their slots, then all slots of a row by the table
            u = self._enter(x, norm := next(norms))
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
                u = self._enter(x, norm := next(norms))
                turn = present.turn if layout.cross_rotated else None
                query = self._headed(_affine(attention.query, u), layout.cross_heads, layout.cross_normalised, turn)
                keys, values = (part[number][present.sentences] for part in (self.sources.keys, self.sources.values))
                mask = None if self.sources.mask is None else self.sources.mask[present.sentences]
                context, alpha = _attend(query * attention.scale, keys, values, mask, None)
                self._leave(x, _output(attention, context, alpha), norm)
                seen += [alpha] if weights == "cross" else []
            u = self._enter(x, norm := next(norms))
            inner = _affine(layer.inner, u)
            if layer.gate is None:
                inner = _FUNCTIONS[layout.activation](inner)
            else:
                inner = _FUNCTIONS[layout.activation](_affine(layer.gate, u)) * inner
            self._leave(x, _affine(layer.outer, inner), norm)
        return torch.stack(seen) if weights is not None else None

    def _enter(self, x: Tensor, norm: NormWeights) -> Tensor:
        return _norm(x, norm) if self.layout.is_pre else x

    def _leave(self, x: Tensor, change: Tensor, norm: NormWeights) -> None:
        x += change
        if not self.layout.is_pre:
            x.copy_(_norm(x, norm))

    def _headed(self, x: Tensor, heads: int, normalised: bool, turn: Tensor | None) -> Tensor:
        """(R, H, D), rotated, and before of norm 1 if `normalised`."""
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


def _norm(x: Tensor, norm: NormWeights) -> Tensor:
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
    if mask is not None:  # a row whose mask is all False gets zeros
        alpha = alpha.masked_fill(~mask[:, None], 0)
    return torch.einsum("rhs,rshv->rhv", alpha, values).flatten(1), alpha


def _output(attention: AttentionWeights, context: Tensor, alpha: Tensor) -> Tensor:
    """W_o c + b, and zeros for rows without weights."""
    return _affine(attention.output, context).masked_fill(~(alpha != 0).flatten(1).any(1, keepdim=True), 0)
