"""The page of what trials found names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "trials.md"


def test_every_fault_has_tests_that_exist() -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if re.match(r"\| [A-G]\d* ?[,|]", line)]
    assert len(rows) > 80
    for row in rows:
        named = re.findall(r"`(test_\w+\.py)(?:::(test_\w+))?`", row)
        assert named, row
        for file, test in named:
            text = (Path(__file__).parent / file).read_text(encoding="utf-8")
            assert f"def {test or 'test_'}" in text, f"{file}::{test}"
