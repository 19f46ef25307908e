"""Autocast, and what is not to be narrowed by it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch


def without_autocast(device: str) -> AbstractContextManager[Any]:
    """A context for kernels that compute in the type of their inputs: products of matrices in it are not narrowed."""
    return torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else nullcontext()
