"""Forward attention: weights that stay or move on by one position."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from regard.attention.alignments.transition import TransitionAgent
from regard.attention.beginning import first_alignment
from regard.attention.contract import AbstractAlignment, Attended, Look, Memory, Parts, Tree
from regard.attention.heads import refuse_heads
from regard.ops.forward import forward_step
from regard.shapes import Bool, Float


@dataclass(frozen=True, slots=True)
class Progress:
    """Where attention is, and the probability that it moves on.

    Args:
        alignment: α̂, (R, H, S).
        move: u, (R, H).
    """

    alignment: Float[Tensor, "R H S"]
    move: Float[Tensor, "R H"]


class ForwardAlignment(AbstractAlignment):
    """Attention stays where it was or moves on by one position, as the energies say.

    α̂_t(n) = m_t(n) y_t(n) / Σ_k m_t(k) y_t(k),  m_t(n) = (1 - u_{t-1}) α̂_{t-1}(n) + u_{t-1} α̂_{t-1}(n-1),
    y_t = softmax(e_t) over the support. α̂_0 is 1 at the first position.

    Without an agent u is always 1/2, which gives the paper's α̂_{t-1}(n) + α̂_{t-1}(n-1). With an agent u_0 = 1/2, and
    u_t is computed after step t. Where the support has no position that can be reached, attention restarts from y_t; a
    row without support stays where it was.

    Args:
        num_heads: H; each head moves by itself.
        agent: computes u_t from the context, the decoder's input and the query.

    Numerics: a softmax of e + log m (`ops.forward_alignment`), as in the first author's code; energies of any size give
    a distribution.

    Source: Zhang, Ling & Dai 2018 (arXiv 1807.06736).
    """

    is_recurrent = True
    sources = ("zhang2018",)

    def __init__(
        self,
        *,
        num_heads: int = 1,
        agent: TransitionAgent | None = None,
    ) -> None:
        super().__init__()
        if agent is not None and agent.num_heads != num_heads:
            raise ValueError(f"num_heads={num_heads}, and the agent has {agent.num_heads}: give both the same.")
        self.num_heads = num_heads
        self.agent = agent
        self.uses_query = agent is not None

    def refuse(self, parts: Parts) -> str | None:
        """Refuses another number of heads, and a context of another width than the agent's."""
        if (reason := refuse_heads(parts, self.num_heads, "ForwardAlignment follows")) is not None:
            return reason
        if self.agent is not None and parts.read.context_size != self.agent.context_size:
            return (
                f"The transition agent takes contexts of {self.agent.context_size} features and the read gives "
                f"{parts.read.context_size}: build it with context_size={parts.read.context_size}."
            )
        return None

    def initial(self, memory: Memory, num_rows: int) -> Progress:
        """α̂_0, all at the first position that may be attended to, and u_0 = 1/2."""
        start = first_alignment("first", memory, num_rows, self.num_heads)
        return Progress(start, start.new_full((num_rows, self.num_heads), 0.5))

    floor = 0.0
    """ε that is added to m."""

    def move(
        self, energies: Float[Tensor, "R H S"], leaf: Progress, support: Bool[Tensor, "R G S"] | None
    ) -> tuple[Float[Tensor, "R H S"], Float[Tensor, "R H S"]]:
        """The weights, and α̂_t from α̂_{t-1} and u_{t-1}."""
        return forward_step(energies, leaf.alignment, leaf.move, support, self.floor)

    def forward(
        self, energies: Float[Tensor, "R H S"], support: Bool[Tensor, "R G S"] | None, look: Look, leaf: Progress
    ) -> tuple[Float[Tensor, "R H S"], Tree, Tree]:
        """α̂ (R, H, S)."""
        weights, after = self.move(energies, leaf, support)
        return weights, Progress(after, leaf.move), None

    def observe(self, attended: Attended, look: Look, leaf: Progress) -> Progress:
        """u for the next step."""
        if self.agent is None:
            return leaf
        return Progress(leaf.alignment, self.agent(attended.context, look.query, look.inputs))
