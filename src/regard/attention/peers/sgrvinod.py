"""The attention of sgrvinod's tutorial on captions."""

from __future__ import annotations

from typing import Any

from regard.attention import recipes
from regard.attention.mechanism import Mechanism
from regard.attention.peers.rectified import RectifiedScore


def show_attend_tell(
    *, query_size: int, memory_size: int, size: int = 256, num_heads: int = 1, **options: Any
) -> Mechanism:
    """A rectifier in place of tanh; with `gate="vector"` it is exactly that implementation's attention."""
    plain = recipes.show_attend_tell(
        query_size=query_size, memory_size=memory_size, size=size, num_heads=num_heads, **options
    )
    score = RectifiedScore(query_size, memory_size, size, num_heads=num_heads)
    return Mechanism(score, plain.alignment, plain.read, plain.window)
