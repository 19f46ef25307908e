"""Every layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from regard import layers, models
from regard.interop.annotated_transformer import AnnotatedLayerNorm
from regard.interop.coqui import FrameStop
from regard.interop.rayhane import ProjectedPostnet
from support.cases.case import LayerCase, draw, ids
from support.cases.images import IMAGE_LAYERS


def _stack(**options: Any) -> LayerCase:
    return LayerCase(
        f"recurrent stack {options}",
        (layers.RecurrentStack,),
        lambda: layers.RecurrentStack(3, 4, **options),
        lambda: (draw(3, 5, 3),),
        lambda layer, inputs: layer(inputs)[0],
    )


_MASK = torch.arange(5) < torch.tensor([5, 2, 4])[:, None]
_NARROW: dict[str, Any] = {"bank_size": 2, "projections": (4,), "highway_size": 3, "num_highways": 1, "size": 2}
_POSTNETS: tuple[tuple[type, Callable[[], nn.Module]], ...] = (
    (models.ConvolutionalPostnet, lambda: models.ConvolutionalPostnet(3, 4, num_layers=2)),
    (models.CbhgPostnet, lambda: models.CbhgPostnet(layers.CBHG(3, num_filters=2, **_NARROW), 6)),
    (ProjectedPostnet, lambda: ProjectedPostnet([layers.ConvolutionBlock(3, 4, 5, norm="after")], 4, 3)),
)
_CELLS: tuple[dict[str, Any], ...] = (
    {"dropout": 0.1, "dropped": "state"},
    {"cell": "gru", "num_layers": 2, "residual": True},
    {"num_layers": 2, "zoneout": 0.2},
    {"zoneout": 0.2, "zones_output": False},
)


def _cells(**options: Any) -> LayerCase:
    return LayerCase(
        f"cells {options}",
        (layers.CellStack,),
        lambda: layers.CellStack(3, 4, **options),
        lambda: (draw(3, 5, 3),),
        lambda layer, inputs: layer(inputs)[0],
    )


LAYERS: tuple[LayerCase, ...] = (
    *IMAGE_LAYERS,
    *(_stack(cell=cell) for cell in ("lstm", "gru", "rnn")),
    _stack(cell="gru_reset_before", bidirectional=True),
    LayerCase(
        "GRU that resets before the product",
        (layers.ResetBeforeGRU,),
        lambda: layers.ResetBeforeGRU(3, 4, bidirectional=True),
        lambda: (draw(3, 5, 3),),
        lambda layer, inputs: layer(inputs)[0],
    ),
    *(_cells(**options) for options in _CELLS),
    LayerCase("zoneout", (layers.Zoneout,), lambda: layers.Zoneout(0.3), lambda: (draw(3, 4), draw(3, 4, seed=1))),
    LayerCase(
        "convolution with an even kernel",
        (layers.MaskedConvolution,),
        lambda: layers.MaskedConvolution(3, 4, 4),
        lambda: (draw(3, 5, 3), _MASK),
    ),
    *(
        LayerCase(
            f"convolution block, {options}",
            (layers.ConvolutionBlock, layers.MaskedBatchNorm),
            lambda options=options: layers.ConvolutionBlock(3, 4, 3, **options),  # type: ignore[misc]
            lambda: (draw(3, 5, 3), _MASK),
        )
        for options in ({"activation": "tanh"}, {"activation": "none", "norm": "after"}, {"norm": None})
    ),
    LayerCase(
        "batch norm of real positions",
        (layers.MaskedBatchNorm,),
        lambda: layers.MaskedBatchNorm(3),
        lambda: (draw(3, 5, 3), _MASK),
    ),
    LayerCase("highway", (layers.Highway,), lambda: layers.Highway(4), lambda: (draw(3, 5, 4),)),
    *(
        LayerCase(
            f"CBHG, {options}",
            (layers.CBHG,),
            lambda options=options: layers.CBHG(  # type: ignore[misc]
                3, num_filters=3, bank_size=2, projections=(4,), num_highways=2, size=2, **options
            ),
            lambda: (draw(3, 5, 3), _MASK),
            lambda layer, inputs, mask: layer(inputs, mask)[0],
        )
        for options in (
            {"highway_size": 3},
            {"highway_size": 5, "pool": False, "norm": "before", "convolution_bias": False, "map_bias": False},
            {"highway_size": 3, "cell": "gru_reset_before"},
        )
    ),
    *(
        LayerCase(
            f"prenet that drops {drops}",
            (layers.Prenet,),
            lambda drops=drops: layers.Prenet(3, (5, 4), drops=drops),  # type: ignore[misc]
            lambda: (draw(3, 5, 3), ids(3)),
            lambda layer, frames, seeds: layer(frames, seeds=seeds),
        )
        for drops in ("training", "always")
    ),
    _stack(cell="lstm", num_layers=2, bidirectional=True),
    _stack(cell="gru", num_layers=3, residual=True),
    LayerCase(
        "token embedding",
        (layers.TokenEmbedding,),
        lambda: layers.TokenEmbedding(7, 4, padding=None),
        lambda: (ids(3, 5),),
    ),
    LayerCase("dropout", (layers.Dropout,), lambda: layers.Dropout(0.5).eval(), lambda: (draw(3, 5, 4),)),
    LayerCase("token head", (layers.TokenHead,), lambda: layers.TokenHead(4, 6), lambda: (draw(3, 5, 4),)),
    LayerCase(
        "token head in whose softmax the forbidden count",
        (layers.TokenHead,),
        lambda: layers.TokenHead(4, 6, never=(0, 3), never_counts=True),
        lambda: (draw(3, 5, 4),),
        lambda layer, features: layer(features).exp(),
    ),
    LayerCase(
        "tied token head",
        (layers.TokenHead,),
        lambda: layers.TokenHead(4, 7, tied=layers.TokenEmbedding(7, 3)),
        lambda: (draw(3, 5, 4),),
    ),
    LayerCase(
        "value embedding",
        (layers.ValueEmbedding,),
        lambda: layers.ValueEmbedding(4, 3, marks_missing=True),
        lambda: (draw(3, 5, 4),),
    ),
    LayerCase("value head", (layers.ValueHead,), lambda: layers.ValueHead(4, 2), lambda: (draw(3, 5, 4),)),
    LayerCase(
        "quantile head",
        (layers.QuantileHead,),
        lambda: layers.QuantileHead(4, 2, levels=(0.1, 0.3, 0.5, 0.9)),
        lambda: (draw(3, 5, 4),),
        lambda layer, features: layer(features)[1]["quantiles"],
    ),
    *(
        LayerCase(
            f"postnet {kind.__name__}",
            (kind,),
            make,
            lambda: (draw(3, 5, 3), _MASK),
        )
        for kind, make in _POSTNETS
    ),
    LayerCase(
        "head of frames that stops by what it says",
        (models.FrameHead, FrameStop),
        lambda: models.FrameHead(4, 0, 2, 3, activation="sigmoid", stop=FrameStop(4, 6, detached=False)),
        lambda: (draw(3, 5, 4), draw(3, 5, 2)),
        lambda layer, output, context: torch.cat(
            [layer(output, context, 2)[0], layer(output, context, 2)[1]["stop"]], -1
        ),
    ),
    LayerCase(
        "layer norm of the Annotated Transformer",
        (AnnotatedLayerNorm,),
        lambda: AnnotatedLayerNorm(4),
        lambda: (draw(3, 5, 4),),
    ),
    *(
        LayerCase(
            f"feed-forward, {activation}",
            (layers.FeedForward,),
            lambda activation=activation: layers.FeedForward(4, 6, activation=activation),  # type: ignore[misc]
            lambda: (draw(3, 5, 4),),
        )
        for activation in ("relu", "gelu", "silu", "swiglu")
    ),
    *(
        LayerCase(
            f"{norm}-norm residual",
            (layers.Residual,),
            lambda norm=norm: layers.Residual(4, norm=norm),  # type: ignore[misc]
            lambda: (draw(3, 5, 4),),
            lambda layer, x: layer.leave(x, torch.tanh(layer.enter(x))),
        )
        for norm in ("pre", "post")
    ),
    LayerCase(
        "sinusoidal positions",
        (layers.SinusoidalPositions,),
        lambda: layers.SinusoidalPositions(5),
        lambda: (ids(3, 5), draw(3, 1)),
    ),
    LayerCase(
        "sinusoidal positions of tensor2tensor",
        (layers.BlockedSinusoidalPositions,),
        lambda: layers.BlockedSinusoidalPositions(5),
        lambda: (ids(3, 5), draw(3, 1)),
    ),
    LayerCase(
        "learned positions",
        (layers.LearnedPositions,),
        lambda: layers.LearnedPositions(7, 4),
        lambda: (ids(3, 5), draw(3, 1)),
    ),
    LayerCase(
        "scaled positions",
        (layers.ScaledPositions,),
        lambda: layers.ScaledPositions(layers.SinusoidalPositions(4)),
        lambda: (ids(3, 5), draw(3, 1)),
    ),
    LayerCase(
        "positioned embedding",
        (layers.PositionedEmbedding,),
        lambda: layers.PositionedEmbedding(layers.TokenEmbedding(7, 4, padding=None)),
        lambda: (ids(3, 5),),
        lambda layer, ids: layer(ids, torch.arange(ids.shape[1])),
    ),
)
