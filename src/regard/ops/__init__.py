"""Arithmetic on tensors, no modules: a file an operation, with the formula written for the eye; kernels/ is compiled.

An operation offers its implementations in an ordered table; `explain` says which is taken and why the others are not.
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
"""By operation, in the order in which they are asked."""
STEPS = {name: step_implementations(name) for name in ("cells",)}
"""Modules of what an operation does in a step, without autograd; their inputs tell the device."""


def explain(operation: str | None = None, *inputs: Any, **options: Any) -> str:
    """Which implementation is taken and why, of one operation for some inputs, or of all on this machine.

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
