"""`regard explain`"""

from __future__ import annotations

from typing import Annotated

import typer

from regard.cli import options
from regard.cli.standard import show
from regard.errors import RegardError


def explain(
    context: typer.Context,
    model: Annotated[
        str | None, typer.Argument(help="A run folder or a name from `regard list models`; all operations without it.")
    ] = None,
    device: options.Device = "auto",
) -> None:
    """Say how a model takes its steps, and what computes.

    Of a model: whether training takes the steps of a sequence all at once or one by one, whether a search with a
    Transformer takes its layers in one operation, whether a GPU would replay recorded steps, and which implementations
    take large inputs on the CPU and on a GPU. Without one: which implementation of each operation is taken here, and
    why.
    """
    from regard import tasks

    if model is not None and (text := options.described(model)) is not None:
        show(text)
        return
    settings = options.settings(context)
    if model is None and settings:
        raise RegardError("Settings of decoding are those of a model; name one.")
    show(tasks.explain(None if model is None else options.load(model, device, settings)))
