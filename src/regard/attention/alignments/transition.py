"""The transition agent of forward attention."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.errors import ShapeError
from regard.shapes import Float


class TransitionAgent(nn.Module):
    """How likely attention moves on by one position in the next step.

    u_t = σ(W₂ tanh(W₁ [c_t; o_{t-1}; q_t] + b₁) + b₂). The heads share what is seen, the joined context;
    each has a u of its own.

    Args:
        context_size: V, the `context_size` of the read beside it.
        query_size: Q.
        input_size: F, of what the decoder was fed (o_{t-1}); None for an agent that does not see it.
        hidden_size: width of the hidden layer; None for none, u_t = σ(W [c_t; o_{t-1}; q_t] + b).
        num_heads: H.

    Source: Zhang, Ling & Dai 2018 (arXiv 1807.06736), one hidden layer; its tangent is our choice.
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
        seen = context_size + (input_size or 0) + query_size
        self.hidden = nn.Linear(seen, hidden_size) if hidden_size is not None else None
        self.output = nn.Linear(seen if hidden_size is None else hidden_size, num_heads)

    def forward(
        self, context: Float[Tensor, "R V"], query: Float[Tensor, "R Q"], inputs: Tensor | None
    ) -> Float[Tensor, "R H"]:
        """u (R, H)."""
        seen = [context, query]
        if self.input_size is not None:
            if inputs is None or inputs.shape != (len(query), self.input_size):
                came = "none" if inputs is None else f"{tuple(inputs.shape)}"
                raise ShapeError(
                    f"The transition agent sees what the decoder was fed, inputs (R={len(query)}, "
                    f"F={self.input_size}); got {came}. Pass inputs= to step or forward, or build it with "
                    "input_size=None."
                )
            seen.insert(1, inputs)
        features = torch.cat(seen, -1)
        return torch.sigmoid(self.output(features if self.hidden is None else torch.tanh(self.hidden(features))))
