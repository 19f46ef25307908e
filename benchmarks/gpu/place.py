"""Where the measurements are made: a GPU; or, to try these scripts without one, the CPU with small sizes."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from speed import Case, Contest, machine
from speed.clock import Quartiles

HALVES = (torch.bfloat16, torch.float16)
FORMATS = (torch.float32, *HALVES)


@dataclass(frozen=True, slots=True)
class Place:
    """A device and how much is done on it.

    Args:
        device: cuda, or cpu for a rehearsal.
        clock: seconds, after the device has finished its work.
        rounds: turns of each side.
        turn: the least seconds of a turn.
        is_full: whether sizes are those of a measurement.
    """

    device: torch.device
    clock: Callable[[], float]
    rounds: int
    turn: float
    is_full: bool

    @property
    def width(self) -> int:
        """The width of matrices whose product shows what a device can compute."""
        return 8192 if self.is_full else 64

    @property
    def megabytes(self) -> int:
        """The size of a copy that shows what a device can move."""
        return 2048 if self.is_full else 1

    def building(self) -> AbstractContextManager[Any]:
        """Within it, tensors and modules are made on the device."""
        return torch.device(self.device)

    def case(self, case: Case, **sizes: int) -> Case:
        """A case whose numbers and modules are on the device, with these sizes in a measurement."""

        def make(dtype: torch.dtype, **drawn: int) -> Contest:
            with self.building():
                return case.make(dtype, **drawn)

        return replace(case, make=make, sizes={**case.sizes, **sizes})

    def sizes(self, case: Case) -> dict[str, int]:
        """The sizes of a case here."""
        return case.sized(quick=not self.is_full)


@dataclass(slots=True)
class Result:
    """The result of a section.

    Args:
        parts: its Markdown.
        failures: what did not hold, a line each.
        figures: the most telling numbers, for the first table.
    """

    parts: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    figures: str = ""


def gpu() -> Place:
    """The first GPU of torch."""

    def clock() -> float:
        torch.cuda.synchronize()
        return time.perf_counter()

    return Place(torch.device("cuda"), clock, rounds=9, turn=0.05, is_full=True)


def rehearsal() -> Place:
    """The CPU, with small sizes and few rounds."""
    return Place(torch.device("cpu"), time.perf_counter, rounds=2, turn=0.001, is_full=False)


def describe(place: Place) -> str:
    """Chip and versions, in a line."""
    if place.device.type != "cuda":
        return f"{machine.describe()}; a rehearsal on the CPU: nothing here says how fast a GPU is"
    chip = torch.cuda.get_device_properties(place.device)
    return (
        f"{chip.name}, capability {chip.major}.{chip.minor}, {chip.multi_processor_count} multiprocessors, "
        f"{chip.total_memory / 2**30:.0f} GiB, CUDA {torch.version.cuda}, triton {_version('triton')}; "
        f"Python {platform.python_version()}, {machine.describe()}"
    )


def rates(place: Place, dtype: torch.dtype) -> machine.Rates:
    """Operations and bytes a second, of a large product and a large copy."""
    with place.building():
        return machine.measure_rates(
            rounds=place.rounds, width=place.width, megabytes=place.megabytes, dtype=dtype, clock=place.clock
        )


def milliseconds(seconds: list[float]) -> str:
    """The median in milliseconds, with three digits."""
    return f"{1000 * Quartiles.of(seconds).median:.3g}"


def short(dtype: torch.dtype) -> str:
    """A format's name."""
    return str(dtype).removeprefix("torch.")


def _version(package: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
