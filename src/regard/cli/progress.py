"""The progress of predictions, as a bar on a terminal or as lines."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, NoReturn

from regard.cli.standard import TERMINATED, Terminated, lines, say
from regard.errors import counted

BAR_AFTER, FIRST_LINE_AFTER, LINE_EVERY = 2.0, 15.0, 60.0
"""Seconds until a bar appears, until the first line without a terminal, and between lines."""


@contextmanager
def terminable() -> Iterator[None]:
    """Inside the block SIGTERM is an exception, so that unfinished files are removed."""

    def stop(*_: object) -> NoReturn:
        raise Terminated(TERMINATED)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class Meter:
    """The lines of a file, with the share of its bytes that have been read, if it is a plain file."""

    def __init__(self, path: Path) -> None:
        from regard.data import text_file

        is_plain = path.is_file() and path.suffix.lower() not in text_file.COMPRESSED_SUFFIXES
        self._lines, self._size, self._read = lines(path), path.stat().st_size if is_plain else None, 0

    def __iter__(self) -> Iterator[str]:
        for line in self._lines:
            self._read += len(line.encode("utf-8", "surrogatepass")) + 1
            yield line

    @property
    def share(self) -> float | None:
        """From 0 to 1; None for compressed files, pipes and stdin."""
        return min(1.0, self._read / self._size) if self._size else None


@dataclass
class ProgressLine:
    """Shows the number of completed inputs; a context manager.

    Args:
        share: the share of completed inputs, from 0 to 1, or None.
        visible: whether a bar may be shown: not if results go to the same terminal.
        done: the number of completed inputs, with those of an earlier command.
    """

    share: Callable[[], float | None]
    visible: bool = True
    done: int = 0
    _bar: Any = None
    _begin: float = field(default_factory=monotonic)

    def __post_init__(self) -> None:
        self._before, self._next_line = self.done, FIRST_LINE_AFTER

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, count: int) -> None:
        """Records that further inputs are complete."""
        self.done += count
        seconds = monotonic() - self._begin
        if not self.visible or sys.stderr is None:
            return
        if sys.stderr.isatty():
            if seconds >= BAR_AFTER:
                self._show(seconds)
        elif seconds >= self._next_line:
            self._next_line = seconds + LINE_EVERY
            say(self._text(seconds))

    def _text(self, seconds: float) -> str:
        rate = (self.done - self._before) / seconds
        parts = [f"{counted(self.done, 'input|inputs')}", f"{rate:,.0f} a second"]
        share = self.share()
        if share and rate:
            parts.insert(1, f"{share:.0%}")
            parts.append(f"{_duration(self.done * (1 - share) / share / rate)} left")
        return ", ".join(parts)

    def _show(self, seconds: float) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as Bar

        if self._bar is None:
            columns = [BarColumn(bar_width=20)] if self.share() is not None else []
            self._bar = Bar(*columns, TextColumn("{task.description}"), console=Console(stderr=True), transient=True)
            self._bar.start()
            self._bar.add_task("", total=1.0)
        self._bar.update(self._bar.task_ids[0], completed=self.share() or 0.0, description=self._text(seconds))


def _duration(seconds: float) -> str:
    return (
        f"{seconds:.0f} s"
        if seconds < 90
        else f"{seconds / 60:.0f} min"
        if seconds < 5400
        else f"{seconds / 3600:.1f} h"
    )
