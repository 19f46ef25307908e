"""THE LIST: every score, window, alignment, read, recipe, operation, loss, layer, encoder, decoder and classifier.

If a public thing is shown by no case, `support.coverage.missing` returns it, and a test fails.
"""

from support.cases.case import (
    Case,
    ClassifierCase,
    DecoderCase,
    EncoderCase,
    ImageEncoderCase,
    LayerCase,
    LossCase,
    MechanismCase,
    OperationCase,
    PartCase,
    covering,
)
from support.cases.images import IMAGE_ENCODERS
from support.cases.layers import LAYERS
from support.cases.losses import LOSSES
from support.cases.mechanisms import MECHANISMS, PARTS
from support.cases.models import CLASSIFIERS, DECODERS, ENCODERS
from support.cases.operations import OPERATIONS

CASES: tuple[Case, ...] = (
    *MECHANISMS,
    *OPERATIONS,
    *LOSSES,
    *LAYERS,
    *ENCODERS,
    *IMAGE_ENCODERS,
    *DECODERS,
    *CLASSIFIERS,
)

__all__ = [
    "CASES",
    "CLASSIFIERS",
    "DECODERS",
    "ENCODERS",
    "IMAGE_ENCODERS",
    "LAYERS",
    "LOSSES",
    "MECHANISMS",
    "OPERATIONS",
    "PARTS",
    "Case",
    "ClassifierCase",
    "DecoderCase",
    "EncoderCase",
    "ImageEncoderCase",
    "LayerCase",
    "LossCase",
    "MechanismCase",
    "OperationCase",
    "PartCase",
    "covering",
]
