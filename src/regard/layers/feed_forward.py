"""Feed-forward and residual sublayers of a Transformer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.errors import UnsupportedError
from regard.layers.dropout import Dropout
from regard.layers.linear import Linear
from regard.shapes import Float

Norm = Literal["pre", "post"]
Activation = Literal["relu", "gelu", "silu", "swiglu"]
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "gelu": functional.gelu,
    "silu": functional.silu,
}
"""Functions of one linear map, by name."""


class FeedForward(nn.Module):
    """W₂ dropout(f(W₁ x + b₁)) + b₂ at every position; with `swiglu` W₂ dropout(silu(V x + c) ⊙ (W₁ x + b₁)) + b₂.

    Args:
        size: D, of input and output.
        hidden_size: the width between; with two thirds of it `swiglu` has as many weights as the others.
        dropout: after the activation or the product.
        activation: f: `relu`; `gelu`, x Φ(x); or `silu`, x σ(x), also called swish; or `swiglu`.

    Source: Vaswani et al. 2017 (arXiv 1706.03762), section 3.3; gelu: Hendrycks & Gimpel 2016 (arXiv 1606.08415);
    swiglu: Shazeer 2020 (arXiv 2002.05202), equation 6, with biases.
    """

    def __init__(self, size: int, hidden_size: int, *, dropout: float = 0.0, activation: Activation = "relu") -> None:
        super().__init__()
        if activation not in get_args(Activation):
            raise UnsupportedError(f"activation={activation!r} must be one of {', '.join(get_args(Activation))}.")
        self.activation = activation
        self.gate = Linear(size, hidden_size) if activation == "swiglu" else None
        self.inner = Linear(size, hidden_size)
        self.outer = Linear(hidden_size, size)
        self.dropout = Dropout(dropout)
        for layer in (self.gate, self.inner, self.outer):
            if layer is not None:
                nn.init.xavier_uniform_(layer.weight)
                nn.init.zeros_(layer.bias)

    def forward(self, x: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows D"]:
        if self.gate is not None:
            return self.outer(self.dropout(functional.silu(self.gate(x)) * self.inner(x)))
        return self.outer(self.dropout(ACTIVATIONS[self.activation](self.inner(x))))


class Residual(nn.Module):
    """What surrounds a sublayer f: x + dropout(f(norm(x))) with `pre`, norm(x + dropout(f(x))) with `post`.

    The sublayer is called in between, `y = residual.leave(x, f(residual.enter(x)))`, so that it may return more.

    Args:
        size: D.
        norm: see above.
        dropout: on the sublayer's output.
        epsilon: is added to the variance in the layer norm.

    Source: post: Vaswani et al. 2017 (arXiv 1706.03762), section 3.1; pre, which trains without warm-up: Xiong et al.
    2020 (arXiv 2002.04745).
    """

    def __init__(self, size: int, *, norm: Norm = "pre", dropout: float = 0.0, epsilon: float = 1e-5) -> None:
        super().__init__()
        if norm not in ("pre", "post"):
            raise UnsupportedError(f"norm={norm!r} must be 'pre' or 'post'.")
        self.first = norm == "pre"
        self.norm = nn.LayerNorm(size, epsilon)
        self.dropout = Dropout(dropout)

    def enter(self, x: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows D"]:
        """What the sublayer reads."""
        return self.norm(x) if self.first else x

    def leave(self, x: Float[Tensor, "*rows D"], change: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows D"]:
        """What comes out, from the input and the sublayer's output."""
        total = x + self.dropout(change)
        return total if self.first else self.norm(total)
