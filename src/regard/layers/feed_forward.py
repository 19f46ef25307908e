"""The sublayers of a Transformer that are no attention."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from regard.errors import UnsupportedError
from regard.layers.dropout import Dropout
from regard.shapes import Float

Norm = Literal["pre", "post"]


class FeedForward(nn.Module):
    """W₂ dropout(relu(W₁ x + b₁)) + b₂, at every position by itself.

    Args:
        size: D, of input and output.
        hidden_size: the width between.

    Source: Vaswani et al. 2017 (arXiv 1706.03762), section 3.3.
    """

    def __init__(self, size: int, hidden_size: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.inner = nn.Linear(size, hidden_size)
        self.outer = nn.Linear(hidden_size, size)
        self.dropout = Dropout(dropout)
        for layer in (self.inner, self.outer):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows D"]:
        """As above."""
        return self.outer(self.dropout(self.inner(x).relu()))


class Residual(nn.Module):
    """What surrounds a sublayer f: x + dropout(f(norm(x))) with `pre`, norm(x + dropout(f(x))) with `post`.

    The sublayer is called in between, `y = residual.leave(x, f(residual.enter(x)))`, so that it may return more.

    Source: post: Vaswani et al. 2017 (arXiv 1706.03762), section 3.1; pre, which trains without warm-up: Xiong et al.
    2020 (arXiv 2002.04745).
    """

    def __init__(self, size: int, *, norm: Norm = "pre", dropout: float = 0.0) -> None:
        super().__init__()
        if norm not in ("pre", "post"):
            raise UnsupportedError(f"norm={norm!r} must be 'pre' or 'post'.")
        self.first = norm == "pre"
        self.norm = nn.LayerNorm(size)
        self.dropout = Dropout(dropout)

    def enter(self, x: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows D"]:
        """What the sublayer reads."""
        return self.norm(x) if self.first else x

    def leave(self, x: Float[Tensor, "*rows D"], change: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows D"]:
        """What comes out, from the input and the sublayer's output."""
        total = x + self.dropout(change)
        return total if self.first else self.norm(total)
