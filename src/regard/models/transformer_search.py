"""A Transformer decoder's step in a search: keys and values stay where they were written.

The packed copy of a decoder owns the buffers of one search. Its state has only a table of slots, the place in the
buffers of each step of each hypothesis, so a beam reorders a few numbers and never keys and values. The source's keys
and values have one row for each sentence, which its hypotheses share. `regard.ops.transformer_step` computes all layers
in one call.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor, nn

from regard.attention import (
    BucketBiasWindow,
    CausalWindow,
    DroppedRead,
    FullWindow,
    Intersection,
    LinearBiasWindow,
    Mechanism,
    NormalisedDotScore,
    ProjectedSum,
    RotaryDotScore,
    ScaledDotScore,
    SlidingWindow,
    SoftmaxAlignment,
)
from regard.layers import (
    FeedForward,
    Residual,
)
from regard.layers.dropout import Dropout, drops
from regard.layers.eligibility import module_reason
from regard.layers.positions import position_angles
from regard.models.contract import DecoderOutput
from regard.models.outputs import named, output_of
from regard.models.transformer_layers import DecoderLayer
from regard.ops.choose import steps_for
from regard.ops.eligibility import autocast_reason, device_reason, kernel_reason, numba_reason, type_reason
from regard.ops.transformer_step import (
    Affine,
    AttentionWeights,
    LayerWeights,
    Layout,
    NormWeights,
    Present,
    Sources,
)

MODULE = "regard.ops.kernels.transformer_step"


@dataclass(frozen=True, slots=True)
class SearchMemory:
    """Which of the first sentences those are that remain, (B,); the packed copy keeps the rest."""

    sentences: Tensor


@dataclass(frozen=True, slots=True)
class TransformerSearchState:
    """Where the steps of hypotheses stand.

    Args:
        slots: (R, T) of 32 bits, the slot of every step in the buffers.
    """

    slots: Tensor


class Ineligible(Exception):
    """Why a layer has to be called."""


def unsupported_reason(decoder: Any, layer: type, memory: Any = None) -> str | None:
    """Why a decoder's searches have no such step, or None; without a memory, whether they ever can.

    Args:
        layer: the kind of its layers.
    """
    weights = tuple(decoder.parameters())
    if (reason := kernel_reason() or autocast_reason()) is not None:
        return reason
    if (reason := device_reason("cpu", *weights) or type_reason(*weights)) is not None:
        return reason
    if memory is not None and torch.is_grad_enabled():
        return "gradients may be asked for"
    if (reason := numba_reason(MODULE)) is not None:
        return reason
    try:
        described(decoder, layer)
    except Ineligible as error:
        return str(error)
    # keys and values are read where they stand, as numbers of the weights' type
    prepared = memory if isinstance(memory, tuple) else ()
    return type_reason(*weights[:1], *(tensor for part in prepared for tensor in (part.score, part.read)))


@dataclass(frozen=True, slots=True)
class Described:
    """What the step needs to know of a decoder's layers.

    Args:
        rotation: the number of features that are rotated, and the base; None without.
        windows: of each layer, those that prefer distances.
    """

    layers: tuple[LayerWeights, ...]
    layout: Layout
    rotation: tuple[int, float] | None
    windows: tuple[tuple[Any, ...], ...]


def described(decoder: Any, layer: type) -> Described:
    """The weights of a decoder's layers of one kind, and what the layers have in common.

    Raises:
        Ineligible: if a module inside has to be called, or is of a kind that the step does not know.
    """
    parts = [_layer(module, layer, f"layers.{index}") for index, module in enumerate(decoder.layers)]
    reach_of(decoder)
    layers, layouts, rotations, windows = zip(*parts, strict=True)
    if len(set(layouts)) > 1 or len(set(rotations)) > 1 or len({_shapes(layer) for layer in layers}) > 1:
        raise Ineligible("the layers differ in more than their weights")
    return Described(layers, layouts[0], rotations[0], windows)


def _shapes(layer: LayerWeights) -> tuple[Any, ...]:
    attentions = [part for part in (layer.attention, layer.cross_attention) if part is not None]
    maps = [map for part in attentions for map in (part.query, part.key, part.value, part.output)]
    maps += [layer.inner, layer.gate, layer.outer]
    return tuple(map and (map.weight.shape, map.bias is None) for map in maps)


def _require(module: Any, name: str, kinds: tuple[type, ...]) -> None:
    if (reason := module_reason(module, name, *kinds)) is not None:
        raise Ineligible(reason)


def _undropped(module: Any, name: str) -> None:
    _require(module, name, (Dropout, nn.Dropout))
    if drops(module):
        raise Ineligible("dropout is active")


def _affine(module: Any, name: str) -> Affine:
    _require(module, name, (nn.Linear,))
    if not module.weight.is_contiguous():
        raise Ineligible(f"the weight of {name} is not contiguous")
    return Affine(module.weight, module.bias)


def _norm(residual: Any, name: str) -> tuple[NormWeights, bool]:
    _require(residual, name, (Residual,))
    _undropped(residual.dropout, f"{name}.dropout")
    _require(residual.norm, f"{name}.norm", (nn.LayerNorm,))
    norm = residual.norm
    if norm.weight is None or norm.bias is None or len(norm.normalized_shape) > 1:
        raise Ineligible(f"{name}.norm has no weight and bias")
    return NormWeights(norm.weight, norm.bias, norm.eps), residual.first


def _layer(layer: Any, kind: type, name: str) -> tuple[LayerWeights, Layout, tuple[int, float] | None, tuple[Any, ...]]:
    """The weights of one layer, its layout, its rotation, and the windows that prefer distances."""
    _require(layer, name, (kind,))
    norms = [_norm(residual, f"{name}.residuals.{index}") for index, residual in enumerate(layer.residuals)]
    attention, heads, rotation, interleaved, windows = _attention(layer.attention, f"{name}.attention", causal=True)
    cross, cross_heads, turned = None, (0, 0, False), None
    if hasattr(layer, "cross_attention"):
        cross, cross_heads, turned, pairs, _ = _attention(
            layer.cross_attention, f"{name}.cross_attention", causal=False
        )
        if turned is not None and rotation is not None and (turned, pairs) != (rotation, interleaved):
            raise Ineligible("the step does not know two rotations")
        interleaved = interleaved if turned is None else pairs
    inner, outer, gate, activation = _feed_forward(layer.feed_forward, f"{name}.feed_forward")
    weights = LayerWeights(tuple(norm for norm, _ in norms), attention, cross, inner, outer, gate)
    layout = Layout(
        *heads[:2],
        *cross_heads[:2],
        normalised=heads[2],
        cross_normalised=cross_heads[2],
        is_pre=norms[0][1],
        activation=activation,
        interleaved=interleaved,
        rotated=rotation is not None,
        cross_rotated=turned is not None,
    )
    if any(first != layout.is_pre for _, first in norms):
        raise Ineligible("some norms are before the sublayers and others after them")
    return weights, layout, rotation or turned, windows


def _feed_forward(module: Any, name: str) -> tuple[Affine, Affine, Affine | None, Any]:
    _require(module, name, (FeedForward,))
    _undropped(module.dropout, f"{name}.dropout")
    inner, outer = _affine(module.inner, f"{name}.inner"), _affine(module.outer, f"{name}.outer")
    if module.gate is not None:
        return inner, outer, _affine(module.gate, f"{name}.gate"), "silu"
    return inner, outer, None, module.activation


def _attention(
    mechanism: Any, name: str, *, causal: bool
) -> tuple[AttentionWeights, tuple[int, int, bool], tuple[int, float] | None, bool, tuple[Any, ...]]:
    """The weights, numbers of heads and whether queries are normalised, rotation and its layout, and windows."""
    _require(mechanism, name, (Mechanism,))
    score, read, rotation, interleaved = mechanism.score, mechanism.read, None, True
    _require(score, f"{name}.score", (ScaledDotScore, RotaryDotScore, NormalisedDotScore))
    if type(score) is RotaryDotScore:
        rotation, interleaved = (score.rotary_size, score.base), score.layout == "interleaved"
        score = score.content
        _require(score, f"{name}.score.content", (ScaledDotScore, NormalisedDotScore))
    normalised = type(score) is NormalisedDotScore
    gain = None
    if normalised:
        gain, score = float(score.gain), score.content
        _require(score, f"{name}.score.content", (ScaledDotScore,))
    if type(read) is DroppedRead:
        _require(read, f"{name}.read", (DroppedRead,))
        _undropped(read.dropout, f"{name}.read.dropout")
        read = read.values
    _require(mechanism.alignment, f"{name}.alignment", (SoftmaxAlignment,))
    _require(read, f"{name}.read", (ProjectedSum,))
    if (read.num_heads, read.num_key_value_heads) != (score.num_heads, score.num_key_value_heads):
        raise Ineligible(f"{name} has other heads in its score than in its read")
    maps = [
        _affine(module, f"{name}.{part}")
        for module, part in (
            (score.query_projection, "score.query_projection"),
            (score.key_projection, "score.key_projection"),
            (read.value_projection, "read.value_projection"),
            (read.output_projection, "read.output_projection"),
        )
    ]
    query, key, value, output = maps
    if len(key.weight) != len(value.weight):
        raise Ineligible(f"{name} has keys and values of different sizes")
    scale = (score.scale if gain is None else gain) * mechanism.alignment.softmax_factor
    weights = AttentionWeights(query, output, scale, key if causal else None, value if causal else None)
    windows = tuple(_windows(mechanism.window, f"{name}.window", causal=causal))
    return weights, (score.num_heads, score.num_key_value_heads, normalised), rotation, interleaved, windows


def _windows(window: Any, name: str, *, causal: bool) -> Iterable[Any]:
    """The windows that prefer distances, if all others allow what the step attends to."""
    if not causal:
        _require(window, name, (FullWindow,))
        return
    inner = window.windows if type(window) is Intersection else [window]
    ends = 0
    for part in (window, *(inner if type(window) is Intersection else ())):
        _require(part, name, (Intersection, CausalWindow, SlidingWindow, LinearBiasWindow, BucketBiasWindow))
    for part in inner:
        if isinstance(part, SlidingWindow):
            if part.front != 0:
                raise Ineligible(f"{name} does not end at the step")
            ends += 1
        else:
            yield part
    if ends != 1:
        raise Ineligible(f"{name} does not end at the step")


def reach_of(decoder: Any) -> int | None:
    """How many steps a row attends to, its own included; None for all.

    Raises:
        Ineligible: if the layers differ.
    """
    backs = set()
    for layer in decoder.layers:
        window = layer.attention.window
        inner = window.windows if type(window) is Intersection else [window]
        backs |= {part.back for part in inner if isinstance(part, SlidingWindow)}
    if len(backs) != 1:
        raise Ineligible("the windows of the layers differ")
    (back,) = backs
    return None if back is None else back + 1


class TransformerSteps:
    """The layers' steps in one search, and what depends on the number of the step.

    Args:
        decoder: with `embedding`, `layers`, `norm` and `head`.
        layer: the kind of its layers.
        sources: what cross-attention reads, or None.
        rows: as many as there will be, about.
    """

    def __init__(self, decoder: Any, layer: type, sources: Sources | None, rows: int) -> None:
        self.described = described(decoder, layer)
        self.layers = steps_for("transformer_step", "cpu").LayerSteps(
            self.described.layers, self.described.layout, sources
        )
        self.reach = reach_of(decoder)
        self.embedding, self.norm = decoder.embedding, decoder.norm
        self.head = decoder.head
        self.like = next(decoder.layers.parameters())
        # of the first steps: the cosines and sines of rotations, the windows' biases
        self.tables: dict[str, Tensor] = {}

    def embed(self, inputs: Tensor, step: int, position: Tensor | None = None) -> Tensor:
        """x (R, D) of inputs at one step, or at positions (R,)."""
        at = torch.full((len(inputs),), step) if position is None else position
        return self.embedding(inputs, at).clone(memory_format=torch.contiguous_format)

    def run(self, x: Tensor, slots: Tensor, begins: Tensor, sentences: Tensor, weights: Any) -> tuple[Tensor, ...]:
        """Takes x (R, D) through the layers: the slots (R, T + 1) with those of this step, and weights if asked for."""
        rows, step = slots.shape
        first = self.layers.reserve(rows)
        added = torch.arange(first, first + rows, dtype=torch.int32)[:, None]
        slots = torch.cat([slots, added], 1)
        present = Present(slots, begins, sentences, self._bias(step + 1), self._turn(step))
        return slots, self.layers.run(x, first, present, weights=weights)

    def _turn(self, step: int) -> Tensor | None:
        if self.described.rotation is None:
            return None
        if step >= len(self.tables.get("turns", ())):
            angles = position_angles(torch.arange(2 * step + 32), *self.described.rotation)
            self.tables["turns"] = torch.stack([angles.cos(), angles.sin()], 1).to(self.like.dtype)
        return self.tables["turns"][step]

    def _bias(self, steps: int) -> Tensor | None:
        """The sums of the windows' biases by distance, (L, H, ≥ steps)."""
        windows, heads = self.described.windows, self.described.layout.num_heads
        if not windows[0]:
            return None
        if "bias" not in self.tables or steps > self.tables["bias"].shape[2]:
            offset = -torch.arange(2 * steps + 32)[None, None]
            parts = [sum(window.bias(offset, self.like.dtype)[0] for window in layer) for layer in windows]
            self.tables["bias"] = torch.stack([part.expand(heads, -1) for part in parts])
        return self.tables["bias"]


class PackedCopy:
    """Takes a `TransformerDecoder`'s steps for one search, where nothing is in the way (`unsupported_reason`).

    Slots are written once, so a state remains valid whatever steps are taken after it.

    Args:
        decoder: a `TransformerDecoder`.
        memory: what it prepared.
        rows: as many as there will be, about.
    """

    def __init__(self, decoder: Any, memory: Any, rows: int) -> None:
        sources = Sources(tuple(part.score for part in memory), tuple(part.read for part in memory), memory[0].mask)
        self.steps = TransformerSteps(decoder, DecoderLayer, sources, rows)
        self.continuous = decoder.continuous
        self.count = len(memory[0].read)
        self.last: list[Tensor] = []

    def begin(self) -> SearchMemory:
        """The memory that the steps read."""
        return SearchMemory(torch.arange(self.count))

    def initial_state(self, memory: SearchMemory, num_hypotheses: int = 1) -> TransformerSearchState:
        """As the decoder's."""
        return TransformerSearchState(torch.empty(len(memory.sentences) * num_hypotheses, 0, dtype=torch.int32))

    def step(
        self,
        inputs: Tensor,
        memory: SearchMemory,
        state: TransformerSearchState,
        *,
        alignment: bool = False,
        generator: Generator | None = None,
    ) -> tuple[DecoderOutput, TransformerSearchState]:
        """As the decoder's."""
        rows = len(inputs)
        x = self.steps.embed(inputs, state.slots.shape[1])
        sentences, begins = self._rows(memory, rows)
        slots, weights = self.steps.run(x, state.slots, begins, sentences, "cross" if alignment else None)
        alignments: dict[str, Tensor] = {}
        for index, layer in enumerate(() if weights is None else weights):
            alignments |= named(f"cross.{index}", layer)
        outputs = output_of(self.steps.head(self.steps.norm(x)), alignments, continuous=self.continuous)
        return outputs, TransformerSearchState(slots)

    def _rows(self, memory: SearchMemory, rows: int) -> tuple[Tensor, Tensor]:
        """The sentence of each row, and where it begins to attend: the same as long as no sentence leaves."""
        if not self.last or self.last[0] is not memory.sentences or len(self.last[1]) != rows:
            sentences = memory.sentences.repeat_interleave(rows // max(len(memory.sentences), 1))
            self.last[:] = memory.sentences, sentences, torch.zeros_like(sentences)
        return self.last[1], self.last[2]
