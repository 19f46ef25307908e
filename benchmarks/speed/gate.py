"""The gate: no time is reported for wrong results.

The error of a result against float64 may be twice that of the plain ways in the same precision, or twice the epsilon of
the precision times the size of the terms of the sum, whichever is larger. Results and all gradients must pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from speed.case import OURS, PLAIN, Answer, Case, Contest


@dataclass(frozen=True, slots=True)
class Error:
    """The largest absolute error of one result.

    Args:
        ours, plain: the errors of ours and of the plain ways, against the plain way in float64.
        terms: the size of the terms of the sum.
        epsilon: that of the precision.
    """

    ours: float
    plain: float
    terms: float
    epsilon: float

    @property
    def allowed(self) -> float:
        """The largest error that ours may have."""
        return 2 * max(self.plain, self.epsilon * self.terms)

    @property
    def share(self) -> float:
        """Our error as a share of the allowed one; above 1, or NaN, fails."""
        return self.ours / self.allowed if self.allowed else float(self.ours > 0)

    @property
    def passes(self) -> bool:
        """Whether it is small enough."""
        return self.share <= 1


def errors(ours: Answer, plain: Iterable[Answer], truth: Answer, terms: Mapping[str, float]) -> dict[str, Error]:
    """The errors of every result and gradient.

    Args:
        ours, plain: in the precision that is judged; of several plain ways the largest error counts.
        truth: the plain way's results in float64.
        terms: the size of the terms by name; by default the largest number of the truth.
    """
    others = list(plain)
    result = {}
    for name, value in truth.items():
        exact = value.detach().double()
        error, *other_errors = (float((x[name].detach().double() - exact).abs().max()) for x in (ours, *others))
        epsilon = torch.finfo(others[0][name].dtype).eps
        result[name] = Error(error, max(other_errors), terms.get(name, _largest(value)), epsilon)
    return result


def judge(
    case: Case, sizes: Mapping[str, int], dtype: torch.dtype = torch.float32, *, calls: int = 1
) -> dict[str, Error]:
    """Does the job of a case our way, the plain way, and the plain way in float64, all with the same numbers.

    Args:
        calls: how often ours is called; the last call is judged, as a recorded graph is not used in the first.
    """
    sizes = {**sizes, **{name: min(sizes[name], size) for name, size in case.gate.items()}}
    exact, rough = case.contest(torch.float64, sizes), case.contest(dtype, sizes)
    truth = exact.sides[PLAIN]()
    _, *gradients = truth
    terms = dict(exact.terms)
    if exact.shares_terms:
        terms |= dict.fromkeys(gradients, max(_largest(truth[name]) for name in gradients))
    for _ in range(calls - 1):
        rough.sides[OURS]()
    return errors(rough.sides[OURS](), plainly(rough), truth, terms)


def plainly(contest: Contest) -> list[Answer]:
    """The results of the plain ways, the sides whose names begin with `PLAIN`."""
    return [side() for name, side in contest.sides.items() if name.startswith(PLAIN)]


def worst(errors: Mapping[str, Error]) -> tuple[str, Error]:
    """The name and error of the result with the largest share."""
    return max(errors.items(), key=lambda item: item[1].share if item[1].share == item[1].share else float("inf"))


def _largest(x: Tensor) -> float:
    return float(x.detach().abs().max())
