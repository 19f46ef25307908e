"""Checks of models that write texts, before and after their training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from regard.config.place import KeyPath
from regard.config.schema import AlignmentTrainingConfig, AttentionConfig
from regard.data.text import Field
from regard.data.text.field import learns_pieces
from regard.decoding import chosen_heads
from regard.errors import ConfigError, DataError, RegardError, UnsupportedError
from regard.models import EncoderDecoder, RecurrentDecoder, TransformerDecoder
from regard.runs.fingerprints import DAMAGED
from regard.tasks.learnable import check_layer, check_learnable


def check_decoder_learns(
    decoder: Any, attention: AttentionConfig | None, training: AlignmentTrainingConfig, *, memory_size: int
) -> None:
    """Refuses attention to the input that would keep its random initial values, and losses without effect on it."""
    if isinstance(decoder, RecurrentDecoder):
        check_learnable(decoder, attention, training, memory_size=memory_size)
    if isinstance(decoder, TransformerDecoder) and attention is not None:
        size = decoder.embedding.size
        check_layer(decoder.layers[-1].cross_attention, attention, training, sizes=(size, memory_size, size))


def check_self_attention(side: Any, config: AttentionConfig, path: KeyPath) -> None:
    """Refuses self-attention of a Transformer's encoder or decoder that would keep its random initial values."""
    check_layer(side.layers[0].attention, config, sizes=(side.embedding.size,) * 3, path=path)


def check_attentions(
    module: EncoderDecoder,
    memory: Callable[[], object],
    chosen: Sequence[tuple[tuple[str, ...], str | None, int | None]],
) -> None:
    """Refuses attentions and heads that the decoder does not have.

    Args:
        memory: makes the memory of one input.
        chosen: the path of two keys without `_layer` and `_head`, and their values.
    """
    if all(layer is None and head is None for _, layer, head in chosen):
        return
    module.eval()
    with torch.no_grad():
        ids = torch.full((1, 2), 3)
        alignments = module.decoder.forward(ids, memory(), alignment=True).alignments
    module.train()
    for (*path, name), layer, head in chosen:
        for key, options in (("layer", {"layer": layer}), ("head", {"layer": layer, "head": head})):
            if options[key] is None:
                continue
            try:
                if not alignments:
                    raise ConfigError("the model has no attention")
                chosen_heads(alignments, module.decoder, **options)
            except ConfigError as error:
                message = str(error).replace("alignment_", f"{name}_", 1)
                raise ConfigError(message, (*path, f"{name}_{key}")) from None


def learned_pieces(data: Any, folder: Path, *sides: str) -> dict[str, Any]:
    """The keys with which the pieces of a saved model are read from its folder instead of learned anew.

    Args:
        data: the section `data` of its configuration.
    """
    values: dict[str, Any] = {}
    for side in sides:
        if learns_pieces(getattr(data, side)):
            path = folder.absolute() / f"{side}.model"
            values |= {f"data.{side}.sentencepiece_model": path, f"data.{side}.vocabulary_size": None}
    return values


def load_field(folder: Path, side: str) -> Field:
    """A field that was saved with a model."""
    try:
        return Field.load(folder, side)
    except (DataError, UnsupportedError):
        raise
    except (RegardError, TypeError) as error:
        raise DataError(f"{folder / side}.json: {error}\n  {DAMAGED}") from None
