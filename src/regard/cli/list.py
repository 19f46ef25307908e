"""`regard list`"""

from __future__ import annotations

from typing import Annotated

import typer

from regard.errors import RegardError


def list_(
    kind: Annotated[
        str | None, typer.Argument(help="recipes, presets, models, tasks, …; everything without it.")
    ] = None,
) -> None:
    """List recipes, presets, models and tasks."""
    from regard import tasks

    entries = [(f"{found}s", name, meaning) for found, name, meaning in tasks.catalogue()]
    kinds = list(dict.fromkeys(found for found, _, _ in entries))
    wanted = f"{kind}s" if f"{kind}s" in kinds else kind
    if wanted is not None and wanted not in kinds:
        from regard.config.spelling import did_you_mean, nearest

        near = nearest(wanted, kinds)
        hint = did_you_mean(near) if near else f"there are {', '.join(kinds)}"
        raise RegardError(f"Nothing is called {kind!r}; {hint}")
    width = max((len(name) for _, name, _ in entries), default=0)
    for found in kinds if wanted is None else [wanted]:
        indent = "" if wanted else "  "
        if wanted is None:
            print(found)
        for _, name, meaning in (entry for entry in entries if entry[0] == found):
            print(f"{indent}{name:{width}}  {meaning}".rstrip())


def register(application: typer.Typer) -> None:
    """Adds the verb to the command line."""
    application.command("list", epilog="Example: regard list recipes")(list_)
