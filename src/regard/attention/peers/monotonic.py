"""Monotonic and forward attention as other implementations have them: tensorflow-addons, and ESPnet."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard import ops
from regard.attention import recipes
from regard.attention.alignments.forward import ForwardAlignment, Progress
from regard.attention.alignments.monotonic import MonotonicAlignment
from regard.attention.mechanism import Mechanism
from regard.attention.recipes.monotonic import agent_of
from regard.errors import UnsupportedError
from regard.ops.forward import move_on
from regard.shapes import Bool, Float

READER = ("num_heads", "bias", "learned_bias", "noise", "hard", "remaining")
LEAST = 1e-6


class ClippedMonotonicAlignment(MonotonicAlignment):
    """The stop expected by their mode `parallel` (`ops.clipped_monotonic_alignment`), which loses mass in long sources.

    Their mode `recursive` is exact, as is `MonotonicAlignment`, and their mode `hard` is hard="always". They add noise
    in evaluation too; here it is added only in training.
    """

    def expect(self, chance: Float[Tensor, "R H S"], previous: Float[Tensor, "R H S"]) -> Float[Tensor, "R H S"]:
        """α_i: the expected stop."""
        return ops.clipped_monotonic_alignment(chance, previous)


def tfa_monotonic(**options: Any) -> Mechanism:
    """BahdanauMonotonicAttention and LuongMonotonicAttention in mode `parallel`."""
    if options.get("hard") == "always":
        raise UnsupportedError(
            "like='tfa_parallel': with hard='always' there is no expected alignment; leave one of the two out."
        )
    plain = recipes.monotonic(**options)
    alignment = ClippedMonotonicAlignment(**{name: options[name] for name in READER if name in options})
    return Mechanism(plain.score, alignment, plain.read, plain.window)


class ClampedForwardAlignment(ForwardAlignment):
    """α̂_t = max(m_t y_t, 1e-6), without an agent max(2 m_t y_t, 1e-6), divided by its sum over all positions.

    Padding and positions outside the window have weights above 0, which breaks every invariant about padding: use it
    for comparisons only. The agent has no hidden layer and gives the probability of staying, so our W and b are the
    negatives of ESPnet's.
    """

    def move(
        self, energies: Float[Tensor, "R H S"], leaf: Progress, support: Bool[Tensor, "R G S"] | None
    ) -> tuple[Float[Tensor, "R H S"], Float[Tensor, "R H S"]]:
        """The weights, zeros in a row without support, and the alignment afterwards."""
        dtype = torch.promote_types(energies.dtype, leaf.alignment.dtype)
        working = torch.promote_types(dtype, torch.float32)
        reach = (2 if self.agent is None else 1) * move_on(leaf.alignment.to(working), leaf.move.to(working))
        weights = (reach * ops.masked_softmax(energies.to(working), support)).clamp(min=LEAST)
        if support is not None:
            weights = weights * support.any(-1, keepdim=True)
        weights = (weights / weights.sum(-1, keepdim=True).clamp(min=LEAST)).to(dtype)
        return weights, torch.where(weights.any(-1, keepdim=True), weights, leaf.alignment)


def espnet_forward_attention(
    *, input_size: int | None = None, transition_agent: bool = False, num_heads: int = 1, **options: Any
) -> Mechanism:
    """AttForward, and AttForwardTA with an agent, which has no hidden layer."""
    plain = recipes.forward_attention(num_heads=num_heads, **options)
    agent = None
    if transition_agent:
        agent = agent_of(plain.read, options["query_size"], input_size, hidden_size=None, num_heads=num_heads)
    alignment = ClampedForwardAlignment(num_heads=num_heads, agent=agent)
    return Mechanism(plain.score, alignment, plain.read, plain.window)
