"""A case: one job, done in several ways with the same numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

Answer = Mapping[str, Tensor]
"""The results of a way of doing the job, by name: first the result, then gradients."""

OURS, PLAIN = "regard", "plain"


def draw(*shape: int, seed: int = 0) -> Tensor:
    """Normal numbers in float64, the same whichever device is torch's default."""
    generator = torch.Generator("cpu").manual_seed(seed)
    numbers = torch.randn(*shape, generator=generator, dtype=torch.float64, device="cpu")
    return numbers.to(torch.get_default_device())


def draw_integers(low: int, high: int, *shape: int) -> Tensor:
    """Integers from `low` to below `high`, the same whichever device is torch's default."""
    generator = torch.Generator("cpu").manual_seed(1)
    numbers = torch.randint(low, high, shape, generator=generator, device="cpu")
    return numbers.to(torch.get_default_device())


def with_gradients(name: str, result: Tensor, leaves: Mapping[str, Tensor], probe: Tensor | None = None) -> Answer:
    """A result by its name, and the gradients of its sum weighted by the probe, by the names of the leaves."""
    gradients = torch.autograd.grad(result, list(leaves.values()), probe)
    return {name: result.detach(), **dict(zip(leaves, gradients))}


@dataclass(frozen=True, slots=True)
class Contest:
    """A case, prepared for one dtype.

    Args:
        sides: functions that do the job once, by name; `OURS` first, `PLAIN` last, further ways between them.
        yardsticks: other jobs to compare the time with, by name.
        terms: the size of the terms of the sum that a result is, by the result's name; by default the largest number of
            the result.
        shares_terms: whether gradients depend on each other, as in a model: then the largest number of all gradients is
            the size of the terms of each, since terms that cancel on the way are in none of them.
    """

    sides: Mapping[str, Callable[[], Answer]]
    yardsticks: Mapping[str, Callable[[], object]] = field(default_factory=dict)
    terms: Mapping[str, float] = field(default_factory=dict)
    shares_terms: bool = False


@dataclass(frozen=True, slots=True)
class Work:
    """The least work of a job.

    Args:
        operations: floating-point operations; a multiply-add is two.
        traffic: bytes of inputs that are read and of results and gradients that are written, each once.
    """

    operations: float
    traffic: float


@dataclass(frozen=True, slots=True)
class Aim:
    """The least speed of a case relative to another side or yardstick.

    Args:
        rival: the name of that side or yardstick.
        speed: how many times faster ours should be, at least.
    """

    rival: str
    speed: float


@dataclass(frozen=True)
class Case:
    """A job, its sizes, and its aims.

    Args:
        name: its name on the command line.
        what: the job in words.
        make: from a dtype and the sizes to a `Contest`, with the same numbers each time.
        sizes: by dimension letter or name.
        quick: sizes that replace these in a quick run.
        gate: sizes that replace these in the gate, if the plain way does not fit into memory.
        untimed: sides that do not fit into memory at these sizes.
        aims: they hold for any number of threads.
        work: computes the work from the sizes; None if it was not counted.
        measures_memory: whether peak memory is measured, too.
        share: the largest extra memory of ours, as a share of the plain way's.
        megabytes: the largest extra memory of ours.
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

    def sized(self, *, quick: bool) -> dict[str, int]:
        """The sizes of a full or of a quick measurement."""
        return {**self.sizes, **(self.quick if quick else {})}

    def contest(self, dtype: torch.dtype, sizes: Mapping[str, int]) -> Contest:
        """The case, prepared for a dtype."""
        torch.manual_seed(1)
        return self.make(dtype, **sizes)
