"""Sphinx: Markdown by MyST, the reference from docstrings, two pages made from the code itself."""

from __future__ import annotations

import re
from typing import Any

import typer
from typer.testing import CliRunner

import regard
from regard.attention import RECIPES
from regard.cli.application import application
from regard.config import describe, presets

project = "regard"
author = "the regard developers"
copyright = "2026, the regard developers"
version = release = regard.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"regard {version}"
smartquotes = False
html_static_path: list[str] = []

default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True, "undoc-members": True, "show-inheritance": False}
napoleon_numpy_docstring = False
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3


def configuration() -> str:
    """Every key of a configuration."""
    return describe()


def preset_list() -> str:
    """The ready configurations."""
    return "\n".join(f"- `{name}`: {line}" for name, line in presets().items())


def catalogue() -> str:
    """Every recipe with its equation, options and source."""
    directive = "```{{eval-rst}}\n.. autofunction:: regard.attention.{0}\n   :no-index:\n```"
    return "\n\n".join(f"## {name}\n\n{directive.format(name)}" for name in sorted(RECIPES))


def verbs() -> str:
    """The help of every verb."""
    group: Any = typer.main.get_command(application)
    words = []
    for name, verb in group.commands.items():
        words += [[name, inner] for inner in getattr(verb, "commands", ())] or [[name]]
    sections = []
    for verb in words:
        said = CliRunner().invoke(application, [*verb, "--help"], prog_name="regard", env={"COLUMNS": "100"})
        sections.append(f"## regard {' '.join(verb)}\n\n```text\n{said.output.strip()}\n```")
    return "\n\n".join(sections)


GENERATED = {"configuration": configuration, "presets": preset_list, "mechanisms": catalogue, "verbs": verbs}


def fill_in(app: Any, name: str, source: list[str]) -> None:
    """Replaces `<!-- generated: name -->` by what the code says."""
    for key, make in GENERATED.items():
        mark = f"<!-- generated: {key} -->"
        if mark in source[0]:
            source[0] = source[0].replace(mark, make())


def plain(app: Any, what: str, name: str, subject: Any, options: Any, lines: list[str]) -> None:
    """Docstrings are written for the terminal: tables become lists, bars and stars stay themselves."""
    said: list[str] = []
    for line in lines:
        row = re.fullmatch(r"\| (.*) \|", line)
        if row is None and not re.fullmatch(r"\|[-|]+\|", line):
            parts = re.split(r"(`[^`]*`)", line)
            said.append(
                "".join(re.sub(r"(\||\*\*?(?=\w))", r"\\\1", p) if i % 2 == 0 else p for i, p in enumerate(parts))
            )
        elif row is not None:
            if not (said and said[-1].startswith("     -")):
                said += [".. list-table::", "   :header-rows: 1", ""]
            for number, cell in enumerate(row[1].split(" | ")):
                said.append(f"{'   * -' if number == 0 else '     -'} {cell}")
    lines[:] = said


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("source-read", fill_in)
    app.connect("autodoc-process-docstring", plain, priority=900)
