"""Feed-forward, by products whose relu is made with them.

    a = W₁ n + b₁,  h = m₁ ⊙ φ(a)  or, gated,  h = m₁ ⊙ φ(W_g n + b_g) ⊙ a,  f = W₂ h + b₂
    grad_h = m₁ ⊙ grad_f W₂,  grad_a = φ'(a) grad_h,  grad_n = grad_a W₁, and of a gate likewise
    grad_W₂ = grad_fᵀ h,  grad_b₂ = Σ rows of grad_f,  grad_W₁ = grad_aᵀ n,  grad_b₁ = Σ rows of grad_a

For φ = relu neither a nor m₁ is kept: h > 0 where relu is and dropout kept the element. The gate and what it multiplies
are one product.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import silu

from regard.ops.linear import linear, linear_relu, outer
from regard.ops.sublayer import reference
from regard.ops.sublayer.fused import AbstractInner, when


@dataclass(frozen=True)
class FeedForward(AbstractInner):
    """f of the inputs W₁, b₁, W₂, b₂, W_g, b_g, m₁.

    Args:
        p: of the dropout m₁.
        activation: φ, a key of `reference.ACTIVATIONS`.
    """

    p: float
    activation: str

    def forward(self, n: Tensor, lead: torch.Size, inputs: Any) -> tuple[Tensor, Any, Any]:
        """As `AbstractInner.forward`."""
        w1, b1, w2, b2, w_gate, b_gate, mask = inputs
        kept: tuple[Tensor, ...]
        if w_gate is not None:
            weight, bias = torch.cat([w_gate, w1]), None if b1 is None else torch.cat([b_gate, b1])
            both = linear(n, weight, bias)
            gate, a = both.split(len(w1), 1)
            h = silu(gate).mul_(a)
            kept = h, both, weight
        elif self.activation == "relu":
            h = linear_relu(n, w1, b1)
            kept = (h,)
        else:
            a = linear(n, w1, b1)
            h = reference.ACTIVATIONS[self.activation](a)
            kept = h, a
        if mask is not None:
            h.mul_(mask.view(h.shape))
        return linear(h, w2, b2), kept, None

    def backward(
        self, grad: Tensor, n: Tensor, lead: torch.Size, inputs: Any, kept: Any, extra: Any, needs: Any
    ) -> tuple[Tensor, list[Tensor | None]]:
        """As `AbstractInner.backward`."""
        w1, b1, w2, _, w_gate, _, mask = inputs
        h, *rest = kept
        grad_h = linear(grad, w2.t())
        of_outer = when(needs[2], lambda: outer(grad, h)), when(needs[3], lambda: grad.sum(0))
        if self.activation == "relu":
            scale = 1.0 if mask is None or self.p >= 1 else 1 / (1 - self.p)
            grad_a, grad_bias = grad_h, import_module("regard.ops.sublayer.numba").relu_backward(grad_h, h, scale)
            weight = w1
        else:
            if mask is not None:
                grad_h.mul_(mask.view(h.shape))
            if w_gate is None:
                grad_a, weight = _activation_backward(self.activation, grad_h, rest[0]), w1
            else:
                both, weight = rest
                grad_a = _gated_backward(grad_h, *both.split(len(w1), 1))
            grad_bias = grad_a.sum(0)
        grad_weight = when(needs[0] or needs[4], lambda: outer(grad_a, n))
        if w_gate is None:
            grads = [grad_weight, grad_bias if needs[1] else None, *of_outer, None, None, None]
        else:
            of_gate, of_inner = (None, None) if grad_weight is None else grad_weight.split(len(w1))
            gate_bias, inner_bias = (None, None) if b1 is None else grad_bias.split(len(w1))
            grads = [of_inner, inner_bias, *of_outer, of_gate, gate_bias, None]
        return linear(grad_a, weight.t()), grads

    def reference(self, around: Any, inputs: Any, **options: Any) -> Tensor:
        """As `AbstractInner.reference`."""
        x, norm_weight, norm_bias, mask = around
        w1, b1, w2, b2, w_gate, b_gate, inner_mask = inputs
        return reference.feed_forward_sublayer(
            x, norm_weight, norm_bias, w1, b1, w2, b2, w_gate, b_gate, mask, inner_mask, p=self.p,
            activation=self.activation, **options,
        )  # fmt: skip


def _activation_backward(activation: str, grad: Tensor, a: Tensor) -> Tensor:
    """φ'(a) grad."""
    backward: Any = {"gelu": torch.ops.aten.gelu_backward, "silu": torch.ops.aten.silu_backward}[activation]
    result: Tensor = backward(grad, a)
    return result


def _gated_backward(grad: Tensor, gate: Tensor, a: Tensor) -> Tensor:
    """The gradients of the gate and of a, side by side."""
    return torch.cat([_activation_backward("silu", grad * a, gate), grad * silu(gate)], 1)
