"""`regard predict --profile`: the time of each stage of a command, and the implementations of its operations.

While the command runs, the functions of `STAGES` are replaced by timed ones; without the flag nothing changes.
"""

from __future__ import annotations

import os
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial, wraps
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any

from regard.cli.standard import say

START, IMPORTS, WRITING = "start of Python", "imports", "other, as writing results"
STAGES = {
    "loading the model": ("tasks", "regard.cli.options:load"),
    "reading inputs": ("cli", "regard.cli.inputs:chunks"),
    "loading kernels": ("ops", "regard.ops.eligibility:unavailable"),
    "encoder": (
        "models",
        "regard.models.encoder_decoder:EncoderDecoder.prepare",
        "regard.models.vision.encoder:ImageEncoder.encode",
    ),
    "steps: recurrent cells": ("layers", "regard.layers.recurrent:RecurrentStack.step"),
    "steps: attention": ("attention", "regard.attention.mechanism:Mechanism.step"),
    "steps: output layer": ("layers", "regard.layers.tokens:TokenHead.forward"),
    "steps: all else": (
        "models",
        "regard.models.recurrent_decoder:RecurrentDecoder.step",
        "regard.models.transformer:TransformerDecoder.step",
        "regard.models.pointer:PointerDecoder.step",
    ),
    "search": ("decoding", "regard.decoding.search:exhausted"),
}
"""By stage: the room, a folder of regard, and the functions that it times, without the stages inside."""
SYMBOLS = "inputs to symbols and back"
"""The stage of `predict` of a task's models, without the stages inside."""
ROOMS = {START: "", IMPORTS: "", WRITING: "cli", SYMBOLS: "data"} | {
    stage: room for stage, (room, *_) in STAGES.items()
}
NEEDED = ("regard.tasks", "regard.runs.contract", "regard.training.allocator", "regard.training.processes")
"""Modules that every command imports."""


class Stopwatch:
    """The seconds of nested stages, each without those inside."""

    def __init__(self, stage: str, begun: float, clock: Callable[[], float] = perf_counter) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._clock, self._since, self._stages = clock, begun, [stage]

    def _turn(self) -> None:
        now = self._clock()
        self.seconds[self._stages[-1]] += now - self._since
        self._since = now

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Within it, time belongs to this stage."""
        self._turn()
        self._stages.append(name)
        try:
            yield
        finally:
            self._turn()
            self._stages.pop()

    def around(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, or the iterator that it returns, timed as this stage."""

        @wraps(function)
        def timed(*arguments: Any, **options: Any) -> Any:
            with self.stage(name):
                result = function(*arguments, **options)
            return self._each(name, result) if isinstance(result, Iterator) else result

        return timed

    def _each(self, name: str, items: Iterator[Any]) -> Iterator[Any]:
        while True:
            with self.stage(name):
                item = next(items, self)
            if item is self:
                return
            yield item


@contextmanager
def profiled() -> Iterator[None]:
    """Prints the profile of the block on stderr."""
    watch, paths = Stopwatch(START, perf_counter() - process_age()), Paths()
    with ExitStack() as patches:
        try:
            with watch.stage(IMPORTS):
                for module in NEEDED:
                    import_module(module)
            stages = {SYMBOLS: _predictions(), **{stage: targets for stage, (_, *targets) in STAGES.items()}}
            for stage, targets in stages.items():
                for target in targets:
                    patches.enter_context(_replaced(target, partial(watch.around, stage)))
            patches.enter_context(paths.watched())
            with watch.stage(WRITING):
                yield
        finally:
            watch._turn()
            say(report(watch.seconds, paths))


def _predictions() -> list[str]:
    """The method `predict` of the models of every task."""
    from regard.runs.contract import AbstractModel

    return [f"{kind.__module__}:{kind.__qualname__}.predict" for kind in AbstractModel.__subclasses__()]


def report(seconds: dict[str, float], paths: Iterable[str]) -> str:
    """The table and the paths."""
    total = sum(seconds.values())
    rows = [(stage, seconds[stage], room) for stage, room in ROOMS.items() if seconds.get(stage, 0) > 0]
    rows.sort(key=lambda row: -row[1])
    width = max(map(len, ROOMS))
    lines = [f"{'where the time went':{width}}  seconds  share  room"]
    lines += [f"{stage:{width}}  {spent:7.3f}  {spent / total:5.0%}  {room}".rstrip() for stage, spent, room in rows]
    lines.append(f"{'total':{width}}  {total:7.3f}")
    return "\n".join([*lines, "paths taken", *(f"  {path}" for path in paths)])


class Paths:
    """The implementations of operations that were taken, with the reasons against the others."""

    def __init__(self) -> None:
        self.operations: Counter[tuple[str, str]] = Counter()
        self.reasons: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Inside the block, choices of implementations are recorded."""
        from regard import ops
        from regard.ops import choose as table

        names = {id(implementations): name for name, implementations in (ops.IMPLEMENTATIONS | ops.STEPS).items()}
        original = table.choose

        def choose(implementations: Any, *inputs: Any, **options: Any) -> Any:
            taken = original(implementations, *inputs, **options)
            key = names.get(id(implementations), ""), taken.name
            self.operations[key] += 1
            if key not in self.reasons:
                for other in implementations[: implementations.index(taken)]:
                    self.reasons[key][other.name] = other.unsupported_reason(*inputs, **options)
            return taken

        with ExitStack() as patches:
            for name, module in list(sys.modules.items()):
                if name.startswith("regard.ops.") and getattr(module, "choose", None) is original:
                    patches.enter_context(_replaced(f"{name}:choose", lambda _: choose))
            yield

    def __iter__(self) -> Iterator[str]:
        for (operation, name), count in sorted(self.operations.items()):
            if operation:
                reasons = "; ".join(f"not {other}: {reason}" for other, reason in self.reasons[operation, name].items())
                yield f"{operation}, {count:,} ×: {name}{f' ({reasons})' if reasons else ''}"


@contextmanager
def _replaced(target: str, make: Callable[[Any], Any]) -> Iterator[None]:
    """Inside the block, a function or method is replaced by `make` of it."""
    module, _, path = target.partition(":")
    owner: Any = import_module(module)
    *owners, name = path.split(".")
    for each in owners:
        owner = getattr(owner, each)
    original = vars(owner)[name]
    setattr(owner, name, make(original))
    try:
        yield
    finally:
        setattr(owner, name, original)


def process_age() -> float:
    """The seconds since the start of this process; 0 where the system does not report them."""
    try:
        fields = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        up = float(Path("/proc/uptime").read_text(encoding="utf-8").split()[0])
        return max(0.0, up - int(fields[19]) / os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError, IndexError):
        return 0.0
