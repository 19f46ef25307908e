"""The transition agent of forward attention in all steps of a fused pass, backward by hand.

    u_t = σ(W₂ tanh(W₁ [c_t; o_{t-1}; q_t] + b₁) + b₂), or without a hidden layer σ(W₂ [c_t; o_{t-1}; q_t] + b₂)

What it reads stands in a buffer of all steps, so that each weight's gradient is one product after the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from regard.attention.alignments import TransitionAgent
from regard.layers.eligibility import ineligible


def refuse(agent: TransitionAgent | None) -> str | None:
    """Why an agent has to be called, or None."""
    if agent is None:
        return None
    if (reason := ineligible(agent, "the agent", TransitionAgent)) is not None:
        return reason
    for name, layer in (("hidden", agent.hidden), ("output", agent.output)):
        if layer is not None and (reason := ineligible(layer, f"the agent's {name}", nn.Linear)) is not None:
            return reason
    return None


def flat(agent: TransitionAgent | None) -> list[Tensor | None]:
    """W₁, b₁, W₂ and b₂, or None for those that are not there."""
    if agent is None:
        return [None] * 4
    hidden = (None, None) if agent.hidden is None else (agent.hidden.weight, agent.hidden.bias)
    return [*hidden, agent.output.weight, agent.output.bias]


def reference(weights: Sequence[Any], features: Tensor) -> Tensor:
    """u (B, H) of [c; o; q] (B, ·)."""
    w_1, b_1, w_2, b_2 = weights
    return torch.sigmoid(linear(features if w_1 is None else torch.tanh(linear(features, w_1, b_1)), w_2, b_2))


class AgentSteps:
    """Forward.

    Args:
        agent: what predicts u.
        weights: as `flat` has them.
        fed: (T, B, n·F), the frames.
    """

    def __init__(self, agent: TransitionAgent, weights: Sequence[Any], fed: Tensor) -> None:
        self.weights = [None if weight is None else weight.detach() for weight in weights]
        w_1, _, w_2, _ = self.weights
        assert w_2 is not None
        self.fed = fed if agent.input_size is not None else fed[:, :, :0]
        self.context_size = agent.context_size
        width = w_2.shape[1] if w_1 is None else w_1.shape[1]
        if agent.input_size not in (None, fed.shape[2]):
            agent(fed.new_zeros(1, self.context_size), fed.new_zeros(1, 0), fed[0, :1])  # says what is wrong
        self.features = fed.new_empty(*fed.shape[:2], width)
        self.hidden = self.features if w_1 is None else fed.new_empty(*fed.shape[:2], len(w_1))
        self.moves = fed.new_empty(*fed.shape[:2], len(w_2))

    def forward(self, t: int, context: Tensor, query: Tensor) -> Tensor:
        """u (B, H), from the context (B, V) and the query (B, Q)."""
        w_1, b_1, w_2, b_2 = self.weights
        assert w_2 is not None
        torch.cat([context, self.fed[t], query], 1, out=self.features[t])
        if w_1 is not None:
            torch.tanh(linear(self.features[t], w_1, b_1), out=self.hidden[t])
        return torch.sigmoid(linear(self.hidden[t], w_2, b_2), out=self.moves[t])


class AgentBackward:
    """Backward, after all steps but the last, whose u nobody reads."""

    def __init__(self, forward: AgentSteps) -> None:
        self.passed = forward
        self.grad_moves = torch.zeros_like(forward.moves)  # of what σ takes
        self.grad_hidden = torch.zeros_like(forward.hidden)  # of what tanh takes

    def backward(self, t: int, grad_move: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The gradients of c_t, o_{t-1} and q_t, from that of u_t (B, H)."""
        passed = self.passed
        w_1, _, w_2, _ = passed.weights
        assert w_2 is not None
        move, hidden = passed.moves[t], passed.hidden[t]
        self.grad_moves[t] = grad_move * (move - move * move)
        grad = self.grad_moves[t] @ w_2
        if w_1 is not None:
            torch.addcmul(grad, grad, hidden * hidden, value=-1, out=self.grad_hidden[t])
            grad = self.grad_hidden[t] @ w_1
        before = passed.context_size, passed.context_size + passed.fed.shape[2]
        grad_context, grad_fed, grad_query = grad.tensor_split(before, 1)
        return grad_context, grad_fed, grad_query

    def gradients(self) -> list[Tensor | None]:
        """Of W₁, b₁, W₂ and b₂."""
        passed = self.passed
        grad_z = self.grad_moves.flatten(0, 1)
        of_output = [grad_z.t() @ passed.hidden.flatten(0, 1), grad_z.sum(0)]
        if passed.weights[0] is None:
            return [None, None, *of_output]
        grad_z = self.grad_hidden.flatten(0, 1)
        return [grad_z.t() @ passed.features.flatten(0, 1), grad_z.sum(0), *of_output]
