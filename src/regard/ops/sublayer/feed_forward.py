"""Feed-forward, by products whose relu is made with them.

    h = m₁ ⊙ relu(W₁ n + b₁),  f = W₂ h + b₂
    grad_h = grad_f W₂ where h > 0, times what dropout multiplied by;  grad_n = grad_h W₁
    grad_W₂ = grad_fᵀ h,  grad_b₂ = Σ rows of grad_f,  grad_W₁ = grad_hᵀ n,  grad_b₁ = Σ rows of grad_h

Neither W₁ n + b₁ nor m₁ is kept: h > 0 where relu is and dropout kept the element.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from regard.ops.linear import linear, linear_relu, outer
from regard.ops.sublayer import reference
from regard.ops.sublayer.fused import AbstractInner, when


@dataclass(frozen=True)
class FeedForward(AbstractInner):
    """f of the inputs W₁, b₁, W₂, b₂, m₁.

    Args:
        p: of the dropout m₁.
    """

    p: float

    def forward(self, n: Tensor, lead: torch.Size, inputs: Any) -> tuple[Tensor, Any, Any]:
        """As `AbstractInner.forward`."""
        w1, b1, w2, b2, mask = inputs
        h = linear_relu(n, w1, b1)
        if mask is not None:
            h.mul_(mask.view(h.shape))
        return linear(h, w2, b2), (h,), None

    def backward(
        self, grad: Tensor, n: Tensor, lead: torch.Size, inputs: Any, kept: Any, extra: Any, needs: Any
    ) -> tuple[Tensor, list[Tensor | None]]:
        """As `AbstractInner.backward`."""
        w1, _, w2, _, mask = inputs
        (h,) = kept
        grad_h = linear(grad, w2.t())
        scale = 1.0 if mask is None or self.p >= 1 else 1 / (1 - self.p)
        grad_b1 = import_module("regard.ops.sublayer.numba").relu_backward(grad_h, h, scale)
        grads = [
            when(needs[0], lambda: outer(grad_h, n)),
            grad_b1 if needs[1] else None,
            when(needs[2], lambda: outer(grad, h)),
            when(needs[3], lambda: grad.sum(0)),
            None,
        ]
        return linear(grad_h, w1.t()), grads

    def reference(self, around: Any, inputs: Any, **options: Any) -> Tensor:
        """As `AbstractInner.reference`."""
        x, norm_weight, norm_bias, mask = around
        w1, b1, w2, b2, inner_mask = inputs
        return reference.feed_forward_sublayer(
            x, norm_weight, norm_bias, w1, b1, w2, b2, mask, inner_mask, p=self.p, **options
        )
