"""Every layer."""

from __future__ import annotations

from typing import Any

import torch

from regard import layers
from regard.models.peers import AnnotatedLayerNorm
from regard.testing.cases.case import LayerCase
from regard.testing.cases.draws import draw, ids


def _stack(**options: Any) -> LayerCase:
    return LayerCase(
        f"recurrent stack {options}",
        (layers.RecurrentStack,),
        lambda: layers.RecurrentStack(3, 4, **options),
        lambda: (draw(3, 5, 3),),
        lambda layer, inputs: layer(inputs)[0],
    )


LAYERS: tuple[LayerCase, ...] = (
    *(_stack(cell=cell) for cell in ("lstm", "gru", "rnn")),
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
    LayerCase(
        "layer norm of the Annotated Transformer",
        (AnnotatedLayerNorm,),
        lambda: AnnotatedLayerNorm(4),
        lambda: (draw(3, 5, 4),),
    ),
    *(
        LayerCase(
            f"feed-forward, {activation}",
            (layers.feed_forward, layers.FeedForward, layers.GatedFeedForward),
            lambda activation=activation: layers.feed_forward(4, 6, activation=activation),  # type: ignore[misc]
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
