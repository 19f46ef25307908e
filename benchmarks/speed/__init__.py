"""Speed, measured on this machine: every case against plain code for the same job, after a check of its results."""

from speed.case import Aim, Answer, Case, Contest, Work
from speed.cases import CASES
from speed.gate import Error, judge

__all__ = ["CASES", "Aim", "Answer", "Case", "Contest", "Error", "Work", "judge"]
