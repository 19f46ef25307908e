"""Dynamic convolution attention in the steps of a fused pass of speech, backward by hand (`ops.attend.convolved`).

    a_t = tanh(W_q q_t + b_q),  G_t = W_f a_t,  M_t = Fᵀ U + G_tᵀ T,  and the look of M_t

The network that makes filters of the query gets the gradients of its weights as one product each, after the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.functional import linear

from regard import ops
from regard.attention import DynamicConvolutionScore, ForwardPriorWindow, Mechanism, SoftmaxAlignment
from regard.attention.contract import AbstractRead
from regard.attention.heads import weighted_sum
from regard.layers.eligibility import ineligible, overridden
from regard.models.fused.contract import (
    AbstractAttending,
    AbstractAttendingBackward,
    AbstractPlan,
    Flat,
    ReferenceStep,
)
from regard.ops.choose import loaded
from regard.ops.eligibility import refuse_numba


def refuse(attention: Any, memory: Any = None) -> str | None:
    """Why attention is none that this computes, or None."""
    if type(attention) is not Mechanism:
        return f"a {type(attention).__name__} has steps of its own"
    kinds = {"score": DynamicConvolutionScore, "window": ForwardPriorWindow, "alignment": SoftmaxAlignment}
    for name, kind in kinds.items():
        part = getattr(attention, name)
        if type(part) is not kind:
            return f"this path does not support {type(part).__name__}"
        if (reason := ineligible(part, f"attention.{name}")) is not None:
            return reason
    if not attention.read.is_sum or overridden(attention.read, AbstractRead, "finish") is not None:
        return f"this path does not support {type(attention.read).__name__}"
    if (reason := ineligible(attention, "attention") or ineligible(attention.read, "attention.read")) is not None:
        return reason
    score: Any = attention.score
    for name, layer in (
        ("query_projection", nn.Linear),
        ("filter_projection", nn.Linear),
        ("static_filters", nn.Conv1d),
    ):
        if (reason := ineligible(getattr(score, name), f"attention.score.{name}", layer)) is not None:
            return reason
    if score.static_filters.kernel_size[0] != score.kernel_size:
        return "the filters have two widths"
    if (reason := refuse_numba("regard.ops.attend.convolved.numba")) is not None:
        return reason
    if memory is None:
        return None
    if memory.num_positions == 0:
        return "there is nothing to look at"
    return None if memory.read.dtype == score.v.dtype else "memory and weights are of different types"


@dataclass(frozen=True, eq=False)
class ConvolvedPlan(AbstractPlan):
    """Dynamic convolution attention.

    Args:
        attention: a `Mechanism`.
        memory, state: its memory and first state.
        alignment: whether alignments are asked for.
    """

    attention: Any
    memory: Any
    state: Any
    alignment: bool

    @property
    def is_random(self) -> bool:
        return False

    def flat(self) -> list[Tensor | None]:
        """Values, W_q, b_q, W_f, F (H, F, W), U and T (H, F, D), b and v (H, D)."""
        score = self.attention.score
        of_query, of_filters = score.query_projection, score.filter_projection
        static = score.static_filters.weight.unflatten(0, (score.num_heads, -1))[:, :, 0]
        of_score = [static, score.static_projection, score.dynamic_projection, score.bias, score.v]
        return [self.memory.read, of_query.weight, of_query.bias, of_filters.weight, *of_score]

    def begin(self, flat: Flat, needs: Sequence[bool], fed: Tensor, records: bool) -> AbstractAttending:
        return Convolved(self, flat, len(fed))

    def reference(self, flat: Flat) -> ReferenceStep:
        values, w_q, b_q, w_f, static, of_static, of_dynamic, bias, v = flat
        score, window, mask = self.attention.score, self.attention.window, self.memory.mask
        moves = torch.tensor(window.probabilities[::-1], dtype=v.dtype).expand(score.num_heads, 1, -1)
        support = None if mask is None else mask[:, None]
        past, before = self.state.score.detach(), self.state.window.detach()
        half = score.kernel_size // 2

        def step(query: Tensor, fed: Tensor) -> tuple[Tensor, Any]:
            nonlocal past, before
            flat_filters = linear(torch.tanh(linear(query, w_q, b_q)), w_f)
            filters = flat_filters.unflatten(1, (score.num_heads, -1, score.kernel_size))
            matrix = torch.einsum("hfw,hfd->hwd", static, of_static) + torch.einsum(
                "bhfw,hfd->bhwd", filters, of_dynamic
            )
            taps = functional.pad(past, (half, half)).unfold(-1, score.kernel_size, 1)
            hidden = torch.tanh(torch.einsum("bhsw,bhwd->bhsd", taps, matrix) + bias[:, None])
            moved = functional.conv1d(
                functional.pad(before, (moves.shape[2] - 1, 0)), moves, groups=score.num_heads
            ).clamp(min=window.floor)
            energies = torch.einsum("bhsd,hd->bhs", hidden, v) + moved.log()
            weights = ops.masked_softmax(energies * self.attention.alignment.softmax_factor, support)
            past = before = weights
            return weighted_sum(weights, values), (weights if self.alignment else None, None)

        return step


class Convolved(AbstractAttending):
    """Forward."""

    def __init__(self, plan: ConvolvedPlan, flat: Flat, steps: int) -> None:
        self.plan = plan
        self.flat = [x.detach() for x in flat]
        values, _, _, _, static, of_static, self.of_dynamic, bias, v = self.flat
        attention, window = plan.attention, plan.attention.window
        self.num_heads, self.width = attention.score.num_heads, attention.score.kernel_size
        self.static = torch.bmm(static.mT, of_static)  # (H, W, D)
        self.look = loaded("regard.ops.attend.convolved", "ConvolvedLook")(
            values,
            plan.memory.mask,
            v,
            bias=bias,
            moves=v.new_tensor(window.probabilities),
            floor=window.floor,
            first=plan.state.score.detach(),
            first_prior=plan.state.window.detach(),
            steps=steps,
            num_heads=self.num_heads,
            sharpening=attention.alignment.softmax_factor,
        )
        self.asked: list[Tensor] = []
        self.hidden: list[Tensor] = []
        self.filters: list[Tensor] = []

    @property
    def beside(self) -> Any:
        return (self.look.weights[0] if self.plan.alignment else None), None

    def forward(self, t: int, query: Tensor, fed: Tensor, contexts: Tensor) -> None:
        _, w_q, b_q, w_f, *_ = self.flat
        self.asked.append(query)
        self.hidden.append(linear(query, w_q, b_q).tanh_())
        # G (B, H·F·W) as rows of every head and tap, (H, B·W, F), times T (H, F, D)
        filters = linear(self.hidden[t], w_f).unflatten(1, (self.num_heads, -1, self.width))
        self.filters.append(filters.permute(1, 0, 3, 2).flatten(1, 2))
        dynamic = torch.bmm(self.filters[t], self.of_dynamic).unflatten(1, (len(query), -1))
        matrix = (dynamic + self.static[:, None]).transpose(0, 1).contiguous()
        self.look.advance(t, matrix, contexts)

    def results(self) -> list[Tensor]:
        return [self.look.weights[:]] if self.plan.alignment else []

    def reverse(self, grad_contexts: Tensor, grad_results: Sequence[Tensor | None]) -> AbstractAttendingBackward:
        return ConvolvedBackward(self, grad_contexts, grad_results[0] if grad_results else None)


class ConvolvedBackward(AbstractAttendingBackward):
    """Of `Convolved`."""

    def __init__(self, forward: Convolved, grad_contexts: Tensor, grad_weights: Tensor | None) -> None:
        self.passed, self.grad_contexts, self.grad_weights = forward, grad_contexts, grad_weights
        self.look = forward.look.reverse()
        self.grad_static = torch.zeros_like(forward.static)
        self.grad_dynamic = torch.zeros_like(forward.of_dynamic)
        steps = len(grad_contexts)
        w_q, w_f = forward.flat[1], forward.flat[3]
        self.grad_filters = w_f.new_empty(steps, grad_contexts.shape[1], len(w_f))  # of G
        self.grad_hidden = w_q.new_empty(steps, grad_contexts.shape[1], len(w_q))  # of what tanh takes

    @property
    def grad_fed(self) -> Tensor | None:
        return None

    def backward(self, t: int) -> Tensor | None:
        passed = self.passed
        grad_weights = None if self.grad_weights is None else self.grad_weights[t]
        grad_matrix = self.look.retreat(t, self.grad_contexts, grad_weights)  # (B, H, W, D)
        self.grad_static.add_(grad_matrix.sum(0))
        # M to G and T: (H, B·W, D)
        rows = grad_matrix.transpose(0, 1).flatten(1, 2)
        self.grad_dynamic.baddbmm_(passed.filters[t].mT, rows)
        of_filters = torch.bmm(rows, passed.of_dynamic.mT).unflatten(1, (len(grad_matrix), -1))  # (H, B, W, F)
        self.grad_filters[t] = of_filters.permute(1, 0, 3, 2).flatten(1)
        # G to a, and a to the query
        grad, hidden = self.grad_filters[t] @ passed.flat[3], passed.hidden[t]
        torch.addcmul(grad, grad, hidden * hidden, value=-1, out=self.grad_hidden[t])
        return self.grad_hidden[t] @ passed.flat[1]

    def gradients(self) -> list[Tensor | None]:
        passed = self.passed
        static, of_static = passed.flat[4:6]
        _, grad_values, grad_v = self.look.gradients(self.grad_contexts)
        of_hidden, of_filters = self.grad_hidden.flatten(0, 1), self.grad_filters.flatten(0, 1)
        return [
            grad_values,
            of_hidden.t() @ torch.cat(passed.asked),
            of_hidden.sum(0),
            of_filters.t() @ torch.cat(passed.hidden),
            torch.bmm(of_static, self.grad_static.mT),
            torch.bmm(static, self.grad_static),
            self.grad_dynamic,
            self.look.grad_bias.sum(0),
            grad_v,
        ]
