"""One step of a layer for many rows without gradients, its weights packed once.

Rows may be hypotheses of a search, of which several have one parent: the product with a parent's state is made once
for all of them. A state's first tensor (R, F + D) has what is fed back from the step before, F columns of the layer's
input, side by side with h; F may be 0. What else the layer reads, (R, E), comes first in its input; it may be tokens
(R,), whose products are then made once for all tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from regard.layers.cells.cell import State, candidate_first, parameters
from regard.ops.choose import steps_for
from regard.ops.linear import Product, linear
from regard.ops.linear.storage import stores_bytes, storing
from regard.shapes import Float


class Packed:
    """A product that is packed at its first use: not every weight of a decoder takes part in its steps. How its weight
    is stored (`storing`) is settled before that, when it is made.

    For a single row it is a product with a vector, as fast as the weight can be read, and nothing is laid out.

    Args:
        weights: (N, ·), side by side the weight (N, K).
        rows: of its inputs.
    """

    def __init__(self, *weights: Tensor, rows: int) -> None:
        self.weights, self.rows, self.of_bytes = weights, rows, stores_bytes()
        self.products: list[Product] = []
        self.joined: list[Tensor] = []

    def __call__(self, x: Float[Tensor, "*rows K"], bias: Tensor | None = None) -> Float[Tensor, "*rows N"]:
        """x Wᵀ + b."""
        if self.rows == 1 and not self.of_bytes:
            if not self.joined:
                self.joined.append(self._whole())
            if x.dim() == 2 and x.shape[0] == 1:
                weight, vector = self.joined[0], x[0]
                return (torch.mv(weight, vector) if bias is None else torch.addmv(bias, weight, vector))[None]
            return linear(x, self.joined[0], bias)
        if not self.products:
            with storing("int8" if self.of_bytes else "float32"):
                self.products.append(Product(self._whole().contiguous(), self.rows))
        return self.products[0](x, bias)

    def _whole(self) -> Tensor:
        return self.weights[0].detach() if len(self.weights) == 1 else torch.cat(self.weights, 1).detach()


def of_inputs(weight: Tensor, bias: Tensor | None, vectors: Tensor | None, rows: int) -> Callable[[Tensor], Tensor]:
    """W x + b, (R, N), of inputs x (R, K) or, if the vectors of all tokens are given, of tokens (R,)."""
    if vectors is None:
        product = Packed(weight, rows=rows)
        return lambda x: product(x, bias)
    products = linear(vectors, weight.contiguous(), bias)
    return lambda tokens: products.index_select(0, tokens)


class LstmStep:
    """c_t and h_t of the rows.

    Args:
        layer: an `nn.LSTM` of one layer and direction.
        num_fed: F.
        vectors: (N, E) of all tokens, if tokens are the inputs.
        rows: R, about.
    """

    def __init__(self, layer: Any, rows: int, num_fed: int = 0, vectors: Tensor | None = None) -> None:
        ((w_ih, w_hh, b_ih, b_hh),) = parameters(layer)
        of_input, of_fed = w_ih.tensor_split([layer.input_size - num_fed], 1)
        self.bias = b_ih + b_hh
        self.of_input = of_inputs(of_input, self.bias, vectors, rows)
        self.of_state = Packed(of_fed, w_hh, rows=rows)
        self.of_rows = Packed(w_ih, w_hh, rows=rows)
        self.step = steps_for("cells", "cpu").lstm

    def __call__(self, x: Tensor, last: State, parents: Tensor | None = None, parent: Tensor | None = None) -> State:
        """The new state, with room for what is fed back next.

        Args:
            x: (R, E) or tokens (R,).
            last: the state.
            parents: (U, F + D), the first tensor of the states of the U parents; None where every row has its own and
                nothing is fed back: inputs and states are then one product.
            parent: (R,) which of them is that of each row; None if they are the rows themselves.
        """
        state, c = last
        cells, hidden = c.new_empty(2, *c.shape), state.new_empty(2, *state.shape)
        cells[0] = c
        # gates (R, 4·D) = x W_ihᵀ + b, and what the parents add to them, (U, 4·D) = [fed; h] [W_fed W_hh]ᵀ
        if parents is None:
            gates, shared = self.of_rows(torch.cat([x, state], 1)), self.bias[None]
        else:
            gates, shared = self.of_input(x), self.of_state(parents)
        self.step(0, gates, shared, cells, torch.empty_like(c)[None], hidden, parent)
        return hidden[1], cells[1]


class GruStep:
    """As `LstmStep`; the kernel wants the gates of the input in the order n, r, z."""

    def __init__(self, layer: Any, rows: int, num_fed: int = 0, vectors: Tensor | None = None) -> None:
        ((w_ih, self.w_hh, b_ih, self.b_hh),) = parameters(layer)
        self.num_fed = num_fed
        of_input, of_fed = candidate_first(w_ih).tensor_split([layer.input_size - num_fed], 1)
        self.of_input = of_inputs(of_input, candidate_first(b_ih), vectors, rows)
        self.of_fed = Packed(of_fed, rows=rows) if num_fed else None
        self.of_state = Packed(self.w_hh, rows=rows)
        self.step = steps_for("cells", "cpu").gru

    def __call__(self, x: Tensor, last: State, parents: Tensor | None = None, parent: Tensor | None = None) -> State:
        """As an `LstmStep`'s."""
        (state,) = last
        parents = state if parents is None else parents
        hidden = state.new_empty(2, *state.shape)
        hidden[0] = state
        # the kernel adds what is fed back (U or 1, 3·D) to x (R, 3·D); s (U, 3·D) stands apart, as r multiplies it
        fed = state.new_zeros(1, len(self.b_hh)) if self.of_fed is None else self.of_fed(parents[:, : self.num_fed])
        recurrent = self.of_state(parents[:, self.num_fed :], self.b_hh)
        self.step(0, self.of_input(x), fed, recurrent, hidden, parent)
        return (hidden[1],)


STEPS: dict[str, type[LstmStep] | type[GruStep]] = {"lstm": LstmStep, "gru": GruStep}
