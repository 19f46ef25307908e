"""Options that several verbs have."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from regard.tasks import TextToText

FEW = 2000
"""Source symbols times hypotheses that are decoded before compiled kernels would be loaded: a tenth, about, of the work
from which on loading them pays."""
# The limits of search options are those of the configuration (`DecodingConfig`), which `predict` checks.
Penalty = Literal["none", "average", "gnmt"]

Model = Annotated[
    str, typer.Option("--model", "-m", metavar="MODEL", help="A run folder, or a name from `regard list models`.")
]
Device = Annotated[str, typer.Option(metavar="DEVICE", help="auto, cpu, cuda or cuda:1.")]
Beam = Annotated[int | None, typer.Option(metavar="N", help="Hypotheses kept at each step; 1 is greedy.")]
LengthPenalty = Annotated[Penalty | None, typer.Option(help="What hypotheses are ranked by.")]
Alpha = Annotated[float | None, typer.Option(metavar="X", help="Strength of the gnmt penalty.")]
MaxLength = Annotated[int | None, typer.Option(metavar="N", help="Symbols of output at most.")]
NumBest = Annotated[int | None, typer.Option(metavar="N", help="Outputs of each input; as many TSV lines.")]
MinLength = Annotated[int | None, typer.Option(metavar="N", help="Symbols of output at least.")]
BatchTokens = Annotated[int | None, typer.Option(metavar="N", help="Source symbols times beam decoded at once.")]
MaxSourceLength = Annotated[
    int | None,
    typer.Option(metavar="N", help="Symbols of an input that is read; longer ones get a warning and no output."),
]
SourceField = Annotated[
    str | None,
    typer.Option(metavar="N,N", help="Columns (from 0) or JSONL fields of the input; as in training if not given."),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the output file.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="A file instead of stdout.")]


def only_given(**given: Any) -> dict[str, Any]:
    """The options that were given, by the names that `predict` and `evaluate` of a model know."""
    return {name: value for name, value in given.items() if value is not None}


def load(model: str, device: str) -> TextToText:
    """The model of a run folder or of a shipped name."""
    from regard import tasks
    from regard.training.allocator import keep_memory

    loaded = tasks.load(model, device=device)
    if loaded.device.type == "cpu":
        keep_memory()
    gc.freeze()  # or searches for garbage walk through all that torch has made: an eighth of a long prediction
    return loaded


@contextmanager
def kernels_for(model: TextToText, texts: Sequence[str], beam: int | None) -> Iterator[None]:
    """Within it, compiled kernels are loaded only where the texts are not few: loading takes most of a second.

    Args:
        texts: everything that this process will do.
        beam: hypotheses; the model's own number if None.
    """
    from regard.ops.eligibility import only_loaded_kernels

    work = sum(map(len, texts)) * (beam or model.config.decoding.beam)
    with only_loaded_kernels() if work <= FEW else nullcontext():
        yield


def described(name: str) -> str | None:
    """What a recipe, a part or a preset of this name is; None where a folder has the name, or nothing."""
    from regard import tasks

    return None if Path(name).exists() else tasks.describe(name)
