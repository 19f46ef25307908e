"""THE LIST: every score, window, alignment, read, recipe, operation, layer, encoder and decoder.

Whatever is public and shown by no case is found by `regard.testing.coverage.missing`, and a test fails.
"""

from regard.testing.cases.case import Case, DecoderCase, EncoderCase, LayerCase, MechanismCase, OperationCase, PartCase
from regard.testing.cases.layers import LAYERS
from regard.testing.cases.mechanisms import MECHANISMS, PARTS
from regard.testing.cases.models import DECODERS, ENCODERS
from regard.testing.cases.operations import OPERATIONS

CASES: tuple[Case, ...] = (*MECHANISMS, *OPERATIONS, *LAYERS, *ENCODERS, *DECODERS)

__all__ = [
    "CASES",
    "DECODERS",
    "ENCODERS",
    "LAYERS",
    "MECHANISMS",
    "OPERATIONS",
    "PARTS",
    "Case",
    "DecoderCase",
    "EncoderCase",
    "LayerCase",
    "MechanismCase",
    "OperationCase",
    "PartCase",
]
