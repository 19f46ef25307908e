"""CTranslate2: the weights of a Transformer by the names of its specification.

Its attention scales queries by 1/√d and has one matrix for the projections of queries, keys and values; its layer
norms, activations and sinusoids (a table) are ours.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.attention import Mechanism
from regard.attention.alignments import SoftmaxAlignment
from regard.attention.reads import DroppedRead, ProjectedSum
from regard.attention.scores import ScaledDotScore
from regard.attention.windows import CausalWindow, FullWindow
from regard.data.text.vocabulary import SPECIALS
from regard.errors import Option, UnsupportedError
from regard.interop.export.facts import write_pieces
from regard.layers import PositionedEmbedding, TokenEmbedding, TokenHead
from regard.layers.feed_forward import FeedForward, Residual
from regard.layers.positions import LearnedPositions
from regard.lazy import optional
from regard.models import TransformerDecoder, TransformerEncoder
from regard.tasks import TextToText

Array = NDArray[np.float32]
ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "silu": "SWISH"}
IMPOSSIBLE = -1e9
"""The bias of symbols that are never predicted."""
LEAST_POSITIONS, MOST_POSITIONS = 512, 8192
"""Bounds of the number of sinusoids, ten times `data.max_length`."""


def write_ctranslate2(model: TextToText, folder: Path) -> None:
    """Writes `model.bin`, `config.json` and the vocabularies of a Transformer.

    Args:
        model: on the CPU, with one direction.
        folder: an empty folder.

    Raises:
        UnsupportedError: for an option that CTranslate2 lacks, by its key; or if the package is not installed.
    """
    specs = optional("ctranslate2", "exporting to CTranslate2 needs", extra="ctranslate2").specs
    encoder, decoder = model.module.encoder, model.module.decoder
    _require_transformers(model)
    epsilon = _epsilon(encoder, decoder)
    spec = specs.TransformerSpec(
        specs.TransformerEncoderSpec(
            len(encoder.layers), encoder.layers[0].attention.num_heads, **_options(encoder, "encoder", specs)
        ),
        specs.TransformerDecoderSpec(
            len(decoder.layers),
            decoder.layers[0].attention.num_heads,
            alignment_heads=0,
            **_options(decoder, "decoder", specs),
        ),
    )
    longest = min(max(10 * model.config.data.max_length, LEAST_POSITIONS), MOST_POSITIONS)
    _set_stack(spec.encoder, encoder, longest, embedding=spec.encoder.embeddings[0])
    _set_stack(spec.decoder, decoder, longest, embedding=spec.decoder.embeddings)
    for ours, theirs in zip(encoder.layers, spec.encoder.layer, strict=True):
        _set_self_attention(theirs.self_attention, ours.attention, ours.residuals[0], "encoder")
        _set_feed_forward(theirs.ffn, ours.feed_forward, ours.residuals[1])
    for ours, theirs in zip(decoder.layers, spec.decoder.layer, strict=True):
        _set_self_attention(theirs.self_attention, ours.attention, ours.residuals[0], "decoder")
        _set_cross_attention(theirs.attention, ours.cross_attention, ours.residuals[1])
        _set_feed_forward(theirs.ffn, ours.feed_forward, ours.residuals[2])
    _set_head(spec.decoder.projection, decoder.head)
    sides = [model.source.vocabulary.symbols, model.target.vocabulary.symbols]
    named = _special_names({*sides[0], *sides[1]})
    _, begin, end, unknown = named
    config = {"unk_token": unknown, "bos_token": begin, "eos_token": end, "layer_norm_epsilon": epsilon}
    config |= {
        "decoder_start_token": named[model.begin],
        "add_source_eos": model.config.data.source_end,
        "add_source_bos": model.config.data.source_begin,
    }
    for name, value in config.items():
        setattr(spec.config, name, value)
    spec.register_source_vocabulary([*named, *sides[0]])
    spec.register_target_vocabulary([*named, *sides[1]])
    spec.validate()
    spec.optimize(quantization=None)
    spec.save(str(folder))
    write_pieces(model, folder)


def _unsupported(key: str, value: Any, reason: str) -> NoReturn:
    raise UnsupportedError(f"{key}: {value} cannot be exported to CTranslate2: {reason}.")


def _require_transformers(model: TextToText) -> None:
    for name, part, kind in (
        ("encoder", model.module.encoder, TransformerEncoder),
        ("decoder", model.module.decoder, TransformerDecoder),
    ):
        side: Any = getattr(model.config.model, name)
        if side.architecture != "transformer":
            _unsupported(
                f"model.{name}.architecture",
                side.architecture,
                f"it runs Transformers; use {Option('--format onnx', 'format=onnx')}",
            )
        if type(part) is not kind or side.like is not None:
            _unsupported(f"model.{name}.like", side.like or type(part).__name__, "CTranslate2 computes it differently")
    if getattr(model.config.model.decoder, "refinement", None) is not None:
        _unsupported("model.decoder.refinement", "{…}", "its attention has no coverage")
    if model.is_reversed:
        _unsupported("data.target.direction", "right_to_left", "it cannot reverse outputs")


def _options(stack: Any, name: str, specs: Any) -> dict[str, Any]:
    """The places of the norms of a side, and its feed-forward sublayers."""
    around: Residual = stack.layers[0].residuals[0]
    final = isinstance(stack.norm, nn.LayerNorm)
    if final and not around.first:
        _unsupported(f"model.{name}.final_norm", "true", "with norm: post it has no last norm")
    forward = stack.layers[0].feed_forward
    gated = forward.gate is not None
    activation = specs.Activation[ACTIVATIONS["silu" if gated else forward.activation]]
    return {"pre_norm": around.first, "no_final_norm": not final, "activation": activation, "ffn_glu": gated}


def _epsilon(encoder: TransformerEncoder, decoder: TransformerDecoder) -> float:
    """The epsilon of all norms; CTranslate2 has one."""
    norms: list[Any] = [stack.layers[0].residuals[0].norm for stack in (encoder, decoder)]
    if norms[0].eps != norms[1].eps:
        _unsupported(
            "model.decoder.norm_epsilon", norms[1].eps, f"the encoder has {norms[0].eps}, and it has one for both"
        )
    return float(norms[0].eps)


def _special_names(symbols: Collection[str]) -> list[str]:
    """The names of our special symbols, with a mark if an ordinary symbol has the same name.

    >>> _special_names(["a", "<s>"])
    ['<pad>', "<s>'", '</s>', '<unk>']
    """
    names = []
    for name in SPECIALS:
        while name in symbols:
            name += "'"
        names.append(name)
    return names


def _array(tensor: Tensor) -> Array:
    return tensor.detach().float().numpy()


def _set_stack(theirs: Any, ours: Any, longest: int, *, embedding: Any) -> None:
    """Embeddings, positions and the last norm."""
    embedded: PositionedEmbedding = ours.embedding
    table: TokenEmbedding = embedded.embedding
    embedding.weight = _array(table.table.weight)
    theirs.scale_embeddings = embedded.scale != 1.0
    positions = embedded.positions
    if positions is None:
        encodings = torch.zeros(longest, embedded.size)
    else:
        count = positions.max_length if isinstance(positions, LearnedPositions) else longest
        with torch.no_grad():
            encodings = positions(torch.arange(count), table.table.weight)
    theirs.position_encodings.encodings = _array(encodings)
    if isinstance(ours.norm, nn.LayerNorm):
        _set_norm(theirs.layer_norm, ours.norm)


def _set_norm(theirs: Any, ours: nn.LayerNorm) -> None:
    theirs.gamma, theirs.beta = _array(ours.weight), _array(ours.bias)


def _set_linear(theirs: Any, ours: Sequence[nn.Linear]) -> None:
    """One linear map, or several of the same input as one."""
    theirs.weight = np.concatenate([_array(each.weight) for each in ours])
    if any(each.bias is not None for each in ours):
        biases = [
            _array(each.bias) if each.bias is not None else np.zeros(len(each.weight), np.float32) for each in ours
        ]
        theirs.bias = np.concatenate(biases)


def _parts(attention: Any, key: str, *, causal: bool) -> tuple[ScaledDotScore, ProjectedSum]:
    """Score and read of multi-head attention as CTranslate2 has it."""
    if type(attention) is not Mechanism:
        _unsupported(key, type(attention).__name__, "it has multi-head attention only")
    score, read, alignment, window = attention.score, attention.read, attention.alignment, attention.window
    read = read.values if isinstance(read, DroppedRead) else read
    if type(score) is not ScaledDotScore:
        _unsupported(
            key, type(score).__name__, "it supports scaled dot products without positions or norms of their own"
        )
    if type(alignment) is not SoftmaxAlignment or alignment.softmax_factor != 1:
        _unsupported(key, type(alignment).__name__, "its weights are a softmax without sharpening")
    if type(read) is not ProjectedSum:
        _unsupported(key, type(read).__name__, "it reads a weighted sum of projected values")
    if type(window) is not (CausalWindow if causal else FullWindow):
        _unsupported(key, type(window).__name__, "its attention has no further window")
    if score.num_key_value_heads != score.num_heads:
        _unsupported(
            f"{key.rsplit('.', 1)[0]}.key_value_heads",
            score.num_key_value_heads,
            "this export writes a key for each head",
        )
    if read.context_size != score.query_size or score.head_size * score.num_heads != score.query_size:
        _unsupported(
            key, f"size {score.head_size * score.num_heads}", f"its heads share the {score.query_size} features"
        )
    return score, read


def _set_self_attention(theirs: Any, ours: Any, around: Residual, side: str) -> None:
    score, read = _parts(ours, f"model.{side}.self_attention", causal=side == "decoder")
    _set_linear(theirs.linear[0], [score.query_projection, score.key_projection, read.value_projection])
    _set_linear(theirs.linear[1], [read.output_projection])
    _set_norm(theirs.layer_norm, around.norm)


def _set_cross_attention(theirs: Any, ours: Any, around: Residual) -> None:
    score, read = _parts(ours, "model.attention", causal=False)
    _set_linear(theirs.linear[0], [score.query_projection])
    _set_linear(theirs.linear[1], [score.key_projection, read.value_projection])
    _set_linear(theirs.linear[2], [read.output_projection])
    _set_norm(theirs.layer_norm, around.norm)


def _set_feed_forward(theirs: Any, ours: FeedForward, around: Residual) -> None:
    if ours.gate is not None:
        _set_linear(theirs.linear_0, [ours.gate])
        _set_linear(theirs.linear_0_noact, [ours.inner])
    else:
        _set_linear(theirs.linear_0, [ours.inner])
    _set_linear(theirs.linear_1, [ours.outer])
    _set_norm(theirs.layer_norm, around.norm)


def _set_head(theirs: Any, ours: TokenHead) -> None:
    """The output layer, with a bias of -1e9 for symbols that are never predicted.

    If they are in the softmax here (`specials: forbidden`), CTranslate2's log-probabilities of all others are larger by
    the same number at each step, so greedy outputs are equal.
    """
    weight, bias = ours.projection.weight, ours.projection.bias
    if isinstance(ours.adapter, nn.Linear):
        weight = weight @ ours.adapter.weight
    theirs.weight = _array(weight)
    theirs.bias = _array(torch.where(ours.never, torch.tensor(IMPOSSIBLE), bias))
