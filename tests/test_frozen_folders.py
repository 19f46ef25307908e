"""Model folders and run folders that earlier versions wrote are read, and their runs continued, by this one.

`tests/frozen/make.py` made them; what a version wrote is never made again. Where a key or a weight has another
name today, the old one is mapped when it is read.
"""

import json
import shutil
import sys
from pathlib import Path

import pytest

import regard
from regard.cli import run

FOLDERS = Path(__file__).parent / "frozen"
sys.path.insert(0, str(FOLDERS))
import make  # noqa: E402

CASES = sorted(path.parent.relative_to(FOLDERS) for path in FOLDERS.glob("*/*/expected.json"))
TOLERANCE = 2e-4
"""Of metrics and scores: other processors add in another order, for a dozen steps."""


@pytest.fixture(params=CASES, ids=str)
def frozen(request, tmp_path):
    """A copy of the folders in which the configurations name their place, and what is expected."""
    place = tmp_path / "frozen"
    shutil.copytree(FOLDERS / request.param, place)
    for config in place.rglob("config.yaml"):
        config.write_text(config.read_text(encoding="utf-8").replace(make.FOLDER, str(place)), encoding="utf-8")
    return place, json.loads((place / "expected.json").read_text(encoding="utf-8"))


def assert_predicts(model, expected):
    for ours, theirs in zip(make.predictions(model), expected["predictions"], strict=True):
        assert ours["texts"] == theirs["texts"]
        assert ours["score"] == pytest.approx(theirs["score"], abs=TOLERANCE)
        for row, weights in zip(ours["alignment"], theirs["alignment"], strict=True):
            assert row == pytest.approx(weights, abs=TOLERANCE)


def test_there_are_frozen_folders():
    assert CASES


def test_a_model_of_an_earlier_version_predicts_what_it_did(frozen):
    place, expected = frozen
    assert_predicts(regard.load(place / "model"), expected)


def test_a_run_of_an_earlier_version_is_continued_as_it_would_have_been(frozen, monkeypatch, capsys):
    place, expected = frozen
    monkeypatch.chdir(place)
    assert run(["train", "run.yaml", "--output", "run"]) == 0
    assert "continuing after step" in capsys.readouterr().err
    several = sum(line["kind"] == "validation" for line in expected["metrics"]) > 1
    kept = [line for line in expected["metrics"] if several or line["kind"] != "averaged"]  # a mean of one is not made
    for ours, theirs in zip(make.metrics(place / "run"), kept, strict=True):
        assert ours.keys() == theirs.keys()
        for key, value in theirs.items():
            assert ours[key] == (pytest.approx(value, rel=TOLERANCE) if isinstance(value, float) else value), key
    assert_predicts(regard.load(place / "run"), expected)
