"""Forward attention: weights that stay or move on by one position, and the transition agent."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.attention.contract import AbstractAlignment, Attended, Memory, Parts, StepInputs, Tree
from regard.attention.memory import first_alignment
from regard.attention.sizes import heads_reason
from regard.errors import ShapeError
from regard.layers.linear import Linear
from regard.ops.forward import forward_step
from regard.shapes import Bool, Float


class TransitionAgent(nn.Module):
    """The probability that attention moves on by one position in the next step.

    u_t = σ(W₂ tanh(W₁ [c_t; o_{t-1}; q_t] + b₁) + b₂). All heads have the same inputs, with the contexts of all heads;
    each has its own u.

    Args:
        context_size: V, the `context_size` of the mechanism's read.
        query_size: Q.
        input_size: F, of the decoder's input o_{t-1}; None for an agent without it.
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
        self,
        context: Float[Tensor, "R V"],
        query: Float[Tensor, "R Q"],
        inputs: Tensor | None,
        pace: Float[Tensor, " R"] | None = None,
    ) -> Float[Tensor, "R H"]:
        """u (R, H); a pace p multiplies the odds u / (1 - u) by p."""
        parts = [context, query]
        if self.input_size is not None:
            if inputs is None or inputs.shape != (len(query), self.input_size):
                shown = "none" if inputs is None else f"{tuple(inputs.shape)}"
                raise ShapeError(
                    f"The transition agent reads the decoder's inputs (R={len(query)}, F={self.input_size}); "
                    f"got {shown}. Pass inputs= to step or forward, or build it with input_size=None."
                )
            parts.insert(1, inputs)
        features = torch.cat(parts, -1)
        logits = self.output(features if self.hidden is None else torch.tanh(self.hidden(features)))
        return torch.sigmoid(logits if pace is None else logits + pace.log()[:, None].to(logits.dtype))


@dataclass(frozen=True, slots=True)
class ForwardState:
    """α̂ and u, the probability that attention moves on."""

    alignment: Float[Tensor, "R H S"]
    move: Float[Tensor, "R H"]


class ForwardAlignment(AbstractAlignment):
    """Attention that stays or moves on by one position, by the energies.

    α̂_t(n) = m_t(n) y_t(n) / Σ_k m_t(k) y_t(k),  m_t(n) = (1 - u_{t-1}) α̂_{t-1}(n) + u_{t-1} α̂_{t-1}(n-1),
    y_t = softmax(e_t) over the support. α̂_0 is 1 at the first position.

    Without an agent u is always 1/2, which gives the paper's α̂_{t-1}(n) + α̂_{t-1}(n-1). With an agent u_0 = 1/2, and
    u_t is computed after step t. If no position of the support can be reached, attention restarts from y_t; a row
    without support keeps α̂.

    Args:
        num_heads: H, each with its own α̂ and u.
        agent: computes u_t from the context, the decoder's input and the query.

    Numerics: a softmax of e + log m (`ops.forward_alignment`), as in the first author's code; energies of any size give
    a distribution.

    Source: Zhang, Ling & Dai 2018 (arXiv 1807.06736).
    """

    is_recurrent = True
    sources = ("zhang2018",)

    def __init__(self, *, num_heads: int = 1, agent: TransitionAgent | None = None) -> None:
        super().__init__()
        if agent is not None and agent.num_heads != num_heads:
            raise ValueError(f"num_heads={num_heads} must be that of the agent, {agent.num_heads}.")
        self.num_heads = num_heads
        self.agent = agent
        self.uses_query = self.has_pace = agent is not None

    def unsupported_reason(self, parts: Parts) -> str | None:
        if (reason := heads_reason(parts, self.num_heads, "ForwardAlignment follows")) is not None:
            return reason
        if self.agent is not None and parts.read.context_size != self.agent.context_size:
            return (
                f"The transition agent takes contexts of {self.agent.context_size} features and the read gives "
                f"{parts.read.context_size}: build it with context_size={parts.read.context_size}."
            )
        return None

    def initial(self, memory: Memory, num_rows: int) -> ForwardState:
        """α̂_0, all at the first position that may be attended to, and u_0 = 1/2."""
        start = first_alignment("first", memory, num_rows, self.num_heads)
        return ForwardState(start, start.new_full((num_rows, self.num_heads), 0.5))

    floor = 0.0
    """ε that is added to m."""

    def move(
        self, energies: Float[Tensor, "R H S"], state: ForwardState, support: Bool[Tensor, "R G S"] | None
    ) -> tuple[Float[Tensor, "R H S"], Float[Tensor, "R H S"]]:
        """The weights, and α̂_t from α̂_{t-1} and u_{t-1}."""
        return forward_step(energies, state.alignment, state.move, support, self.floor)

    def forward(
        self,
        energies: Float[Tensor, "R H S"],
        support: Bool[Tensor, "R G S"] | None,
        inputs: StepInputs,
        state: ForwardState,
    ) -> tuple[Float[Tensor, "R H S"], Tree, Tree]:
        weights, after = self.move(energies, state, support)
        return weights, ForwardState(after, state.move), None

    def observe(self, attended: Attended, inputs: StepInputs, state: ForwardState) -> ForwardState:
        """u for the next step."""
        if self.agent is None:
            return state
        return ForwardState(state.alignment, self.agent(attended.context, inputs.query, inputs.inputs, inputs.pace))
