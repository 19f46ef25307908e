"""Citations of composed mechanisms."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from torch import nn

from regard.attention.contract import AbstractPart
from regard.errors import RegardError


def cite(module: nn.Module) -> str:
    """BibTeX of the parts of a mechanism, or of all mechanisms in a model.

    Raises:
        RegardError: if it is not a module but, for example, the name of a recipe.

    >>> from regard.attention import bahdanau
    >>> print(cite(bahdanau(query_size=4, memory_size=4)).partition(",")[0])
    @inproceedings{bahdanau2015
    """
    if not isinstance(module, nn.Module):
        raise RegardError(f"cite({module!r:.200}): give the mechanism or the model itself, as cite(model).")
    entries = bibliography()
    return "\n\n".join(entries[key] for key in sources(module))


def sources(module: nn.Module) -> tuple[str, ...]:
    """The bibliography's keys of a module, in alphabetical order. A part declares those of the parts inside it."""
    keys = set(getattr(module, "sources", ()))
    if isinstance(module, AbstractPart):
        return tuple(sorted(keys))
    return tuple(sorted(keys.union(*(sources(child) for child in module.children()))))


@cache
def bibliography() -> dict[str, str]:
    """All entries of the bibliography, by key."""
    text = files("regard.attention").joinpath("bibliography.bib").read_text(encoding="utf-8")
    return {entry[1]: entry[0] for entry in re.finditer(r"^@\w+\{([^,]+),.*?^\}", text, re.MULTILINE | re.DOTALL)}
