"""The display of a run: a progress bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Column

from regard.errors import counted, printable
from regard.training.tally import PER_SECOND

SHOWN_WAITING = 0.05
"""The share of time spent waiting for batches from which it is shown."""
SHORTEST_BAR = 11
"""The least number of columns of the bar and the blanks around it; below it, figures are left out."""


_IS_QUIET: ContextVar[bool] = ContextVar("is_quiet", default=False)


@contextmanager
def quiet(is_quiet: bool = True) -> Iterator[None]:
    """Inside the block trainings print nothing."""
    token = _IS_QUIET.set(is_quiet)
    try:
        yield
    finally:
        _IS_QUIET.reset(token)


def say(text: object) -> None:
    """Prints a message about a training to the standard error, with control characters escaped."""
    if _IS_QUIET.get():
        return
    print(printable(str(text)), file=sys.stderr)


class Display:
    """The display of a run: a bar that changes with every step on a terminal, lines of metrics elsewhere.

    Args:
        console: where to print; the standard error if None.
    """

    def __init__(self, console: Console | None = None) -> None:
        # in notebooks lines of text, as the other messages
        self._console = console or Console(stderr=True, force_jupyter=False, quiet=_IS_QUIET.get())
        self._bar: Progress | None = None
        if self._console.is_terminal and not self._console.quiet:
            self._bar = Progress(
                _text("{task.description}"),
                BarColumn(bar_width=None, table_column=Column(ratio=1)),
                _text("{task.fields[figures]}"),
                _text("{task.fields[remaining]}"),
                console=self._console,
                transient=True,
                expand=True,
            )
            self._task = self._bar.add_task("", total=1.0, figures="", remaining="")

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def say(self, text: str) -> None:
        """Prints a line without markup, with control characters escaped."""
        self._console.print(printable(text), markup=False, highlight=False, soft_wrap=True)

    def advance(
        self,
        step: int,
        total: int,
        figures: Mapping[str, float],
        timing: Mapping[str, float],
        *,
        remaining: float | None = None,
    ) -> None:
        """Moves the bar, with step, loss, pace and remaining time in 80 columns.

        Args:
            remaining: seconds; None if it is too early for an estimate.
        """
        if self._bar is not None:
            left = "-:--:--" if remaining is None else _clock(remaining)
            heading = f"step {step:,}/{total:,}"
            loss = _figures({name: figures[name] for name in ("loss",) if name in figures})
            room = self._console.width - len(heading) - len(left) - SHORTEST_BAR
            fitting = [text for text in (loss + _pace(timing), loss, "") if len(text) <= room]
            self._bar.update(
                self._task,
                completed=step / max(total, step, 1),
                description=heading,
                figures=fitting[0] if fitting else "",
                remaining=left,
            )

    def remaining(self, seconds: float, *, at_most: bool) -> None:
        """Prints the remaining time, unless a bar shows it."""
        if self._bar is None:
            minutes = round(seconds / 60)
            amount = "Less than a minute" if minutes < 1 else f"About {counted(minutes, 'minute|minutes')}"
            self.say(f"{amount} to go{', unless it stops early' * at_most}.")

    def metrics(
        self, kind: str, step: int, epoch: int, figures: Mapping[str, float], timing: Mapping[str, float]
    ) -> None:
        """Prints a line of metrics, except those of training if a bar shows them."""
        if kind == "train" and self._bar is not None:
            return
        self.say(f"{kind:<10}  step {step}  epoch {epoch}  {_figures(figures)}{_pace(timing)}")


def _text(template: str) -> TextColumn:
    return TextColumn(template, markup=False, table_column=Column(no_wrap=True))


def _clock(seconds: float) -> str:
    """Hours, minutes and seconds.

    >>> _clock(3725.4)
    '1:02:05'
    """
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def _figures(figures: Mapping[str, float]) -> str:
    return "  ".join(f"{name} {value:.4g}" for name, value in figures.items())


def _pace(timing: Mapping[str, float]) -> str:
    """Symbols, or other units of a trainee, per second; empty for a validation."""
    rates = [f"{rate:,.0f} {name.removesuffix(PER_SECOND)}/s" for name, rate in timing.items() if PER_SECOND in name]
    if not rates:
        return ""
    waiting = f", {timing['waiting']:.0%} of the time waiting for data" if timing["waiting"] >= SHOWN_WAITING else ""
    return f"  {rates[0]}{waiting}"
