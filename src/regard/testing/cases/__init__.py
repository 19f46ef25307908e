"""THE LIST: every score, window, alignment, read, recipe, operation, loss, layer, encoder and decoder.

If a public thing is shown by no case, `regard.testing.coverage.missing` returns it, and a test fails.
"""

from regard.testing.cases.case import (
    Case,
    DecoderCase,
    EncoderCase,
    LayerCase,
    LossCase,
    MechanismCase,
    OperationCase,
    PartCase,
)
from regard.testing.cases.layers import LAYERS
from regard.testing.cases.losses import LOSSES
from regard.testing.cases.mechanisms import MECHANISMS, PARTS
from regard.testing.cases.models import DECODERS, ENCODERS
from regard.testing.cases.operations import OPERATIONS

CASES: tuple[Case, ...] = (*MECHANISMS, *OPERATIONS, *LOSSES, *LAYERS, *ENCODERS, *DECODERS)

__all__ = [
    "CASES",
    "DECODERS",
    "ENCODERS",
    "LAYERS",
    "LOSSES",
    "MECHANISMS",
    "OPERATIONS",
    "PARTS",
    "Case",
    "DecoderCase",
    "EncoderCase",
    "LayerCase",
    "LossCase",
    "MechanismCase",
    "OperationCase",
    "PartCase",
]
