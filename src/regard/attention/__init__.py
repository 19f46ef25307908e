"""Attention mechanisms: four parts and one state.

score (how well does each position answer the query?) → window (which positions may be attended to?) → alignment
(energies and earlier weights become weights) → read (weights and values become a context).
"""

from regard.attention import alignments, reads, recipes, scores, windows
from regard.attention.alignments import *  # noqa: F403
from regard.attention.citation import cite
from regard.attention.contract import (
    AbstractAlignment,
    AbstractPart,
    AbstractRead,
    AbstractScore,
    AbstractWindow,
    Attended,
    Comparison,
    MechanismState,
    Memory,
    Source,
    StepInputs,
    Support,
)
from regard.attention.divided import Divided
from regard.attention.interface import AbstractAttention
from regard.attention.mechanism import Mechanism
from regard.attention.parallel import Parallel
from regard.attention.projected import Projected
from regard.attention.reads import *  # noqa: F403
from regard.attention.recipes import *  # noqa: F403
from regard.attention.refined import Correction, Refined
from regard.attention.scores import *  # noqa: F403
from regard.attention.sequence import SelfAttention
from regard.attention.windows import *  # noqa: F403

__all__ = [
    "AbstractAlignment",
    "AbstractAttention",
    "AbstractPart",
    "AbstractRead",
    "AbstractScore",
    "AbstractWindow",
    "Attended",
    "Comparison",
    "Correction",
    "Divided",
    "Mechanism",
    "MechanismState",
    "Memory",
    "Parallel",
    "Projected",
    "Refined",
    "SelfAttention",
    "Source",
    "StepInputs",
    "Support",
    "cite",
]
__all__ += alignments.__all__
__all__ += reads.__all__
__all__ += recipes.__all__
__all__ += scores.__all__
__all__ += windows.__all__
