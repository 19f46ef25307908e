"""The goldens themselves: complete, small, in agreement with themselves, and told about."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from golden.archive import FOLDER, load

FILES = sorted(FOLDER.glob("*/*.npz"))
README = (FOLDER / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_an_original_agrees_with_its_own_float64(path):
    single, double = (load(path.parent.name, path.stem, dtype) for dtype in (torch.float32, torch.float64))
    assert double.outputs
    assert double.gradients.keys() <= double.inputs.keys() | double.weights.keys()
    for kind in ("outputs", "gradients"):
        expected = getattr(double, kind)
        size = max([1.0, *(float(value.abs().max()) for value in expected.values())])
        for name, value in getattr(single, kind).items():
            torch.testing.assert_close(value.double(), expected[name], rtol=0, atol=1e-5 * size)


def test_every_golden_is_in_the_table_and_every_original_says_how_it_was_run():
    assert [path for path in FILES if f"`{path.parent.name}/{path.stem}`" not in README] == []
    assert {path.parent for path in FILES} == {path.parent for path in FOLDER.glob("*/make.py")}
    for make in FOLDER.glob("*/make.py"):
        text = Path(make).read_text(encoding="utf-8")
        assert f"tests/golden/{make.parent.name}/make.py" in text
        assert "Program: " in text


def test_goldens_stay_small():
    assert max(path.stat().st_size for path in FILES) < 60_000
    assert sum(path.stat().st_size for path in FILES) < 2_000_000
