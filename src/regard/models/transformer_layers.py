"""A layer of a Transformer encoder and one of a Transformer decoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from torch import Generator, Tensor, nn

from regard.attention.contract import Tree
from regard.attention.interface import AbstractAttention
from regard.attention.refined import Refined
from regard.errors import UnsupportedError
from regard.layers import Activation, FeedForward, Norm, Residual
from regard.shapes import Bool, Float


@dataclass(frozen=True, slots=True)
class LayerState:
    """The state of a decoder layer; R rows.

    Args:
        memory: the self-attention's memory of the steps so far; it grows by one position per step.
        attention: the self-attention's state.
        cross_attention: the cross-attention's state.
    """

    memory: Tree
    attention: Tree
    cross_attention: Tree


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward, each in a residual connection.

    Args:
        size: D, of input and output.
        attention: a mechanism whose queries, memory and context have D features.
        feed_forward_size: the width inside the feed-forward sublayer.
        norm: where the layer norm is, before a sublayer (`pre`) or after the sum (`post`).
        norm_epsilon: added to the variance in layer norms.
        dropout: on the sublayers' outputs.
        activation: of the feed-forward sublayer.
        activation_dropout: inside the feed-forward sublayer; as `dropout` if None.

    Source: Vaswani et al. 2017 (arXiv 1706.03762), section 3.1.
    """

    def __init__(
        self,
        size: int,
        attention: AbstractAttention,
        *,
        feed_forward_size: int,
        norm: Norm = "pre",
        norm_epsilon: float = 1e-5,
        dropout: float = 0.0,
        activation: Activation = "relu",
        activation_dropout: float | None = None,
    ) -> None:
        super().__init__()
        self.attention = attention
        inside = dropout if activation_dropout is None else activation_dropout
        self.feed_forward = FeedForward(size, feed_forward_size, dropout=inside, activation=activation)
        self.residuals = residuals(2, size, norm=norm, dropout=dropout, epsilon=norm_epsilon)

    def forward(self, x: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"] | None = None) -> Float[Tensor, "B S D"]:
        """Outputs (B, S, D); masked positions are not attended to."""
        around_attention, around_feed_forward = self.residuals
        inner = around_attention.enter(x)
        attended, _ = self.attention(inner, self.attention.prepare(inner, mask=mask))
        x = around_attention.leave(x, attended.context)
        return around_feed_forward.leave(x, self.feed_forward(around_feed_forward.enter(x)))


class DecoderLayer(nn.Module):
    """Self-attention over the steps so far, cross-attention over the source, feed-forward, each residual.

    Args:
        size: D, of input and output.
        attention: a causal mechanism (`CausalWindow`) that is not recurrent, since its memory grows.
        cross_attention: any `Mechanism`, `Parallel` or `Refined` with queries and context of D features. Its
            inputs, which some recipes read, are those of the self-attention.
        feed_forward_size, norm, norm_epsilon, dropout, activation, activation_dropout: as in `EncoderLayer`.

    Source: Vaswani et al. 2017 (arXiv 1706.03762), section 3.1.
    """

    def __init__(
        self,
        size: int,
        attention: AbstractAttention,
        cross_attention: AbstractAttention,
        *,
        feed_forward_size: int,
        norm: Norm = "pre",
        norm_epsilon: float = 1e-5,
        dropout: float = 0.0,
        activation: Activation = "relu",
        activation_dropout: float | None = None,
    ) -> None:
        super().__init__()
        if attention.is_recurrent:
            raise UnsupportedError(
                "Self-attention has a growing memory, so it must not be recurrent: the state of a recurrent mechanism "
                "belongs to a fixed number of positions. Use it as cross_attention."
            )
        self.size = size
        self.attention = attention
        self.cross_attention = cross_attention
        inside = dropout if activation_dropout is None else activation_dropout
        self.feed_forward = FeedForward(size, feed_forward_size, dropout=inside, activation=activation)
        self.residuals = residuals(3, size, norm=norm, dropout=dropout, epsilon=norm_epsilon)

    def initial_state(self, memory: Tree, num_hypotheses: int, nothing: Float[Tensor, "R 0 D"]) -> LayerState:
        """The state before the first step, with a memory of no steps.

        Args:
            memory: the cross-attention's.
            nothing: zero steps, with the dtype and device of the state.
        """
        steps = self.attention.prepare(nothing)
        return LayerState(
            steps, self.attention.initial_state(steps), self.cross_attention.initial_state(memory, num_hypotheses)
        )

    def step(
        self,
        x: Float[Tensor, "R D"],
        memory: Tree,
        state: LayerState,
        *,
        alignment: bool = False,
        generator: Generator | None = None,
        previous: Float[Tensor, "R G S"] | None = None,
    ) -> tuple[Float[Tensor, "R D"], Tree, LayerState]:
        """One step: the output, the cross-attention's alignment if requested, and the new state.

        Args:
            previous: the weights of the previous layer's cross-attention, for a `Refined` cross-attention.
        """
        around_attention, around_cross_attention, _ = self.residuals
        inner = around_attention.enter(x)
        steps = self.attention.extend(state.memory, inner[:, None])
        attended, attention = self.attention.step(inner, steps, state.attention, generator=generator)
        x = around_attention.leave(x, attended.context)
        attended, cross_attention = self.cross_attention.step(
            around_cross_attention.enter(x),
            memory,
            state.cross_attention,
            inputs=inner,
            alignment=alignment,
            generator=generator,
            **({"previous": previous} if isinstance(self.cross_attention, Refined) else {}),
        )
        return self._finish(x, attended.context), attended.alignment, LayerState(steps, attention, cross_attention)

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        memory: Tree,
        *,
        alignment: bool = False,
        generator: Generator | None = None,
        previous: Float[Tensor, "B G T S"] | None = None,
        real: Bool[Tensor, "B T"] | None = None,
    ) -> tuple[Float[Tensor, "B T D"], Tree]:
        """All steps in one operation: the outputs, and the cross-attention's alignment if requested.

        Args:
            previous: as in `step`.
            real: False at steps of padding, which a refined cross-attention leaves out.
        """
        around_attention, around_cross_attention, _ = self.residuals
        inner = around_attention.enter(x)
        attended, _ = self.attention(inner, self.attention.prepare(inner), generator=generator)
        x = around_attention.leave(x, attended.context)
        attended, _ = self.cross_attention(
            around_cross_attention.enter(x),
            memory,
            inputs=inner,
            alignment=alignment,
            generator=generator,
            **({"previous": previous, "real": real} if isinstance(self.cross_attention, Refined) else {}),
        )
        return self._finish(x, attended.context), attended.alignment

    def _finish(self, x: Tensor, context: Tensor) -> Tensor:
        _, around_cross_attention, around_feed_forward = self.residuals
        x = around_cross_attention.leave(x, context)
        return around_feed_forward.leave(x, self.feed_forward(around_feed_forward.enter(x)))


def residuals(count: int, size: int, *, norm: Norm, dropout: float, epsilon: float = 1e-5) -> Sequence[Residual]:
    """The residual connections of a layer's sublayers, a `ModuleList`."""
    around = (Residual(size, norm=norm, dropout=dropout, epsilon=epsilon) for _ in range(count))
    return cast(Sequence[Residual], nn.ModuleList(around))


def last_norm(
    size: int,
    layers: Sequence[nn.Module],
    norm: Norm,
    *,
    norm_epsilon: float = 1e-5,
    final_norm: bool | None = None,
) -> nn.Module:
    """The module after the last layer: a layer norm or the identity; if `final_norm` is None, a layer norm with `pre`.

    Raises:
        UnsupportedError: if there is no layer.
    """
    if not layers:
        raise UnsupportedError("A Transformer needs at least one layer.")
    has_norm = norm == "pre" if final_norm is None else final_norm
    return nn.LayerNorm(size, norm_epsilon) if has_norm else nn.Identity()
