"""THE LIST: every score, window, alignment, read, recipe, operation, loss, layer, encoder, decoder and classifier.

If a public thing is shown by no case, `regard.testing.coverage.missing` returns it, and a test fails.
"""

from regard.testing.cases.case import (
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
)
from regard.testing.cases.images import IMAGE_ENCODERS
from regard.testing.cases.layers import LAYERS
from regard.testing.cases.losses import LOSSES
from regard.testing.cases.mechanisms import MECHANISMS, PARTS
from regard.testing.cases.models import CLASSIFIERS, DECODERS, ENCODERS
from regard.testing.cases.operations import OPERATIONS

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
]
