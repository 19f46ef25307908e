"""Refuses models that are larger than the memory of the machine, before their weights are drawn."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch.nn import Module
from torch.nn.modules.module import register_module_parameter_registration_hook

from regard.errors import ConfigError
from regard.training.device import choose

COPIES = 4
"""A training has every weight with its gradient and the two means of the optimiser."""
SIGNS = ("allocate memory", "bad_alloc", "overflow", "invalid storage size", "too large")
"""Parts of torch's messages about tensors that cannot be made."""


@contextmanager
def within_memory(device: str) -> Iterator[None]:
    """Inside the block, a module whose weights the machine cannot hold is refused while it is built.

    Args:
        device: `training.device`; on the CPU a training needs more than the weights.

    Raises:
        ConfigError: with the sizes, for a module that is too large.
    """
    limit = _physical_memory()
    copies = COPIES if choose(device).type == "cpu" else 1
    sizes: dict[int, int] = {}

    def count(module: Module, name: str, parameter: Any) -> None:
        sizes[id(parameter)] = 0 if parameter is None else parameter.numel() * parameter.element_size()
        if (needed := copies * sum(sizes.values())) > limit:
            raise _refusal(f"needs more than {needed / 2**30:,.0f} GiB", limit)

    handle = register_module_parameter_registration_hook(count)
    try:
        yield
    except (MemoryError, OverflowError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and not any(sign in str(error).lower() for sign in SIGNS):
            raise
        raise _refusal("needs a tensor larger than what is left", limit) from None
    finally:
        handle.remove()


def _physical_memory() -> float:
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):  # not on this system
        return float("inf")


def _refusal(what: str, limit: float) -> ConfigError:
    has = f"; this machine has {limit / 2**30:,.0f} GiB" if limit < float("inf") else ""
    return ConfigError(f"a training of this model {what} of memory{has}: lower its sizes or layers", ("model",))
