"""The decoder's first state, and the fixed context vector of decoders without attention."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from regard.attention import self_pooling
from regard.errors import ShapeError, UnsupportedError
from regard.layers.linear import Linear
from regard.layers.recurrent import CellState, RecurrentStack
from regard.models.contract import Encoded
from regard.shapes import Float, keep_mask

BridgeKind = Literal["dense", "copy", "zero", "linear", "tanh", "relu"]
BridgeLayers = Literal["matched", "top"]
MAPPED = ("dense", "linear", "tanh")
"""The kinds with a linear map for each decoder layer."""
ContextKind = Literal["last", "mean", "maximum", "learned"]


class Bridge(nn.Module):
    """Computes a decoder's first state from an encoder's last states.

    dense: h_0 = tanh(W x + b) and, for an LSTM, c_0 = W' x + b', with x the last states of an encoder layer (both
    directions, h and c). linear: h_0 = W x + b as well. tanh: also c_0 = tanh(W' x + b').
    copy: the states themselves. zero: zeros.
    relu: [h_0^1; …; h_0^L] = max(0, W [h^1; …; h^L] + b), for all L layers together, and c_0 likewise.
    Layers are matched from the top; a deeper decoder uses the lowest encoder layer several times. With `layers="top"`
    the states of all layers follow from those of the encoder's top layer.

    With `context_size` x is a fixed context vector instead. For an encoder without last states, such as a Transformer,
    x is the mean of the memory over its real positions, and `copy` and `relu` are errors. With several sources x comes
    from that with the index `source`.

    Args:
        encoder: the stack of the encoder, or the width M of the memory of an encoder without last states.
        decoder: the stack of the decoder.
        kind, layers, context_size, source: see above.

    Source: Bahdanau, Cho & Bengio 2015 (arXiv 1409.0473), A.2.2, s_0 = tanh(W_s h_1); copy: Sutskever et al. 2014; h_0
    and c_0 from the mean: Xu et al. 2015 (arXiv 1502.03044), section 3.1.2.
    """

    def __init__(
        self,
        encoder: RecurrentStack | int,
        decoder: RecurrentStack,
        kind: BridgeKind = "dense",
        *,
        layers: BridgeLayers = "matched",
        context_size: int | None = None,
        source: int = 0,
    ) -> None:
        super().__init__()
        self.kind = kind
        self.source = source
        self.num_layers = decoder.num_layers
        self.num_tensors = decoder.num_tensors
        self.size = decoder.size
        self.mean: FixedContext | None = None
        if isinstance(encoder, int):
            if kind in ("copy", "relu"):
                raise ShapeError(f"bridge {kind!r} reads last states, and this encoder has none; use 'dense'.")
            self.lower_layers = [0] * decoder.num_layers
            self.mean = FixedContext("mean", encoder)
            width = encoder if context_size is None else context_size
        else:
            lowest = encoder.num_layers - decoder.num_layers
            matched = [max(0, lowest + layer) for layer in range(decoder.num_layers)]
            self.lower_layers = matched if layers == "matched" else [encoder.num_layers - 1] * decoder.num_layers
            if kind == "relu" and layers == "top":
                raise ShapeError("bridge 'relu' maps the states of all layers; leave out layers='top'.")
            if kind in ("copy", "relu"):
                _check_states(kind, encoder, decoder, context_size)
            width = encoder.output_size * encoder.num_tensors if context_size is None else context_size
        maps = decoder.num_layers if kind in MAPPED else 0
        sizes = width, decoder.size * decoder.num_tensors
        if kind == "relu" and not isinstance(encoder, int):
            maps = decoder.num_tensors
            sizes = encoder.output_size * encoder.num_layers, decoder.size * decoder.num_layers
        self.maps = nn.ModuleList(Linear(*sizes) for _ in range(maps))

    def forward(self, encoded: Encoded, context: Float[Tensor, "B M"] | None = None) -> CellState:
        """The first state, B rows."""
        memory, final = encoded.memory, encoded.final_state
        if isinstance(memory, tuple):
            memory, final = memory[self.source], final and final[self.source]
        if self.kind == "zero":
            zeros = memory.new_zeros(memory.shape[0], self.size)
            return ((zeros,) * self.num_tensors,) * self.num_layers
        if context is None and self.mean is not None:
            mask = encoded.mask[self.source] if isinstance(encoded.mask, tuple) else encoded.mask
            context = self.mean(Encoded(memory, mask))
        if context is None and final is None:
            raise UnsupportedError(
                f"bridge {self.kind!r} needs the encoder's last states, and this encoder has none; use bridge 'zero'."
            )
        if self.kind == "relu" and final is not None:
            joined = [torch.cat([layer[number] for layer in final], -1) for number in range(self.num_tensors)]
            first = [torch.relu(each(x)).split(self.size, -1) for each, x in zip(self.maps, joined, strict=True)]
            return tuple(zip(*first, strict=True))
        states = []
        for layer, lower in enumerate(self.lower_layers):
            parts: tuple[Tensor, ...] = final[lower] if context is None else (context,)
            if self.kind in MAPPED:
                mapped = self.maps[layer](torch.cat(parts, -1)).split(self.size, -1)
                bent = {"linear": 0, "dense": 1, "tanh": len(mapped)}[self.kind]
                parts = (*(torch.tanh(part) for part in mapped[:bent]), *mapped[bent:])
            states.append(parts)
        return tuple(states)


def _check_states(kind: str, encoder: RecurrentStack, decoder: RecurrentStack, context_size: int | None) -> None:
    """Raises `ShapeError` unless the states of `copy` or `relu` fit the decoder's."""
    if context_size is not None:
        raise ShapeError(f"bridge {kind!r} reads last states; with a context vector use 'dense'.")
    if kind == "copy" and (encoder.cell, encoder.output_size) != (decoder.cell, decoder.size):
        raise ShapeError(
            "bridge 'copy' needs the same cell and width in encoder and decoder: the encoder's states are "
            f"{encoder.cell} with {encoder.output_size} features, the decoder's {decoder.cell} with {decoder.size}. "
            "Use 'dense'."
        )
    if kind == "relu" and (encoder.num_layers, encoder.num_tensors) != (decoder.num_layers, decoder.num_tensors):
        raise ShapeError(
            f"bridge 'relu' maps all layers together: the encoder has {encoder.num_layers} layers of {encoder.cell} "
            f"cells, the decoder {decoder.num_layers} of {decoder.cell}. Make them equal, or use 'dense'."
        )


class FixedContext(nn.Module):
    """The context vector c = q(h_1 … h_S) of a decoder without attention; zeros for a source without positions.

    last: the top layer's last state (its first in the backward direction); mean and maximum: over the real positions;
    learned: a weighted mean with learned weights (`attention.self_pooling`).

    Args:
        size: M, the width of the memory and of c.
    """

    def __init__(self, kind: ContextKind, size: int) -> None:
        super().__init__()
        self.kind = kind
        self.size = size
        self.pooling = self_pooling(memory_size=size, size=size) if kind == "learned" else None

    def forward(self, encoded: Encoded) -> Float[Tensor, "B M"]:
        """c, (B, M)."""
        memory, mask = encoded.memory, keep_mask(encoded.memory, encoded.mask, name="memory")
        if self.kind == "last":
            return encoded.final_state[-1][0]
        if self.pooling is not None:
            return self.pooling.pool(self.pooling.prepare(memory, mask=mask)).context
        if memory.shape[1] == 0:
            return memory.new_zeros(memory.shape[0], self.size)
        if self.kind == "mean":
            total = memory.sum(1)
            return total / (memory.shape[1] if mask is None else mask.sum(1, keepdim=True).clamp(min=1))
        if mask is None:
            return memory.amax(1)
        highest = memory.masked_fill(~mask[..., None], float("-inf")).amax(1)
        return torch.where(mask.any(1, keepdim=True), highest, 0)
