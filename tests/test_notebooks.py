"""The notebooks run from their first cell to the last, and their results show themselves, in pages of the docs too."""

from __future__ import annotations

import json

import pytest

from support import notebooks
from support.notebooks import NOTEBOOKS


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs_and_shows_pages(name):
    page = notebooks.page(NOTEBOOKS[name], outputs=True)
    assert "<iframe" in page
    assert page.startswith("# ")


def test_there_are_notebooks_and_none_keeps_outputs():
    entries = [cell for path in NOTEBOOKS.values() for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]]
    assert len(NOTEBOOKS) == 3
    assert not any(entry.get("outputs") for entry in entries)


def test_a_page_has_every_cell_of_its_notebook():
    for path in NOTEBOOKS.values():
        page = notebooks.page(path, outputs=False)
        assert all(cell.source in page for cell in notebooks.cells(path))
