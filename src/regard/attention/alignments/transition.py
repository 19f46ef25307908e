"""The transition agent of forward attention."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.errors import ShapeError
from regard.layers.linear import Linear
from regard.shapes import Float


class TransitionAgent(nn.Module):
    """The probability that attention moves on by one position in the next step.

    u_t = σ(W₂ tanh(W₁ [c_t; o_{t-1}; q_t] + b₁) + b₂). All heads share the inputs, with the context of all heads; each
    has its own u.

    Args:
        context_size: V, the `context_size` of the mechanism's read.
        query_size: Q.
        input_size: F, of the decoder's input o_{t-1}; None for an agent that does not use it.
        hidden_size: width of the hidden layer; None for no hidden layer, u_t = σ(W [c_t; o_{t-1}; q_t] + b).
        num_heads: H.

    Source: Zhang, Ling & Dai 2018 (arXiv 1807.06736), one hidden layer; its tanh is our choice.
    """

    def __init__(
        self,
        context_size: int,
        query_size: int,
        *,
        input_size: int | None = None,
        hidden_size: int | None = 128,
        num_heads: int = 1,
    ) -> None:
        super().__init__()
        self.context_size = context_size
        self.input_size = input_size
        self.num_heads = num_heads
        num_features = context_size + (input_size or 0) + query_size
        self.hidden = Linear(num_features, hidden_size) if hidden_size is not None else None
        self.output = Linear(num_features if hidden_size is None else hidden_size, num_heads)

    def forward(
        self, context: Float[Tensor, "R V"], query: Float[Tensor, "R Q"], inputs: Tensor | None
    ) -> Float[Tensor, "R H"]:
        """u (R, H)."""
        parts = [context, query]
        if self.input_size is not None:
            if inputs is None or inputs.shape != (len(query), self.input_size):
                shown = "none" if inputs is None else f"{tuple(inputs.shape)}"
                raise ShapeError(
                    f"The transition agent reads the decoder's inputs (R={len(query)}, F={self.input_size}); "
                    f"got {shown}. Pass inputs= to step or forward, or build it with "
                    "input_size=None."
                )
            parts.insert(1, inputs)
        features = torch.cat(parts, -1)
        return torch.sigmoid(self.output(features if self.hidden is None else torch.tanh(self.hidden(features))))
