"""Brute-force oracles: the equations as double loops over plain floats, nothing vectorised, nothing carried.

They read the parameters off a module and share no arithmetic with it, so agreeing with them is evidence.
"""

from regard.testing.oracles.alignments import ALIGNMENTS, chunk, masked_softmax, monotonic
from regard.testing.oracles.attend import attend, attend_in_parallel
from regard.testing.oracles.reads import READS, weighted_sum
from regard.testing.oracles.recurrent import run as run_recurrent_stack
from regard.testing.oracles.scores import SCORES, linear
from regard.testing.oracles.windows import WINDOWS

__all__ = [
    "ALIGNMENTS",
    "READS",
    "SCORES",
    "WINDOWS",
    "attend",
    "attend_in_parallel",
    "chunk",
    "linear",
    "masked_softmax",
    "monotonic",
    "run_recurrent_stack",
    "weighted_sum",
]
