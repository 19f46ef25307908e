"""The decoder-only Transformer: a language model of causal self-attention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Generator, Tensor, nn

from regard.attention import SlidingWindow, multi_head
from regard.attention.contract import Memory
from regard.attention.mechanism import Mechanism
from regard.attention.memory import widened
from regard.errors import UnsupportedError
from regard.layers import Activation, FeedForward, Norm, PositionedEmbedding
from regard.layers.module_weights import module_reason
from regard.models import transformer_search
from regard.models.contract import DecoderOutput
from regard.models.language_model import (
    NOTHING,
    AbstractLanguageModel,
    LanguageState,
    by_position,
    recorded_by_position,
)
from regard.models.transformer_layers import last_norm, residuals
from regard.models.transformer_options import (
    DEFAULT_OPTIONS,
    Positions,
    TransformerOptions,
    divide_positions,
    initialise,
)
from regard.models.transformer_search import SearchMemory, TransformerSteps
from regard.shapes import Bool, Float, Int


@dataclass(frozen=True, slots=True)
class CausalCache:
    """A causal layer's cache of the tokens so far; R rows, the last token last.

    Args:
        memory: the self-attention's memory, its padding on the left.
        inputs: (R, S, D), from which it was prepared, if the window is bounded; else None.
    """

    memory: Memory
    inputs: Float[Tensor, "R S D"] | None


class CausalLayer(nn.Module):
    """Self-attention over the tokens so far, then feed-forward, each in a residual connection.

    With a `reach` a token attends to itself and the reach - 1 tokens before it, and fewer than 2·reach tokens are
    cached: when the cache is full, the memory is prepared again from the last reach - 1, on average a constant number
    of projections per step. Positions inside the attention must therefore be relative.

    Args:
        size: D, of input and output.
        attention: a causal mechanism that is not recurrent, whose queries, memory and context have D features.
        feed_forward_size: the width inside the feed-forward sublayer.
        reach: the number of tokens in the attention's window; None for all.
        norm, norm_epsilon, dropout, activation, activation_dropout: as in `EncoderLayer`.

    Source: Liu et al. 2018 (arXiv 1801.10198), section 4.2.3: a decoder's layer without cross-attention.
    """

    def __init__(
        self,
        size: int,
        attention: Mechanism,
        *,
        feed_forward_size: int,
        reach: int | None = None,
        norm: Norm = "pre",
        norm_epsilon: float = 1e-5,
        dropout: float = 0.0,
        activation: Activation = "relu",
        activation_dropout: float | None = None,
    ) -> None:
        super().__init__()
        if attention.is_recurrent:
            raise UnsupportedError("The memory of a causal layer grows, so its attention must not be recurrent.")
        self.size = size
        self.reach = reach
        self.attention = attention
        inside = dropout if activation_dropout is None else activation_dropout
        self.feed_forward = FeedForward(size, feed_forward_size, dropout=inside, activation=activation)
        self.residuals = residuals(2, size, norm=norm, dropout=dropout, epsilon=norm_epsilon)

    def begin(self, num_rows: int, like: Tensor) -> CausalCache:
        """An empty cache."""
        nothing = like.new_zeros(num_rows, 0, self.size)
        return CausalCache(self.attention.prepare(nothing), None if self.reach is None else nothing)

    def forward(
        self,
        x: Float[Tensor, "R T D"],
        cache: CausalCache,
        *,
        mask: Bool[Tensor, "R T"] | None = None,
        alignment: bool = False,
        keep: bool = True,
        generator: Generator | None = None,
    ) -> tuple[Float[Tensor, "R T D"], Float[Tensor, "R H T S"] | None, CausalCache | None]:
        """T tokens: the outputs, the weights over cached and present tokens if requested, and the new cache.

        Args:
            mask: padded on the left; only for the first tokens.
            keep: whether to return the new cache, else None.
        """
        around_attention, around_feed_forward = self.residuals
        filled = cache.memory.filled
        cached = cache.memory.num_positions if filled is None else filled[0]
        inner = around_attention.enter(x)
        state = None
        if filled is None and cached == 0:
            memory = self.attention.prepare(inner, mask=mask)
        else:
            memory = self.attention.extend(cache.memory, inner, mask=mask)
            state = self.attention.initial_state(memory)
            state = replace(state, position=state.position + cached)
        attended, _ = self.attention(inner, memory, state, alignment=alignment, generator=generator)
        x = around_attention.leave(x, attended.context)
        x = around_feed_forward.leave(x, self.feed_forward(around_feed_forward.enter(x)))
        return x, attended.alignment, self._kept(memory, cache, inner) if keep else None

    def _kept(self, memory: Memory, cache: CausalCache, inner: Tensor) -> CausalCache:
        """The new cache, reduced to the last tokens if it is full."""
        if self.reach is None or cache.inputs is None:
            return CausalCache(memory, None)
        inputs = torch.cat([cache.inputs.to(inner.dtype), inner], 1)
        if inputs.shape[1] < 2 * self.reach:
            return CausalCache(memory, inputs)
        extra = inputs.shape[1] - (self.reach - 1)
        inputs = inputs[:, extra:]
        mask = None if memory.mask is None else memory.mask[:, extra:]
        return CausalCache(self.attention.prepare(inputs, mask=mask), inputs)


class TransformerLanguageModel(AbstractLanguageModel):
    """Causal layers over embedded tokens. The layers' alignments are named self.0, self.1, …; the last is the main one.

    Args:
        embedding: from ids to D features; has `size`.
        layers: at least one.
        head: from D features to log-probabilities; `TokenHead(..., tied=embedding)` shares the embedding's matrix.
        positions: added to embeddings (`PositionedEmbedding`); None if only the layers use positions.
        norm, norm_epsilon: as in the layers.
        final_norm: whether a layer norm follows them; if None, with `pre`.
        scaled_embeddings: whether embeddings are multiplied by √D.
        dropout: of embeddings and positions.

    Source: Liu et al. 2018 (arXiv 1801.10198), section 4.2.3.
    """

    def __init__(
        self,
        embedding: Any,
        layers: Sequence[CausalLayer],
        head: nn.Module,
        *,
        positions: nn.Module | Literal["sinusoidal"] | None = "sinusoidal",
        norm: Norm = "pre",
        norm_epsilon: float = 1e-5,
        final_norm: bool | None = None,
        scaled_embeddings: bool = True,
        dropout: float = 0.0,
    ) -> None:
        embedded = PositionedEmbedding(embedding, positions=positions, dropout=dropout, scaled=scaled_embeddings)
        super().__init__(embedded, head)
        self.layers: Any = nn.ModuleList(layers)
        self.norm = last_norm(self.embedding.size, layers, norm, norm_epsilon=norm_epsilon, final_norm=final_norm)
        self.main_attention = f"self.{len(layers) - 1}"

    def begin(self, num_rows: int, like: Tensor) -> tuple[CausalCache, ...]:
        return tuple(layer.begin(num_rows, like) for layer in self.layers)

    def read(
        self,
        inputs: Int[Tensor, "R T"],
        cache: tuple[CausalCache, ...],
        position: Int[Tensor, " R"] | None,
        *,
        mask: Bool[Tensor, "R T"] | None = None,
        alignment: bool = False,
        keep: bool = True,
        generator: Generator | None = None,
    ) -> tuple[Float[Tensor, "R T D"], Mapping[str, Tensor], tuple[CausalCache, ...] | None]:
        """As `AbstractLanguageModel.read`; features of a masked read are padded on the left."""
        rows, steps = inputs.shape
        columns = torch.arange(steps, device=inputs.device)
        if mask is not None and not bool(mask.all()):
            # right-aligned tokens: caches end in one column, and distances between columns are those in the text
            positions = columns - (steps - mask.sum(1))[:, None]
            mask, position = positions >= 0, positions[:, 0]
            inputs = inputs.gather(1, positions.clamp(min=0))
        else:
            mask = None
        if position is None:
            x = self.embedding(inputs, columns)
        else:
            positions = (position[:, None] + columns).clamp(min=0)
            x = self.embedding(inputs.flatten(), positions.flatten()).unflatten(0, (rows, steps))
        return self._through(x, cache, position, mask, alignment, generator, keep)

    def for_search(self, memory: LanguageState, num_rows: int) -> tuple[Any, Any]:
        """The packed copy that takes the steps of a search if it can, else the model; and its memory."""
        memory = widened(memory, next(self.parameters()))
        if self.unsupported_in_search(memory) is not None:
            return self, memory
        packed = PackedLanguageCopy(self, memory)
        return packed, packed.memory

    def unsupported_in_search(self, memory: LanguageState | None = None) -> str | None:
        """Why searches call `step` and not one operation for all layers, or None."""
        reason = module_reason(self, "the model", TransformerLanguageModel)
        return reason or transformer_search.unsupported_reason(self, CausalLayer, memory)

    def take(
        self,
        inputs: Int[Tensor, " R"],
        cache: tuple[CausalCache, ...],
        position: Int[Tensor, " R"],
        *,
        alignment: bool = False,
        generator: Generator | None = None,
    ) -> tuple[Float[Tensor, "R D"], Mapping[str, Tensor], tuple[CausalCache, ...]]:
        x = self.embedding(inputs, position)[:, None]
        features, weights, cache = self._through(x, cache, position, None, alignment, generator)
        return features[:, 0], {name: weight[:, :, 0] for name, weight in weights.items()}, cache

    def _through(
        self,
        x: Tensor,
        cache: tuple[CausalCache, ...],
        position: Tensor | None,
        mask: Tensor | None,
        alignment: bool,
        generator: Generator | None,
        keep: bool = True,
    ) -> tuple[Tensor, dict[str, Tensor], Any]:
        """All layers and the final norm."""
        named, after = {}, []
        for index, (layer, part) in enumerate(zip(self.layers, cache, strict=True)):
            with recorded_by_position(position, is_left_padded=mask is not None):
                x, weights, new_cache = layer(x, part, mask=mask, alignment=alignment, keep=keep, generator=generator)
            after.append(new_cache)
            if weights is not None:
                named[f"self.{index}"] = by_position(weights, position)
        return self.norm(x), named, tuple(after) if keep else None


def transformer_language_model(
    embedding: Any,
    head: nn.Module,
    *,
    num_layers: int = 6,
    num_heads: int = 8,
    num_key_value_heads: int | None = None,
    feed_forward_size: int = 2048,
    positions: Positions | None = "sinusoidal",
    max_length: int | None = None,
    reach: int | None = None,
    norm: Norm = "pre",
    dropout: float = 0.1,
    options: TransformerOptions = DEFAULT_OPTIONS,
) -> TransformerLanguageModel:
    """A decoder-only Transformer of multi-head attention.

    Args:
        num_key_value_heads: the number of heads of keys and values; all if None.
        positions: as in `transformer_encoder`.
        max_length: the number of positions, only with `learned`: the longest text, context included.
        reach: the number of tokens that a token attends to, including itself, which bounds the cache; all if None.
            Learned positions limit texts to `max_length` even so.

    Source: Liu et al. 2018, Generating Wikipedia by Summarizing Long Sequences (arXiv 1801.10198), section 4.2.3.

    >>> from regard.layers import TokenEmbedding, TokenHead
    >>> embedding = TokenEmbedding(10, 8, padding=None)
    >>> model = transformer_language_model(
    ...     embedding, TokenHead(8, 10, tied=embedding), num_layers=2, num_heads=2, feed_forward_size=16
    ... )
    >>> model(torch.randint(10, (2, 7))).log_probabilities.shape
    torch.Size([2, 7, 10])
    """
    if reach is not None and reach < 1:
        raise UnsupportedError(f"reach={reach}: a token attends at least to itself; give 1 or more, or None.")
    size: int = embedding.size
    added, inside = divide_positions(positions, size, max_length)
    heads: dict[str, Any] = {"num_heads": num_heads, "num_key_value_heads": num_key_value_heads, **options.of_attention}
    around: dict[str, Any] = {"norm": norm, "dropout": dropout}
    window: dict[str, Any] = {} if reach is None else {"back": reach - 1, "front": 0}
    layers = [
        CausalLayer(
            size,
            multi_head(
                query_size=size,
                memory_size=size,
                size=size,
                positions=inside,
                causal=True,
                window=SlidingWindow(**window) if window else None,
                **heads,
            ),
            feed_forward_size=feed_forward_size,
            reach=reach,
            **around,
            **options.of_layers,
        )
        for _ in range(num_layers)
    ]
    initialise(layers, size, options.initialisation)
    return TransformerLanguageModel(embedding, layers, head, positions=added, **around, **options.of_stack)


@dataclass(frozen=True, slots=True)
class LanguageSearchState:
    """The slots of the tokens of hypotheses.

    Args:
        slots: (R, T) int32; a row's tokens are its last `position` columns, after padding.
        position: (R,) long, the number of tokens that each row has read.
        pending: as in `LanguageState`.
    """

    slots: Tensor
    position: Tensor
    pending: Tensor


class PackedLanguageCopy:
    """The steps of a `TransformerLanguageModel` in one search (`transformer_search`); the cached context is copied
    once.

    Args:
        model: a `TransformerLanguageModel`.
        memory: the `LanguageState` that it prepared.
    """

    def __init__(self, model: Any, memory: Any) -> None:
        self.steps = TransformerSteps(model, CausalLayer, None)
        caches = [cache.memory for cache in memory.cache]
        self.slots = self.steps.layers.fill(
            tuple(cache.score for cache in caches), tuple(cache.read for cache in caches)
        )
        self.first = memory
        self.memory = SearchMemory(torch.arange(len(self.slots)))

    def initial_state(self, memory: SearchMemory, num_hypotheses: int = 1) -> LanguageSearchState:
        """As of the model."""
        rows = memory.sentences.repeat_interleave(num_hypotheses)
        return LanguageSearchState(self.slots[rows], self.first.position[rows], self.first.pending[rows])

    def step(
        self,
        inputs: Tensor,
        memory: SearchMemory,
        state: LanguageSearchState,
        *,
        alignment: bool = False,
        generator: Generator | None = None,
    ) -> tuple[DecoderOutput, LanguageSearchState]:
        """As of the model."""
        position, steps = state.position, state.slots.shape[1]
        ids = torch.where(state.pending == NOTHING, inputs, state.pending)
        x = self.steps.embed(ids, steps, position)
        # a row attends to the columns of its own tokens within the window
        reach = steps + 1 if self.steps.reach is None else self.steps.reach
        begins = steps + 1 - (position + 1).clamp(max=min(reach, steps + 1))
        slots, weights = self.steps.run(x, state.slots, begins, position, "self" if alignment else None)
        alignments = {
            f"self.{index}": by_position(layer[:, :, None], position)[:, :, 0]
            for index, layer in enumerate(() if weights is None else weights)
        }
        log_probabilities = self.steps.head(self.steps.norm(x))
        after = LanguageSearchState(slots, position + 1, torch.full_like(state.pending, NOTHING))
        return DecoderOutput(log_probabilities=log_probabilities, alignments=alignments), after
