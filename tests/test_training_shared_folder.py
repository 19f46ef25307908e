"""Run folders on file systems that several machines share: without locks, with operations that fail, seen late."""

from __future__ import annotations

import errno
import os
import signal
import threading
from pathlib import Path

import pytest

from regard.errors import DataError, RegardError
from regard.runs import fingerprints
from regard.training import lock, processes
from regard.training.lock import Lock, check_free
from regard.training.loop import Interruption
from test_training_resume import assert_same_run, listing, run

fcntl = pytest.importorskip("fcntl")


@pytest.fixture(autouse=True)
def _quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda handle: None)


@pytest.fixture
def is_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process is one of two of torchrun."""
    monkeypatch.setenv("WORLD_SIZE", "2")


def test_a_run_in_which_any_renaming_fails_ends_with_an_error_and_continues_to_the_same_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = {"epochs": 1, "save_every_minutes": 1e-9}
    run(tmp_path / "whole", **changes)
    replace, moment, made = os.replace, 0, 0

    def fails(source: object, target: object) -> None:
        nonlocal made
        made += 1
        if made == moment:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        replace(source, target)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "replace", fails)
    run(tmp_path / "counted", **changes)
    total = made
    for moment in range(1, total + 1, 13):
        made, folder = 0, tmp_path / f"{moment}"
        with pytest.raises(RegardError, match=r"cannot be written: Stale file handle\.\n.*the same command continues"):
            run(folder, **changes)
        run(folder, **changes)
        assert_same_run(tmp_path / "whole", folder)
        assert listing(folder) == listing(tmp_path / "whole")
    assert total > 20


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_without_locks_a_run_begins_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: int
) -> None:
    def fails(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", fails)
    check_free(tmp_path)
    with Lock(tmp_path):
        check_free(tmp_path)
    assert capsys.readouterr().err.count("on a file system without locks") == 1


def test_a_job_of_torchrun_waits_for_the_process_that_still_has_the_lock(
    tmp_path: Path, is_job: None, capsys: pytest.CaptureFixture[str]
) -> None:
    former = Lock(tmp_path).__enter__()
    threading.Timer(0.2, former.__exit__).start()
    with Lock(tmp_path):
        pass
    assert capsys.readouterr().err.count("still has the lock of this folder; waiting up to 120 s") == 1


def test_a_job_of_torchrun_waits_no_longer_than_a_file_server_keeps_locks(
    tmp_path: Path, is_job: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "PATIENCE", 0.1)
    with Lock(tmp_path), pytest.raises(RegardError, match="is training in this folder"):
        check_free(tmp_path)


def test_data_that_differ_between_machines_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def gathered(value: tuple[str, dict[str, str]]) -> list[tuple[str, dict[str, str]]]:
        return [value, ("nodeb", {**value[1], "data.train": "other", "the version of torch": "1.0"})]

    fingerprints.check_same({"train": "abc", "dev": "def"})
    monkeypatch.setattr(processes, "gathered", gathered)
    with pytest.raises(DataError, match=r"Process 2 of 2, on nodeb, .* in data\.train, the version of torch\."):
        fingerprints.check_same({"train": "abc", "dev": "def"})


def test_processes_wait_until_all_see_what_the_first_has_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = iter([["new", "old"], ["new", None], ["new", "new"]])
    monkeypatch.setattr(processes, "gathered", lambda _: next(seen))
    monkeypatch.setattr(processes.time, "sleep", lambda _: None)
    processes.wait_until_same(tmp_path / "model.safetensors")
    assert next(seen, None) is None
    monkeypatch.setattr(processes, "gathered", lambda _: ["new", "old"])
    monkeypatch.setattr(processes, "LATE", 0.0)
    with pytest.raises(RegardError, match=r"model\.safetensors: after 0 s processes still read 2 different contents"):
        processes.wait_until_same(tmp_path / "model.safetensors")


def test_a_process_stops_when_its_torchrun_has_ended_and_one_of_a_shell_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    plain = Interruption()
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "1")
    of_torchrun = Interruption()
    assert not of_torchrun.is_due
    monkeypatch.setattr(os, "getppid", lambda: 1)
    assert of_torchrun.is_due
    assert of_torchrun.signal == signal.SIGTERM
    assert not plain.is_due
