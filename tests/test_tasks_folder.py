"""What a run does with its folder: whose files are whose, what replaces what, what is refused and what goes on."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import test_tasks
from regard.cli import run as command
from regard.config import Configuration
from regard.config import load as read_config
from regard.config.texts import ParallelFiles
from regard.data.text import synthetic
from regard.errors import ConfigError, DataError, RegardError
from regard.runs.fingerprints import fingerprint
from regard.runs.store import save
from regard.runs.training import summary
from regard.tasks import load, train
from regard.training import Outcome, Validation
from regard.training.checkpoint import Checkpoints
from regard.training.lock import Lock
from regard.training.manifest import Manifest, set_aside
from test_training_resume import identical, state

ONCE: dict[str, Any] = {"warmup_steps": 0, "validate_every": None, "schedule": "constant", "samples": 0}
"""Nothing follows from the number of epochs: a validation an epoch, without pictures."""
MODEL = ("model.safetensors", "config.yaml", "source.json", "target.json", "data.json")


@pytest.fixture(autouse=True)
def _quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda handle: None)


def configuration(folder: Path, **training: Any) -> Configuration:
    return test_tasks.configuration(folder, **{**ONCE, **training})


def trained(folder: Path, **training: Any) -> Path:
    return test_tasks.trained(folder, **{**ONCE, **training})


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def with_users_files(run: Path) -> dict[str, bytes]:
    """Puts a user's files beside a run's."""
    (run / "train.jsonl").write_text('{"a": 1}\n')
    (run / "notes.json").write_text("{}")
    (run / "pictures").mkdir(exist_ok=True)
    (run / "pictures/me.png").write_bytes(b"me")
    (run / "checkpoints/why.txt").write_text("because")
    return {
        name: (run / name).read_bytes()
        for name in ("train.jsonl", "notes.json", "pictures/me.png", "checkpoints/why.txt")
    }


def other_data(folder: Path, name: str) -> Configuration:
    before = configuration(folder)
    data = before.config.data.model_copy(update={"train": folder / name})
    return replace(before, config=before.config.model_copy(update={"data": data, "seed": 2}))


def test_overwriting_deletes_nothing_that_the_run_did_not_write(tmp_path: Path) -> None:
    run = trained(tmp_path, samples=1)
    users = with_users_files(run)
    before = contents(run)
    train(configuration(tmp_path, learning_rate=0.5), run, overwrite=True)
    after = contents(run)
    assert {name: after[name] for name in users} == users
    assert after["model.safetensors"] != before["model.safetensors"]
    assert not (run / ".replaced").exists(), "it goes once the new run has a model"
    assert set(json.loads(after["run.json"])["files"]) >= {*MODEL, "metrics.jsonl"}
    assert not {"train.jsonl", "notes.json", "pictures/me.png"} & set(json.loads(after["run.json"])["files"])


@pytest.mark.parametrize("mistake", ["data", "empty", "rates", "lock", "edited"])
def test_overwriting_changes_nothing_before_everything_is_checked(tmp_path: Path, mistake: str) -> None:
    run = trained(tmp_path)
    with_users_files(run)
    (tmp_path / "empty.tsv").write_text("")
    if mistake == "edited":
        (run / "config.yaml").write_text("# my own words\n" + (run / "config.yaml").read_text())
    before = contents(run)
    if mistake in ("data", "empty"):
        with pytest.raises(DataError, match={"data": "misspelt", "empty": "no pairs"}[mistake]):
            train(other_data(tmp_path, {"data": "misspelt.tsv", "empty": "empty.tsv"}[mistake]), run, overwrite=True)
    elif mistake == "rates":
        with pytest.raises(ConfigError, match="Lower it"):
            train(configuration(tmp_path, schedule="cosine", min_learning_rate=0.5), run, overwrite=True)
    elif mistake == "lock":
        with Lock(run), pytest.raises(RegardError, match=f"process {os.getpid()} on .* is training in this folder"):
            train(configuration(tmp_path, learning_rate=0.5), run, overwrite=True)
        before[".lock"] = (run / ".lock").read_bytes()
    else:
        with pytest.raises(ConfigError, match=r"config\.yaml was edited since .*overwrite=True does not replace it"):
            train(configuration(tmp_path, learning_rate=0.5), run, overwrite=True)
    assert contents(run) == before


def test_until_the_new_run_has_a_model_the_old_one_loads_from_where_the_error_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = trained(tmp_path)
    old = load(run)
    with monkeypatch.context() as patch:
        patch.setattr("regard.tasks.text_to_text.trainee.PairTrainee.validate", lambda trainee: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            train(configuration(tmp_path, learning_rate=0.5), run, overwrite=True)
        with pytest.raises(RegardError, match=r"has no model yet: .* is .*\.replaced"):
            load(run)
        again = load(run / ".replaced")
        assert again.predict(["0 1 2"])[0].tokens == old.predict(["0 1 2"])[0].tokens
        with pytest.raises(ZeroDivisionError):  # replaced again before it had a model: the one that loads stays
            train(configuration(tmp_path, learning_rate=0.25), run, overwrite=True)
        assert load(run / ".replaced").fingerprints == old.fingerprints
    train(configuration(tmp_path, learning_rate=0.25), run)
    assert not (run / ".replaced").exists()
    load(run)


def die_at(moment: int) -> None:
    """Ends this process, as a kill does, when the disk is about to be changed for the nth time."""
    changes = itertools.count(1)

    def watch(function: Callable[..., object]) -> Callable[..., object]:
        def watched(*args: object, **kwargs: object) -> object:
            if next(changes) == moment:
                os._exit(9)
            return function(*args, **kwargs)

        return watched

    for name in ("replace", "unlink", "link", "rmdir", "mkdir"):
        setattr(os, name, watch(getattr(os, name)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the kills are forked")
def test_a_kill_at_any_moment_of_setting_a_run_aside_leaves_a_model(tmp_path: Path) -> None:
    run = trained(tmp_path)
    users = with_users_files(run)
    weights, finished, moment = (run / "model.safetensors").read_bytes(), False, 0
    while not finished:
        moment += 1
        shutil.rmtree(tmp_path / "copy", ignore_errors=True)
        shutil.copytree(run, tmp_path / "copy")
        child = os.fork()
        if child == 0:
            die_at(moment)
            set_aside(tmp_path / "copy")
            os._exit(0)
        finished = os.WEXITSTATUS(os.waitpid(child, 0)[1]) == 0
        places = [place for place in (tmp_path / "copy", tmp_path / "copy/.replaced") if (place / MODEL[0]).exists()]
        assert places, moment
        assert all((places[0] / name).exists() for name in MODEL), moment
        assert (places[0] / "model.safetensors").read_bytes() == weights
        if moment % 10 == 0:
            load(places[0])
        set_aside(tmp_path / "copy")
        left = contents(tmp_path / "copy")
        assert {name for name in left if not name.startswith(".")} == {*users, "run.json"}, moment
        assert all((tmp_path / "copy/.replaced" / name).exists() for name in MODEL), moment
    assert moment > 20


def test_a_users_commented_configuration_is_never_replaced(tmp_path: Path) -> None:
    run = trained(tmp_path)
    text = "# mine\n" + (run / "config.yaml").read_text()
    (run / "config.yaml").write_text(text)
    (run / "outcome.json").unlink()
    assert train(read_config(run / "config.yaml"), run).stop_reason == "epochs"
    assert (run / "config.yaml").read_text() == text
    load(run)
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "config.yaml").write_text("# mine\n" + text)
    for overwrite in (False, True):
        with pytest.raises(ConfigError, match=r"has files but no run \(config\.yaml\)"):
            train(read_config(folder / "config.yaml"), folder, overwrite=overwrite)
    assert contents(folder) == {"config.yaml": ("# mine\n" + text).encode()}


def test_a_file_of_the_user_under_a_name_of_the_run_is_not_replaced(tmp_path: Path) -> None:
    trained(tmp_path)
    Manifest(tmp_path / "new").claim(["metrics.jsonl"])
    (tmp_path / "new/source.json").write_text("mine")
    with pytest.raises(RegardError, match=r"already has files that the run would write: source\.json"):
        train(configuration(tmp_path), tmp_path / "new")
    assert (tmp_path / "new/source.json").read_text() == "mine"


@pytest.mark.parametrize("schedule", ["constant", "plateau", "inverse_square_root"])
def test_more_epochs_on_a_finished_run_go_on_as_if_planned(
    tmp_path: Path, schedule: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = trained(tmp_path, schedule=schedule)
    outcome = train(configuration(tmp_path, schedule=schedule, epochs=4), run)
    shown = capsys.readouterr().err
    assert "training.epochs is now 4 (before: 2). The learning rate continues as if this end had been planned" in shown
    train(configuration(tmp_path, schedule=schedule, epochs=4), tmp_path / "whole")
    assert outcome.epochs == 4
    assert identical(state(run)["optimizer"], state(tmp_path / "whole")["optimizer"])
    assert (run / "model.safetensors").read_bytes() == (tmp_path / "whole/model.safetensors").read_bytes()
    assert train(configuration(tmp_path, schedule=schedule, epochs=4), run) == outcome, "finished before"
    with pytest.raises(ConfigError, match=r"training\.epochs: 4 → 2"):
        train(configuration(tmp_path, schedule=schedule), run)


def test_a_run_that_kept_no_checkpoint_is_not_begun_anew_for_more_epochs(tmp_path: Path) -> None:
    run = trained(tmp_path, keep_checkpoints="none")
    assert not list(run.glob("checkpoints/step-*"))
    before = (run / "model.safetensors").read_bytes()
    with pytest.raises(ConfigError, match=r"its checkpoints were removed .* training\.start_from="):
        train(configuration(tmp_path, epochs=4), run)
    assert (run / "model.safetensors").read_bytes() == before
    assert train(configuration(tmp_path), run).stop_reason == "epochs"


def test_a_longer_cosine_is_said_to_restart_and_more_epochs_do_not_undo_an_early_stop(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = trained(tmp_path, schedule="cosine")
    assert train(configuration(tmp_path, schedule="cosine", epochs=3), run).epochs == 3
    assert "a warm restart" in capsys.readouterr().err
    flat = Validation({"sequence_error_rate": 1.0})
    monkeypatch.setattr("regard.tasks.text_to_text.trainee.PairTrainee.validate", lambda trainee: flat)
    stopped = configuration(tmp_path, early_stopping=1, epochs=9)
    first = train(stopped, tmp_path / "early")
    assert first.stop_reason == "early_stopping"
    capsys.readouterr()
    more = configuration(tmp_path, early_stopping=1, epochs=20)
    assert train(more, tmp_path / "early") == first
    assert "Raising training.epochs does not change that; raise training.early_stopping" in capsys.readouterr().err


def project(folder: Path) -> Path:
    """A project with relative paths and an interrupted run."""
    folder.mkdir()
    synthetic.write(folder / "pairs.tsv", synthetic.generate("reverse", 40, max_length=4, num_symbols=5, seed=1))
    (folder / "small.yaml").write_text(
        "data: {train: pairs.tsv, dev_fraction: 0.2, source: {units: whitespace}, target: {units: whitespace}}\n"
        "model: {encoder: {size: 8}, decoder: {size: 8}, attention: {size: 8}}\n"
        "training: {epochs: 2, batch_tokens: 64, device: cpu, samples: 0, threads: 1, warmup_steps: 0,"
        " validate_every: null}\n"
    )
    train(read_config(folder / "small.yaml"), folder / "runs/small")
    (folder / "runs/small/outcome.json").unlink()
    return folder / "runs/small"


def test_a_project_that_was_moved_continues_with_the_files_that_are_given_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project(tmp_path / "before")
    shutil.move(tmp_path / "before", tmp_path / "after")
    monkeypatch.chdir(tmp_path / "after")
    assert command(["train", "small.yaml"]) == 0
    assert "continuing after step" in capsys.readouterr().err
    assert read_config("runs/small/config.yaml").config.data.train == tmp_path / "after/pairs.tsv"
    synthetic.write(
        tmp_path / "after/other.tsv", synthetic.generate("reverse", 41, max_length=4, num_symbols=5, seed=3)
    )
    assert command(["train", "small.yaml", "--set", "data.train=other.tsv"]) == 2
    assert "data.train: '" in capsys.readouterr().err


def test_the_configuration_of_a_run_continues_that_run_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = project(tmp_path / "project")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert command(["train", str(run / "config.yaml")]) == 0
    shown = capsys.readouterr().err
    assert f"{run}: continuing after step" in shown
    assert f"regard evaluate --model {run} FILE" in shown
    assert list(elsewhere.iterdir()) == []


def test_the_last_lines_name_the_saved_model_its_figures_and_commands_that_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained(tmp_path)
    run = tmp_path / "it's a run"
    outcome = train(configuration(tmp_path), run)
    lines = capsys.readouterr().err.splitlines()[-3:]
    value = outcome.metrics["sequence_error_rate"]
    assert lines[0].startswith(
        f"{run}: the model of step {outcome.weights[0]:,} is saved. On the held-out data: "
        f"sequence_error_rate {value:.4g}"
    )
    for line in lines[1:]:
        assert line.startswith(("  regard predict", "  regard evaluate"))
        words = line.strip().replace("FILE", str(tmp_path / "dev.tsv"))
        code = f"set -- {words.removeprefix('regard ')}; printf '%s\\n' \"$@\""
        parsed = subprocess.run(["sh", "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()
        assert command(parsed) == 0


@pytest.mark.parametrize(
    ("inputs", "argument"),
    [
        (["'BOUT", "A" * 41, "a\tb", "-x", "ABOUT", "OUT"], "ABOUT"),
        (["'BOUT", "a b"], """''"'"'BOUT'"""),
        (["a b", "'BOUT"], "'a b'"),
        (["a\tb", "", "-x"], "--input FILE"),
    ],
)
def test_the_command_of_the_last_lines_has_an_input_without_quotes_if_there_is_one(
    tmp_path: Path, inputs: list[str], argument: str
) -> None:
    outcome = Outcome(3, 1, 0.5, 3, "epochs", 1.0, {"sequence_error_rate": 0.5}, [3])
    command = summary(outcome, tmp_path, select="sequence_error_rate", inputs=inputs).splitlines()[1]
    assert command == f"  regard predict --model {tmp_path} {argument}"


def test_a_run_starts_from_a_saved_model_and_says_what_fits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = trained(tmp_path)
    new = [("0 1 9", "9 1 0"), ("9 2 3", "3 2 9"), ("4 9", "9 4"), ("3 1", "1 3"), ("0 4", "4 0")]
    (tmp_path / "new.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in new * 3))

    def tuned(**training: object) -> Configuration:
        before = configuration(tmp_path, start_from=base, **training)
        data = before.config.data.model_copy(update={"train": tmp_path / "new.tsv", "dev": tmp_path / "dev.tsv"})
        return replace(before, config=before.config.model_copy(update={"data": data}))

    train(tuned(epochs=0), tmp_path / "tuned")
    shown = capsys.readouterr().err
    assert "weights are copied" in shown
    assert "source: 5 of 6 symbols are known; new: 9" in shown
    old, model = load(base), load(tmp_path / "tuned")
    for symbol in old.source.vocabulary.symbols:
        rows = [
            m.module.encoder.embedding.table.weight[int(m.source.vocabulary.ids([symbol])[0])] for m in (old, model)
        ]
        assert torch.equal(*rows)
    assert torch.equal(old.module.decoder.readout.weight, model.module.decoder.readout.weight)
    assert model.predict(["0 1 2"])[0].text == old.predict(["0 1 2"])[0].text
    with pytest.raises(DataError, match="was trained on this file"):
        model.evaluate(tmp_path / "pairs.tsv")
    train(tuned(epochs=3), tmp_path / "whole")
    train(tuned(epochs=2), tmp_path / "resumed")
    shutil.rmtree(base)
    train(tuned(epochs=3), tmp_path / "resumed")  # what it started from is not needed any more
    assert (tmp_path / "resumed/model.safetensors").read_bytes() == (tmp_path / "whole/model.safetensors").read_bytes()


def test_a_start_that_cannot_be_is_refused_with_its_place(tmp_path: Path) -> None:
    base = trained(tmp_path)
    with pytest.raises(ConfigError, match=r"training\.start_from: .*no shipped model 'nonesuch'"):
        train(configuration(tmp_path, start_from=tmp_path / "nonesuch"), tmp_path / "new")
    with pytest.raises(ConfigError, match="cannot start from the model in its own folder"):
        train(configuration(tmp_path, start_from=base), base)
    wrong = configuration(tmp_path, start_from=base)
    data = wrong.config.data.model_copy(update={"train": tmp_path / "dev.tsv", "dev": tmp_path / "pairs.tsv"})
    with pytest.raises(DataError, match=r"was trained on data\.dev"):
        train(replace(wrong, config=wrong.config.model_copy(update={"data": data})), tmp_path / "new")
    parallel = tmp_path / "a.source", tmp_path / "a.target"
    for path in parallel:
        path.write_text("0 1\n2 0\n", encoding="utf-8")
    base = load(base)
    base.fingerprints = {"train.1": fingerprint(parallel[1])}
    save(base, tmp_path / "base")
    wrong = configuration(tmp_path, start_from=tmp_path / "base")
    files = ParallelFiles(source=parallel[0], target=parallel[1])
    data = wrong.config.data.model_copy(update={"dev": files})
    with pytest.raises(DataError, match=r"was trained on data\.dev"):
        train(replace(wrong, config=wrong.config.model_copy(update={"data": data})), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_what_a_full_disk_stops_is_named_and_nothing_is_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = trained(tmp_path)
    before = {name: (run / name).read_bytes() for name in MODEL}
    write = Path.write_bytes

    def full(path: Path, data: bytes) -> int:
        if path.name == "model.safetensors":
            write(path, data[: len(data) // 2])
            raise OSError(28, "No space left on device")
        return write(path, data)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        with pytest.raises(RegardError, match=r"run.*: cannot be written: No space left on device"):
            train(configuration(tmp_path, epochs=4, early_stopping=None), run)
    assert {name: (run / name).read_bytes() for name in MODEL if name != "config.yaml"} == {
        name: before[name] for name in MODEL if name != "config.yaml"
    }
    assert not list(run.rglob("*partial*"))
    assert train(configuration(tmp_path, epochs=4, early_stopping=None), run).epochs == 4


def test_a_folder_that_cannot_be_made_is_an_error_with_its_path(tmp_path: Path) -> None:
    trained(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(RegardError, match=r"file.run: cannot be written"):
        train(configuration(tmp_path), tmp_path / "file/run")


def test_weights_and_checkpoints_have_the_permissions_of_other_files(tmp_path: Path) -> None:
    run = trained(tmp_path)
    expected = (run / "source.json").stat().st_mode
    files = [path for path in run.rglob("*") if path.suffix in (".safetensors", ".pt", ".json")]
    assert len(files) > 6
    assert {path.stat().st_mode for path in files} == {expected}


def test_latest_is_not_needed_where_the_checkpoints_are_whole(tmp_path: Path) -> None:
    run = trained(tmp_path)
    (run / "checkpoints/latest").write_bytes(b"\xff\xfe")
    assert Checkpoints(run).latest == int(sorted(run.glob("checkpoints/step-*"))[-1].name[5:])
