"""Reads of weights of which training drops some."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from regard.attention import DroppedRead
from regard.testing.oracles.story import Story, Vector, ask, oracle


@oracle(DroppedRead)
def dropped(read: Any, story: Story, weights: Sequence[Vector]) -> Vector:
    """In evaluation, the context of the other read."""
    context: Vector = ask(read.values, story, weights)
    return context
