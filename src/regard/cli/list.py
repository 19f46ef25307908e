"""`regard list`"""

from __future__ import annotations

from typing import Annotated

import typer

from regard.cli.standard import show
from regard.errors import RegardError


def list_(
    kind: Annotated[
        str | None, typer.Argument(help="recipes, presets, models, tasks, keys, … or a name; default: everything.")
    ] = None,
    section: Annotated[str | None, typer.Argument(help="With keys: a section of the configuration or a key.")] = None,
    task: Annotated[str | None, typer.Option("--task", metavar="NAME", help="With keys: those of one task.")] = None,
    all_: Annotated[bool, typer.Option("--all", help="With keys: those of converted models, too.")] = False,
) -> None:
    """List recipes, presets, models, tasks and keys, or describe one."""
    if task is not None and kind != "keys":
        raise RegardError("Only keys belong to a task, for example `regard list keys --task documents`.")
    if section is not None and kind != "keys":
        raise RegardError("Only keys can be followed by a section, for example `regard list keys training`.")
    if kind == "keys":
        from regard.config.description import key_list

        show(key_list(section, task=task, converted=all_))
        return
    from regard import tasks

    entries = [(f"{entry}s", name, meaning) for entry, name, meaning in tasks.catalogue()]
    kinds = list(dict.fromkeys(plural for plural, _, _ in entries))
    selected = f"{kind}s" if f"{kind}s" in kinds else kind
    if selected is not None and selected not in kinds:
        if (text := tasks.describe(selected)) is not None:
            show(text)
            return
        from regard.config.spelling import suggestion

        kinds.append("keys")
        hint = suggestion(selected, [*kinds, *(name for _, name, _ in entries)], f"there are {', '.join(kinds)}")
        raise RegardError(f"There is no kind or name {kind!r}; {hint}")
    width = max((len(name) for _, name, _ in entries), default=0)
    lines = []
    for heading in kinds if selected is None else [selected]:
        indent = "" if selected else "  "
        lines += [] if selected else [heading]
        lines += [f"{indent}{name:{width}}  {line}".rstrip() for plural, name, line in entries if plural == heading]
    show("\n".join(lines))
