"""Gated sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from regard.attention import GatedSum
from regard.testing.oracles.arithmetic import linear, sigmoid
from regard.testing.oracles.story import Story, Vector, ask, oracle


@oracle(GatedSum)
def gated(read: Any, story: Story, weights: Sequence[Vector]) -> Vector:
    """σ(W q + b) times the sums: a gate for each feature, or for all features of a head."""
    context: Vector = ask(read.sum, story, weights)
    gates = [sigmoid(x) for x in linear(read.gate, story.query)]
    return [x * gates[index * len(gates) // len(context)] for index, x in enumerate(context)]
