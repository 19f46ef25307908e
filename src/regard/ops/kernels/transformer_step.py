"""A step of the layers of a Transformer decoder as one compiled loop; the equations are in `ops.transformer_step`.

Products read the weights in place (`regard.ops.kernels.compiled.tiles`), so that a search packs or copies nothing, and
run without the interpreter or a dispatcher in between: with few rows a step takes as long as reading its weights.

Blocks of rows pass all layers one after the other. Within a block, four rows of a weight (N, K) stay in the first cache
for all rows.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from regard.ops.kernels.compiled import called, compiled
from regard.ops.kernels.compiled.elementary import power, sigmoid
from regard.ops.kernels.compiled.order import largest
from regard.ops.kernels.compiled.tiles import byte_products, gathered_products, gathered_sum, products
from regard.ops.kernels.linear import quantise, quantise_row, scale_sums
from regard.ops.over_steps import stores_bytes
from regard.ops.threads import parallel_for
from regard.ops.transformer_step import AbstractLayerSteps, Affine, AttentionWeights, LayerWeights, Present

BLOCK = 32
"""Rows of a block, whose features in the feed-forward sublayer fit the second cache."""
QUERY, KEY, VALUE, OUTPUT, CROSS_QUERY, CROSS_OUTPUT, INNER, GATE, OUTER = map(np.int64, range(9))
"""Numbers of the matrices of a layer, of numpy, as kernels would be compiled for each literal of Python."""
NORMS = np.int64(9)
ZERO = np.int64(0)
"""Vectors of a layer: the biases by the numbers of their matrices, then weight and bias of each norm."""
RELU, GELU, SILU = range(3)
_ACTIVATIONS = {"relu": RELU, "gelu": GELU, "silu": SILU}


class LayerSteps(AbstractLayerSteps):
    """By a compiled loop."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        layout, layers = self.layout, self.weights
        kind = layers[0].inner.weight.dtype
        every = [_maps(layer) for layer in layers]
        matrices = [[None if map is None else map.weight.detach() for map in maps] for maps in every]
        self.kept: list[Any] = [matrices]
        self.scales, self.shifts = np.empty((0, 0), np.float32), np.empty((0, 0), np.int32)
        if stores_bytes():
            # bytes instead of matrices, and scales and shifts of all outputs of a layer in one array
            stored = [[None if matrix is None else quantise(matrix) for matrix in row] for row in matrices]
            matrices = [[None if weight is None else weight.values for weight in row] for row in stored]
            present = [[weight for weight in row if weight is not None] for row in stored]
            self.scales = torch.stack([torch.cat([weight.scales for weight in row]) for row in present]).numpy()
            self.shifts = torch.stack([torch.cat([weight.shifts for weight in row]) for row in present]).numpy()
            self.kept.append(stored)
        self.matrices = np.array(
            [[0 if matrix is None else matrix.data_ptr() for matrix in row] for row in matrices], np.int64
        )
        self.sizes = np.array([(0, 0) if map is None else map.weight.shape for map in every[0]], np.int64)
        self.outputs = np.cumsum([0, *self.sizes[:, 0]])
        vectors = [_vectors(layer, maps) for layer, maps in zip(layers, every, strict=True)]
        self.at = np.cumsum([0, *(len(part) for part in vectors[0])])
        self.vectors = torch.stack([torch.cat(parts) for parts in vectors]).detach().to(kind).numpy()
        self.factors = np.array([[_scale(layer.attention), _scale(layer.cross_attention)] for layer in layers])
        self.factors = self.factors.astype(self.vectors.dtype)
        self.epsilons = np.array([[norm.epsilon for norm in layer.norms] for layer in layers], self.vectors.dtype)
        self.flags = (
            layout.num_heads,
            layout.num_key_value_heads,
            layout.cross_heads,
            layout.cross_key_value_heads,
            layout.normalised,
            layout.cross_normalised,
            layout.is_pre,
            layout.interleaved,
            layout.rotated,
            layout.cross_rotated,
            _ACTIVATIONS[layout.activation],
        )
        no_mask = np.empty((0, 0), np.bool_)
        self.unturned = np.empty((0, 0), self.vectors.dtype)
        if self.sources is None:
            self.source = (np.zeros((0, 2), np.int64), np.empty(0, np.int32), no_mask)
        else:
            parts = [
                (key.contiguous(), value.contiguous()) for key, value in zip(self.sources.keys, self.sources.values)
            ]
            self.kept += [part for pair in parts for part in pair]
            mask = no_mask if self.sources.mask is None else self.sources.mask.contiguous().numpy()
            places = np.arange(parts[0][0].shape[1], dtype=np.int32)
            self.source = (np.array([[part.data_ptr() for part in pair] for pair in parts]), places, mask)

    def run(
        self, x: Tensor, first: int, present: Present, *, weights: Literal["self", "cross"] | None = None
    ) -> Tensor | None:
        rows, steps, layout = len(x), present.slots.shape[1], self.layout
        none = np.empty((0, 0, 0, 0), self.vectors.dtype)
        alphas = {"self": none, "cross": none}
        if weights is not None:
            heads, width = {
                "self": (layout.num_heads, steps),
                "cross": (layout.cross_heads, len(self.source[1])),
            }[weights]
            alphas[weights] = np.zeros((len(self.weights), rows, heads, width), none.dtype)
        threads = torch.get_num_threads()
        unit = max(8, -(-rows // threads))
        count = -(-rows // unit)
        arguments = (
            unit,
            self.matrices,
            self.sizes,
            self.vectors,
            self.at,
            self.factors,
            self.epsilons,
            self.flags,
            self.scales,
            self.shifts,
            self.outputs,
            x.numpy(),
            self.buffers.keys.numpy(),
            self.buffers.values.numpy(),
            first,
            present.slots.numpy(),
            present.begins.numpy(),
            present.sentences.numpy(),
            np.empty((0, 0, 0), none.dtype) if present.bias is None else present.bias.numpy(),
            self.unturned if present.turn is None else present.turn.numpy(),
            *self.source,
            alphas["self"],
            alphas["cross"],
        )
        parallel_for(_step, arguments, count, rows * int(self.sizes.prod(1).sum()) * len(self.weights))
        return None if weights is None else torch.from_numpy(alphas[weights])


def _maps(layer: LayerWeights) -> list[Affine | None]:
    """The linear maps of a layer in the order of their numbers."""
    attention, cross = layer.attention, layer.cross_attention
    crosses = (None, None) if cross is None else (cross.query, cross.output)
    return [
        attention.query,
        attention.key,
        attention.value,
        attention.output,
        *crosses,
        layer.inner,
        layer.gate,
        layer.outer,
    ]


def _vectors(layer: LayerWeights, maps: list[Affine | None]) -> list[Tensor]:
    nothing = layer.inner.weight.new_empty(0)
    biases = [nothing if map is None or map.bias is None else map.bias.detach() for map in maps]
    return [*biases, *(part.detach() for norm in layer.norms for part in (norm.weight, norm.bias))]


def _scale(attention: AttentionWeights | None) -> float:
    return 0.0 if attention is None else attention.scale


@compiled
def _step(
    unit: int,
    matrices: Any,
    sizes: Any,
    vectors: Any,
    at: Any,
    factors: Any,
    epsilons: Any,
    flags: Any,
    scales: Any,
    shifts: Any,
    outputs: Any,
    x: Any,
    keys: Any,
    values: Any,
    first: int,
    slots: Any,
    begins: Any,
    sentences: Any,
    bias: Any,
    turn: Any,
    source: Any,
    places: Any,
    mask: Any,
    self_weights: Any,
    cross_weights: Any,
    start: int,
    stop: int,
) -> None:
    """Overwrites rows `unit`·start to `unit`·stop of x (R, D) with the output of the last layer.

    matrices (L, 9) are addresses, with `sizes` (9, 2), of bytes if there are scales and shifts (L, ·), which begin at
    `outputs`; vectors (L, ·) begin at `at`; source (L, 2) are addresses of keys and values (B, S, W).
    """
    (
        heads, groups, cross_heads, cross_groups, normalised, cross_normalised, is_pre, interleaved, rotated,
        cross_rotated, activation,
    ) = flags  # fmt: skip
    count, width = x.shape
    steps, positions = slots.shape[1], len(places)
    one, each, crosses = x.dtype.type(1), x.itemsize, len(source) > 0
    size, cross_size = sizes[QUERY, 0] // heads, 0
    if crosses:
        cross_size = sizes[CROSS_QUERY, 0] // cross_heads
    block, hidden = min(BLOCK, count), sizes[INNER, 0]
    wide = max(sizes[QUERY, 0], sizes[CROSS_QUERY, 0])
    u, change = np.empty((block, width), x.dtype), np.empty((block, width), x.dtype)
    query, context = np.empty((block, wide), x.dtype), np.empty((block, wide), x.dtype)
    inner = np.empty((block, hidden), x.dtype)
    gate = np.empty((block, sizes[GATE, 0]), x.dtype)
    alpha = np.empty((max(heads, cross_heads), max(steps, positions)), x.dtype)
    unmasked, unbiased = np.empty(0, mask.dtype), np.empty((0, 0), x.dtype)
    self_turn, cross_turn = turn if rotated else turn[:0], turn if cross_rotated else turn[:0]
    unscaled, unshifted = np.empty(0, np.float32), np.empty(0, np.int32)
    units = np.empty((block, max(width, wide, hidden) if len(scales) else 0), np.uint8)
    sums = np.empty((block, max(width, wide, hidden, keys.shape[2]) if len(scales) else 0), np.int32)
    for low in range(unit * start, min(unit * stop, count), block):
        rows = min(block, count - low, unit * stop - low)
        here = x[low : low + rows]
        slot = first + low
        for layer in range(len(matrices)):
            matrix, vector = matrices[layer], vectors[layer]
            biases = bias[layer] if len(bias) else unbiased
            scale = scales[layer] if len(scales) else unscaled
            shift = shifts[layer] if len(shifts) else unshifted
            stored = (scale, shift, outputs, units, sums)
            # self-attention: q (rows, H·D), and k and v (rows, G·D) into the slots of this step
            norm, epsilon = NORMS, epsilons[layer, 0]
            _enter(here, vector, at, norm, epsilon, is_pre, u)
            new_keys, new_values = keys[layer, slot : slot + rows], values[layer, slot : slot + rows]
            _linear(u, rows, matrix, sizes, vector, at, QUERY, query, stored)
            _linear(u, rows, matrix, sizes, vector, at, KEY, new_keys, stored)
            _linear(u, rows, matrix, sizes, vector, at, VALUE, new_values, stored)
            _place(query, rows, heads, size, normalised, self_turn, interleaved, factors[layer, 0])
            _place(new_keys, rows, groups, size, normalised, self_turn, interleaved, one)
            from_keys, from_values = np.int64(keys[layer].ctypes.data), np.int64(values[layer].ctypes.data)
            for r in range(rows):
                weights = self_weights[layer, low + r] if len(self_weights) else alpha
                _attend(
                    query[r], heads, groups, size, slots[low + r], begins[low + r], steps, biases, unmasked, from_keys,
                    from_values, keys.shape[2] * each, weights, context[r],
                )  # fmt: skip
            _linear(context, rows, matrix, sizes, vector, at, OUTPUT, change, stored)
            _leave(here, change, vector, at, norm, epsilon, is_pre)
            norm += 2
            # cross-attention: the rows of a sentence share keys and values
            if crosses:
                epsilon = epsilons[layer, 1]
                _enter(here, vector, at, norm, epsilon, is_pre, u)
                _linear(u, rows, matrix, sizes, vector, at, CROSS_QUERY, query, stored)
                _place(
                    query, rows, cross_heads, cross_size, cross_normalised, cross_turn, interleaved, factors[layer, 1]
                )  # fmt: skip
                step = cross_groups * cross_size * each
                for r in range(rows):
                    b = sentences[low + r]
                    weights = cross_weights[layer, low + r] if len(cross_weights) else alpha
                    _attend(
                        query[r], cross_heads, cross_groups, cross_size, places, ZERO, positions, unbiased,
                        mask[b] if len(mask) else unmasked, source[layer, 0] + b * positions * step,
                        source[layer, 1] + b * positions * step, step, weights, context[r],
                    )  # fmt: skip
                _linear(context, rows, matrix, sizes, vector, at, CROSS_OUTPUT, change, stored)
                if at[CROSS_OUTPUT + 1] > at[CROSS_OUTPUT]:
                    # a row whose mask is all False gets zeros, not the bias
                    for r in range(rows):
                        alive = False
                        b = sentences[low + r]
                        for j in range(positions):
                            alive |= len(mask) == 0 or mask[b, j]
                        if not alive:
                            change[r] = one - one
                _leave(here, change, vector, at, norm, epsilon, is_pre)
                norm += 2
            # feed-forward
            epsilon = epsilons[layer, (norm - NORMS) // 2]
            _enter(here, vector, at, norm, epsilon, is_pre, u)
            _linear(u, rows, matrix, sizes, vector, at, INNER, inner, stored)
            if sizes[GATE, 0]:
                _linear(u, rows, matrix, sizes, vector, at, GATE, gate, stored)
                _activate(gate, rows, activation)
                for r in range(rows):
                    for i in range(hidden):
                        inner[r, i] *= gate[r, i]
            else:
                _activate(inner, rows, activation)
            _linear(inner, rows, matrix, sizes, vector, at, OUTER, change, stored)
            _leave(here, change, vector, at, norm, epsilon, is_pre)


@called
def _linear(
    x: Any, rows: int, matrix: Any, sizes: Any, vector: Any, at: Any, number: int, out: Any, stored: Any
) -> None:
    """out = x Wᵀ + b of the first rows, with the matrix `number`, which may be of bytes (`kernels.linear`)."""
    count, size = sizes[number]
    scales, shifts, outputs, units, sums = stored
    bias = vector[at[number] : at[number + 1]]
    if len(scales):
        low, high = outputs[number], outputs[number] + count
        factors = np.empty(rows, scales.dtype)
        for r in range(rows):
            factors[r] = quantise_row(x[r, :size], units[r, :size])
        byte_products(
            units.ctypes.data, units.shape[1], rows, matrix[number], size, 0, count, sums.ctypes.data, sums.shape[1]
        )
        for r in range(rows):
            scale_sums(sums[r, :count], factors[r], scales[low:high], shifts[low:high], bias, out[r, :count])
        return
    products(x.ctypes.data, x.shape[1], rows, matrix[number], size, 0, count, out.ctypes.data, out.shape[1], x)
    if len(bias):
        for r in range(rows):
            y = out[r]
            for n in range(count):
                y[n] += bias[n]


@called
def _norm(x: Any, weight: Any, bias: Any, epsilon: Any, out: Any) -> None:
    """g ⊙ (x - mean) / √(variance + ε) + b of one row; out may be x."""
    zero = epsilon - epsilon
    total, squares = zero, zero
    for d in range(len(x)):
        total += x[d]
    mean = total / len(x)
    for d in range(len(x)):
        squares += (x[d] - mean) * (x[d] - mean)
    inverse = x.dtype.type(1 / math.sqrt(squares / len(x) + epsilon))
    mean = x.dtype.type(mean)
    for d in range(len(x)):
        out[d] = (x[d] - mean) * inverse * weight[d] + bias[d]


@called
def _enter(x: Any, vector: Any, at: Any, norm: int, epsilon: Any, is_pre: bool, out: Any) -> None:
    """The input of a sublayer: norm(x) or x."""
    weight, bias = vector[at[norm] : at[norm + 1]], vector[at[norm + 1] : at[norm + 2]]
    for r in range(len(x)):
        if is_pre:
            _norm(x[r], weight, bias, epsilon, out[r])
        else:
            out[r] = x[r]


@called
def _leave(x: Any, change: Any, vector: Any, at: Any, norm: int, epsilon: Any, is_pre: bool) -> None:
    """x ← x + change, or norm(x + change)."""
    weight, bias = vector[at[norm] : at[norm + 1]], vector[at[norm + 1] : at[norm + 2]]
    for r in range(len(x)):
        y, z = x[r], change[r]
        for d in range(len(y)):
            y[d] += z[d]
        if not is_pre:
            _norm(y, weight, bias, epsilon, y)


@called
def _place(
    x: Any, rows: int, heads: int, size: int, normalised: bool, turn: Any, interleaved: bool, factor: Any
) -> None:
    """Divides heads (rows, H·D) by their norms, multiplies them by a factor and rotates them by this step's angles."""
    pairs = turn.shape[1] if len(turn) else 0
    for r in range(rows):
        for h in range(heads):
            head = x[r, h * size : (h + 1) * size]
            times = factor
            if normalised:
                squares = factor - factor
                for d in range(size):
                    squares += head[d] * head[d]
                times = x.dtype.type(factor / max(math.sqrt(squares), 1e-12))
            for d in range(size):
                head[d] *= times
            for p in range(pairs):
                i, j = (2 * p, 2 * p + 1) if interleaved else (p, pairs + p)
                a, b = head[i], head[j]
                head[i], head[j] = a * turn[0, p] - b * turn[1, p], a * turn[1, p] + b * turn[0, p]


@called
def _attend(
    query: Any,
    heads: int,
    groups: int,
    size: int,
    slots: Any,
    begin: int,
    end: int,
    bias: Any,
    mask: Any,
    keys: int,
    values: int,
    step: int,
    weights: Any,
    context: Any,
) -> None:
    """One row: e_j = q · k_slot(j) + bias, α = softmax(e) from `begin` to `end`, and Σ_j α_j v_slot(j) of all heads.

    query and context (H·D), weights (H, ≥ end); keys and values are addresses, `step` bytes from slot to slot.
    """
    each, sharing = query.itemsize, heads // groups
    zero, half = query.dtype.type(0), query.dtype.type(0.5)
    for g in range(groups):
        part = g * size * each
        h = g * sharing
        gathered_products(
            query.ctypes.data + h * size * each, size, sharing, slots, begin, end, keys + part, step, size,
            weights[h].ctypes.data, weights.shape[1], query,
        )  # fmt: skip
        for h in range(g * sharing, (g + 1) * sharing):
            alpha = weights[h, begin:end]
            if len(bias):
                for j in range(begin, end):
                    alpha[j - begin] += bias[h, end - 1 - j]
            if len(mask):
                for j in range(len(alpha)):
                    alpha[j] = alpha[j] if mask[j] else -np.inf
            top = largest(alpha) if len(alpha) else zero  # NaN if there is one
            total = zero
            for j in range(len(alpha)):
                alpha[j] = power(half * (alpha[j] - top))
                total += alpha[j]
            if len(mask):
                # masked positions have weight 0, also if all are masked
                total = zero
                for j in range(len(alpha)):
                    alpha[j] = alpha[j] if mask[j] else zero
                    total += alpha[j]
            if total == zero:
                total += 1
            for j in range(len(alpha)):
                alpha[j] /= total
            gathered_sum(
                weights[h].ctypes.data, slots, begin, end, values + part, step, size,
                context.ctypes.data + h * size * each, query,
            )  # fmt: skip


@called
def _activate(x: Any, rows: int, activation: int) -> None:
    zero, half, one = x.dtype.type(0), x.dtype.type(0.5), x.dtype.type(1)
    root = x.dtype.type(math.sqrt(0.5))
    for r in range(rows):
        y = x[r]
        if activation == RELU:
            for i in range(len(y)):
                y[i] = zero if y[i] < zero else y[i]
        elif activation == SILU:
            for i in range(len(y)):
                y[i] *= sigmoid(y[i])
        else:
            for i in range(len(y)):
                y[i] *= half * (one + math.erf(y[i] * root))
