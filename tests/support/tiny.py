"""Tiny decoders in float64 and their sources, small enough for finite differences and exhaustive search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from regard import models
from regard.attention import AbstractAttention, Mechanism, Parallel
from regard.layers import (
    CellStack,
    PositionedEmbedding,
    Prenet,
    QuantileHead,
    RecurrentStack,
    TokenEmbedding,
    TokenHead,
    ValueEmbedding,
    ValueHead,
)
from regard.models import (
    Bridge,
    DeepReadout,
    FixedContext,
    PointerDecoder,
    RecurrentDecoder,
    RecurrentLanguageModel,
    TransformerDecoder,
    TransformerLanguageModel,
    recurrent_language_model,
    transformer_decoder,
    transformer_language_model,
)
from regard.models.tacotron import FrameHead, StopHead, TacotronDecoder
from regard.testing.source import EncodedSource, draw_source

NUM_TOKENS = 4
NUM_VALUES = 2
QUERY_SIZE = 4
MEMORY_SIZE = 6
EMBEDDING_SIZE = 3
LENGTHS = (5, 3)


def recurrent(
    attention: Mechanism | Parallel | None = None,
    *,
    cell: Any = "gru",
    continuous: bool = False,
    size: int = QUERY_SIZE,
    embedding_size: int = EMBEDDING_SIZE,
    num_layers: int = 1,
    query: Any = "output",
    levels: Sequence[float] | None = None,
    further_inputs: int = 0,
    positioned: bool = False,
    **options: Any,
) -> RecurrentDecoder:
    """A recurrent decoder of four tokens, or of two values with `continuous`.

    Args:
        levels: of quantiles; points if None.
        further_inputs: how many inputs there are beside the values.
        positioned: whether positions are added to embeddings.
    """
    torch.manual_seed(1)
    context = options.get("context")
    beside = ("bridge", "layer_bias", "first_context")
    input_options = {key: value for key, value in options.items() if key not in beside}
    input_size = RecurrentDecoder.input_size(embedding_size, size, attention=attention, **input_options)
    stack = RecurrentStack(input_size, size, num_layers, cell=cell)
    encoder = RecurrentStack(1, MEMORY_SIZE // 2, cell=cell, bidirectional=True)
    width = None if context is None or context.kind == "last" else MEMORY_SIZE
    bridge = Bridge(encoder, stack, options.pop("bridge", "dense"), context_size=width)
    embedding: nn.Module = TokenEmbedding(NUM_TOKENS, embedding_size, padding=None, unknown=2)
    readout, read = options.get("readout"), options.get("layer_size") or size
    if isinstance(readout, DeepReadout):
        read = readout.size
    elif readout in ("state", "context"):
        read = attention.context_size if attention is not None and readout == "context" else size
    head: nn.Module = TokenHead(read, NUM_TOKENS)
    if continuous:
        embedding = ValueEmbedding(NUM_VALUES + further_inputs, embedding_size)
        head = values_head(read, levels)
    if positioned:
        embedding = PositionedEmbedding(embedding)
    return RecurrentDecoder(
        embedding, stack, head, bridge, attention=attention, query=query, continuous=continuous, **options
    ).double()


def captioner(**options: Any) -> RecurrentDecoder:
    """A captioner of four tokens."""
    torch.manual_seed(1)
    sizes: dict[str, Any] = {
        "memory_size": MEMORY_SIZE,
        "embedding_size": EMBEDDING_SIZE,
        "size": QUERY_SIZE,
        "attention_size": 4,
    }
    return models.captioner(NUM_TOKENS, **sizes, padding=None, unknown=2, **options).double()


def values_head(size: int, levels: Sequence[float] | None = None) -> nn.Module:
    """A head of two values, points or quantiles."""
    return ValueHead(size, NUM_VALUES) if levels is None else QuantileHead(size, NUM_VALUES, levels=levels)


def without_attention(kind: Any, **options: Any) -> RecurrentDecoder:
    """A recurrent decoder with a fixed context vector."""
    return recurrent(context=FixedContext(kind, MEMORY_SIZE), **options)


def pointer(attention: Mechanism | None, **options: Any) -> PointerDecoder:
    """A pointer around a recurrent decoder; without attention around a Transformer."""
    core = transformer(**options) if attention is None else recurrent(attention, **options)
    return PointerDecoder(core).double()


def transformer(
    norm: Any = "pre",
    num_layers: int = 2,
    *,
    continuous: bool = False,
    levels: Sequence[float] | None = None,
    further_inputs: int = 0,
    **options: Any,
) -> TransformerDecoder:
    """A Transformer decoder with two heads, of tokens or values as `recurrent`."""
    torch.manual_seed(2)
    embedding: nn.Module = TokenEmbedding(NUM_TOKENS, QUERY_SIZE, padding=None)
    head: nn.Module = TokenHead(QUERY_SIZE, NUM_TOKENS)
    if continuous:
        embedding = ValueEmbedding(NUM_VALUES + further_inputs, QUERY_SIZE)
        head = values_head(QUERY_SIZE, levels)
    return transformer_decoder(
        embedding,
        head,
        memory_size=MEMORY_SIZE,
        num_layers=num_layers,
        num_heads=2,
        feed_forward_size=5,
        norm=norm,
        dropout=0.0,
        continuous=continuous,
        **options,
    ).double()


def speech(
    attention: AbstractAttention,
    *,
    query: int = 1,
    output: int = 1,
    cell: Any = "lstm",
    num_frames: int = 1,
    num_fed_frames: int = 1,
    reads_context: bool = True,
    stops: bool = True,
    size: int = QUERY_SIZE,
    num_features: int = NUM_VALUES,
    **states: Any,
) -> TacotronDecoder:
    """A decoder of frames of two values, r of them in a step, whose prenet always drops.

    Args:
        query, output: how many cells come before and after attention.
        states: further options of both `CellStack`s.
    """
    torch.manual_seed(4)
    context = attention.context_size
    prenet = Prenet(num_fed_frames * num_features, (5, EMBEDDING_SIZE), drops="always")
    states = {"cell": cell, **states}
    before = CellStack(prenet.size + context, size, query, **states) if query else None
    after = CellStack((size if query else prenet.size) + context, size, output, **states) if output else None
    heard = context if reads_context else 0
    stop = StopHead(size, heard, num_frames) if stops else None
    head = FrameHead(size, heard, num_features, num_frames, stop=stop)
    return TacotronDecoder(
        prenet, attention, head, query_cells=before, output_cells=after, num_fed_frames=num_fed_frames
    ).double()


def language_model(past: Any, **options: Any) -> RecurrentLanguageModel:
    """A recurrent language model of four tokens, which looks back two steps."""
    torch.manual_seed(3)
    return recurrent_language_model(
        NUM_TOKENS, size=6, past=past, embedding_size=EMBEDDING_SIZE, reach=2, **options
    ).double()


def transformer_language(num_layers: int = 2, **options: Any) -> TransformerLanguageModel:
    """A decoder-only Transformer of four tokens, with two heads."""
    torch.manual_seed(3)
    embedding = TokenEmbedding(NUM_TOKENS, QUERY_SIZE, padding=None, unknown=2)
    return transformer_language_model(
        embedding,
        TokenHead(QUERY_SIZE, NUM_TOKENS, tied=embedding),
        num_layers=num_layers,
        num_heads=2,
        feed_forward_size=5,
        dropout=0.0,
        **options,
    ).double()


def contexts() -> tuple[EncodedSource, ...]:
    """Two texts of different length, which language models continue."""
    return tuple(EncodedSource(torch.tensor(ids)) for ids in ([2, 3, 0, 1, 3], [1, 2, 2]))


def sources(*, cell: str = "gru") -> tuple[EncodedSource, ...]:
    """Two sentences of different length with the last states of a bidirectional encoder."""
    state = ((MEMORY_SIZE,) * (2 if cell == "lstm" else 1),)
    return tuple(draw_source(length, MEMORY_SIZE, seed=seed, final_sizes=state) for seed, length in enumerate(LENGTHS))


def pairs_of_sources() -> tuple[EncodedSource, ...]:
    """Two sentences, each in two memories of different S."""
    return tuple(
        draw_source((length, length + 2), (MEMORY_SIZE, MEMORY_SIZE - 1), seed=seed)
        for seed, length in enumerate(LENGTHS)
    )


def sources_to_copy(ids: Sequence[Sequence[int]] = ((1, 4, 2, 5, 4), (4, 0, 3))) -> tuple[EncodedSource, ...]:
    """Two sentences whose extended vocabularies differ: the first has two ids beyond the four tokens, the second one.

    Id 4 stands for another word in each, twice in the first.
    """
    copied = []
    for source, tokens in zip(sources(), ids, strict=True):
        extension = torch.ones(max(max(tokens) - NUM_TOKENS + 1, 0), dtype=torch.bool)
        copied.append(EncodedSource(source.values, source.final_state, torch.tensor(tokens), extension))
    return tuple(copied)
