"""The gate: no time is printed for what is wrong.

A result may be off float64 by twice what the plain ways in the same precision are off, or by twice the precision's
epsilon times the size of the terms it is summed of, whichever is larger. Results and every gradient have to pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.bench.case import OURS, PLAIN, Answer, Case, Contest


@dataclass(frozen=True, slots=True)
class Error:
    """The largest absolute error of one result.

    Args:
        ours, plain: of ours and of the plain ways, against the plain way in float64.
        terms: the size of the terms.
        epsilon: of the precision.
    """

    ours: float
    plain: float
    terms: float
    epsilon: float

    @property
    def allowed(self) -> float:
        """The most that ours may be off."""
        return 2 * max(self.plain, self.epsilon * self.terms)

    @property
    def share(self) -> float:
        """Of what is allowed; above 1, or NaN, fails."""
        return self.ours / self.allowed if self.allowed else float(self.ours > 0)

    @property
    def passes(self) -> bool:
        """Whether it is small enough."""
        return self.share <= 1


def errors(ours: Answer, plain: Iterable[Answer], truth: Answer, terms: Mapping[str, float]) -> dict[str, Error]:
    """The errors of every result and gradient.

    Args:
        ours, plain: in the precision that is judged; of several plain ways the one that is farthest off counts.
        truth: the plain way's in float64.
        terms: by name, where they are known; else the largest number of the truth.
    """
    others = list(plain)
    found = {}
    for name, right in truth.items():
        exact = right.detach().double()
        off, *others_off = (float((x[name].detach().double() - exact).abs().max()) for x in (ours, *others))
        epsilon = torch.finfo(others[0][name].dtype).eps
        found[name] = Error(off, max(others_off), terms.get(name, _largest(right)), epsilon)
    return found


def judge(
    case: Case, sizes: Mapping[str, int], dtype: torch.dtype = torch.float32, *, calls: int = 1
) -> dict[str, Error]:
    """Does a case's job our way, plainly, and plainly in float64; all draw the same numbers.

    Args:
        calls: of ours, the last of which is judged; what is recorded is not there in the first.
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
    """What the plain ways come to: sides whose names begin with `PLAIN`."""
    return [side() for name, side in contest.sides.items() if name.startswith(PLAIN)]


def worst(found: Mapping[str, Error]) -> tuple[str, Error]:
    """The result that is nearest to failing, or fails worst."""
    return max(found.items(), key=lambda item: item[1].share if item[1].share == item[1].share else float("inf"))


def _largest(x: Tensor) -> float:
    return float(x.detach().abs().max())
