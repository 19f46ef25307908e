"""Options that several verbs have."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from regard.tasks import TextToText

Penalty = Literal["none", "average", "gnmt"]

Model = Annotated[
    str, typer.Option("--model", "-m", metavar="MODEL", help="A run folder, or a name from `regard list models`.")
]
Device = Annotated[str, typer.Option(metavar="DEVICE", help="auto, cpu, cuda or cuda:1.")]
Beam = Annotated[int | None, typer.Option(min=1, metavar="N", help="Hypotheses kept at each step; 1 is greedy.")]
LengthPenalty = Annotated[Penalty | None, typer.Option(help="What hypotheses are ranked by.")]
Alpha = Annotated[float | None, typer.Option(min=0.0, metavar="X", help="Strength of the gnmt penalty.")]
MaxLength = Annotated[int | None, typer.Option(min=1, metavar="N", help="Symbols of output at most.")]
BatchTokens = Annotated[int | None, typer.Option(min=1, metavar="N", help="Source symbols times beam decoded at once.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="A file instead of stdout.")]


def search(**given: Any) -> dict[str, Any]:
    """The search options that were given, by the names that `predict` and `evaluate` of a model know."""
    return {name: value for name, value in given.items() if value is not None}


def load(model: str, device: str) -> TextToText:
    """The model of a run folder or of a shipped name."""
    from regard import tasks
    from regard.training.allocator import keep_memory

    loaded = tasks.load(model, device=device)
    if loaded.device.type == "cpu":
        keep_memory()
    return loaded
