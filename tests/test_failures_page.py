"""The page of recurring failures names tests and laws that exist, and every failure once."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

from regard.testing import DECODER_LAWS, LAWS

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "failures.md").read_text(encoding="utf-8")
COUNTS = {"M": 8, "P": 5, "B": 8, "E": 4, "T": 4, "A": 7, "R": 2, "S": 3, "X": 2, "D": 1, "I": 1, "L": 1}
IDS = [f"{letter}{number}" for letter, count in COUNTS.items() for number in range(1, count + 1)]
ROWS = {row[0]: row[2] for row in re.findall(r"^\| ([A-Z]\d) \| (.*?) \| (.*) \|$", PAGE, flags=re.MULTILINE)}


def functions(file: Path) -> set[str]:
    return {node.name for node in ast.parse(file.read_text(encoding="utf-8")).body if isinstance(node, ast.FunctionDef)}


def test_every_failure_is_on_the_page_once() -> None:
    assert sorted(re.findall(r"^\| ([A-Z]\d) \|", PAGE, flags=re.MULTILINE)) == sorted(IDS)


@pytest.mark.parametrize("name", IDS)
def test_what_provokes_a_failure_exists(name: str) -> None:
    tests = re.findall(r"`(tests/\w+\.py)::(\w+)`", ROWS[name])
    assert tests
    for file, test in tests:
        assert test in functions(ROOT / file), f"{file} has no {test}"
    for law in re.findall(r"\blaws? `(\w+)`(?: and `(\w+)`)?", ROWS[name]):
        assert {one for one in law if one} <= {*LAWS, *DECODER_LAWS}, law


def test_every_test_that_is_named_after_a_failure_is_on_the_page() -> None:
    named = Counter(
        (test[5:7], test)
        for file in (ROOT / "tests").glob("test_*.py")
        for test in functions(file)
        if re.match(r"test_[A-Z]\d_", test)
    )
    assert named
    assert [test for name, test in named if test not in ROWS.get(name, "")] == []
