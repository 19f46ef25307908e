"""All cases, by their names on the command line."""

from regard.bench.case import Case
from regard.bench.cases.captions import CAPTIONS
from regard.bench.cases.encoders import ENCODERS
from regard.bench.cases.energies import ENERGIES
from regard.bench.cases.location import LOCATION
from regard.bench.cases.models import MODELS
from regard.bench.cases.operations import OPERATIONS
from regard.bench.cases.output import OUTPUT
from regard.bench.cases.refinement import REFINEMENT
from regard.bench.cases.sound import SOUND

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
        *SOUND,
    )
}

__all__ = ["CASES"]
