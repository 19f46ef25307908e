"""An alignment that treats padding as source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from regard.attention.peers import UnmaskedAlignment
from regard.testing.oracles.story import Story, Vector, ask, oracle


@oracle(UnmaskedAlignment)
def unmasked(alignment: Any, story: Story, energies: Sequence[Vector], supports: Sequence[list[bool]]) -> Vector:
    """The other alignment's weights over everything, and a small weight outside the support."""
    everywhere = [[True] * len(support) for support in supports]
    weights = ask(alignment.alignment, story, energies, everywhere)
    return [w if inside else alignment.outside for w, inside in zip(weights, supports[-1], strict=True)]
