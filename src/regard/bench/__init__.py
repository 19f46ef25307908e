"""Speed, measured on this machine: every case against plain code for the same job, after a check of its results."""

from regard.bench.case import Aim, Answer, Case, Contest, Work
from regard.bench.cases import CASES
from regard.bench.gate import Error, judge
from regard.bench.run import run

__all__ = ["CASES", "Aim", "Answer", "Case", "Contest", "Error", "Work", "judge", "run"]
