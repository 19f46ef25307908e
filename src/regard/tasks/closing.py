"""The last lines of a training: which model is saved, its metrics, and the commands that use it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path

from regard.training import Outcome

MAX_SHOWN = 40
"""The most characters of an input that is shown in a command."""


def closing(outcome: Outcome, folder: Path, *, select: str, inputs: Iterable[str] = ()) -> str:
    """The lines after a training.

    Args:
        select: the metric that chose the best model; it is shown first.
        inputs: held-out inputs, one of which is shown in a command.
    """
    if not outcome.weights:
        return f"{folder}: there is no model yet; the first validation saves one."
    steps = outcome.weights
    saved = f"the model of step {steps[0]:,}"
    if len(steps) > 1:
        saved = f"the mean of {len(steps)} models, of steps {steps[0]:,} to {steps[-1]:,},"
    names = sorted(outcome.metrics, key=lambda name: name != select)
    figures = ", ".join(f"{name} {outcome.metrics[name]:.4g}" for name in names)
    model = shlex.quote(str(folder))
    return (
        f"{folder}: {saved} is saved. On the held-out data: {figures}.\n"
        f"  regard predict --model {model} {_argument(inputs)}\n"
        f"  regard evaluate --model {model} FILE"
    )


def _argument(inputs: Iterable[str]) -> str:
    """A short input as a shell reads it, if possible one that needs no quotes; else a file."""
    short = [text for text in inputs if 0 < len(text) <= MAX_SHOWN and text.isprintable() and text[0] != "-"]
    quoted = [shlex.quote(text) for text in short]
    plain = [argument for text, argument in zip(short, quoted) if text == argument]
    return [*plain, *quoted, "--input FILE"][0]
