"""What a training says last: which model is saved, what it reaches, and how to use it."""

from __future__ import annotations

import shlex
from pathlib import Path

from regard.training import Outcome

LONGEST = 40
"""Characters of an input that is shown in a command."""


def closing(outcome: Outcome, folder: Path, *, select: str, example: str = "") -> str:
    """The lines after a training.

    Args:
        outcome: of the run.
        folder: the run folder.
        select: the metric that named the best model; it is shown first.
        example: an input for the command that is shown.
    """
    if not outcome.weights:
        return f"{folder}: no model yet; the first validation saves one."
    steps = outcome.weights
    which = f"the model of step {steps[0]:,}"
    if len(steps) > 1:
        which = f"the mean of {len(steps)} models, of steps {steps[0]:,} to {steps[-1]:,},"
    names = sorted(outcome.metrics, key=lambda name: name != select)
    figures = ", ".join(f"{name} {outcome.metrics[name]:.4g}" for name in names)
    model = shlex.quote(str(folder))
    shown = example.isprintable() and 0 < len(example) <= LONGEST and not example.startswith("-")
    inputs = shlex.quote(example) if shown else "--input FILE"
    return (
        f"{folder}: {which} is saved. On the held-out data: {figures}.\n"
        f"  regard predict --model {model} {inputs}\n"
        f"  regard evaluate --model {model} FILE"
    )
