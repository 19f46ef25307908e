"""Sphinx: Markdown by MyST, the reference from docstrings, and pages made from the code itself.

What a page has between `<!-- generated: NAME -->` and `<!-- end -->` is generated at every build. The copy in the
repository is for those who read the page there; `python docs/conf.py` updates it, and a test fails when it is stale.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import typer
from typer.testing import CliRunner

import regard
import regard.serve  # before autodoc, which imports modules with TYPE_CHECKING set
from regard import tasks
from regard.attention import RECIPES
from regard.attention.citation import bibliography, sources
from regard.cli.application import application
from regard.config import presets
from regard.config.combinations import EXCLUSIONS, METHODS, READ_BY, READ_WITH, STREAM_EXCLUSIONS, TREE_EXCLUSIONS
from regard.config.search import Search
from regard.interop import variants
from regard.tasks.listing import PARTS
from support import notebooks
from support.compositions import accepted, judged, refusals
from support.configuration_reference import describe

project = "regard"
author = "the regard developers"
copyright = "2026, the regard developers"
version = release = regard.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"regard {version}"
smartquotes = False
html_static_path = ["style"]
html_css_files = ["cards.css"]

default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True, "undoc-members": True, "show-inheritance": False}
napoleon_numpy_docstring = False
myst_enable_extensions = ["colon_fence", "dollarmath"]  # $…$ as on GitHub, typeset by MathJax
myst_heading_anchors = 3


def configuration() -> str:
    """Every key of a configuration."""
    return describe()


def preset_list() -> str:
    """The ready configurations."""
    return "\n".join(f"- `{name}`: {line}" for name, line in presets().items())


def catalogue() -> str:
    """Every recipe with its picture, equation, options and papers."""
    return "\n\n".join(_entry(name) for name in sorted(RECIPES))


def recipe_list() -> str:
    """Every recipe with the first line of its docstring."""
    rows = [f"| `{name}` | {_cell(line)} |" for kind_of, name, line in tasks.catalogue() if kind_of == "recipe"]
    return "\n".join(["| recipe | |", "|---|---|", *rows])


def _entry(name: str) -> str:
    required = [p.name for p in inspect.signature(RECIPES[name]).parameters.values() if p.default is p.empty]
    papers = [_paper(key) for key in sources(RECIPES[name](**dict.fromkeys(required, 12)))]
    return "\n\n".join(
        [
            f"## {name}",
            f"![Attention weights of {name} on a small task](pictures/mechanisms/{name}.svg)",
            f"```{{eval-rst}}\n.. autofunction:: regard.attention.{name}\n   :no-index:\n```",
            "Papers (as `cite` prints them): " + " · ".join(papers),
        ]
    )


def _paper(key: str) -> str:
    fields = dict(re.findall(r"(\w+)\s*= \{(.*)\},?\n", bibliography()[key]))
    title = re.sub(r"[{}]", "", fields["title"])
    return f"[{title}]({fields['url']}) ({fields['year']})"


def parts() -> str:
    """Every part by kind, with the first line of its docstring."""
    tables = []
    for kind in PARTS:
        rows = [f"| `{name}` | {_cell(line)} |" for kind_of, name, line in tasks.catalogue() if kind_of == kind]
        tables.append("\n".join([f"| {kind} | |", "|---|---|", *rows]))
    return "\n\n".join(tables)


def imitations() -> str:
    """What `like=` changes in each recipe."""
    assert variants.__doc__ is not None
    return "\n".join(line for line in variants.__doc__.splitlines() if line.startswith("|"))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def refused() -> str:
    """Which parts cannot be combined, and why; the number of combinations."""
    grouped: dict[tuple[str, str], list[str]] = {}
    for (first, second), reason in refusals().items():
        grouped.setdefault((second, re.sub(r"^exp\(e\) of an? \w+", "exp(e)", reason)), []).append(first)
    rows = [
        f"| {second} | {', '.join(one.partition(': ')[2] for one in firsts)} | {reason} |"
        for (second, reason), firsts in grouped.items()
    ]
    table = "\n".join(["| part | cannot be combined with | reason |", "|---|---|---|", *rows])
    total, good = len(judged()), len(accepted())
    return f"Of {total:,} combinations of parts, with one head and with two, {good:,} are accepted.\n\n{table}"


def combinations() -> str:
    """Which methods read which settings of a search, and what else does not combine."""
    names = {"beam": "beam search", "sampling": "sampling", "mbr": "minimum Bayes risk"}
    fields = [name for name in Search.model_fields if name != "method"]
    rows = [
        " | ".join([f"| `{name}`", *("yes" if m in READ_BY.get(name, METHODS) else "–" for m in METHODS), ""]).rstrip()
        for name in fields
    ]
    head = " | ".join(["| setting", *(names[method] for method in METHODS), ""]).rstrip()
    table = "\n".join([head, "|---" * (len(METHODS) + 1) + "|", *rows])
    together = (*EXCLUSIONS, *STREAM_EXCLUSIONS, *TREE_EXCLUSIONS)
    reasons = [f"| {exclusion.first} | {exclusion.second} | {exclusion.reason} |" for exclusion in together]
    for name, (other, values) in READ_WITH.items():
        present = " or ".join(map(str, values)) or "another value than its default"
        reasons.append(f"| `{name}` | `{other}` without {present} | it is not read there |")
    excluded = "\n".join(["| | does not combine with | because |", "|---|---|---|", *reasons])
    return f"A setting that the method does not read is refused.\n\n{table}\n\n{excluded}"


def commands() -> str:
    """The help of every command."""
    group: Any = typer.main.get_command(application())
    commands = []
    for name, command in group.commands.items():
        commands += [[name, inner] for inner in getattr(command, "commands", ())] or [[name]]
    sections = []
    for words in commands:
        help = [*words, "--help-all" if words == ["predict"] else "--help"]
        result = CliRunner().invoke(application(help), [*words, "--help"], prog_name="regard", env={"COLUMNS": "100"})
        sections.append(f"## regard {' '.join(words)}\n\n```text\n{result.output.strip()}\n```")
    return "\n\n".join(sections)


GENERATED = {
    "configuration": configuration,
    "presets": preset_list,
    "mechanisms": catalogue,
    "parts": parts,
    "imitations": imitations,
    "refusals": refused,
    "combinations": combinations,
    "commands": commands,
}
KEPT = {
    "configuration": configuration,
    "presets": preset_list,
    "mechanisms": recipe_list,
    "parts": parts,
    "imitations": imitations,
    "combinations": combinations,
}
"""What the repository's copy has; the pictures and options of mechanisms are on the built page only."""
BLOCK = re.compile(r"<!-- generated: (\w+) -->\n(.*?)<!-- end -->\n?", re.DOTALL)


def up_to_date(text: str) -> str:
    """A page of the repository with its generated parts regenerated."""

    def block(found: re.Match[str]) -> str:
        name, before = found.groups()
        kept = f"\n{KEPT[name]().strip()}\n\n" if name in KEPT else before
        return f"<!-- generated: {name} -->\n{kept}<!-- end -->\n"

    return BLOCK.sub(block, text)


def fill_in(app: Any, name: str, source: list[str]) -> None:
    """Generates the generated parts of a page that Sphinx has read."""

    def generated(block: str) -> str:
        notebook = notebooks.NOTEBOOKS.get(block.removeprefix("notebook_"))
        return GENERATED[block]() if notebook is None else notebooks.page(notebook, outputs=app.config.notebook_results)

    source[0] = BLOCK.sub(lambda found: generated(found[1]) + "\n", source[0])


def letters(app: Any, what: str, name: str, subject: Any, options: Any, lines: list[str]) -> None:
    """`size: D.` and `H.` are letters, and not items of a list."""
    lines[:] = [re.sub(r"^(\s*(?:[\w, ]+: )?[A-Z])\.(?= |$)", r"\1\\.", line) for line in lines]


def plain(app: Any, what: str, name: str, subject: Any, options: Any, lines: list[str]) -> None:
    """Docstrings are written for the terminal: tables become list-tables; bars and stars are escaped."""
    result: list[str] = []
    for line in lines:
        row = re.fullmatch(r"\| (.*) \|", line)
        if row is None and not re.fullmatch(r"\|[-|]+\|", line):
            parts = re.split(r"(`[^`]*`)", line)
            result.append(
                "".join(re.sub(r"(\||\*\*?(?=\w))", r"\\\1", p) if i % 2 == 0 else p for i, p in enumerate(parts))
            )
        elif row is not None:
            if not (result and result[-1].startswith("     -")):
                result += [".. list-table::", "   :header-rows: 1", ""]
            for number, cell in enumerate(row[1].split(" | ")):
                result.append(f"{'   * -' if number == 0 else '     -'} {cell}")
    lines[:] = result


def setup(app: Any) -> None:
    """Called by Sphinx."""
    names = [f"regard.{module.name}" for module in pkgutil.iter_modules(regard.__path__) if module.ispkg]
    for package in map(importlib.import_module, names):
        # autodoc finds members by `dir`, which lacks those that are imported on first use
        vars(package).update({name: getattr(package, name) for name in getattr(package, "__all__", ())})
    app.add_config_value("notebook_results", True, "env")  # without: notebooks are not executed
    app.connect("source-read", fill_in)
    app.connect("autodoc-process-docstring", letters, priority=100)  # before napoleon reads the arguments
    app.connect("autodoc-process-docstring", plain, priority=900)


if __name__ == "__main__":
    for page in Path(__file__).parent.rglob("*.md"):
        text = page.read_text(encoding="utf-8")
        if up_to_date(text) != text:
            page.write_text(up_to_date(text), encoding="utf-8")
            print(page)
