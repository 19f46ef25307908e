"""SpeechBrain's attention."""

from __future__ import annotations

from typing import Any

from regard.attention import recipes
from regard.attention.mechanism import Mechanism


def location_sensitive(**options: Any) -> Mechanism:
    """The previous weights, a uniform start, no gradient from a step to earlier weights."""
    changed: dict[str, Any] = {"location": "previous", "first_alignment": "uniform", "detached": True}
    return recipes.location_sensitive(**(changed | options))
