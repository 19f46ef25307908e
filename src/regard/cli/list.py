"""`regard list`"""

from __future__ import annotations

from typing import Annotated

import typer

from regard.cli.standard import show
from regard.errors import RegardError


def list_(
    kind: Annotated[
        str | None, typer.Argument(help="recipes, presets, models, tasks, keys, … or a name; everything without it.")
    ] = None,
    section: Annotated[str | None, typer.Argument(help="With keys: a section of the configuration, or a key.")] = None,
) -> None:
    """List recipes, presets, models, tasks and keys, or describe one."""
    if section is not None and kind != "keys":
        raise RegardError("A section goes with keys only, as in `regard list keys training`.")
    if kind == "keys":
        from regard.config.description import key_list

        show(key_list(section))
        return
    from regard import tasks

    entries = [(f"{found}s", name, meaning) for found, name, meaning in tasks.catalogue()]
    kinds = list(dict.fromkeys(found for found, _, _ in entries))
    wanted = f"{kind}s" if f"{kind}s" in kinds else kind
    if wanted is not None and wanted not in kinds:
        if (text := tasks.describe(wanted)) is not None:
            show(text)
            return
        from regard.config.spelling import did_you_mean, nearest

        near = nearest(wanted, [*kinds, "keys", *(name for _, name, _ in entries)])
        hint = did_you_mean(near) if near else f"there are {', '.join(kinds)}, keys"
        raise RegardError(f"Nothing is called {kind!r}; {hint}")
    width = max((len(name) for _, name, _ in entries), default=0)
    lines = []
    for found in kinds if wanted is None else [wanted]:
        indent = "" if wanted else "  "
        lines += [] if wanted else [found]
        lines += [f"{indent}{name:{width}}  {meaning}".rstrip() for of, name, meaning in entries if of == found]
    show("\n".join(lines))


def register(application: typer.Typer) -> None:
    """Adds the verb to the command line."""
    application.command("list", epilog="Example: regard list recipes")(list_)
