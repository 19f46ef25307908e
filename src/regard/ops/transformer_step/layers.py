"""What a step of the layers of a Transformer decoder computes, without autograd.

For each row r (a hypothesis), with `pre` (with `post`, u = x, and x ← norm(x + …)):

    u = norm_1(x)        q = W_q u,  k = W_k u,  v = W_v u          k and v into slot n + r of the layer's buffers
                         e_j = q · k_slot(r,j) + bias(t - j),  α = softmax(e),  x ← x + W_o Σ_j α_j v_slot(r,j)
    u = norm_2(x)        the same over the source's keys and values,                x ← x + W_o' Σ_j α_j v_j
    u = norm_3(x)        x ← x + W_2 f(W_1 u)  or, with a gate,  x ← x + W_2 (f(W_g u) ⊙ W_1 u)

The table `slots` (R, T) says where the keys and values of a hypothesis' steps stand: those that follow one hypothesis
share its slots, and nothing but the table moves when hypotheses change places. Slots are written once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

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
class LayerNorm:
    """g ⊙ (x - mean) / √(variance + ε) + b."""

    weight: Tensor
    bias: Tensor
    epsilon: float


@dataclass(frozen=True, slots=True)
class AttentionWeights:
    """An attention's maps; those of keys and values are None if its memory was prepared.

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

    norms: tuple[LayerNorm, ...]
    attention: AttentionWeights
    cross_attention: AttentionWeights | None
    inner: Affine
    outer: Affine
    gate: Affine | None = None


@dataclass(frozen=True, slots=True)
class Layout:
    """What the layers have in common.

    Args:
        num_heads, num_key_value_heads: of self-attention; heads side by side share keys and values.
        cross_heads, cross_key_value_heads: of cross-attention; 0 without it.
        normalised, cross_normalised: whether queries, and keys of self-attention, are divided by the norms of each head
            before they are rotated and scaled.
        is_pre: whether norms are before the sublayers.
        interleaved: which features of a head are rotated in pairs, neighbours or those of two halves.
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
    """What cross-attention reads, of B sentences.

    Args:
        keys, values: of each layer (B, S, G, D).
        mask: (B, S) or None.
    """

    keys: tuple[Tensor, ...]
    values: tuple[Tensor, ...]
    mask: Tensor | None


@dataclass(frozen=True, slots=True)
class Present:
    """Where the rows of a step stand.

    Args:
        slots: (R, T) of 32 bits, with the new slot in the last column.
        begins: (R,) long, the first of the columns that each row attends to.
        sentences: (R,) long, into which source each row looks.
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
    """Keys and values of all steps, (L, slots, G·D) each, and how many slots are taken."""

    keys: Tensor
    values: Tensor
    filled: int = 0


class AbstractLayerSteps(ABC):
    """The steps of layers, with their buffers; they belong to one search.

    Args:
        weights: of every layer.
        layout: what they have in common.
        sources: what cross-attention reads; None without.
    """

    def __init__(self, weights: tuple[LayerWeights, ...], layout: Layout, sources: Sources | None) -> None:
        self.weights, self.layout, self.sources = weights, layout, sources
        key = weights[0].attention.key
        assert key is not None
        self.width = key.weight.shape[0]
        nothing = key.weight.new_empty(len(weights), 0, self.width)
        self.buffers = Buffers(nothing, nothing)

    def reserve(self, count: int) -> int:
        """Makes room for so many slots: the number of the first. Buffers grow to twice their size."""
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
        """Copies what was prepared for each layer, (B, S, G, D): its slots (B, S)."""
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
        """Takes x (R, D) through the layers, in its place; returns weights (L, R, H, T or S) if asked for.

        Args:
            first: the slot of row 0; those of the others follow it.
            weights: of which attention.
        """
