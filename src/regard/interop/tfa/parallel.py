"""Monotonic attention in the mode `parallel` of tensorflow-addons, as a variant of the recipe."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from regard import ops
from regard.attention import recipes
from regard.attention.alignments.monotonic import MonotonicAlignment
from regard.attention.mechanism import Mechanism
from regard.errors import UnsupportedError
from regard.shapes import Float

READER = ("num_heads", "bias", "learned_bias", "noise", "hard", "remaining")


class ClippedMonotonicAlignment(MonotonicAlignment):
    """The stop expected by their mode `parallel` (`ops.clipped_monotonic_alignment`), which loses mass in long sources.

    Their mode `recursive` is exact, as is `MonotonicAlignment`, and their mode `hard` is hard="always". They add noise
    in evaluation too; here it is added only in training.
    """

    def expect(self, chance: Float[Tensor, "R H S"], previous: Float[Tensor, "R H S"]) -> Float[Tensor, "R H S"]:
        """α_i: the expected stop."""
        return ops.clipped_monotonic_alignment(chance, previous)


def monotonic(**options: Any) -> Mechanism:
    """BahdanauMonotonicAttention and LuongMonotonicAttention in mode `parallel`."""
    if options.get("hard") == "always":
        raise UnsupportedError(
            "like='tfa_parallel': with hard='always' there is no expected alignment; leave one of the two out."
        )
    plain = recipes.monotonic(**options)
    alignment = ClippedMonotonicAlignment(**{name: options[name] for name in READER if name in options})
    return Mechanism(plain.score, alignment, plain.read, plain.window)
