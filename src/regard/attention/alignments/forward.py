"""Forward attention: weights that stay or move on by one position."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from regard import ops
from regard.attention.alignments.transition import TransitionAgent
from regard.attention.beginning import first_alignment
from regard.attention.contract import AbstractAlignment, Attended, Look, Memory, Tree
from regard.shapes import Bool, Float


@dataclass(frozen=True, slots=True)
class Progress:
    """Where attention is, and how likely it moves on.

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

    Without an agent u is 1/2 always, which is the paper's α̂_{t-1}(n) + α̂_{t-1}(n-1). With one u_0 = 1/2, and u_t is
    known only after step t. Where a window allows no position that can be reached, attention begins anew with y_t; a
    row that saw nothing stays where it was.

    Args:
        num_heads: H, every head moves by itself.
        agent: tells u_t from the context, what the decoder was fed, and the query.

    Numerics: a softmax of e + log m (`ops.forward_alignment`), which is what the first author's code does; energies of
    any size leave a distribution.

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

    def refuse(self, mechanism: Any) -> str | None:
        """Every head has a place, and an agent knows how wide the context is."""
        if mechanism.score.num_heads != self.num_heads:
            return (
                f"ForwardAlignment knows the places of {self.num_heads} heads and the score has "
                f"{mechanism.score.num_heads}: give it num_heads={mechanism.score.num_heads}."
            )
        if self.agent is not None and mechanism.read.context_size != self.agent.context_size:
            return (
                f"The transition agent sees contexts of {self.agent.context_size} features and the read gives "
                f"{mechanism.read.context_size}: build it with context_size={mechanism.read.context_size}."
            )
        return None

    def initial(self, memory: Memory, num_rows: int) -> Progress:
        """α̂_0, all at the first position that may be looked at, and u_0 = 1/2."""
        start = first_alignment("first", memory, num_rows, self.num_heads)
        return Progress(start, start.new_full((num_rows, self.num_heads), 0.5))

    def move(
        self, energies: Float[Tensor, "R H S"], leaf: Progress, support: Bool[Tensor, "R G S"] | None
    ) -> Float[Tensor, "R H S"]:
        """α̂_t of α̂_{t-1} and u_{t-1}."""
        return ops.forward_alignment(energies, leaf.alignment, leaf.move, support)

    def forward(
        self, energies: Float[Tensor, "R H S"], support: Bool[Tensor, "R G S"] | None, look: Look, leaf: Progress
    ) -> tuple[Float[Tensor, "R H S"], Tree, Tree]:
        """α̂ (R, H, S)."""
        weights = self.move(energies, leaf, support)
        seen = weights.any(-1, keepdim=True)
        return weights, replace(leaf, alignment=torch.where(seen, weights, leaf.alignment)), None

    def observe(self, attended: Attended, look: Look, leaf: Progress) -> Progress:
        """u for the next step."""
        if self.agent is None:
            return leaf
        return replace(leaf, move=self.agent(attended.context, look.query, look.inputs))
