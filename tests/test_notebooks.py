"""The notebooks run from their first cell to the last, and their results show themselves."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "examples" / "notebooks").glob("*.ipynb"))


def results(notebook):
    """The value of the last expression of every cell of code, as a notebook shows it."""
    namespace = {"__name__": "__main__"}
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] != "code":
            continue
        tree = ast.parse("".join(cell["source"]), f"{notebook.name}: {cell['id']}")
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, tree.__class__.__name__, "exec"), namespace)
        if last is not None:
            yield eval(compile(ast.Expression(last.value), notebook.name, "eval"), namespace)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_pages(notebook, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pages = [shown for each in results(notebook) if (shown := getattr(each, "_repr_html_", lambda: "")())]
    assert any("<iframe" in page for page in pages)


def test_there_are_notebooks_and_none_keeps_outputs():
    cells = [cell for path in NOTEBOOKS for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]]
    assert len(NOTEBOOKS) == 3
    assert not any(cell.get("outputs") for cell in cells)
