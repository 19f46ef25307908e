"""Transformers with the weights of other programs, which are found by their names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

import torch
from torch import Tensor, nn

from regard.errors import DataError, UnsupportedError
from regard.layers import Norm, SinusoidalPositions, TokenEmbedding, TokenHead
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.named_weights import Names, load_named
from regard.models.transformer import TransformerDecoder, TransformerEncoder, transformer_decoder, transformer_encoder
from regard.models.transformer_options import TransformerOptions

ATTENTION: Names = {
    "score.query_projection": "q_proj",
    "score.key_projection": "k_proj",
    "read.value_projection": "v_proj",
    "read.output_projection": "out_proj",
}
"""The projections of multi-head attention."""
TORCH_ENCODER: Names = {
    **{f"attention.{ours}": f"self_attn.{theirs}" for ours, theirs in ATTENTION.items()},
    "feed_forward.inner": "linear1",
    "feed_forward.outer": "linear2",
    "residuals.0.norm": "norm1",
    "residuals.1.norm": "norm2",
}
"""A layer of `torch.nn.TransformerEncoder`, the stacked projections of its attention named apart."""
TORCH_DECODER: Names = {
    **TORCH_ENCODER,
    **{f"cross_attention.{ours}": f"multihead_attn.{theirs}" for ours, theirs in ATTENTION.items()},
    "residuals.2.norm": "norm3",
}
"""A layer of `torch.nn.TransformerDecoder`."""
MARIAN_ENCODER: Names = {
    **{f"attention.{ours}": f"self_attn.{theirs}" for ours, theirs in ATTENTION.items()},
    "feed_forward.inner": "fc1",
    "feed_forward.outer": "fc2",
    "residuals.0.norm": "self_attn_layer_norm",
    "residuals.1.norm": "final_layer_norm",
}
"""A layer of the encoder of transformers' `MarianMTModel`."""
MARIAN_DECODER: Names = {
    **MARIAN_ENCODER,
    **{f"cross_attention.{ours}": f"encoder_attn.{theirs}" for ours, theirs in ATTENTION.items()},
    "residuals.1.norm": "encoder_attn_layer_norm",
    "residuals.2.norm": "final_layer_norm",
}
"""A layer of its decoder."""
STACKED = ("q_proj", "k_proj", "v_proj")
"""The order of torch's stacked projections."""
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "silu": "silu", "swish": "silu"}
"""Activations by the names that others give them."""
POSITIONS = (".embedding.positions.",)
"""Weights that are the caller's."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Side:
    """What the encoder or the decoder of another program is built like; its layers are alike."""

    num_layers: int
    num_heads: int
    feed_forward_size: int
    norm: Norm
    options: TransformerOptions


def from_torch_transformer(
    transformer: nn.Transformer,
    source: nn.Embedding,
    target: nn.Embedding,
    output: nn.Linear,
    *,
    positions: nn.Module | Literal["sinusoidal"] | None = "sinusoidal",
    scaled_embeddings: bool = True,
    never: Sequence[int] = (),
    dropout: float = 0.0,
) -> EncoderDecoder:
    """A `torch.nn.Transformer` with the layers around it, which it does not have itself, as our modules.

    The outputs are log softmax of the output layer, equal up to rounding. Weights are copied, to float32 unless all are
    float64.

    Args:
        transformer: with ReLU or GELU, norms before or after the sublayers, with biases or without.
        source, target: the embeddings; the padding's vectors are copied as they are.
        output: the output layer; it shares the target's matrix if `output.weight is target.weight`.
        positions: what is added to embeddings (`PositionedEmbedding`); a module is shared by both sides.
        scaled_embeddings: whether embeddings are multiplied by √D.
        never: ids that are never predicted, as padding and the beginning of a sentence.
        dropout: of embeddings and sublayers in later training.

    Raises:
        UnsupportedError: for another activation, or a side whose layers differ.
        DataError: for weights that do not fit, such as those of layers of a user's own.

    >>> from torch import nn
    >>> transformer = nn.Transformer(8, 2, 1, 1, 16, batch_first=True)
    >>> model = from_torch_transformer(transformer, nn.Embedding(9, 8), nn.Embedding(7, 8), nn.Linear(8, 7))
    >>> model(torch.tensor([[4, 5]]), torch.tensor([[1, 4, 6]])).log_probabilities.shape
    torch.Size([1, 3, 7])
    """
    sides = [_torch_side(side, scaled_embeddings) for side in (transformer.encoder, transformer.decoder)]
    tied = output.weight is target.weight
    model = _build(
        (source.num_embeddings, target.num_embeddings),
        transformer.d_model,
        sides,
        positions=positions,
        tied=tied,
        never=never,
        dropout=dropout,
    )
    theirs = dict(unstacked(transformer.state_dict()))
    theirs |= {"source.weight": source.weight, "target.weight": target.weight}
    theirs |= {"output.weight": output.weight} | ({} if output.bias is None else {"output.bias": output.bias})
    names = _names(model, (TORCH_ENCODER, "encoder"), (TORCH_DECODER, "decoder"))
    names |= {"encoder.norm": "encoder.norm", "decoder.norm": "decoder.norm", "decoder.head.projection": "output"}
    names |= {"encoder.embedding.embedding.table": "source", "decoder.embedding.embedding.table": "target"}
    return load_named(model, theirs, names, skip=POSITIONS, without_bias=("*",))


def from_marian(
    weights: Mapping[str, Tensor], config: Mapping[str, Any], *, never: Sequence[int] = (), dropout: float = 0.0
) -> EncoderDecoder:
    """A Marian model, as transformers has it, as our modules.

    `from_marian(model.state_dict(), model.config.to_dict())` takes a `MarianMTModel`. The outputs are log softmax of
    its logits, equal up to rounding. Weights are copied. A target begins with `config["decoder_start_token_id"]` and
    ends with `config["eos_token_id"]`.

    Args:
        weights: of `MarianMTModel`, by name.
        config: its configuration.
        never: ids that are never predicted; Marian's own models never predict `pad_token_id`.
        dropout: of embeddings and sublayers in later training.

    Raises:
        UnsupportedError: for an option that Marian's own models do not have.
        DataError: for weights that do not fit.
    """
    if config.get("normalize_embedding") or config.get("normalize_before"):
        raise UnsupportedError("normalize_embedding and normalize_before are options that no Marian model has.")
    options = TransformerOptions(
        activation=_activation(config["activation_function"]),  # type: ignore[arg-type]
        final_norm=False,
        scaled_embeddings=bool(config["scale_embedding"]),
        projection_bias=True,
    )
    sides = [
        _Side(
            num_layers=config[f"{side}_layers"],
            num_heads=config[f"{side}_attention_heads"],
            feed_forward_size=config[f"{side}_ffn_dim"],
            norm="post",
            options=options,
        )
        for side in ("encoder", "decoder")
    ]
    theirs = {name.removeprefix("model."): tensor for name, tensor in weights.items()}
    source, target = (theirs.get(f"{side}.embed_tokens.weight", theirs.get("shared.weight")) for side in SIDES)
    if source is None or target is None:
        raise DataError("The weights of a Marian model have model.shared.weight, or embed_tokens.weight of each side.")
    output = theirs.get("lm_head.weight", target)
    theirs |= {"source.weight": source, "target.weight": target, "output.weight": output}
    theirs["output.bias"] = theirs.pop("final_logits_bias", target.new_zeros(len(target))).flatten()
    model = _build(
        (len(source), len(target)),
        config["d_model"],
        sides,
        positions=SinusoidalPositions(config["d_model"], layout="half"),
        tied=torch.equal(output, target),
        never=never,
        dropout=dropout,
    )
    names = _names(model, (MARIAN_ENCODER, "encoder"), (MARIAN_DECODER, "decoder"))
    names |= {"encoder.embedding.embedding.table": "source", "decoder.embedding.embedding.table": "target"}
    names |= {"decoder.head.projection": "output"}
    computed = ("shared.", "lm_head.", "encoder.embed_", "decoder.embed_")
    read = {name: tensor for name, tensor in theirs.items() if not name.startswith(computed)}
    return load_named(model, read, names, skip=POSITIONS)


SIDES = ("encoder", "decoder")


def _build(
    vocabularies: tuple[int, int],
    size: int,
    sides: Sequence[_Side],
    *,
    positions: nn.Module | Literal["sinusoidal"] | None,
    tied: bool,
    never: Sequence[int],
    dropout: float,
) -> EncoderDecoder:
    """The modules, with weights that are still random."""
    embeddings = [TokenEmbedding(count, size, padding=None, unknown=min(3, count - 1)) for count in vocabularies]
    head = TokenHead(size, vocabularies[1], tied=embeddings[1] if tied else None, never=never)
    encoder, decoder = ({field.name: getattr(side, field.name) for field in fields(side)} for side in sides)
    built = (
        transformer_encoder(embeddings[0], dropout=dropout, **encoder),
        transformer_decoder(embeddings[1], head, memory_size=size, dropout=dropout, **decoder),
    )
    for part in built:
        if positions != "sinusoidal":
            part.embedding._modules["positions"] = positions
    return EncoderDecoder(*built)


def _torch_side(side: Any, scaled_embeddings: bool) -> _Side:
    """What `nn.TransformerEncoder` or `nn.TransformerDecoder` is built like."""
    kinds = {
        (_torch_activation(layer.activation), layer.norm1.eps, layer.norm_first, layer.self_attn.num_heads)
        for layer in side.layers
    }
    if len(kinds) > 1:
        raise UnsupportedError(
            f"The layers of {type(side).__name__} differ in activation, layer_norm_eps, norm_first or heads; here all "
            "layers of a side are alike."
        )
    ((activation, epsilon, norm_first, num_heads),) = kinds
    first = side.layers[0]
    options = TransformerOptions(
        activation=activation,  # type: ignore[arg-type]
        norm_epsilon=epsilon,
        final_norm=side.norm is not None,
        scaled_embeddings=scaled_embeddings,
        projection_bias=first.self_attn.in_proj_bias is not None,
    )
    return _Side(
        num_layers=len(side.layers),
        num_heads=num_heads,
        feed_forward_size=first.linear1.out_features,
        norm="pre" if norm_first else "post",
        options=options,
    )


def _torch_activation(activation: Any) -> str:
    """The name of a function or a module; of `nn.GELU` only the exact one is known."""
    name = getattr(activation, "__name__", type(activation).__name__).lower()
    approximate = getattr(activation, "approximate", "none")
    return _activation(name if approximate == "none" else f"{name} with approximate={approximate}")


def _activation(name: str) -> str:
    if name not in ACTIVATIONS:
        raise UnsupportedError(f"The activation {name!r} is not known here; there are {', '.join(ACTIVATIONS)}.")
    return ACTIVATIONS[name]


def unstacked(weights: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """Weights of which in_proj_weight (3·D, D) and in_proj_bias (3·D) are divided into those of three projections."""
    for name, tensor in weights.items():
        before, found, kind = name.partition("in_proj_")
        if found:
            for projection, part in zip(STACKED, tensor.chunk(3), strict=True):
                yield f"{before}{projection}.{kind}", part
        else:
            yield name, tensor


def _names(model: EncoderDecoder, *tables: tuple[Names, str]) -> dict[str, str]:
    """Our modules in the layers of each side, and their names for them."""
    sides: dict[str, TransformerEncoder | TransformerDecoder] = {"encoder": model.encoder, "decoder": model.decoder}
    return {
        f"{side}.layers.{number}.{ours}": f"{side}.layers.{number}.{name}"
        for names, side in tables
        for number in range(len(sides[side].layers))
        for ours, name in names.items()
    }
