"""Processes that are forked from one that has imported torch already, with what they print."""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from regard import cli

IS_LINUX = sys.platform.startswith("linux")  # other systems have libraries that do not bear forks, or no forks
CONTEXT: Any = multiprocessing.get_context("forkserver" if IS_LINUX else "spawn")
if IS_LINUX:
    CONTEXT.set_forkserver_preload(["torch._dynamo", "torch.distributed.fsdp", "regard.runs.contract"])


class Ended(NamedTuple):
    """The exit status of a process, negative for a signal, and what it printed."""

    status: int
    out: str
    err: str


@dataclass(frozen=True)
class Started:
    """A process that calls a function of a module."""

    process: Any
    out: Path
    err: Path

    @classmethod
    def of(cls, function: Callable[..., object], *arguments: Any, folder: Path, **variables: str) -> Started:
        """Starts it.

        Args:
            folder: where a folder is made for what it prints.
            variables: of its environment.
        """
        own = Path(tempfile.mkdtemp(prefix="printed-", dir=folder))
        files = own / "out", own / "err"
        process = CONTEXT.Process(target=_call, args=(function, arguments, variables, files))
        process.start()
        return cls(process, *files)

    def is_running(self) -> bool:
        """Whether it has not ended."""
        return bool(self.process.is_alive())

    def send(self, number: int) -> None:
        """Sends a signal."""
        os.kill(self.process.pid, number)

    def end(self, timeout: float = 300) -> Ended:
        """Waits for its end; kills it after so many seconds."""
        self.process.join(timeout)
        self.process.kill()
        self.process.join()
        return Ended(self.process.exitcode, self.out.read_text("utf-8"), self.err.read_text("utf-8"))


def run_command(folder: Path, arguments: Sequence[str]) -> None:
    """The command line in a folder."""
    os.chdir(folder)
    sys.argv = ["regard", *arguments]
    cli.main()


def _call(
    function: Callable[..., object], arguments: tuple[Any, ...], variables: dict[str, str], files: tuple[Path, Path]
) -> None:
    os.environ.update(variables)
    for stream, path in zip((sys.stdout, sys.stderr), files, strict=True):
        with path.open("w") as file:
            os.dup2(file.fileno(), stream.fileno())
    function(*arguments)
