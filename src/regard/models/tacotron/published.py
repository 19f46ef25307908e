"""Tacotron 1 and Tacotron 2, from their parts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from inspect import signature
from typing import Any, Literal, ParamSpec

import torch
from torch import nn
from torch.nn.init import calculate_gain, xavier_uniform_

from regard.attention import AbstractAttention, bahdanau, location_sensitive
from regard.attention.scores import AdditiveScore, LocationScore
from regard.errors import ConfigError, UnsupportedError
from regard.interop.variants import TACOTRONS
from regard.layers import CBHG, CellStack, ConvolutionBlock, Prenet, RecurrentStack, TokenEmbedding
from regard.layers.cells.cell import Cell
from regard.models.tacotron.decoder import TacotronDecoder
from regard.models.tacotron.encoders import CbhgEncoder, ConvolutionalEncoder
from regard.models.tacotron.heads import FrameHead, StopHead
from regard.models.tacotron.model import Tacotron
from regard.models.tacotron.postnets import CbhgPostnet, ConvolutionalPostnet

Attend = Callable[..., AbstractAttention]
"""A recipe, or a function that calls one, with the keyword arguments query_size and memory_size."""
QueryState = Literal["new", "top", "old"]
"""The query: the new state of separate cells, that of all cells, or the old state of the output cells."""


P = ParamSpec("P")


def imitable(build: Callable[P, Tacotron]) -> Callable[P, Tacotron]:
    """Adds the option `like`, which builds the variant of another program (`regard.interop.variants`).

    Raises:
        UnsupportedError: for an unknown program.
        ConfigError: for an option that its variant does not have.
    """

    @wraps(build)
    def built(*args: P.args, **options: P.kwargs) -> Tacotron:
        like: Any = options.pop("like", None)
        if like is None:
            return build(*args, **options)
        variants = TACOTRONS[build.__name__]
        if like not in variants:
            raise UnsupportedError(f"like={like!r} must be {' or '.join(map(repr, variants))}, or None.")
        variant: Callable[P, Tacotron] = variants[like]
        known = signature(variant).parameters
        unknown = [name for name in options if name not in known]
        if unknown:
            raise ConfigError(
                f"{unknown[0]}={options[unknown[0]]!r}: like={like!r} has no such option; it has "
                f"{', '.join(list(known)[1:])}."
            )
        return variant(*args, **options)

    return built


@dataclass(frozen=True, kw_only=True)
class DecoderSizes:
    """Sizes and options of the decoders of both Tacotrons.

    Args:
        num_features: F, of a frame.
        num_frames: the largest r.
        coarse_frames: r of a second decoder, for double-decoder consistency; None for none.
        num_fed_frames: the number of frames that the prenet reads (`TacotronDecoder`).
        prenet_sizes: of the layers of the prenet.
        prenet_drops: whether the prenet drops in `training` only or `always`.
        size: D, of each cell.
        query: the state that is attention's query.
        dropout, zoneout: of the cells' states (`CellStack`); one of them.
        stops: whether there are stop logits.
    """

    num_features: int = 80
    num_frames: int = 1
    coarse_frames: int | None = None
    num_fed_frames: int = 1
    prenet_sizes: tuple[int, ...] = (256, 256)
    prenet_drops: Literal["training", "always"] = "always"
    size: int = 1024
    query: QueryState = "new"
    dropout: float = 0.0
    zoneout: float = 0.0
    stops: bool = True


@imitable
def tacotron2(
    num_symbols: int,
    *,
    attention: Attend = location_sensitive,
    embedding_size: int = 512,
    num_convolutions: int = 3,
    kernel_size: int = 5,
    encoder_size: int = 512,
    encoder_dropout: float = 0.5,
    postnet_size: int = 512,
    postnet_layers: int = 5,
    postnet_dropout: float = 0.5,
    momentum: float = 0.1,
    padding: int | None = 0,
    like: str | None = None,
    **decoder: Any,
) -> Tacotron:
    """Tacotron 2: convolutions and a BiLSTM, a prenet, two LSTMs, a stop token, a postnet of convolutions.

    Args:
        num_symbols: the vocabulary.
        attention: called with query_size and memory_size: a recipe, or `partial(forward_attention, …)`.
        embedding_size, num_convolutions, kernel_size, encoder_size, encoder_dropout: of the encoder; the size is that
            of both directions together.
        postnet_size, postnet_layers, postnet_dropout: of the postnet; no layers for none.
        momentum: of batch normalisation (`MaskedBatchNorm`).
        padding: the id whose embedding is zero; None for none.
        like: another program (`regard.interop.variants`), whose sizes are then the defaults.
        decoder: fields of `DecoderSizes`; its dropout is 0.1 if no zoneout is given.

    Raises:
        ConfigError: for sizes that do not fit together, or an option that the other implementation does not have.

    Source: Shen et al. 2018, Natural TTS Synthesis by Conditioning WaveNet on Mel Spectrogram Predictions
    (arXiv 1712.05884), with the cells of NVIDIA's implementation: a query LSTM, and another after attention.

    >>> model = tacotron2(30, size=8, encoder_size=6, embedding_size=5, postnet_size=4, prenet_sizes=(7,), num_frames=2)
    >>> model.decoder.num_frames, model.decoder.attention.context_size
    (2, 6)
    """
    if not decoder.get("zoneout"):
        decoder.setdefault("dropout", 0.1)
    sizes = DecoderSizes(**decoder)
    widths = [embedding_size, *[encoder_size] * num_convolutions]
    blocks = [
        ConvolutionBlock(before, encoder_size, kernel_size, dropout=encoder_dropout, momentum=momentum)
        for before in widths[:-1]
    ]
    if encoder_size % 2:
        raise ConfigError(f"encoder_size={encoder_size} is that of two directions together: give an even number.")
    stack = RecurrentStack(widths[-1], encoder_size // 2, bidirectional=True)
    encoder = ConvolutionalEncoder(TokenEmbedding(num_symbols, embedding_size, padding=padding), blocks, stack)
    options: dict[str, Any] = {"dropout": postnet_dropout, "momentum": momentum}
    postnets = {}
    if postnet_layers:
        postnets["mel"] = ConvolutionalPostnet(sizes.num_features, postnet_size, num_layers=postnet_layers, **options)
    model = _assembled(encoder, attention, sizes, postnets, "lstm", residual=False)
    initialise_tacotron(model)
    return model


@imitable
def tacotron1(
    num_symbols: int,
    *,
    attention: Attend = bahdanau,
    embedding_size: int = 256,
    encoder_prenet_sizes: tuple[int, ...] = (256, 128),
    num_filters: int = 16,
    bank_size: int = 128,
    encoder_size: int = 256,
    postnet_filters: int = 8,
    postnet_size: int = 256,
    num_linear: int | None = 1025,
    momentum: float = 0.1,
    padding: int | None = 0,
    like: str | None = None,
    **decoder: Any,
) -> Tacotron:
    """Tacotron 1: CBHG, a query GRU behind a prenet, two residual GRUs, r frames a step, a CBHG to linear spectrograms.

    Args:
        num_symbols: the vocabulary.
        attention: called with query_size and memory_size.
        embedding_size, encoder_prenet_sizes: of the encoder before its CBHG.
        num_filters, bank_size, encoder_size: of its CBHG: K, filters of each width, and both directions together.
        postnet_filters, postnet_size: K of the postnet's CBHG, and both of its directions together.
        num_linear: N, the frequencies of the linear spectrogram; None for no postnet.
        momentum: of batch normalisation. The original programs have TensorFlow's 0.99, which is 0.01 here: they
            evaluate with statistics of about the last hundred steps, while weights change fast early in training.
        padding: the id whose embedding is zero; None for none.
        like: another program (`regard.interop.variants`), whose sizes are then the defaults.
        decoder: fields of `DecoderSizes`; here r is 5, cells are 256, the prenet is 256 and 128 and drops in training.

    Raises:
        ConfigError: for sizes that do not fit together, or an option that the other implementation does not have.

    Source: Wang et al. 2017, Tacotron: Towards End-to-End Speech Synthesis (arXiv 1703.10135); with stop logits, which
    the paper does not have (stops=False leaves them out).

    >>> model = tacotron1(30, num_features=4, size=8, num_linear=9, num_filters=2, bank_size=3, encoder_size=6)
    >>> model.decoder.num_frames, list(model.postnets)
    (5, ['linear'])
    """
    defaults: dict[str, Any] = {"num_frames": 5, "size": 256, "prenet_sizes": (256, 128), "prenet_drops": "training"}
    sizes = DecoderSizes(**(defaults | decoder))
    for name, size in (("encoder_size", encoder_size), ("postnet_size", postnet_size)):
        if size % 2:
            raise ConfigError(f"{name}={size} is that of two directions together: give an even number.")
    prenet = Prenet(embedding_size, encoder_prenet_sizes)
    norm: dict[str, Any] = {"momentum": momentum, "epsilon": 1e-3, "bank_size": bank_size}
    cbhg = CBHG(
        prenet.size,
        num_filters=num_filters,
        projections=(bank_size,),
        highway_size=encoder_size // 2,
        size=encoder_size // 2,
        **norm,
    )
    encoder = CbhgEncoder(TokenEmbedding(num_symbols, embedding_size, padding=padding), prenet, cbhg)
    postnets = {}
    if num_linear is not None:
        after = CBHG(
            sizes.num_features,
            num_filters=postnet_filters,
            projections=(2 * bank_size,),
            highway_size=postnet_size // 2,
            size=postnet_size // 2,
            **norm,
        )
        postnets["linear"] = CbhgPostnet(after, num_linear)
    return _assembled(encoder, attention, sizes, postnets, "gru", residual=True)


def _assembled(
    encoder: Any,
    attention: Attend,
    sizes: DecoderSizes,
    postnets: dict[str, Any],
    cell: Cell,
    *,
    residual: bool,
) -> Tacotron:
    """The model, with a second decoder if `coarse_frames` is given."""
    decoder = _decoder(attention, encoder.output_size, sizes, sizes.num_frames, cell, residual=residual)
    coarse = None
    if sizes.coarse_frames is not None:
        coarse = _decoder(attention, encoder.output_size, sizes, sizes.coarse_frames, cell, residual=residual)
    return Tacotron(encoder, decoder, postnets, coarse=coarse)


def _decoder(
    attention: Attend, memory_size: int, sizes: DecoderSizes, num_frames: int, cell: Cell, *, residual: bool
) -> TacotronDecoder:
    """A decoder with one query cell and one output cell (two if residual), or the cells of `sizes.query`."""
    size, features = sizes.size, sizes.num_features
    mechanism = attention(query_size=size, memory_size=memory_size)
    prenet = Prenet(sizes.num_fed_frames * features, sizes.prenet_sizes, drops=sizes.prenet_drops)
    states: dict[str, Any] = {"cell": cell, "dropout": sizes.dropout, "zoneout": sizes.zoneout}
    context, count = mechanism.context_size, 2 if residual else 1
    query_cells = output_cells = None
    if sizes.query == "new":
        query_cells = CellStack(prenet.size + context, size, **states)
        output_cells = CellStack(size + context, size, count, residual=residual, **states)
    elif sizes.query == "top":
        query_cells = CellStack(prenet.size + context, size, 1 + count, residual=residual, **states)
    elif sizes.query == "old":
        output_cells = CellStack(prenet.size + context, size, 1 + count, residual=residual, **states)
    else:
        raise UnsupportedError(f"query={sizes.query!r} must be 'new', 'top' or 'old'.")
    stop = StopHead(size, context, num_frames) if sizes.stops else None
    head = FrameHead(size, context, features, num_frames, stop=stop)
    return TacotronDecoder(
        prenet,
        mechanism,
        head,
        query_cells=query_cells,
        output_cells=output_cells,
        num_fed_frames=sizes.num_fed_frames,
    )


GAINS = {"none": 1.0, "relu": calculate_gain("relu"), "tanh": calculate_gain("tanh")}
"""Gains of the activations after a convolution."""


def initialise_tacotron(model: nn.Module) -> None:
    """Initialises the weights of a model as NVIDIA's Tacotron 2.

    Matrices and filters are Xavier-uniform with the gain of the following function: tanh for the layers of attention
    and the postnet, ReLU for the encoder's convolutions, σ for the stop logits, 1 for all others, including the prenet.
    Embeddings of V symbols and E features lie between ±√(6 / (V + E)). Recurrent layers are as in torch. Biases, and
    parts of attention other than additive and location scores, are not changed.

    Source: NVIDIA/tacotron2, `layers.py` and `model.py`.
    """
    within = {part for outer in model.modules() if isinstance(outer, AbstractAttention) for part in outer.modules()}
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, nn.Linear | nn.Conv1d) and module not in within:
                xavier_uniform_(module.weight)
        for module in model.modules():
            if isinstance(module, ConvolutionBlock):
                xavier_uniform_(module.convolution.filters.weight, GAINS[module.activation])
            elif isinstance(module, StopHead):
                xavier_uniform_(module.projection.weight, calculate_gain("sigmoid"))
            elif isinstance(module, AdditiveScore | LocationScore):
                _draw_score(module)
            elif isinstance(module, TokenEmbedding):
                bound = math.sqrt(6 / sum(module.table.weight.shape))
                module.table.weight.uniform_(-bound, bound)
                if module.table.padding_idx is not None:
                    module.table.weight[module.table.padding_idx].zero_()
            elif isinstance(module, RecurrentStack):
                layers: Any = module.layers
                for layer in layers:
                    layer.reset_parameters()


def _draw_score(score: AdditiveScore | LocationScore) -> None:
    """Draws the layers of a score with the gain of tanh, the filters and v with a gain of 1."""
    gain = calculate_gain("tanh")
    if isinstance(score, LocationScore):
        for head in score.location_projection:
            xavier_uniform_(head, gain)
        xavier_uniform_(score.filters.weight)
        return
    xavier_uniform_(score.query_projection.weight, gain)
    xavier_uniform_(score.key_projection.weight, gain)
    xavier_uniform_(score.v)
