"""Where the measurements are made: a GPU; or, to try these scripts without one, the CPU with small sizes."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from speed import Case, Contest, machine
from speed.clock import Quartiles

HALVES = (torch.bfloat16, torch.float16)
FORMATS = (torch.float32, *HALVES)
LAUNCHES = ("cudaLaunch", "cuLaunch", "cudaGraphLaunch", "cudaMemcpy", "cudaMemset")
"""How the names begin of the calls by which the host gives work to a GPU."""


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


@dataclass(slots=True)
class Result:
    """The result of a section, which is written after every row.

    Args:
        parts: its Markdown: texts, and tables as objects with `head` and `rows`.
        failures: what did not hold, a line each.
        figures: what was measured for the targets, by their names.
        summary: the most telling numbers, for the first table.
        place: the machine.
        output: the JSON file.
    """

    parts: list[str | dict[str, Any]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    figures: dict[str, float] = field(default_factory=dict)
    summary: str = ""
    place: str = ""
    output: Path | None = None

    def table(self, *head: str) -> Callable[..., None]:
        """Begins a table; what it returns adds a row."""
        rows: list[list[str]] = []
        self.parts.append({"head": head, "rows": rows})

        def add(*cells: object) -> None:
            rows.append([str(cell) for cell in cells])
            self.save()

        return add

    def least(self, name: str, figure: float) -> None:
        """Notes a figure of a target; the smallest one counts."""
        self.figures[name] = min(figure, self.figures.get(name, figure))

    def save(self) -> None:
        """Writes what there is so far, whole or not at all."""
        if self.output is not None:
            fields = {name: value for name, value in asdict(self).items() if name != "output"}
            new = self.output.with_suffix(".new")
            new.write_text(json.dumps(fields), encoding="utf-8")
            new.replace(self.output)


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
    """Chip and versions, in a line, which is the same for all sections."""
    host = re.sub(", load [^;]+|; float32", "", machine.describe())
    if place.device.type != "cuda":
        return f"{host}; a rehearsal on the CPU: nothing here says how fast a GPU is"
    chip = torch.cuda.get_device_properties(place.device)
    return (
        f"{chip.name}, capability {chip.major}.{chip.minor}, {chip.multi_processor_count} multiprocessors, "
        f"{chip.total_memory / 2**30:.0f} GiB, CUDA {torch.version.cuda}, triton {_version('triton')}; {host}"
    )


def rates(place: Place, dtype: torch.dtype) -> machine.Rates:
    """Operations and bytes a second, of a large product and a large copy."""
    with place.building():
        return machine.measure_rates(
            rounds=place.rounds, width=place.width, megabytes=place.megabytes, dtype=dtype, clock=place.clock
        )


@dataclass(frozen=True, slots=True)
class Activity:
    """What a call gives the GPU to do.

    Args:
        seconds: in which its kernels and copies run.
        kernels: how many of them run.
        launches: how many calls of the driver start them; a recording is one.
    """

    seconds: float
    kernels: int
    launches: int

    def share(self, seconds: float) -> str:
        """The share of these seconds in which the GPU is busy."""
        return f"{self.seconds / seconds:.0%}"


def activity(place: Place, call: Callable[[], object]) -> Activity:
    """The activity in a call, by torch's profiler; none in a rehearsal."""
    kinds = torch.profiler.ProfilerActivity
    with torch.profiler.profile(activities=[kinds.CUDA if place.device.type == "cuda" else kinds.CPU]) as profile:
        call()
        place.clock()
    events = profile.events()
    ran = [
        event
        for event in events
        if event.device_type.name == "CUDA" and not getattr(event, "is_user_annotation", False)
    ]
    launches = sum(event.name.startswith(LAUNCHES) for event in events)
    return Activity(sum(event.time_range.elapsed_us() for event in ran) / 1e6, len(ran), launches)


def peak(place: Place, call: Callable[[], object]) -> str:
    """MB of the GPU that a call uses beyond what was in use; nothing in a rehearsal."""
    if place.device.type != "cuda":
        return ""
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    call()
    torch.cuda.synchronize()
    return f"{(torch.cuda.max_memory_allocated() - before) / 2**20:,.0f}"


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
