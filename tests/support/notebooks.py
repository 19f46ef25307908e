"""Notebooks as the tests and the documentation execute them, and as pages in Markdown."""

from __future__ import annotations

import ast
import io
import json
import tempfile
from collections.abc import Iterator
from contextlib import chdir, redirect_stdout
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

NOTEBOOKS = {path.stem: path for path in sorted(Path(__file__).parents[2].glob("examples/notebooks/*.ipynb"))}
FENCE = "`" * 8


@dataclass(frozen=True)
class Cell:
    """A cell.

    Args:
        is_code: whether it is code, not Markdown.
        source: its text.
        printed: what it printed.
        value: the value of its last expression.
    """

    is_code: bool
    source: str
    printed: str = ""
    value: Any = None


def cells(notebook: Path) -> list[Cell]:
    """The cells, without results."""
    entries = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return [Cell(entry["cell_type"] == "code", "".join(entry["source"])) for entry in entries]


def executed(notebook: Path) -> Iterator[Cell]:
    """The cells with their results, executed one after the other in the current folder."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(cells(notebook)):
        if not cell.is_code:
            yield cell
            continue
        name, value = f"{notebook.name}: cell {number}", None
        tree = ast.parse(cell.source, name)
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        with redirect_stdout(io.StringIO()) as printed:
            exec(compile(tree, name, "exec"), namespace)
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), name, "eval"), namespace)
        yield Cell(True, cell.source, printed.getvalue(), value)


def page(notebook: Path, *, outputs: bool) -> str:
    """A notebook as a page of the documentation.

    Args:
        outputs: whether it is executed, so that the page has the results.
    """
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        shown = list(executed(notebook)) if outputs else cells(notebook)
    return "\n\n".join(part for cell in shown for part in _parts(cell))


def _parts(cell: Cell) -> Iterator[str]:
    if not cell.is_code:
        yield cell.source
        return
    yield f"{FENCE}python\n{cell.source}\n{FENCE}"
    if cell.printed:
        yield f"{FENCE}text\n{cell.printed.rstrip()}\n{FENCE}"
    if cell.value is not None:
        show = getattr(cell.value, "_repr_html_", None)
        shown = f"<pre>{escape(repr(cell.value))}</pre>" if show is None else show()
        yield f'{FENCE}{{raw}} html\n<div class="result">{shown}</div>\n{FENCE}'
