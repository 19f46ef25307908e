"""All cases, by their names on the command line."""

from speed.case import Case
from speed.cases.captions import CAPTIONS
from speed.cases.encoders import ENCODERS
from speed.cases.energies import ENERGIES
from speed.cases.location import LOCATION
from speed.cases.models import MODELS
from speed.cases.operations import OPERATIONS
from speed.cases.output import OUTPUT
from speed.cases.refinement import REFINEMENT

CASES: dict[str, Case] = {
    case.name: case
    for case in (
        *ENCODERS,
        *ENERGIES,
        *LOCATION,
        *OPERATIONS,
        *OUTPUT,
        *REFINEMENT,
        *MODELS,
        *CAPTIONS,
    )
}

__all__ = ["CASES"]
