"""What a recurrent decoder says of its state, its input and its context, before the head."""

from __future__ import annotations

from torch import Tensor, nn

from regard.errors import ShapeError
from regard.layers.linear import Linear
from regard.shapes import Float


class DeepReadout(nn.Module):
    """õ_t = x_t + L_h s_t + L_z c_t + b, or its tanh: the inside of Show, Attend and Tell's deep output.

    The paper's output is L_o(E y_{t-1} + L_h h_t + L_z ẑ_t), with x = E y_{t-1} the embedded input and L_o the head, of
    E features. As `RecurrentDecoder(readout=...)` it stands in the place of tanh(W [s; x; c]).

    Args:
        size: D, of the cell's state s.
        embedding_size: E, of x and of õ.
        context_size: V, of the context c.
        previous: whether x is added (`prev2out` of arctic-captions).
        context: whether L_z c is (`ctx2out` there).
        tanh: whether õ is the tanh of the sum, as there; the paper has none.

    Source: Xu et al. 2015 (arXiv 1502.03044), equation 7; Pascanu et al. 2014 (arXiv 1312.6026).

    >>> import torch
    >>> readout = DeepReadout(5, embedding_size=4, context_size=6)
    >>> readout(torch.zeros(2, 5), torch.ones(2, 4), torch.zeros(2, 6)).shape
    torch.Size([2, 4])
    """

    def __init__(
        self,
        size: int,
        *,
        embedding_size: int,
        context_size: int,
        previous: bool = True,
        context: bool = True,
        tanh: bool = False,
    ) -> None:
        super().__init__()
        self.size = embedding_size
        self.previous, self.tanh = previous, tanh
        self.of_state = Linear(size, embedding_size)
        self.of_context = Linear(context_size, embedding_size, bias=False) if context else None

    def check(self, embedding_size: int, size: int, context_size: int) -> None:
        """Refuses a decoder of other sizes.

        Raises:
            ShapeError: with both.
        """
        ours = embedding_size, size, context_size
        built = (
            self.size if self.previous else embedding_size,
            self.of_state.in_features,
            context_size if self.of_context is None else self.of_context.in_features,
        )
        if ours != built:
            raise ShapeError(
                f"The readout was built for embedding_size={built[0]}, size={built[1]} and "
                f"context_size={built[2]}; the decoder has {ours[0]}, {ours[1]} and {ours[2]}."
            )

    def forward(
        self, state: Float[Tensor, "*rows D"], x: Float[Tensor, "*rows E"], context: Float[Tensor, "*rows V"]
    ) -> Float[Tensor, "*rows E"]:
        """õ."""
        total: Tensor = self.of_state(state)
        if self.of_context is not None:
            total = total + self.of_context(context)
        if self.previous:
            total = total + x
        return total.tanh() if self.tanh else total
