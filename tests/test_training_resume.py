from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

import annotations
from regard.config.schema import TrainingConfig
from regard.errors import RegardError
from regard.training import Loss, Outcome, RunState, Validation, read_state, train
from regard.training.outcome import reopen
from training_toy import ToyTrainee, config

TOY = Path(__file__).with_name("training_toy.py")
QUIET = Console(file=StringIO())


@pytest.fixture(autouse=True)
def _quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda handle: None)


def run(folder: Path, trainee: ToyTrainee | None = None, **changes: Any) -> Outcome:
    settings = config(**changes)
    trainee = trainee or ToyTrainee(settings, record=folder.with_suffix(".record"))
    return train(trainee, settings, folder, seed=3, select="teacher_forced_loss", console=QUIET)


def lines(folder: Path) -> list[dict[str, Any]]:
    """The lines of metrics without what differs between any two runs."""
    entries = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in entry.items() if key != "timing"} for entry in entries]


def state(folder: Path) -> dict[str, Any]:
    """All that the newest checkpoint holds, without times."""
    name = (folder / "checkpoints/latest").read_text().strip()
    result = torch.load(folder / "checkpoints" / name / "trainer_state.pt", weights_only=True)
    del result["position"]["seconds"], result["tally"]["seconds"], result["tally"]["waited"]
    return result


def listing(folder: Path) -> list[str]:
    found = (str(path.relative_to(folder)) for path in folder.rglob("*"))
    return sorted(name for name in found if not re.match("checkpoints/(step|weights/step)-[0-9]*", name))


def identical(left: Any, right: Any) -> bool:
    if isinstance(left, torch.Tensor):
        return torch.equal(left, right)
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(identical(left[key], right[key]) for key in left)
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(identical, left, right))
    return left == right


def assert_same_run(left: Path, right: Path) -> None:
    assert (left / "model.safetensors").read_bytes() == (right / "model.safetensors").read_bytes()
    assert lines(left) == lines(right)
    assert identical(state(left), state(right))
    outcomes = [json.loads((folder / "outcome.json").read_text()) for folder in (left, right)]
    assert {**outcomes[0], "seconds": 0} == {**outcomes[1], "seconds": 0}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the attempts are forked")
@pytest.mark.parametrize(
    "changes",
    [
        {"accumulation": 2, "validate_every": 3, "average_checkpoints": 3, "log_every": 4, "scheduled_sampling": 0.3,
         "sequence_teacher_forcing": 0.8, "schedule": "cosine", "warmup_steps": 4,
         "save_every_minutes": 1e-6},
        {"validate_every": 4, "early_stopping": 3, "learning_rate": 0.05, "schedule": "plateau", "clip_norm": None,
         "optimizer": "adam", "weight_decay": 0.01, "epochs": 3, "precision": "float16", "save_every_minutes": 3e-4},
        {"validate_every": 4, "optimizer": "muon", "weight_decay": 0.01, "epochs": 3, "save_every_minutes": 3e-4},
    ],
)  # fmt: skip
def test_a_run_that_is_killed_again_and_again_equals_an_uninterrupted_one(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    annotations.next_test(checks=False)  # which draw from Python's generator
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    run(whole, **{**changes, "save_every_minutes": 60.0})
    settings = [f"{key}={json.dumps(value)}" for key, value in changes.items()]
    seed = random.SystemRandom().randrange(10**6)
    command = [sys.executable, str(TOY), str(killed), "6", str(seed), *settings]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    ended = json.loads(done.stdout)
    assert ended["status"] == 0, done.stderr
    assert ended["killed"] >= 1, f"seed {seed}: it ended before it could be killed"

    assert_same_run(whole, killed)
    assert listing(whole) == listing(killed)
    expected = [json.loads(line) for line in whole.with_suffix(".record").read_text().splitlines()]
    made = [json.loads(line) for line in killed.with_suffix(".record").read_text().splitlines()]
    steps: dict[int, list[Any]] = {}
    for entry in expected:
        steps.setdefault(entry[0], []).append(entry)
    for before, entry in zip([None, *made], made):  # repeated steps, too, have the same batches, draws and losses
        assert entry in steps[entry[0]], f"seed {seed}"
        assert before is None or entry[0] <= before[0] + 1, f"seed {seed}"
    assert {json.dumps(entry) for entry in made} == {json.dumps(entry) for entry in expected}


def stopped_after(step: int, folder: Path, trainee: ToyTrainee, settings: TrainingConfig) -> tuple[Outcome, str]:
    """What a run gives and shows that is told to stop while it makes a step."""
    stop, compute, shown = threading.Event(), trainee.loss, StringIO()

    def loss(batch: Any, *, step: int, generator: torch.Generator, last: int = step - 1) -> Loss:
        if step == last:
            stop.set()
        return compute(batch, step=step, generator=generator)

    trainee.loss = loss  # type: ignore[method-assign]
    console = Console(file=shown)
    outcome = train(trainee, settings, folder, seed=3, select="teacher_forced_loss", console=console, stop=stop)
    return outcome, shown.getvalue()


@pytest.mark.parametrize("step", [1, 4, 7, 10])
def test_a_run_that_is_stopped_at_any_step_continues_bit_for_bit(tmp_path: Path, step: int) -> None:
    changes: dict[str, Any] = {"validate_every": 5, "log_every": 3, "scheduled_sampling": 0.5, "epochs": 2}
    run(tmp_path / "whole", **changes)
    folder, settings = tmp_path / "stopped", config(**changes)
    outcome, shown = stopped_after(step, folder, ToyTrainee(settings), settings)
    assert (outcome.stop_reason, outcome.steps, outcome.signal) == ("interrupted", step, None)
    assert "the same command continues" in shown
    assert read_state(folder) == RunState(step, epoch=step // 7, finished=False)
    torch.rand(5)  # whatever the process drew in between
    run(folder, **changes)
    assert_same_run(tmp_path / "whole", folder)


class Flat(ToyTrainee):
    def validate(self) -> Validation:
        return Validation({"teacher_forced_loss": 1.0})


@pytest.mark.parametrize("step", [5, 7, 11])
def test_the_counts_towards_a_lower_rate_and_an_early_stop_go_on(tmp_path: Path, step: int) -> None:
    settings = config(validate_every=2, plateau_patience=1, early_stopping=6, log_every=1)
    run(tmp_path / "whole", Flat(settings), **settings.model_dump())
    rates = [line["learning_rate"] for line in lines(tmp_path / "whole") if line["kind"] == "train"]
    assert rates == [0.01] * 6 + [0.005] * 4 + [0.0025] * 4
    stopped_after(step, tmp_path / "stopped", Flat(settings), settings)
    run(tmp_path / "stopped", Flat(settings), **settings.model_dump())
    assert_same_run(tmp_path / "whole", tmp_path / "stopped")


def test_two_runs_with_one_seed_are_the_same_whatever_was_drawn_before(tmp_path: Path) -> None:
    run(tmp_path / "one", epochs=1)
    torch.rand(7)
    run(tmp_path / "two", epochs=1)
    assert_same_run(tmp_path / "one", tmp_path / "two")


def test_how_often_is_validated_does_not_change_what_is_learnt(tmp_path: Path) -> None:
    for name, every in (("seldom", None), ("often", 1)):
        run(tmp_path / name, validate_every=every, schedule="constant", epochs=2, scheduled_sampling=0.5)
    assert identical(state(tmp_path / "seldom")["optimizer"], state(tmp_path / "often")["optimizer"])
    assert identical(state(tmp_path / "seldom")["random"], state(tmp_path / "often")["random"])


def test_lines_of_metrics_after_the_checkpoint_are_cut_off(tmp_path: Path) -> None:
    run(tmp_path / "run", epochs=1)
    expected = lines(tmp_path / "run")
    (tmp_path / "run/outcome.json").unlink()
    with (tmp_path / "run/metrics.jsonl").open("a") as file:
        file.write('{"kind": "train", "step": 8}\n{"kind": "tra')
    run(tmp_path / "run", epochs=1)
    assert lines(tmp_path / "run") == expected


def test_a_finished_run_returns_its_outcome_at_once_and_with_its_weights(tmp_path: Path) -> None:
    first = run(tmp_path / "run", average_checkpoints=2)
    settings, shown = config(average_checkpoints=2), StringIO()
    again = ToyTrainee(settings)
    outcome = train(again, settings, tmp_path / "run", seed=3, select="x", console=Console(file=shown))
    assert outcome == first
    assert "this run has already ended, after 28 steps (training.epochs)" in shown.getvalue()
    assert again.validations == 0
    (tmp_path / "saved").mkdir()
    again.save(tmp_path / "saved")
    assert (tmp_path / "saved/model.safetensors").read_bytes() == (tmp_path / "run/model.safetensors").read_bytes()
    assert read_state(tmp_path / "run") == RunState(28, 4, finished=True)


def test_a_finished_run_whose_checkpoints_were_removed_says_so(tmp_path: Path) -> None:
    first = run(tmp_path / "run", epochs=1)
    shutil.rmtree(tmp_path / "run/checkpoints")
    settings, shown = config(epochs=1), StringIO()
    outcome = train(ToyTrainee(settings), settings, tmp_path / "run", seed=3, select="x", console=Console(file=shown))
    assert outcome == first
    assert "was removed" in shown.getvalue()
    assert read_state(tmp_path / "run") == RunState(7, 1, finished=True)


def test_a_folder_that_no_run_was_in_has_no_state(tmp_path: Path) -> None:
    assert read_state(tmp_path / "nothing") is None


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize(("number", "twice"), [(signal.SIGINT, False), (signal.SIGTERM, False), (signal.SIGINT, True)])
def test_a_signal_ends_training_after_the_step_and_a_second_ctrl_c_at_once(
    tmp_path: Path, number: signal.Signals, twice: bool
) -> None:
    trainee = ToyTrainee(config())
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    batches: list[int] = []
    compute = trainee.loss

    def loss(batch: Any, *, step: int, generator: torch.Generator) -> Loss:
        batches.append(step)
        for _ in range((1 + twice) * (step == 2)):
            os.kill(os.getpid(), number)
        return compute(batch, step=step, generator=generator)

    trainee.loss = loss  # type: ignore[method-assign]
    if twice:
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "run", trainee, save_every_minutes=1e-6)
        assert read_state(tmp_path / "run") == RunState(2, 0, finished=False)
    else:
        outcome = run(tmp_path / "run", trainee)
        assert (outcome.stop_reason, outcome.signal, outcome.steps) == ("interrupted", number, 3)
        assert read_state(tmp_path / "run") == RunState(3, 0, finished=False)
    assert batches == [0, 1, 2]
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_training_runs_in_a_thread_that_may_install_no_handlers(tmp_path: Path) -> None:
    outcomes: list[Outcome] = []
    thread = threading.Thread(target=lambda: outcomes.append(run(tmp_path / "run", epochs=1)))
    thread.start()
    thread.join()
    assert outcomes[0].stop_reason == "epochs"


def test_only_the_last_two_checkpoints_and_the_weights_in_use_are_kept(tmp_path: Path) -> None:
    outcome = run(
        tmp_path / "run", validate_every=2, average_checkpoints=3, save_every_minutes=1e-6, keep_checkpoints="all"
    )
    checkpoints = tmp_path / "run/checkpoints"
    assert sorted(path.name for path in checkpoints.glob("step-*")) == ["step-00000027", "step-00000028"]
    kept = {int(re.sub(r"\D", "", path.stem)) for path in (checkpoints / "weights").iterdir()}
    assert outcome.weights == [outcome.best_step]  # the mean was worse
    assert {24, 26, 28, outcome.best_step} <= kept <= {22, 24, 26, 28, outcome.best_step}
    assert (checkpoints / "best").read_text() == f"step-{outcome.best_step:08d}\n"
    assert (checkpoints / "latest").read_text() == "step-00000028\n"


@pytest.mark.parametrize("averages", [0, 3])
def test_a_finished_run_keeps_one_checkpoint_and_the_weights_that_a_later_end_needs(
    tmp_path: Path, averages: int
) -> None:
    changes = {"validate_every": 2, "average_checkpoints": averages, "save_every_minutes": 1e-6}
    outcome = run(tmp_path / "run", **changes)
    checkpoints = tmp_path / "run/checkpoints"
    kept = {path.relative_to(checkpoints).as_posix() for path in checkpoints.rglob("step-*")}
    assert kept == {"step-00000028", f"weights/step-{outcome.best_step:08d}.safetensors"}
    run(tmp_path / "all", **changes, keep_checkpoints="all")
    assert identical(state(tmp_path / "run"), state(tmp_path / "all"))


def test_a_run_that_ends_later_goes_on_from_the_checkpoint_that_it_kept(tmp_path: Path) -> None:
    changes = {"validate_every": 2, "average_checkpoints": 2, "schedule": "constant"}
    run(tmp_path / "once", epochs=4, **changes)
    run(tmp_path / "twice", epochs=2, **changes)
    reopen(tmp_path / "twice")
    run(tmp_path / "twice", epochs=4, **changes)
    assert identical(state(tmp_path / "once")["optimizer"], state(tmp_path / "twice")["optimizer"])
    assert (tmp_path / "once/model.safetensors").read_bytes() == (tmp_path / "twice/model.safetensors").read_bytes()


def test_a_run_may_keep_no_checkpoint(tmp_path: Path) -> None:
    outcome = run(tmp_path / "run", validate_every=2, average_checkpoints=3, keep_checkpoints="none")
    assert not list((tmp_path / "run/checkpoints").rglob("*.*"))
    assert (tmp_path / "run/model.safetensors").is_file()
    assert Outcome.read(tmp_path / "run") == outcome


class Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("exploded",)


@pytest.mark.parametrize("file", ["trainer_state.pt", "model.safetensors"])
def test_a_pickle_that_runs_code_is_refused_and_never_runs(
    tmp_path: Path, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run(tmp_path / "run", epochs=1)
    (tmp_path / "run/outcome.json").unlink()
    path = tmp_path / "run/checkpoints/step-00000007" / file
    torch.save({"version": 1, "bomb": Bomb()}, path)
    with pytest.raises(RegardError, match=re.escape(str(path))):
        run(tmp_path / "run", epochs=1)
    assert not (tmp_path / "exploded").exists()


def test_nothing_is_loaded_but_weights_and_plain_containers() -> None:
    for path in (Path(__file__).parents[1] / "src/regard/training").glob("*.py"):
        text = path.read_text()
        for call in re.findall(r"torch\.load\(.*?\)", text):
            assert "weights_only=True" in call, path
        assert not re.search(r"\bpickle\b|weights_only=False", text), path


def test_a_checkpoint_of_a_newer_format_or_another_model_is_refused(tmp_path: Path) -> None:
    run(tmp_path / "run", epochs=1)
    (tmp_path / "run/outcome.json").unlink()
    other = ToyTrainee(config())
    other.module.output = torch.nn.Linear(12, 5)
    with pytest.raises(RegardError, match="has the model changed"):
        run(tmp_path / "run", other, epochs=1)
    path = tmp_path / "run/checkpoints/step-00000007/trainer_state.pt"
    torch.save({**torch.load(path, weights_only=True), "version": 99}, path)
    progress = path.with_name("progress.json")
    progress.write_text(json.dumps({**json.loads(progress.read_text()), "sha256": {}}))
    with pytest.raises(RegardError, match="is newer than 2, the latest that this version of regard reads"):
        run(tmp_path / "run", epochs=1)


@pytest.mark.parametrize(
    "progress",
    [{"step": 7, "epoch": 1, "weights": ["x"]}, {"step": "7", "epoch": 1, "weights": []}, {"step": 7}, [], 7,
     {"step": 7, "epoch": -1, "weights": []}, {"step": 7, "epoch": 1, "weights": [], "sha256": 3}],
)  # fmt: skip
def test_a_progress_of_another_kind_is_an_error_that_names_its_file(tmp_path: Path, progress: Any) -> None:
    run(tmp_path / "run", epochs=1)
    (tmp_path / "run/outcome.json").unlink()
    path = tmp_path / "run/checkpoints/step-00000007/progress.json"
    path.write_text(json.dumps(progress), encoding="utf-8")
    with pytest.raises(RegardError, match=r"progress\.json: not the progress of a checkpoint"):
        run(tmp_path / "run", epochs=1)
