"""All cases, by their names on the command line."""

from regard.bench.case import Case
from regard.bench.cases.captions import CAPTIONS
from regard.bench.cases.encoders import ENCODERS
from regard.bench.cases.energies import ENERGIES
from regard.bench.cases.location import LOCATION
from regard.bench.cases.models import MODELS
from regard.bench.cases.operations import OPERATIONS
from regard.bench.cases.output import OUTPUT
<<<<<<< HEAD
<<<<<<< HEAD
from regard.bench.cases.pictures import PICTURES
from regard.bench.cases.sound import SOUND

CASES: dict[str, Case] = {
<<<<<<< HEAD
    case.name: case for case in (*ENCODERS, *ENERGIES, *LOCATION, *OPERATIONS, *OUTPUT, *MODELS, *PICTURES, *SOUND)
=======
=======
from regard.bench.cases.pictures import PICTURES
>>>>>>> writer
from regard.bench.cases.refinement import REFINEMENT
from regard.bench.cases.sound import SOUND

CASES: dict[str, Case] = {
<<<<<<< HEAD
    case.name: case for case in (*ENCODERS, *ENERGIES, *LOCATION, *OPERATIONS, *OUTPUT, *REFINEMENT, *MODELS, *SOUND)
>>>>>>> refinement
=======
    case.name: case for case in (*ENCODERS, *ENERGIES, *LOCATION, *OPERATIONS, *OUTPUT, *MODELS, *CAPTIONS, *SOUND)
>>>>>>> captioner
=======
    case.name: case
    for case in (*ENCODERS, *ENERGIES, *LOCATION, *OPERATIONS, *OUTPUT, *REFINEMENT, *MODELS, *PICTURES, *SOUND)
>>>>>>> writer
}

__all__ = ["CASES"]
