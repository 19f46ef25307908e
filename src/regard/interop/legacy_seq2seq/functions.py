"""The functions of `tf.contrib.legacy_seq2seq` with attention, by their names and arguments.

`scope`, in TensorFlow a variable scope, is the module with the weights.
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
    """Calls an `AttentionDecoder`: outputs, state and locations.

    Args:
        decoder_inputs, initial_state, attention_states, loop_function, initial_state_attention, mask: as there.
        cell, output_size, num_heads: those of `scope`.
        dtype: that of the weights, or None.
        scope: the `AttentionDecoder`.

    Raises:
        UnsupportedError: without such a scope.
        ConfigError: for a cell, a size or a type that is not the scope's.
        ShapeError: as there.
    """
    module = _checked_scope(
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
    """Calls an `EmbeddingAttentionDecoder`: outputs, state and locations.

    Args:
        decoder_inputs, initial_state, attention_states, feed_previous, update_embedding_for_previous, mask: as there.
        cell, num_symbols, embedding_size, num_heads, output_size, output_projection: those of `scope`.
        dtype: that of the weights, or None.
        scope: the `EmbeddingAttentionDecoder`.
        initial_state_attention: as in `AttentionDecoder`.

    Raises: as `attention_decoder`.
    """
    call = "EmbeddingAttentionDecoder(cell, num_symbols, embedding_size, num_heads, …, attention_size=…)"
    module = _checked_scope(scope, EmbeddingAttentionDecoder, call, dtype)
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
    """Calls an `EmbeddingAttentionSeq2Seq`: outputs, state and locations.

    Args:
        encoder_inputs, decoder_inputs, feed_previous, mask: as there.
        cell, num_encoder_symbols, num_decoder_symbols, embedding_size, num_heads, output_projection: those of `scope`.
        dtype: that of the weights, or None.
        scope: the `EmbeddingAttentionSeq2Seq`.
        initial_state_attention: as in `AttentionDecoder`.

    Raises: as `attention_decoder`.
    """
    call = "EmbeddingAttentionSeq2Seq(cell, num_encoder_symbols, num_decoder_symbols, embedding_size, …)"
    module = _checked_scope(scope, EmbeddingAttentionSeq2Seq, call, dtype)
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


def _checked_scope(scope: object, kind: type[ModuleT], call: str, dtype: torch.dtype | None) -> ModuleT:
    """The scope, which must be a module of this kind with weights of this type."""
    if not isinstance(scope, kind):
        raise UnsupportedError(
            f"scope must be the {kind.__name__} with the weights; got {scope!r:.60}.\n"
            f"  Make it once, scope = {call}, and give it to every call: here a module has the weights, not a graph."
        )
    weights = next(scope.parameters()).dtype
    if dtype not in (None, weights):
        raise ConfigError(f"dtype is {dtype}, and the weights of scope are {weights}. Use scope.to({dtype}).")
    return scope


def _agree(**pairs: tuple[Any, Any]) -> None:
    """Refuses arguments that differ from those of the scope; None agrees with everything."""
    for name, pair in pairs.items():
        value, expected = (each.cell if isinstance(each, TorchCell) else each for each in pair)
        if value is not None and value is not expected and not (isinstance(value, int) and value == expected):
            raise ConfigError(f"{name} is {value!r:.60}, but scope has {expected!r:.60}.")
