"""The goldens themselves: complete, small, in agreement with themselves, and told about."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

import test_golden_neural_translation as translation
from golden.archive import FOLDER, load
from golden.parity import TOLERANCE, assert_parity

FILES = sorted(FOLDER.glob("*/*.npz"))
TEXTS = sorted(path for make in FOLDER.glob("*/make.py") for path in make.parent.glob("*.json"))
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
            torch.testing.assert_close(value.double(), expected[name].double(), rtol=0, atol=1e-5 * size)


def test_a_weight_that_is_a_little_off_is_found():
    exact = next(case for case in translation.CASES if case.name == "joeynmt/bahdanau")
    off = replace(exact, weights=lambda w: exact.weights(w) | {"score.v": w["energy_layer.weight"] * (1 + 1e-6)})
    found = off.differences(torch.float64)
    assert found["alignment"] > TOLERANCE[torch.float64]
    assert found["gradient of energy_layer.weight"] > TOLERANCE[torch.float64]
    with pytest.raises(AssertionError):
        assert_parity(off, torch.float64)


def test_every_golden_is_in_the_table_and_every_original_says_how_it_was_run():
    assert [path for path in FILES if f"`{path.parent.name}/{path.stem}`" not in README] == []
    assert [path for path in TEXTS if f"`{path.parent.name}/{path.stem}`" not in README] == []
    assert {path.parent for path in [*FILES, *TEXTS]} == {path.parent for path in FOLDER.glob("*/make.py")}
    for make in FOLDER.glob("*/make.py"):
        text = Path(make).read_text(encoding="utf-8")
        assert f"tests/golden/{make.parent.name}/make.py" in text
        assert "Program: " in text


def test_every_golden_is_compared_or_said_not_to_be():
    places = [path for kind in ("golden", "compat") for path in Path(__file__).parent.glob(f"test_{kind}_*.py")]
    tests = "".join(path.read_text(encoding="utf-8") for path in places)
    excused = README.partition("no counterpart")[2].partition("| Original")[0]
    for path in FILES:
        name = f"{path.parent.name}/{path.stem}"
        compared = f'"{name}"' in tests or (f'"{path.parent.name}"' in tests and f'"{path.stem}"' in tests)
        assert compared != (f"`{name}`" in excused), name


def test_goldens_stay_small():
    assert max(path.stat().st_size for path in [*FILES, *TEXTS]) < 110_000
    assert sum(path.stat().st_size for path in [*FILES, *TEXTS]) < 4_000_000
