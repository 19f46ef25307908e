"""The progress of a run: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from regard.training.tally import PER_SECOND

SHOWN_WAITING = 0.05
"""The share of time spent waiting for batches from which on it is shown."""


class Display:
    """Shows a run. On a terminal a bar shows what changes with every step; elsewhere lines of metrics are printed.

    Args:
        console: where to print; the standard error if None.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._bar: Progress | None = None
        if self._console.is_terminal:
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TaskProgressColumn(),
                TextColumn("{task.fields[figures]}"),
                TimeRemainingColumn(),
                console=self._console,
                transient=True,
            )
            self._task = self._bar.add_task("", total=1.0, figures="")

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def say(self, text: str) -> None:
        """Prints a line without markup."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def advance(self, fraction: float, heading: str, figures: Mapping[str, float], timing: Mapping[str, float]) -> None:
        """Moves the bar."""
        if self._bar is not None:
            text = _figures({name: figures[name] for name in ("loss", "learning_rate") if name in figures})
            text += _pace(timing)
            self._bar.update(self._task, completed=fraction, description=heading, figures=text)

    def remaining(self, seconds: float, *, at_most: bool) -> None:
        """Prints how long the rest will take, unless there is a bar, which shows it.

        Args:
            at_most: whether the training may stop early.
        """
        if self._bar is None:
            minutes = max(round(seconds / 60), 1)
            self.say(
                f"About {minutes:,} minute{'' if minutes == 1 else 's'} to go{', unless it stops early' * at_most}."
            )

    def metrics(
        self, kind: str, step: int, epoch: int, figures: Mapping[str, float], timing: Mapping[str, float]
    ) -> None:
        """Prints a line of metrics, except those of training if there is a bar, which shows them."""
        if kind == "train" and self._bar is not None:
            return
        self.say(f"{kind:<10}  step {step}  epoch {epoch}  {_figures(figures)}{_pace(timing)}")


def _figures(figures: Mapping[str, float]) -> str:
    return "  ".join(f"{name} {value:.4g}" for name, value in figures.items())


def _pace(timing: Mapping[str, float]) -> str:
    """Symbols, or what else a trainee counts, per second; empty for a validation, which has no such figure."""
    rates = [f"{rate:,.0f} {name.removesuffix(PER_SECOND)}/s" for name, rate in timing.items() if PER_SECOND in name]
    if not rates:
        return ""
    waiting = f", {timing['waiting']:.0%} of the time waiting for data" if timing["waiting"] >= SHOWN_WAITING else ""
    return f"  {rates[0]}{waiting}"
