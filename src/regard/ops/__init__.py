"""Operations on tensors, without modules: one file each, the readable reference first; kernels/ has compiled ones.

An operation has an ordered table of implementations; `explain` prints which is taken and why others are not.
"""

from typing import Any

from regard.ops.additive import ADDITIVE_ENERGIES, additive_energies
from regard.ops.additive_attention import ADDITIVE_ATTENTION, additive_attention
from regard.ops.attend import attend, weighted_sum
from regard.ops.batch_norm import BATCH_NORM, batch_norm
from regard.ops.choose import Implementation, describe, step_implementations
from regard.ops.dot_attention import DOT_ATTENTION, dot_attention
from regard.ops.dropout import DROPOUT, dropout
from regard.ops.entmax import ENTMAX, entmax, sparsemax
from regard.ops.forward import FORWARD_ALIGNMENT, forward_alignment
from regard.ops.largest import LARGEST, largest
from regard.ops.linear import LINEAR, linear
from regard.ops.linear_cross_entropy import LINEAR_CROSS_ENTROPY, linear_cross_entropy
from regard.ops.location import LOCATION_ENERGIES, location_energies
from regard.ops.logarithm import log_add, safe_log
from regard.ops.monotonic import (
    EXPECTED_MONOTONIC_ALIGNMENT,
    MOVING_CHUNK_SOFTMAX,
    clipped_monotonic_alignment,
    expected_monotonic_alignment,
    hard_monotonic_alignment,
    moving_chunk_softmax,
)
from regard.ops.rotary import rotate
from regard.ops.softmax import LOG_SOFTMAX, MASKED_SOFTMAX, hardmax, log_softmax, masked_softmax
from regard.ops.switch import plain
from regard.ops.warping import WARPING_PATH, warping_path

IMPLEMENTATIONS: dict[str, tuple[Implementation, ...]] = {
    "additive_attention": ADDITIVE_ATTENTION,
    "additive_energies": ADDITIVE_ENERGIES,
    "batch_norm": BATCH_NORM,
    "dot_attention": DOT_ATTENTION,
    "dropout": DROPOUT,
    "entmax": ENTMAX,
    "expected_monotonic_alignment": EXPECTED_MONOTONIC_ALIGNMENT,
    "forward_alignment": FORWARD_ALIGNMENT,
    "largest": LARGEST,
    "linear": LINEAR,
    "linear_cross_entropy": LINEAR_CROSS_ENTROPY,
    "location_energies": LOCATION_ENERGIES,
    "log_softmax": LOG_SOFTMAX,
    "masked_softmax": MASKED_SOFTMAX,
    "moving_chunk_softmax": MOVING_CHUNK_SOFTMAX,
    "sparsemax": (Implementation("reference", sparsemax),),
    "warping_path": WARPING_PATH,
}
"""By operation, in order of preference."""
STEPS = {"cells": step_implementations("cells")}
"""Modules of steps without autograd; the device follows from their inputs."""


def explain(operation: str | None = None, *inputs: Any, **options: Any) -> str:
    """Which implementation of an operation is taken for some inputs, and why; if None, of each on this machine.

    >>> print(explain("sparsemax"))
    sparsemax
      reference: taken
    """
    tables = IMPLEMENTATIONS | STEPS
    names = [operation] if operation is not None else sorted(tables)
    return "\n".join(describe(name, tables[name], *inputs, **options) for name in names)


__all__ = [
    "IMPLEMENTATIONS",
    "additive_attention",
    "additive_energies",
    "attend",
    "batch_norm",
    "clipped_monotonic_alignment",
    "dot_attention",
    "dropout",
    "entmax",
    "expected_monotonic_alignment",
    "explain",
    "forward_alignment",
    "hard_monotonic_alignment",
    "hardmax",
    "largest",
    "linear",
    "linear_cross_entropy",
    "location_energies",
    "log_add",
    "log_softmax",
    "masked_softmax",
    "moving_chunk_softmax",
    "plain",
    "rotate",
    "safe_log",
    "sparsemax",
    "warping_path",
    "weighted_sum",
]
