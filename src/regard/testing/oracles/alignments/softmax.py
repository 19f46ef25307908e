"""Softmax and exponential alignment."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from regard.attention import ExponentialAlignment, SoftmaxAlignment
from regard.testing.oracles.arithmetic import masked_softmax
from regard.testing.oracles.story import Story, Vector, oracle


@oracle(SoftmaxAlignment)
def softmax(alignment: Any, story: Story, energies: Sequence[Vector], supports: Sequence[list[bool]]) -> Vector:
    """Softmax of β e."""
    return masked_softmax([alignment.sharpening * e for e in energies[-1]], supports[-1])


@oracle(ExponentialAlignment)
def exponential(alignment: Any, story: Story, energies: Sequence[Vector], supports: Sequence[list[bool]]) -> Vector:
    """exp(e) inside the support."""
    return [math.exp(e) if inside else 0.0 for e, inside in zip(energies[-1], supports[-1], strict=True)]
