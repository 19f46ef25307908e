"""Model folders and runs whose files are damaged, of another version, or not together."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

import regard
from regard import weights
from regard.decoding import Search
from regard.errors import DataError, RegardError
from regard.runs.store import save
from regard.tasks import load, train
from test_tasks import SMALL, configuration, small, trained, untrained
from test_training_resume import assert_same_run

ONCE = {"warmup_steps": 0, "validate_every": None, "samples": 0, "keep_checkpoints": "all"}
GOLDEN = Path(__file__).parent / "golden" / "model_format_2"
DAMAGE = {
    "empty": lambda content: b"",
    "half": lambda content: content[: len(content) // 2],
    "garbage": lambda content: bytes(range(256)) * 4,
    "list": lambda content: b"[]",
    "text": lambda content: b'"a"',
}


@pytest.fixture(autouse=True)
def _quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda handle: None)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run with two checkpoints."""
    folder = tmp_path_factory.mktemp("whole")
    trained(folder, **ONCE, epochs=3, save_every_minutes=1e-6)
    return folder


@pytest.fixture
def project(whole: Path, tmp_path: Path) -> Path:
    """A copy of it that may be damaged."""
    shutil.copytree(whole, tmp_path / "project")
    return tmp_path / "project"


def resumed(project: Path) -> Path:
    """The run, continued from its newest checkpoint."""
    settings = configuration(project, **ONCE, epochs=3, save_every_minutes=1e-6)
    train(settings, project / "run")
    return project / "run"


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", ["model.safetensors", "config.yaml", "source.json", "target.json", "data.json"])
def test_a_damaged_file_of_a_model_is_named(project: Path, name: str, damage: str) -> None:
    path = project / "run" / name
    path.write_bytes(DAMAGE[damage](path.read_bytes()))
    with pytest.raises(DataError, match=name):
        load(project / "run")


def test_a_configuration_that_is_cut_off_between_two_lines_is_refused(project: Path) -> None:
    path = project / "run" / "config.yaml"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    for count in range(len(lines)):
        path.write_text("".join(lines[:count]), encoding="utf-8")
        with pytest.raises(DataError, match=r"config\.yaml"):
            load(project / "run")


@pytest.mark.parametrize("name", ["config.yaml", "source.json", "target.json", "data.json"])
def test_a_missing_file_of_a_model_is_named(project: Path, name: str) -> None:
    (project / "run" / name).unlink()
    with pytest.raises(DataError, match=name):
        load(project / "run")


def test_two_flipped_bits_are_refused_wherever_they_are(project: Path) -> None:
    for name in ("model.safetensors", "source.json", "data.json"):
        path = project / "run" / name
        content = path.read_bytes()
        for place in (len(content) // 2, len(content) - 9):
            flipped = bytearray(content)
            flipped[place] ^= 0b101
            path.write_bytes(flipped)
            with pytest.raises(DataError, match=name):
                load(project / "run")
        path.write_bytes(content)
    load(project / "run")


def test_a_configuration_of_another_model_is_refused_but_the_search_may_be_edited(project: Path) -> None:
    path = project / "run/config.yaml"
    text = path.read_text()
    path.write_text(text.replace("bridge: dense", "bridge: zero"))
    with pytest.raises(DataError, match=r"model\.decoder\.bridge: saved with 'dense', now 'zero'"):
        load(project / "run")
    path.write_text(text.replace("beam: 5", "beam: 2"))
    assert load(project / "run").config.decoding.beam == 2


def test_a_newer_format_is_refused_and_an_older_one_loads(tmp_path: Path) -> None:
    save(untrained(), tmp_path)
    path = tmp_path / "model.safetensors"
    tensors = load_file(path)
    save_file(tensors, path, metadata={"regard": json.dumps({"format": 99})})
    with pytest.raises(DataError, match=r"model\.safetensors: format 99 is newer"):
        load(tmp_path)
    save_file(tensors, path, metadata={"format": "1"})
    assert load(tmp_path).predict(["abc"])[0].tokens
    assert regard.load("g2p-en", device="cpu").predict(["hello"])[0].text == "HH EH L OW"


def test_a_folder_written_by_format_2_loads_and_predicts_the_same() -> None:
    """The folder was written by `save(untrained(small(seed=7)), folder)` on 22 November 2026; it is never rewritten."""
    assert weights.FORMAT == 2, "a new format has a golden folder of its own"
    model = load(GOLDEN, device="cpu")
    expected = json.loads((GOLDEN / "predictions.json").read_text(encoding="utf-8"))
    for text, (output, score) in expected.items():
        prediction = model.predict([text], search=Search(beam=2, min_length=4))[0]
        assert (prediction.text, prediction.score) == (output, pytest.approx(score, abs=1e-4))
    of_then = {**SMALL, "encoder": {**SMALL["encoder"], "layers": 1}}
    assert (model.config.model, model.config.seed) == (small(of_then).model, 7)


@pytest.mark.parametrize("damage", ["empty", "half", "garbage", "flipped", "gone"])
@pytest.mark.parametrize("name", ["model.safetensors", "trainer_state.pt", "progress.json"])
def test_a_run_goes_on_from_the_checkpoint_before_a_damaged_one(
    project: Path, whole: Path, name: str, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    older, newest = sorted((project / "run/checkpoints").glob("step-*"))
    path = newest / name
    content = bytearray(path.read_bytes())
    if damage == "gone":
        path.unlink()
    elif damage == "flipped":
        content[len(content) // 2] ^= 0b101
        path.write_bytes(content)
    else:
        path.write_bytes(DAMAGE[damage](bytes(content)))
    if damage == "flipped" and name == "progress.json":
        content[len(content) // 2] ^= 0b101
        path.write_bytes(content[:-20])
    (project / "run/outcome.json").unlink()
    run = resumed(project)
    shown = capsys.readouterr().err
    assert str(path) in shown
    assert f"resumes from step {int(older.name[5:])}" in shown
    assert_same_run(whole / "run", run)


def test_a_run_without_a_whole_checkpoint_says_what_to_do_and_its_model_still_loads(project: Path) -> None:
    for path in (project / "run/checkpoints").glob("step-*/trainer_state.pt"):
        path.write_bytes(b"")
    (project / "run/outcome.json").unlink()
    with pytest.raises(DataError, match=r"every checkpoint is damaged: .*trainer_state\.pt(?s:.*)overwrite=True"):
        resumed(project)
    load(project / "run")


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", ["outcome.json", "run.json", "metrics.jsonl", "data.json", "checkpoints/config.yaml"])
def test_a_damaged_file_of_a_run_is_named(project: Path, name: str, damage: str) -> None:
    if name not in ("outcome.json", "run.json"):
        (project / "run/outcome.json").unlink()
    path = project / "run" / name
    if (name, damage) == ("metrics.jsonl", "empty"):
        pytest.skip("an empty log is a log")
    if (name, damage) == ("metrics.jsonl", "half"):
        pytest.skip("a log that a kill cut off is cut at the last whole line")
    path.write_bytes(DAMAGE[damage](path.read_bytes()) + b"\n")
    with pytest.raises(RegardError, match=name):
        resumed(project)


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_name_of_the_latest_checkpoint_costs_nothing(project: Path, whole: Path, damage: str) -> None:
    path = project / "run/checkpoints/latest"
    path.write_bytes(DAMAGE[damage](path.read_bytes()))
    (project / "run/outcome.json").unlink()
    assert_same_run(whole / "run", resumed(project))
