"""Functions with a derivative in forward mode, which torch's compiler does not take."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import Function


def apply(function: type[Function], with_tangents: type[Function], *inputs: Any) -> Any:
    """Calls the function that has `jvp`, or the one without where a compiler looks: it refuses any that has."""
    chosen = function if torch.compiler.is_compiling() else with_tangents
    return chosen.apply(*inputs)
