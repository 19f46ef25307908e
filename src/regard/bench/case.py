"""What a case is: one job, done in several ways over the same numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

Answer = Mapping[str, Tensor]
"""What a way of doing the job came to, by name: the result first, then gradients."""

OURS, PLAIN = "regard", "plain"


@dataclass(frozen=True, slots=True)
class Contest:
    """A case made ready in one type of number.

    Args:
        sides: by name, what does the job once; `OURS` first and `PLAIN` last, further ways between them.
        yardsticks: by name, another job to compare the time with.
        terms: the size of the terms that a result is summed of, by the result's name; where it is not said, the
            largest number of the result stands for it.
        shares_terms: gradients go through one another, as those of a model: the largest of them all stands for the
            terms of each, since what cancels on the way is in none of them.
    """

    sides: Mapping[str, Callable[[], Answer]]
    yardsticks: Mapping[str, Callable[[], object]] = field(default_factory=dict)
    terms: Mapping[str, float] = field(default_factory=dict)
    shares_terms: bool = False


@dataclass(frozen=True, slots=True)
class Work:
    """What a job cannot do without.

    Args:
        operations: floating-point operations; a multiply-add is two.
        traffic: bytes of inputs read and of results and gradients written, each once.
    """

    operations: float
    traffic: float


@dataclass(frozen=True, slots=True)
class Aim:
    """What a case should show beside another side or yardstick.

    Args:
        rival: its name.
        speed: how many times faster than it, at least.
    """

    rival: str
    speed: float


@dataclass(frozen=True)
class Case:
    """A job, its sizes, and what it should show.

    Args:
        name: what the command line calls it.
        what: the job in words.
        make: from a type of number and the sizes to a `Contest`; the same numbers each time.
        sizes: by dimension letter or name.
        quick: sizes instead of these for a quick look.
        gate: sizes instead of these for the gate, where the plain way does not fit into memory.
        untimed: sides that do not fit into memory at these sizes.
        aims: at any number of threads.
        work: from the sizes; None where nobody counted.
        measures_memory: whether peaks are measured, too.
        share: the most of the plain way's extra memory that ours may need.
        megabytes: the most extra memory that ours may need.
    """

    name: str
    what: str
    make: Callable[..., Contest]
    sizes: Mapping[str, int]
    quick: Mapping[str, int]
    gate: Mapping[str, int] = field(default_factory=dict)
    untimed: tuple[str, ...] = ()
    aims: tuple[Aim, ...] = ()
    work: Callable[..., Work] | None = None
    measures_memory: bool = False
    share: float | None = None
    megabytes: float | None = None

    @property
    def has_no_room(self) -> bool:
        """Whether nothing is said about how much memory it may need."""
        return self.share is None and self.megabytes is None

    def sized(self, *, quick: bool) -> dict[str, int]:
        """The sizes of a full or of a quick measurement."""
        return {**self.sizes, **(self.quick if quick else {})}

    def contest(self, dtype: torch.dtype, sizes: Mapping[str, int]) -> Contest:
        """The case made ready."""
        torch.manual_seed(1)
        return self.make(dtype, **sizes)
