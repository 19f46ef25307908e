"""Cards of runs: written again when a run continues, never over what a person wrote."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from regard.config import load as read_config
from regard.runs.card import NAME, is_edited
from regard.tasks import train
from task_cases import configured


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    """The configuration beside a finished run."""
    path = configured("documents", tmp_path / "documents", samples=0)
    train(read_config(path), tmp_path / "run")
    return path


def test_a_card_is_written_again_when_the_run_continues(finished: Path, tmp_path: Path) -> None:
    card = tmp_path / "run" / NAME
    assert "\n4 steps, " in card.read_text()
    assert not is_edited(tmp_path / "run")
    train(read_config(finished, ["training.max_steps=5", "training.epochs=9"]), tmp_path / "run")
    assert "\n5 steps, " in card.read_text()
    assert not is_edited(tmp_path / "run")


@pytest.mark.parametrize("change", [lambda text: text.replace("unknown", "mit"), lambda _: "Mine.\n"])
def test_a_card_that_a_person_changed_is_kept(finished: Path, tmp_path: Path, change) -> None:
    card = tmp_path / "run" / NAME
    mine = change(card.read_text())
    card.write_text(mine)
    train(read_config(finished, ["training.max_steps=5", "training.epochs=9"]), tmp_path / "run")
    assert card.read_text() == mine
    assert NAME in json.loads((tmp_path / "run/run.json").read_text())["left"]


def test_a_card_that_a_person_changed_survives_a_run_that_replaces_the_old_one(finished: Path, tmp_path: Path) -> None:
    card = tmp_path / "run" / NAME
    card.write_text("Mine.\n")
    train(read_config(finished), tmp_path / "run", overwrite=True)
    assert card.read_text() == "Mine.\n"


def test_a_card_without_changes_is_replaced_with_its_run(finished: Path, tmp_path: Path) -> None:
    train(read_config(finished, ["training.max_steps=3"]), tmp_path / "run", overwrite=True)
    assert "\n3 steps, " in (tmp_path / "run" / NAME).read_text()


def test_a_missing_card_needs_the_data_of_the_run(finished: Path, tmp_path: Path) -> None:
    card, data = tmp_path / "run" / NAME, tmp_path / "documents/train.csv"
    card.unlink()
    data.write_text(data.read_text() + "good,Another one.\n")
    assert train(read_config(finished), tmp_path / "run").steps == 4
    assert not card.exists()
