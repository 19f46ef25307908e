"""Options that several verbs share."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from regard.tasks import TextToText

SMALL_WORK = 2000
"""The most source symbols times hypotheses that are decoded without loading compiled kernels, about a tenth of the work
from which on loading them saves time."""
# The limits of search options are those of the configuration (`DecodingConfig`); `predict` checks them.
Penalty = Literal["none", "average", "gnmt"]

Model = Annotated[
    str, typer.Option("--model", "-m", metavar="MODEL", help="A run folder, or a name from `regard list models`.")
]
Device = Annotated[str, typer.Option(metavar="DEVICE", help="auto, cpu, cuda or cuda:1.")]
Beam = Annotated[int | None, typer.Option(metavar="N", help="Hypotheses kept at each step; 1: greedy search.")]
LengthPenalty = Annotated[Penalty | None, typer.Option(help="The score that ranks hypotheses.")]
Alpha = Annotated[float | None, typer.Option(metavar="X", help="Strength of the gnmt penalty.")]
MaxLength = Annotated[int | None, typer.Option(metavar="N", help="Most symbols of an output.")]
NumBest = Annotated[int | None, typer.Option(metavar="N", help="Outputs per input, one TSV line each.")]
MinLength = Annotated[int | None, typer.Option(metavar="N", help="Fewest symbols of an output.")]
BatchTokens = Annotated[int | None, typer.Option(metavar="N", help="Most source symbols times beam decoded at once.")]
MaxSourceLength = Annotated[
    int | None,
    typer.Option(metavar="N", help="Most symbols of an input; longer ones get a warning and no output."),
]
SourceField = Annotated[
    str | None,
    typer.Option(metavar="N,N", help="Columns (from 0) or JSONL fields of the input; default: as in training."),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the output file.")]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="The output file; default: stdout.")
]


def only_given(**options: Any) -> dict[str, Any]:
    """The options that are not None, by the names of arguments of `predict` and `evaluate`."""
    return {name: value for name, value in options.items() if value is not None}


def load(model: str, device: str) -> TextToText:
    """The model of a run folder, or the shipped model of a name."""
    from regard import tasks
    from regard.training.allocator import keep_memory

    loaded = tasks.load(model, device=device)
    if loaded.device.type == "cpu":
        keep_memory()
    gc.freeze()  # else garbage collection visits all objects of torch, an eighth of the time of a long prediction
    return loaded


@contextmanager
def kernels_for(model: TextToText, texts: Sequence[str], beam: int | None) -> Iterator[None]:
    """Inside the block, compiled kernels are not loaded for a few texts only, as loading takes most of a second.

    Args:
        texts: all texts that this process decodes.
        beam: hypotheses; the model's number if None.
    """
    from regard.ops.eligibility import only_loaded_kernels

    work = sum(map(len, texts)) * (beam or model.config.decoding.beam)
    with only_loaded_kernels() if work <= SMALL_WORK else nullcontext():
        yield


def described(name: str) -> str | None:
    """A description of the recipe, part or preset of this name; None if there is none, or if it is a folder."""
    from regard import tasks

    return None if Path(name).exists() else tasks.describe(name)
