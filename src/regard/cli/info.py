"""`regard info`"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli import options
from regard.cli.standard import show
from regard.errors import RegardError


def info(
    model: Annotated[str, typer.Argument(help="A run folder, or a name from `regard list`.")],
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Describe a model, a recipe, a part or a preset.

    For a model: sizes, vocabularies, metrics, card.
    """
    if not json_ and (text := options.described(model)) is not None:
        show(text)
        return
    try:
        loaded = options.load(model, "cpu")
    except RegardError as error:
        if Path(model).exists():
            raise
        raise RegardError(f"{error} {options.hint_of(model)}") from None
    information = {**loaded.information(), **_training(model)}
    if json_:
        show(json.dumps({**information, "card": loaded.card}, ensure_ascii=False, default=str))
        return
    show("\n".join(_table(information)))
    if loaded.card:
        show(f"\n{loaded.card.rstrip()}")


def _training(model: str) -> dict[str, Any]:
    """The outcome of a finished run, with the metrics of its saved model on the held-out data."""
    from regard.training import Outcome

    outcome = Outcome.read(Path(model))
    if outcome is None:
        return {}
    return {
        "training": {
            "steps": outcome.steps,
            "epochs": outcome.epochs,
            "minutes": round(outcome.seconds / 60, 1),
            "saved_steps": outcome.weights,
            "held_out": {name: float(f"{value:.4g}") for name, value in outcome.metrics.items()},
        }
    }


def _table(values: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    width = max(map(len, values), default=0)
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield f"{indent}{name}"
            yield from _table(value, indent + "  ")
        else:
            yield f"{indent}{name:{width}}  {_shown(value)}"


def _shown(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    return f"{value:,}" if isinstance(value, int) else str(value)
