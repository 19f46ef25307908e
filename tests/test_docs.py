"""The documentation builds without a warning and says everything that is public."""

from __future__ import annotations

import importlib
import pkgutil
import re
import runpy
import subprocess
import sys
import types
import zlib
from pathlib import Path

import pytest

import regard

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
ROOMS = [
    info.name
    for info in pkgutil.iter_modules(regard.__path__)
    if info.name not in ("cli", "pretrained", "runs", "lazy", "__main__")
] + [f"interop.{name}" for name in ("tfa", "legacy_seq2seq", "ibm", "export")]
PAGES = sorted(path for path in [*ROOT.glob("*.md"), *DOCS.rglob("*.md"), ROOT / "benchmarks" / "README.md"])


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """The folder of the built pages."""
    pytest.importorskip("sphinx")
    folder = tmp_path_factory.mktemp("docs")
    # without the theme, the index, the lists of names beside the pages and the results of notebooks, which take more
    # than half of the time
    faster = (
        "html_theme=basic",
        "html_use_index=0",
        "html_copy_source=0",
        "toc_object_entries=0",
        "notebook_results=0",
    )
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", *(f"-D{each}" for each in faster), DOCS, folder],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="session")
def described(built):
    """The full names that the reference describes, from Sphinx's inventory."""
    packed = (built / "objects.inv").read_bytes().split(b"\n", 4)[4]
    return {line.split(" ")[0] for line in zlib.decompress(packed).decode().splitlines() if " py:" in line}


@pytest.mark.parametrize("room", ROOMS)
def test_the_reference_describes_every_public_name(described, room):
    module = importlib.import_module(f"regard.{room}")
    names = getattr(module, "__all__", [name for name in vars(module) if not name.startswith("_")])
    public = [name for name in names if not isinstance(getattr(module, name), types.ModuleType)]
    if room in ("errors", "files", "shapes", "tree", "weights"):  # modules: their own classes and functions
        public = [name for name in public if getattr(getattr(module, name), "__module__", "") == module.__name__]
        public = [name for name in public if callable(getattr(module, name))]
    assert public
    missing = [name for name in public if f"regard.{room}.{name}" not in described]
    assert not missing, f"docs/api lacks {missing}"


def test_every_name_of_the_front_door_is_named_in_the_reference(built):
    text = (built / "api" / "index.html").read_text(encoding="utf-8")
    errors = {name for name in regard.__all__ if name.endswith("Error")}
    missing = [name for name in regard.__all__ if name not in text and name not in errors | {"__version__"}]
    assert not missing


def test_generated_pages_hold_what_the_code_says(built):
    from regard.attention import RECIPES
    from regard.config import presets

    mechanisms = (built / "mechanisms.html").read_text(encoding="utf-8")
    assert all(
        "regard.attention.</span></span>" in mechanisms and f'id="{name.replace("_", "-")}"' in mechanisms
        for name in RECIPES
    )
    configuration = (built / "configuration.html").read_text(encoding="utf-8")
    assert all(f">{name}<" in configuration for name in presets())
    assert "label_smoothing" in configuration
    assert "Names and weights" in (built / "notebooks" / "own_model.html").read_text(encoding="utf-8")
    assert "--length-penalty" in (built / "api" / "cli.html").read_text(encoding="utf-8")
    assert not [path.name for path in built.rglob("*.html") if "generated:" in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_within_the_project_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    targets = [target.partition("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", text)]
    local = [target for target in targets if target and "://" not in target]
    assert not [target for target in local if not (page.parent / target).exists()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_fenced_block_says_what_it_is(page):
    fences = re.findall(r"^(?:> )?```(\S*)", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    opening = fences[::2]
    known = {"python", "console", "yaml", "sh", "text", "{toctree}", "{eval-rst}", "ini", "dockerfile", "nginx", "py"}
    assert not [language for language in opening if language not in known]
    assert not any(fences[1::2])


def test_generated_parts_of_the_repositorys_pages_are_up_to_date():
    conf = runpy.run_path(str(DOCS / "conf.py"))
    pages = [page for page in DOCS.rglob("*.md") if conf["BLOCK"].search(page.read_text(encoding="utf-8"))]
    notebooks = {"words.md", "forecasting.md", "own_model.md"}
    ours = {"configuration.md", "mechanisms.md", "cli.md", "combining-searches.md"}
    assert {page.name for page in pages} == ours | notebooks
    stale = [page.name for page in pages if conf["up_to_date"](text := page.read_text(encoding="utf-8")) != text]
    assert not stale, f"{stale}: give the command `python docs/conf.py`"
    assert "`label_smoothing`" in (DOCS / "configuration.md").read_text(encoding="utf-8")


def test_every_page_is_in_the_navigation_and_links_to_other_pages_only():
    listed = set((DOCS / "index.md").read_text(encoding="utf-8").splitlines())
    for page in DOCS.glob("*.md"):
        text = page.read_text(encoding="utf-8")
        assert page.stem in listed | {"index"}, page.name
        assert not re.findall(r"\]\(\.\./\S+\)", text), f"{page.name}: a file outside of docs/ is named, not linked"


def test_every_decision_is_listed_by_its_title_and_has_its_three_parts():
    records = sorted(DOCS.glob("decisions/0*.md"))
    index = (DOCS / "decisions" / "index.md").read_text(encoding="utf-8")
    line = re.compile(r"^- \[(\d{4})\]\((\S+)\.md\): (.+?)( \*\((?:in part )?superseded by .+\)\*)?$", flags=re.M)
    listed = {stem: (f"# {number}: {title}\n", bool(mark)) for number, stem, title, mark in line.findall(index)}
    assert [record.stem for record in records] == sorted(listed)
    assert len({record.name[:4] for record in records}) == len(line.findall(index)) == len(records)
    for record in records:
        text = record.read_text(encoding="utf-8")
        title, is_superseded = listed[record.stem]
        assert text.startswith(title), record.name
        assert ("uperseded by [" in text) == is_superseded, record.name
        assert all(f"**{part}.**" in text for part in ("Context", "Decision", "Consequences")), record.name
        assert len(text.split()) < 400, f"{record.name} is longer than a page"


def test_the_gallery_has_every_picture_with_its_command():
    gallery = (DOCS / "gallery.md").read_text(encoding="utf-8")
    cards = re.findall(
        r'<div class="card">\n\n!\[.+?\]\(pictures/(.+?)\)\n.*?\n```(?:sh|text)\n.+?\n```\n', gallery, re.DOTALL
    )
    there = {path.relative_to(DOCS / "pictures").as_posix() for path in (DOCS / "pictures").rglob("*.*")}
    assert sorted(cards) == sorted(there - {"architecture.svg"})  # which is drawn by hand
