"""Brute-force oracles: the equations as double loops over plain floats, without vectors and without a state.

They read the parameters of a module and share no arithmetic with it, so agreement with them is evidence. Those of
parts are registered in `ORACLES` when their file is imported, which happens here.
"""

import importlib
import pkgutil

from support.oracles.agreement import require_agreement
from support.oracles.attend import attend, attend_in_parallel
from support.oracles.recurrent import run as run_recurrent_stack
from support.oracles.story import ORACLES, Seen, Story, ask, oracle

for _file in pkgutil.walk_packages(__path__, f"{__name__}."):
    importlib.import_module(_file.name)

__all__ = [
    "ORACLES",
    "Seen",
    "Story",
    "ask",
    "attend",
    "attend_in_parallel",
    "oracle",
    "require_agreement",
    "run_recurrent_stack",
]
