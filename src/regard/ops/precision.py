"""Products that autocast must leave alone."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch


def without_autocast(device: str) -> AbstractContextManager[Any]:
    """A context for kernels that compute in the type of their inputs, which autocast does not change in it."""
    return torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else nullcontext()
