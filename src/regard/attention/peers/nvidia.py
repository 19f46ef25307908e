"""The attention of NVIDIA's Tacotron 2."""

from __future__ import annotations

from typing import Any

from regard.attention import recipes
from regard.attention.mechanism import Mechanism


def location_sensitive(**options: Any) -> Mechanism:
    """Both channels, no b."""
    changed: dict[str, Any] = {"location": "both", "bias": False}
    return recipes.location_sensitive(**(changed | options))
