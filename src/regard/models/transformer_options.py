"""Options of Transformers besides their sizes: norms, initialisation, positions, refinement of cross-attention."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

from torch import nn

from regard.attention import Mechanism, Refined
from regard.attention.interface import AbstractAttention
from regard.attention.recipes.multi_head import Positions as InsideAttention
from regard.attention.refined import RefinementNorm
from regard.errors import UnsupportedError
from regard.layers import Activation, BlockedSinusoidalPositions, LearnedPositions, ScaledPositions, SinusoidalPositions

Initialisation = Literal["default", "xavier", "small", "depth_scaled"]


@dataclass(frozen=True, kw_only=True, slots=True)
class TransformerOptions:
    """Options of `transformer_encoder`, `transformer_decoder` and `transformer_language_model`.

    Args:
        activation: of the feed-forward sublayers (`layers.FeedForward`).
        activation_dropout: after the activation; the dropout of the layers if None.
        attention_dropout: on the weights of attention.
        norm_epsilon: added to the variance in layer norms.
        final_norm: whether a layer norm follows the last layer; if None, with `norm="pre"`.
        scaled_embeddings: whether embeddings are multiplied by √D.
        query_key_norm: whether queries and keys are normalised to length 1 (`attention.scores.NormalisedDotScore`).
        projection_bias: whether the projections of attention have biases.
        initialisation: of the linear maps of the layers (`initialise`).
    """

    activation: Activation = "relu"
    activation_dropout: float | None = None
    attention_dropout: float = 0.0
    norm_epsilon: float = 1e-5
    final_norm: bool | None = None
    scaled_embeddings: bool = True
    query_key_norm: bool = False
    projection_bias: bool = False
    initialisation: Initialisation = "default"

    @property
    def of_layers(self) -> dict[str, Any]:
        """Arguments of a layer."""
        return {
            "activation": self.activation,
            "activation_dropout": self.activation_dropout,
            "norm_epsilon": self.norm_epsilon,
        }

    @property
    def of_attention(self) -> dict[str, Any]:
        """Arguments of `multi_head`."""
        return {
            "dropout": self.attention_dropout,
            "normalised": self.query_key_norm,
            "bias": self.projection_bias,
        }

    @property
    def of_stack(self) -> dict[str, Any]:
        """Arguments of an encoder, a decoder or a language model."""
        return {
            "norm_epsilon": self.norm_epsilon,
            "final_norm": self.final_norm,
            "scaled_embeddings": self.scaled_embeddings,
        }


DEFAULT_OPTIONS = TransformerOptions()


@dataclass(frozen=True, kw_only=True, slots=True)
class RefinementOptions:
    """The correction of a Transformer decoder's cross-attention by coverage (`attention.Refined`).

    All layers but the first are refined, as in the authors' code, whose layers share the weights of corrections; here
    each has its own.

    Args:
        own: whether a layer reads the coverage of its own attention (self-coverage).
        previous: whether it reads that of the layer before it (cross-coverage).
        size, kernel_size, dimensions, norm: as in `attention.Correction`; the authors' have a batch norm.

    Source: Zhao & Gao 2022 (arXiv 2207.04410).
    """

    own: bool = True
    previous: bool = True
    size: int = 32
    kernel_size: int = 5
    dimensions: Literal[1, 2] = 2
    norm: RefinementNorm = "none"

    def refined(self, attention: AbstractAttention, before: AbstractAttention) -> Refined:
        """The refined cross-attention of a layer, where `before` is that of the previous layer.

        Raises:
            UnsupportedError: if one of them is no `Mechanism`, or cannot be refined.
        """
        heads = getattr(before, "num_heads", 0) if self.previous else 0
        return Refined(
            cast(Mechanism, attention),
            previous_heads=heads,
            own=self.own,
            size=self.size,
            kernel_size=self.kernel_size,
            dimensions=self.dimensions,
            norm=self.norm,
        )


def initialise(layers: Sequence[nn.Module], size: int, initialisation: Initialisation) -> None:
    """Draws the weights of all linear maps W (out, in) of the layers; their biases become 0.

    default: the weights stay as they are.
    xavier: uniform between ±√(6 / (in + out)), as in the code of the Transformer's authors.
    small: normal with variance 2 / (5·D), that of a matrix of D by 4·D features.
    depth_scaled: as xavier, in layer l (from 1) divided by √l, for deep models with layer norms after the sublayers.

    Args:
        layers: in order.
        size: D.

    Source: Glorot & Bengio 2010, equation 16; small: Nguyen & Salazar 2019 (arXiv 1910.05895), section 2.2;
    depth_scaled: Zhang, Titov & Sennrich 2019 (arXiv 1908.11365), equation 8 with α = 1.

    >>> layers = [nn.Linear(4, 4), nn.Linear(4, 4)]
    >>> initialise(layers, 4, "depth_scaled")
    >>> bool(layers[1].weight.abs().max() < (6 / 8 / 2) ** 0.5)
    True
    """
    if initialisation not in get_args(Initialisation):
        raise UnsupportedError(
            f"initialisation={initialisation!r} must be one of {', '.join(get_args(Initialisation))}."
        )
    if initialisation == "default":
        return
    for number, layer in enumerate(layers, start=1):
        for module in layer.modules():
            if not isinstance(module, nn.Linear):
                continue
            if initialisation == "small":
                nn.init.normal_(module.weight, std=math.sqrt(2 / (5 * size)))
            else:
                depth = number if initialisation == "depth_scaled" else 1
                nn.init.xavier_uniform_(module.weight, gain=depth**-0.5)
            if module.bias is not None:
                nn.init.zeros_(module.bias)


Added = Literal["sinusoidal", "half_sinusoidal", "blocked_sinusoidal", "scaled_sinusoidal", "learned"]
Positions = Added | InsideAttention


def divide_positions(
    positions: Positions | None, size: int, max_length: int | None
) -> tuple[nn.Module | None, InsideAttention | None]:
    """The module whose vectors are added to embeddings, or the option of self-attention; the other is None.

    Args:
        size: D.
        max_length: the number of `learned` positions; None for all others.
    """
    if (positions == "learned") != (max_length is not None):
        raise UnsupportedError(
            f"positions={positions!r} and max_length={max_length}: learned positions need a max_length; leave it out "
            "with all others."
        )
    if positions is None or positions in get_args(InsideAttention):
        return None, positions  # type: ignore[return-value]
    if max_length is not None:
        return LearnedPositions(max_length, size), None
    if positions == "sinusoidal":
        return SinusoidalPositions(size), None
    if positions == "half_sinusoidal":
        return SinusoidalPositions(size, layout="half"), None
    if positions == "blocked_sinusoidal":
        return BlockedSinusoidalPositions(size), None
    if positions == "scaled_sinusoidal":
        return ScaledPositions(SinusoidalPositions(size)), None
    names = [*get_args(Added), *get_args(InsideAttention)]
    raise UnsupportedError(f"positions={positions!r} must be one of {', '.join(names)}, or None.")
