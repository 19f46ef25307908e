"""Speed, measured on this machine: every case against the plain way to the same numbers, the gate first."""

from regard.bench.case import Aim, Answer, Case, Contest, Work
from regard.bench.cases import CASES
from regard.bench.gate import Error, judge
from regard.bench.run import run

__all__ = ["CASES", "Aim", "Answer", "Case", "Contest", "Error", "Work", "judge", "run"]
