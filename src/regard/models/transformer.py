"""The Transformer: its encoder and decoder, and functions that build them as they were published."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from torch import Generator, Tensor, nn

from regard import tree
from regard.attention import multi_head
from regard.attention.contract import Tree, initial_position
from regard.attention.interface import AbstractAttention, prepare_memory
from regard.attention.memory import widened
from regard.attention.refined import Refined
from regard.errors import ShapeError, UnsupportedError
from regard.layers import Norm, PositionedEmbedding
from regard.layers.module_weights import module_reason, overridden
from regard.models import transformer_search
from regard.models.contract import DecoderOutput, Encoded
from regard.models.outputs import (
    all_steps,
    cross_entropy_by,
    cross_entropy_of,
    main_name,
    named,
    one_step,
    output_of,
    require_head,
)
from regard.models.transformer_layers import DecoderLayer, EncoderLayer, LayerState, last_norm
from regard.models.transformer_options import (
    DEFAULT_OPTIONS,
    Positions,
    RefinementOptions,
    TransformerOptions,
    divide_positions,
    initialise,
)
from regard.shapes import Bool, Int, keep_mask


@dataclass(frozen=True, slots=True)
class TransformerState:
    """The state between steps: a `LayerState` for each layer, and the number of steps taken, (R,) long."""

    layers: tuple[LayerState, ...]
    position: Int[Tensor, " R"]


class TransformerEncoder(nn.Module):
    """Layers of self-attention over embedded inputs, without a final state. Outputs at padding are zero.

    Args:
        embedding: from inputs (B, S) ids or (B, S, F) values to D features; has `size`.
        layers: at least one.
        positions: added to embeddings (`PositionedEmbedding`); None if only the layers use positions.
        norm, norm_epsilon: as in the layers.
        final_norm: whether a layer norm follows them; if None, with `pre`.
        scaled_embeddings: whether embeddings are multiplied by √D.
        dropout: of embeddings and positions.

    Source: Vaswani et al. 2017 (arXiv 1706.03762).
    """

    def __init__(
        self,
        embedding: Any,
        layers: Sequence[EncoderLayer],
        *,
        positions: nn.Module | Literal["sinusoidal"] | None = "sinusoidal",
        norm: Norm = "pre",
        norm_epsilon: float = 1e-5,
        final_norm: bool | None = None,
        scaled_embeddings: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.embedding = PositionedEmbedding(embedding, positions=positions, dropout=dropout, scaled=scaled_embeddings)
        self.layers: Any = nn.ModuleList(layers)
        self.norm = last_norm(self.embedding.size, layers, norm, norm_epsilon=norm_epsilon, final_norm=final_norm)

    @property
    def output_size(self) -> int:
        """M, the width of the memory."""
        return self.embedding.size

    @property
    def max_length(self) -> int | None:
        """The largest number of positions of a source; None without a limit."""
        return self.embedding.max_length

    def encode(self, inputs: Tensor, mask: Bool[Tensor, "B S"] | None = None) -> Encoded:
        """Encodes a batch of sources; the mask is True at real positions."""
        mask = keep_mask(inputs, mask, name="inputs")
        if mask is not None and inputs.is_floating_point():
            inputs = inputs.masked_fill(~mask[..., None], 0)
        x = self.embedding(inputs, torch.arange(inputs.shape[1], device=inputs.device))
        for layer in self.layers:
            x = layer(x, mask)
        x = self.norm(x)
        return Encoded(x if mask is None else x.masked_fill(~mask[..., None], 0), mask)

    def forward(self, inputs: Tensor, mask: Bool[Tensor, "B S"] | None = None) -> Encoded:
        """As `encode`."""
        return self.encode(inputs, mask)


class TransformerDecoder(nn.Module):
    """Layers that attend to the steps so far and to the source.

    The memory of the source (a tuple with one entry per layer) has B rows and is shared by the hypotheses of a beam.
    The memory of the steps so far is part of the state, has R rows and grows. The alignments of cross-attention are
    named cross.0, cross.1, …, and that of the last layer is the main one; those of self-attention, whose width grows,
    are not returned. With a name as `alignment` only that one is computed.

    Args:
        embedding: from inputs to D features; has `size`.
        layers: at least one.
        head: from D features to log-probabilities; `TokenHead(..., tied=embedding)` shares the embedding's matrix. With
            `continuous` to values, or to a pair of values and further outputs by name, which are `auxiliary`.
        positions: as in `TransformerEncoder`.
        norm, norm_epsilon: as in the layers.
        final_norm: whether a layer norm follows them; if None, with `pre`.
        scaled_embeddings: whether embeddings are multiplied by √D.
        dropout: of embeddings and positions.
        continuous: whether outputs are `values`.

    Source: Vaswani et al. 2017 (arXiv 1706.03762).
    """

    def __init__(
        self,
        embedding: Any,
        layers: Sequence[DecoderLayer],
        head: nn.Module,
        *,
        positions: nn.Module | Literal["sinusoidal"] | None = "sinusoidal",
        norm: Norm = "pre",
        norm_epsilon: float = 1e-5,
        final_norm: bool | None = None,
        scaled_embeddings: bool = True,
        dropout: float = 0.0,
        continuous: bool = False,
    ) -> None:
        super().__init__()
        require_head(head, continuous=continuous)
        self.continuous = continuous
        self.embedding = PositionedEmbedding(embedding, positions=positions, dropout=dropout, scaled=scaled_embeddings)
        self.layers: Any = nn.ModuleList(layers)
        self.norm = last_norm(self.embedding.size, layers, norm, norm_epsilon=norm_epsilon, final_norm=final_norm)
        self.head = head
        for index in range(len(layers)):
            self._check_previous(index)
        self.main_attention = main_name(f"cross.{len(layers) - 1}", layers[-1].cross_attention)

    @property
    def max_length(self) -> int | None:
        """The largest number of steps; None without a limit."""
        return self.embedding.max_length

    def prepare(self, encoded: Encoded) -> tuple[Tree, ...]:
        """The cross-attention's memory of every layer, B rows."""
        source = encoded.memory, encoded.mask, encoded.grid
        return tuple(prepare_memory(layer.cross_attention, *source) for layer in self.layers)

    def initial_state(self, memory: tuple[Tree, ...], num_hypotheses: int = 1) -> TransformerState:
        """The state before the first step."""
        memory = widened(memory, next(self.layers.parameters()))
        rows = tree.rows(memory) * num_hypotheses
        like = next(leaf for leaf in tree.leaves(memory) if leaf.is_floating_point())
        nothing = like.new_zeros(rows, 0, self.embedding.size)
        layers = tuple(
            layer.initial_state(part, num_hypotheses, nothing) for layer, part in zip(self.layers, memory, strict=True)
        )
        return TransformerState(layers, initial_position(rows, like.device))

    def step(
        self,
        inputs: Tensor,
        memory: tuple[Tree, ...],
        state: TransformerState,
        *,
        alignment: bool | str = False,
        generator: Generator | None = None,
    ) -> tuple[DecoderOutput, TransformerState]:
        """One output step from inputs (R,) ids or (R, F) values."""
        if inputs.dim() > (2 if inputs.is_floating_point() else 1):
            raise ShapeError(one_step(inputs))
        x = self.embedding(inputs, state.position)
        weights, states, previous = [], [], None
        for index, (layer, part, before) in enumerate(zip(self.layers, memory, state.layers, strict=True)):
            shown = _is_shown(alignment, index)
            further: dict[str, Any] = {} if previous is None else {"previous": previous}
            wanted = shown or self._is_read(index)
            x, layer_weights, after = layer.step(x, part, before, alignment=wanted, generator=generator, **further)
            weights.append(layer_weights if shown else None)
            states.append(after)
            previous = layer_weights if self._is_read(index) else None
        return self._output(x, weights), TransformerState(tuple(states), state.position + 1)

    def for_search(self, memory: tuple[Tree, ...], num_rows: int) -> tuple[Any, Any]:
        """The packed copy that takes the steps of a search if it can, else the decoder; and its memory."""
        memory = widened(memory, next(self.layers.parameters()))
        if self.unsupported_in_search(memory) is not None:
            return self, memory
        packed = transformer_search.PackedCopy(self, memory)
        return packed, packed.memory

    def forward(
        self,
        inputs: Tensor,
        memory: tuple[Tree, ...],
        *,
        alignment: bool | str = False,
        generator: Generator | None = None,
    ) -> DecoderOutput:
        """All steps in one operation, teacher-forced: inputs (B, T) ids or (B, T, F) values."""
        return self._output(*self._run(inputs, memory, alignment, generator))

    def cross_entropy(
        self,
        inputs: Tensor,
        memory: tuple[Tree, ...],
        targets: Int[Tensor, "B T"],
        mask: Bool[Tensor, "B T"] | None = None,
        *,
        smoothing: float = 0.0,
        generator: Generator | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The sums of `losses.cross_entropy` over teacher-forced outputs, without log-probabilities where possible.

        If a subclass overrides an output method, `forward` is called.
        """
        if self.continuous or overridden(self, TransformerDecoder, "forward", "_output"):
            return cross_entropy_of(self(inputs, memory, generator=generator), targets, mask, smoothing=smoothing)
        features = self.norm(self._run(inputs, memory, False, generator, mask)[0])
        return cross_entropy_by(self.head, features, targets, mask, smoothing=smoothing)

    def unsupported_in_search(self, memory: tuple[Tree, ...] | None = None) -> str | None:
        """Why searches call `step` and not one operation for all layers, or None."""
        reason = module_reason(self, "the decoder", TransformerDecoder)
        return reason or transformer_search.unsupported_reason(self, DecoderLayer, memory)

    def _run(
        self,
        inputs: Tensor,
        memory: tuple[Tree, ...],
        alignment: bool | str,
        generator: Generator | None,
        real: Bool[Tensor, "B T"] | None = None,
    ) -> tuple[Tensor, list[Tree]]:
        """The last layer's outputs of all steps, before the final norm, and the requested alignments.

        Args:
            real: False at steps of padding.
        """
        if inputs.dim() < (3 if inputs.is_floating_point() else 2):
            raise ShapeError(all_steps(inputs))
        x = self.embedding(inputs, torch.arange(inputs.shape[1], device=inputs.device))
        weights, previous = [], None
        for index, (layer, part) in enumerate(zip(self.layers, memory, strict=True)):
            shown = _is_shown(alignment, index)
            is_refined = isinstance(layer.cross_attention, Refined)
            further: dict[str, Any] = {"previous": previous, "real": real} if is_refined else {}
            wanted = shown or self._is_read(index)
            x, layer_weights = layer(x, part, alignment=wanted, generator=generator, **further)
            weights.append(layer_weights if shown else None)
            previous = layer_weights if self._is_read(index) else None
        return x, weights

    def _check_previous(self, index: int) -> None:
        """Raises an error if a layer reads the weights of more or fewer heads than the layer before it has."""
        if not (heads := _previous_heads(self.layers[index])):
            return
        have = getattr(self.layers[index - 1].cross_attention, "num_heads", None) if index else None
        if have != heads:
            before = f"the layer before it has {have or 'none'}" if index else "it is the first layer"
            raise UnsupportedError(
                f"The cross-attention of layer {index} reads the weights of {heads} heads, but {before}."
            )

    def _is_read(self, index: int) -> bool:
        """Whether the next layer reads the weights of a layer's cross-attention."""
        return index + 1 < len(self.layers) and _previous_heads(self.layers[index + 1]) > 0

    def _output(self, x: Tensor, weights: Sequence[Tree]) -> DecoderOutput:
        """The output of the head, with the alignments of every layer."""
        alignments: dict[str, Tensor] = {}
        for index, layer_weights in enumerate(weights):
            alignments |= named(f"cross.{index}", layer_weights)
        return output_of(self.head(self.norm(x)), alignments, continuous=self.continuous)


def _previous_heads(layer: Any) -> int:
    """The number of weight maps of the previous layer's cross-attention that a layer reads."""
    return layer.cross_attention.previous_heads if isinstance(layer.cross_attention, Refined) else 0


def _is_shown(alignment: bool | str, index: int) -> bool:
    """Whether the alignment of a layer is requested."""
    return alignment in (f"cross.{index}", f"cross.{index}.0") if isinstance(alignment, str) else alignment


def transformer_encoder(
    embedding: Any,
    *,
    num_layers: int = 6,
    num_heads: int = 8,
    num_key_value_heads: int | None = None,
    feed_forward_size: int = 2048,
    positions: Positions | None = "sinusoidal",
    max_length: int | None = None,
    norm: Norm = "pre",
    dropout: float = 0.1,
    options: TransformerOptions = DEFAULT_OPTIONS,
    attention: Callable[[], AbstractAttention] | None = None,
) -> TransformerEncoder:
    """An encoder of multi-head self-attention; the published one has D = 512 and `norm="post"`.

    Args:
        num_key_value_heads: the number of heads of keys and values in self-attention; all if None.
        positions: `sinusoidal`, `half_sinusoidal` or `blocked_sinusoidal` (all sines before all cosines, as in Marian
            or fairseq), `scaled_sinusoidal` (times a learned number) and `learned` vectors are added to the embeddings.
            `rotary`, `linear_bias`, `buckets`, `relative` and `transformer_xl` are options of the self-attention
            (`multi_head`), with weights of each layer (T5 shares the biases of its buckets between layers). With None
            the encoder does not depend on the order of its inputs.
        max_length: the number of positions, only with `learned`.
        attention: builds the self-attention of a layer in place of `multi_head`, whose options then have no effect.

    Source: Vaswani et al. 2017, Attention Is All You Need (arXiv 1706.03762).
    """
    size: int = embedding.size
    added, inside = divide_positions(positions, size, max_length)
    heads: dict[str, Any] = {"num_heads": num_heads, "num_key_value_heads": num_key_value_heads, **options.of_attention}
    if attention is None:
        attention = partial(multi_head, query_size=size, memory_size=size, size=size, positions=inside, **heads)
    around: dict[str, Any] = {"norm": norm, "dropout": dropout}
    layers = [
        EncoderLayer(size, attention(), feed_forward_size=feed_forward_size, **around, **options.of_layers)
        for _ in range(num_layers)
    ]
    initialise(layers, size, options.initialisation)
    return TransformerEncoder(embedding, layers, positions=added, **around, **options.of_stack)


def transformer_decoder(
    embedding: Any,
    head: nn.Module,
    *,
    memory_size: int,
    num_layers: int = 6,
    num_heads: int = 8,
    num_key_value_heads: int | None = None,
    feed_forward_size: int = 2048,
    positions: Positions | None = "sinusoidal",
    max_length: int | None = None,
    norm: Norm = "pre",
    dropout: float = 0.1,
    continuous: bool = False,
    options: TransformerOptions = DEFAULT_OPTIONS,
    attention: Callable[[], AbstractAttention] | None = None,
    cross_attention: Callable[[], AbstractAttention] | None = None,
    refinement: RefinementOptions | None = None,
) -> TransformerDecoder:
    """A decoder of multi-head self- and cross-attention; the published one has D = 512 and `norm="post"`.

    Args:
        memory_size: M, the width of the encoder's outputs.
        num_key_value_heads: the number of heads of keys and values in self- and cross-attention; all if None.
        positions, max_length: as in `transformer_encoder`, for the causal self-attention; cross-attention has no
            positions.
        continuous: whether outputs are `values`.
        attention, cross_attention: build the self-attention and the cross-attention of a layer in place of
            `multi_head`, whose options then have no effect.
        refinement: the correction of cross-attention by the coverage of earlier steps, if any.

    Source: Vaswani et al. 2017, Attention Is All You Need (arXiv 1706.03762); refinement: Zhao & Gao 2022
    (arXiv 2207.04410).
    """
    size: int = embedding.size
    added, inside = divide_positions(positions, size, max_length)
    heads: dict[str, Any] = {"num_heads": num_heads, "num_key_value_heads": num_key_value_heads, **options.of_attention}
    heads |= {"query_size": size, "size": size}
    if attention is None:
        attention = partial(multi_head, memory_size=size, positions=inside, causal=True, **heads)
    if cross_attention is None:
        cross_attention = partial(multi_head, memory_size=memory_size, **heads)
    around: dict[str, Any] = {"norm": norm, "dropout": dropout}
    layers: list[DecoderLayer] = []
    for _ in range(num_layers):
        to_self, to_source = attention(), cross_attention()
        if refinement is not None and layers:
            to_source = refinement.refined(to_source, layers[-1].cross_attention)
        layers.append(
            DecoderLayer(size, to_self, to_source, feed_forward_size=feed_forward_size, **around, **options.of_layers)
        )
    if refinement is not None and num_layers < 2:
        raise UnsupportedError(
            f"A refinement corrects all layers but the first and needs at least two; num_layers is {num_layers}."
        )
    initialise(layers, size, options.initialisation)
    return TransformerDecoder(
        embedding, layers, head, positions=added, continuous=continuous, **around, **options.of_stack
    )
