"""The functions of `tf.contrib.legacy_seq2seq` with attention, by their names and arguments.

Each takes the module that holds its weights as `scope`: TensorFlow's functions find theirs in a variable scope.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from regard.errors import ConfigError, UnsupportedError
from regard.interop.legacy_seq2seq.attention import AttentionDecoder, Locations, LoopFunction
from regard.interop.legacy_seq2seq.embedding import EmbeddingAttentionDecoder, EmbeddingAttentionSeq2Seq
from regard.interop.tfa.cells.contract import TorchCell
from regard.shapes import Bool, Float, Int

ModuleT = TypeVar("ModuleT", bound=nn.Module)


def attention_decoder(
    decoder_inputs: Sequence[Float[Tensor, "B I"]],
    initial_state: Any,
    attention_states: Float[Tensor, "B S M"],
    cell: Any,
    output_size: int | None = None,
    num_heads: int = 1,
    loop_function: LoopFunction | None = None,
    dtype: torch.dtype | None = None,
    scope: AttentionDecoder | None = None,
    initial_state_attention: bool = False,
    *,
    mask: Bool[Tensor, "B S"] | None = None,
) -> tuple[list[Float[Tensor, "B O"]], Any, Locations]:
    """`AttentionDecoder`'s pass: outputs, state and locations.

    Args:
        decoder_inputs, initial_state, attention_states, loop_function, initial_state_attention, mask: as there.
        cell, output_size, num_heads: those that `scope` was made with.
        dtype: that of the weights, or None.
        scope: the `AttentionDecoder` that holds the weights.

    Raises:
        UnsupportedError: without such a scope.
        ConfigError: for a cell, a size or a type that is not the scope's.
        ShapeError: as there.
    """
    module = _opened(
        scope,
        AttentionDecoder,
        "AttentionDecoder(cell, output_size, num_heads, input_size=…, attention_size=…)",
        dtype,
    )
    _agree(cell=(cell, module.cell), output_size=(output_size, module.output_size))
    _agree(num_heads=(num_heads, module.num_heads))
    result: tuple[list[Tensor], Any, Locations] = module(
        decoder_inputs, initial_state, attention_states, loop_function, initial_state_attention, mask=mask
    )
    return result


def embedding_attention_decoder(
    decoder_inputs: Sequence[Int[Tensor, " B"]],
    initial_state: Any,
    attention_states: Float[Tensor, "B S M"],
    cell: Any,
    num_symbols: int,
    embedding_size: int,
    num_heads: int = 1,
    output_size: int | None = None,
    output_projection: nn.Linear | None = None,
    feed_previous: bool = False,
    update_embedding_for_previous: bool = True,
    dtype: torch.dtype | None = None,
    scope: EmbeddingAttentionDecoder | None = None,
    initial_state_attention: bool = False,
    *,
    mask: Bool[Tensor, "B S"] | None = None,
) -> tuple[list[Float[Tensor, "B O"]], Any, Locations]:
    """`EmbeddingAttentionDecoder`'s pass: outputs, state and locations.

    Args:
        decoder_inputs, initial_state, attention_states, feed_previous, update_embedding_for_previous, mask: as there.
        cell, num_symbols, embedding_size, num_heads, output_size, output_projection: those that `scope` was made with.
        dtype: that of the weights, or None.
        scope: the `EmbeddingAttentionDecoder` that holds the weights.
        initial_state_attention: as in `AttentionDecoder`.

    Raises: as `attention_decoder`.
    """
    call = "EmbeddingAttentionDecoder(cell, num_symbols, embedding_size, num_heads, …, attention_size=…)"
    module = _opened(scope, EmbeddingAttentionDecoder, call, dtype)
    inner = module.decoder
    _agree(
        cell=(cell, inner.cell), output_size=(output_size, inner.output_size), num_heads=(num_heads, inner.num_heads)
    )
    _agree(num_symbols=(num_symbols, module.num_symbols), embedding_size=(embedding_size, inner.input_size))
    _agree(output_projection=(output_projection, module.output_projection))
    result: tuple[list[Tensor], Any, Locations] = module(
        decoder_inputs,
        initial_state,
        attention_states,
        feed_previous,
        update_embedding_for_previous,
        initial_state_attention,
        mask=mask,
    )
    return result


def embedding_attention_seq2seq(
    encoder_inputs: Sequence[Int[Tensor, " B"]],
    decoder_inputs: Sequence[Int[Tensor, " B"]],
    cell: Any,
    num_encoder_symbols: int,
    num_decoder_symbols: int,
    embedding_size: int,
    num_heads: int = 1,
    output_projection: nn.Linear | None = None,
    feed_previous: bool = False,
    dtype: torch.dtype | None = None,
    scope: EmbeddingAttentionSeq2Seq | None = None,
    initial_state_attention: bool = False,
    *,
    mask: Bool[Tensor, "B S"] | None = None,
) -> tuple[list[Float[Tensor, "B N"]], Any, Locations]:
    """`EmbeddingAttentionSeq2Seq`'s pass: outputs, state and locations.

    Args:
        encoder_inputs, decoder_inputs, feed_previous, mask: as there.
        cell, num_encoder_symbols, num_decoder_symbols, embedding_size, num_heads, output_projection: those that `scope`
            was made with.
        dtype: that of the weights, or None.
        scope: the `EmbeddingAttentionSeq2Seq` that holds the weights.
        initial_state_attention: as in `AttentionDecoder`.

    Raises: as `attention_decoder`.
    """
    call = "EmbeddingAttentionSeq2Seq(cell, num_encoder_symbols, num_decoder_symbols, embedding_size, …)"
    module = _opened(scope, EmbeddingAttentionSeq2Seq, call, dtype)
    symbols, decoder = module.encoder_embedding.num_embeddings, module.decoder
    used: Any = decoder.decoder.cell
    used = used.cell if module.is_projected else used
    _agree(cell=(cell, used), num_heads=(num_heads, decoder.decoder.num_heads))
    _agree(num_encoder_symbols=(num_encoder_symbols, symbols))
    _agree(num_decoder_symbols=(num_decoder_symbols, decoder.num_symbols))
    _agree(embedding_size=(embedding_size, decoder.decoder.input_size))
    _agree(output_projection=(output_projection, decoder.output_projection))
    result: tuple[list[Tensor], Any, Locations] = module(
        encoder_inputs, decoder_inputs, feed_previous, initial_state_attention, mask=mask
    )
    return result


def _opened(scope: object, kind: type[ModuleT], call: str, dtype: torch.dtype | None) -> ModuleT:
    """The scope, if it is a module of the kind with weights of the type."""
    if not isinstance(scope, kind):
        raise UnsupportedError(
            f"scope must be the {kind.__name__} that holds the weights; got {scope!r:.60}.\n"
            f"  Make it once, scope = {call}, and give it to every call: weights are a module's here, not a graph's."
        )
    weights = next(scope.parameters()).dtype
    if dtype not in (None, weights):
        raise ConfigError(f"dtype is {dtype}, and the weights of scope are {weights}. Use scope.to({dtype}).")
    return scope


def _agree(**pairs: tuple[Any, Any]) -> None:
    """Refuses an argument that is another than the scope was made with; None agrees with everything."""
    for name, (given, made) in pairs.items():
        given, made = (value.cell if isinstance(value, TorchCell) else value for value in (given, made))
        if given is not None and given is not made and not (isinstance(given, int) and given == made):
            raise ConfigError(f"{name} is {given!r:.60}, and scope was made with {made!r:.60}.")
