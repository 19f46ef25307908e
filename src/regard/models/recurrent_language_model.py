"""Recurrent language models: an LSTM, attention over its last outputs, and the N-gram recurrent network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from torch import Generator, Tensor, nn

from regard.attention.contract import Tree
from regard.errors import UnsupportedError
from regard.layers import Cell, Dropout, RecurrentStack, TokenEmbedding, TokenHead
from regard.layers.recurrent import CellState
from regard.models.language_model import AbstractLanguageModel, by_position, recorded_by_position
from regard.models.past import AbstractPast, LookBack, NgramOutput
from regard.shapes import Bool, Float, Int

Past = Literal["state", "attention", "key_value", "key_value_predict", "ngram"]
"""How a recurrent language model uses its past: the state of its cells only, or past outputs as well."""


@dataclass(frozen=True, slots=True)
class RecurrentCache:
    """The state of the cells and the cache of past outputs; R rows, of a fixed size."""

    cells: CellState
    past: Tree


class RecurrentLanguageModel(AbstractLanguageModel):
    """log softmax(W* h*_t + b), where `past` computes h*_t from the outputs h of a recurrent stack; without it h*_t =
    h_t.

    The alignment of attention over past outputs is named `past`.

    Args:
        embedding: from ids to the stack's inputs.
        stack: one direction.
        head: from the features of `past`, or of the stack, to log-probabilities.
        past: the use of past outputs; None for a plain recurrent model.
        dropout: of the head's features.
    """

    def __init__(
        self,
        embedding: Any,
        stack: RecurrentStack,
        head: nn.Module,
        *,
        past: AbstractPast | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(embedding, head)
        if stack.bidirectional:
            raise UnsupportedError("A language model reads in one direction; this stack is bidirectional.")
        self.stack = stack
        self.past = past
        self.dropout = Dropout(dropout)
        self.main_attention = "past" if isinstance(past, LookBack) else None

    def begin(self, num_rows: int, like: Tensor) -> RecurrentCache:
        """Zero states and no past outputs."""
        past = None if self.past is None else self.past.begin(num_rows, like)
        return RecurrentCache(self.stack.zero_state(num_rows, like), past)

    def read(
        self,
        inputs: Int[Tensor, "R T"],
        cache: RecurrentCache,
        position: Int[Tensor, " R"] | None,
        *,
        mask: Bool[Tensor, "R T"] | None = None,
        alignment: bool = False,
        keep: bool = True,
        generator: Generator | None = None,
    ) -> tuple[Float[Tensor, "R T D"], Mapping[str, Tensor], RecurrentCache | None]:
        """As `AbstractLanguageModel.read`."""
        h, cells = self.stack(self.embedding(inputs), cache.cells, mask)
        features, weights, after = self._finish(h, cells, cache, position, mask, alignment)
        return features, weights, after if keep else None

    def take(
        self,
        inputs: Int[Tensor, " R"],
        cache: RecurrentCache,
        position: Int[Tensor, " R"],
        *,
        alignment: bool = False,
        generator: Generator | None = None,
    ) -> tuple[Float[Tensor, "R D"], Mapping[str, Tensor], RecurrentCache]:
        """As `AbstractLanguageModel.take`; its cost does not depend on the number of steps."""
        h, cells = self.stack.step(self.embedding(inputs), cache.cells)
        features, weights, cache = self._finish(h[:, None], cells, cache, position, None, alignment)
        return features[:, 0], {name: weight[:, :, 0] for name, weight in weights.items()}, cache

    def _finish(
        self,
        h: Tensor,
        cells: CellState,
        cache: RecurrentCache,
        position: Tensor | None,
        mask: Tensor | None,
        alignment: bool,
    ) -> tuple[Tensor, dict[str, Tensor], RecurrentCache]:
        """The head's features, the alignment and the new cache from the stack's outputs (R, T, D)."""
        if self.past is None:
            return self.dropout(h), {}, RecurrentCache(cells, None)
        with recorded_by_position(position):
            features, weights, past = self.past(h, cache.past, mask=mask, alignment=alignment)
        named = {} if weights is None else {"past": by_position(weights, position)}
        return self.dropout(features), named, RecurrentCache(cells, past)


def recurrent_language_model(
    num_tokens: int,
    *,
    size: int,
    past: Past = "state",
    embedding_size: int | None = None,
    num_layers: int = 1,
    cell: Cell = "lstm",
    reach: int = 5,
    num_heads: int = 1,
    order: int = 4,
    dropout: float = 0.0,
    tied_weights: bool = False,
    never: tuple[int, ...] = (),
) -> RecurrentLanguageModel:
    """A recurrent language model, by the name of its use of past outputs.

    - `state`: none; the state of its cells only.
    - `attention`: attention over the last outputs, which are keys, values and predictive features (`LookBack`).
    - `key_value`: outputs are divided into keys, and values that are also the predictive features.
    - `key_value_predict`: outputs are divided into keys, values and predictive features.
    - `ngram`: outputs are divided into parts that predict at distances 0 … N - 2 (`NgramOutput`).

    Args:
        num_tokens: N, the vocabulary.
        size: D, the state size of each layer; a multiple of the number of parts.
        embedding_size: D if None.
        reach, num_heads: the number of outputs that are attended to, and of heads; only for attention.
        order: of the n-grams; only for `ngram`.
        dropout: of embeddings, between layers, and of the head's features.
        tied_weights: whether the output layer shares the embedding's matrix, after a linear map to its width if
            necessary.
        never: ids that are never predicted, such as padding.

    Source: Daniluk et al. 2017, Frustratingly Short Attention Spans in Neural Language Modeling (arXiv 1702.04521).

    >>> import torch
    >>> model = recurrent_language_model(10, size=12, past="key_value_predict")
    >>> model(torch.randint(10, (2, 7))).log_probabilities.shape
    torch.Size([2, 7, 10])
    """
    if past not in get_args(Past):
        raise UnsupportedError(f"past={past!r} must be one of {', '.join(get_args(Past))}.")
    parts: dict[str, Literal[1, 2, 3]] = {"attention": 1, "key_value": 2, "key_value_predict": 3}
    module: AbstractPast | None = None
    if past in parts:
        module = LookBack(size, num_parts=parts[past], reach=reach, num_heads=num_heads)
    elif past == "ngram":
        module = NgramOutput(size, order=order)
    width = size if embedding_size is None else embedding_size
    embedding = TokenEmbedding(num_tokens, width, padding=None, dropout=dropout)
    features = size if module is None else module.output_size
    return RecurrentLanguageModel(
        embedding,
        RecurrentStack(width, size, num_layers, cell=cell, dropout=dropout),
        TokenHead(features, num_tokens, tied=embedding if tied_weights else None, never=never),
        past=module,
        dropout=dropout,
    )
