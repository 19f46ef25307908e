"""Predictions that are stopped or killed, and continued."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from regard.cli import parquet, predict, run, unfinished
from regard.cli.inputs import ChunkSize
from regard.errors import RegardError
from test_cli_predict_files import saved

WORDS = "".join(f"{'abc'[i % 3] * (1 + i % 4)}\n" for i in range(600))


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    return saved(tmp_path / "model")


@pytest.fixture
def in_fours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of four inputs, each of which is recorded."""
    monkeypatch.setattr("regard.cli.inputs.CHUNK_ROWS", 4)
    monkeypatch.setattr(unfinished, "RECORD_EVERY", 0.0)


def stopped_at(monkeypatch: pytest.MonkeyPatch, number: int, error: BaseException) -> None:
    """Raises an error instead of the nth call of the model."""
    predicted, calls = predict._predicted, []

    def interrupted(*arguments: Any, **options: Any) -> Any:
        calls.append(arguments)
        if len(calls) == number:
            raise error
        return predicted(*arguments, **options)

    monkeypatch.setattr(predict, "_predicted", interrupted)


NUM_INPUTS = 4


def write(output: Path, *, resume: bool, converted: bool) -> tuple[int, int]:
    """Writes a line for each input, of which every second fails; returns the numbers of inputs and of failed ones."""
    files = unfinished.Unfinished(output)
    if resume:
        files.read()
    files.require({"beam": 2})
    if not files.has_ended:
        with files.opened((lambda source, target: shutil.copy(source, target)) if converted else None) as stream:
            for number in range(files.progress.inputs, NUM_INPUTS):
                print(f"output {number}\nsecond line", file=stream)
                failed = files.progress.failed + number % 2
                files.advance(unfinished.Progress(inputs=number + 1, checksum=number, failed=failed))
    files.forget()
    return files.progress.inputs, files.progress.failed


def states(action: Callable[[], object]) -> list[dict[str, bytes]]:
    """The different contents of the files before each line of `unfinished` that is run: what a kill there leaves."""
    found: list[dict[str, bytes]] = []

    def look(frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename != unfinished.__file__:
            return None
        state = {path.name: path.read_bytes() for path in Path().iterdir() if path.is_file()}
        if state not in found:
            found.append(state)
        return look

    before = sys.gettrace()
    sys.settrace(look)
    try:
        action()
    finally:
        sys.settrace(before)
    return found


@pytest.mark.parametrize("converted", [False, True])
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_kill_at_any_moment_loses_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, converted: bool, overwrite: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(unfinished, "RECORD_EVERY", 0.0)
    output, partial, journal = "out.tsv", "out.tsv.partial", "out.tsv.partial.jsonl"
    if overwrite:
        Path(output).write_text("old")
    found = states(lambda: write(Path(output), resume=False, converted=converted))
    whole = Path(output).read_bytes()
    assert whole.count(b"\n") == 2 * NUM_INPUTS
    assert len(found) > 2 * NUM_INPUTS + 4
    written = [each for each in found if partial in each and each[journal].count(b"\n") > 1]
    cut = [{**each, journal: each[journal][:-3]} for each in written]
    more = [{**each, partial: each[partial] + b"outp"} for each in written]
    resumed = 0
    for state in [*found, *cut, *more]:
        for path in Path().iterdir():
            path.unlink()
        for name, content in state.items():
            Path(name).write_bytes(content)
        if partial in state or (journal in state and state.get(output) == whole):
            assert write(Path(output), resume=True, converted=converted) == (NUM_INPUTS, NUM_INPUTS // 2)
            resumed += 1
        elif state.get(output) != whole:  # nothing was done yet
            with pytest.raises(RegardError, match=r"there is no out.tsv.partial of a stopped prediction"):
                write(Path(output), resume=True, converted=converted)
            continue
        assert Path(output).read_bytes() == whole
        assert os.listdir() == [output]
    assert resumed > 4 * NUM_INPUTS


@pytest.mark.usefixtures("in_fours")
@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".txt", ".jsonl", ".parquet"])
def test_a_stopped_prediction_goes_on_in_every_format(
    model: str, suffix: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if suffix == ".parquet":
        pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    rows = [f"{'abc'[i % 3] * (1 + i % 4)},{i:03}\n" for i in range(12)]
    Path("in.csv").write_text("word,nr\n" + rows[0] + "a" * 5000 + ",1\n" + "".join(rows[2:]))
    options = ["--beam", "2", "--num-best", "2", "--at-least", "0.22", "--scores", "--confidence"]
    command = ["predict", "-m", model, "-i", "in.csv", *(options[:6] if suffix == ".txt" else options), "-o"]
    assert run([*command, f"whole{suffix}"]) == 1
    said = capsys.readouterr().err
    stopped_at(monkeypatch, 3, KeyboardInterrupt())
    assert run([*command, f"out{suffix}"]) == 130
    assert run([*command, f"out{suffix}", "--resume"]) == 1
    assert Path(f"out{suffix}").read_bytes() == Path(f"whole{suffix}").read_bytes()
    assert not list(Path().glob("*.partial*"))
    withheld, failed = said.splitlines()[-2:]
    assert "of 12 left empty" in withheld
    assert capsys.readouterr().err.splitlines()[-2:] == [withheld, failed]


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGKILL, -signal.SIGKILL)])
def test_a_stopped_prediction_keeps_what_was_done_and_goes_on(
    model: str, number: signal.Signals, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("in.txt").write_text(WORDS)
    assert run(["predict", "-m", model, "-i", "in.txt", "-o", "whole.tsv"]) == 0
    os.mkfifo("in")
    code = (
        "import sys; from regard.cli import run, unfinished; unfinished.RECORD_EVERY = 0; sys.exit(run(sys.argv[1:]))"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code, "predict", "-m", model, "-i", "in", "-o", "out.tsv"], stderr=subprocess.PIPE
    )
    partial, journal = Path("out.tsv.partial"), Path("out.tsv.partial.jsonl")
    with open("in", "w") as pipe:
        pipe.write(WORDS)
        pipe.flush()
        limit = time.monotonic() + 60
        while not (journal.exists() and journal.read_bytes().count(b"\n") > 1) and time.monotonic() < limit:
            time.sleep(0.05)
        child.send_signal(number)
        assert child.wait(timeout=60) == status
    assert child.stderr is not None
    said = child.stderr.read().decode()
    child.stderr.close()
    count = json.loads(journal.read_text().splitlines()[-1])["inputs"]
    assert 250 <= count < 600
    assert number == signal.SIGKILL or f"the outputs of {count:,} inputs are in {partial.resolve()}" in said
    assert partial.read_text() == "".join(Path("whole.tsv").read_text().splitlines(keepends=True)[:count])
    assert run(["predict", "-m", model, "-i", "in.txt", "-o", "out.tsv", "--resume"]) == 0
    assert Path("out.tsv").read_text() == Path("whole.tsv").read_text()
    assert not list(Path().glob("*.partial*"))
    assert run(["predict", "-m", model, "-i", "in.txt", "-o", "new.tsv", "--resume"]) == 2
    assert "there is no new.tsv.partial" in capsys.readouterr().err


@pytest.mark.usefixtures("in_fours")
def test_only_the_same_command_on_the_same_inputs_goes_on(
    model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("in.txt").write_text(WORDS[:60])
    command = ["predict", "-m", model, "-i", "in.txt", "-o", "out.tsv"]
    stopped_at(monkeypatch, 3, KeyboardInterrupt())
    assert run([*command, "--beam", "2"]) == 130
    kept = Path("out.tsv.partial").read_bytes()

    def refused(*arguments: str) -> str:
        capsys.readouterr()
        assert run([*arguments, "--resume"]) == 2
        assert Path("out.tsv.partial").read_bytes() == kept
        return capsys.readouterr().err

    assert "was written with --beam 2, and this command has no --beam." in refused(*command)
    command += ["--beam", "2"]
    assert "with no --scores, and this command has --scores." in refused(*command, "--scores")
    assert "with no --source-field, and this command has --source-field 0." in refused(*command, "--source-field", "0")
    shutil.copytree(model, "changed")
    changed = Path("changed/config.yaml")
    changed.write_text(changed.read_text().replace("max_length: 3", "max_length: 2"))
    assert "was written with another model" in refused("predict", "-m", "changed", *command[3:])
    Path("in.txt").write_text("b" + WORDS[:60])
    said = refused(*command)
    assert "--resume: the stopped prediction had read 8 inputs, but in.txt begins with others." in said
    Path("in.txt").write_text("a\n")
    assert "but in.txt has 1 only." in refused(*command)
    Path("in.txt").write_text(WORDS[:60] + "abc\n")  # further inputs are no change
    assert run([*command, "--resume"]) == 0
    assert Path("out.tsv").read_text().endswith("abc\t" + Path("out.tsv").read_text().rpartition("\t")[2])
    assert Path("out.tsv").read_bytes().startswith(kept)


@pytest.mark.usefixtures("in_fours")
def test_a_command_without_resume_begins_again_and_says_so(
    model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("in.txt").write_text(WORDS[:60])
    command = ["predict", "-m", model, "-i", "in.txt", "-o", "out.tsv"]
    stopped_at(monkeypatch, 3, KeyboardInterrupt())
    assert run(command) == 130
    capsys.readouterr()
    assert run(command) == 0
    assert (
        "out.tsv.partial, the outputs of a stopped prediction, is replaced, since there is no"
        in capsys.readouterr().err
    )
    assert len(Path("out.tsv").read_text().splitlines()) == len(WORDS[:60].splitlines())
    assert not list(Path().glob("*.partial*"))


@pytest.mark.usefixtures("in_fours")
def test_a_full_disk_is_named_and_what_was_written_goes_on(
    model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("in.txt").write_text(WORDS[:60])
    command = ["predict", "-m", model, "-i", "in.txt", "-o"]
    assert run([*command, "whole.tsv"]) == 0
    advanced, calls = unfinished.Unfinished.advance, []

    def full(self: Any, progress: Any) -> None:
        calls.append(progress)
        if len(calls) == 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        advanced(self, progress)

    monkeypatch.setattr(unfinished.Unfinished, "advance", full)
    assert run([*command, "out.tsv"]) == 2
    said = capsys.readouterr().err
    assert "the outputs of 8 inputs are in" in said
    assert said.endswith("out.tsv: No space left on device\n")
    assert run([*command, "out.tsv", "--resume"]) == 0
    assert Path("out.tsv").read_bytes() == Path("whole.tsv").read_bytes()


@pytest.mark.usefixtures("in_fours")
def test_two_commands_do_not_write_the_same_output(
    model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("fcntl", reason="this system has no locks of files")
    Path("in.txt").write_text(WORDS[:60])
    first = unfinished.Unfinished(Path("out.tsv"))
    with first.opened() as stream:
        assert run(["predict", "-m", model, "-i", "in.txt", "-o", "out.tsv"]) == 2
        print("mine", file=stream)
    assert "out.tsv: another process is writing" in capsys.readouterr().err
    assert Path("out.tsv").read_text() == "mine\n"


def test_chunks_go_on_with_the_size_that_they_had(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.cli.inputs.CHUNK_SECONDS", 60.0)
    size = ChunkSize()
    sizes = [size.rows]
    for _ in range(4):
        size.grow()
        sizes.append(size.rows)
    assert sizes == [250, 500, 1000, 2000, 2000]
    assert ChunkSize(1000).rows == 1000
    monkeypatch.setattr("regard.cli.inputs.CHUNK_SECONDS", 0.0)
    size.grow()
    assert size.rows == 2000


def test_parquet_has_rows_that_are_longer_than_a_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pytest.importorskip("pyarrow.parquet", reason="Parquet needs pyarrow")
    monkeypatch.setattr(parquet, "BLOCK_BYTES", 256)
    rows = [("a" * length, f"{length}.5") for length in (1, 3, 900, 5, 100, 0)]
    source, target = tmp_path / "out.csv", tmp_path / "out.parquet"
    source.write_text("input,score\n" + "".join(f'"{text}",{score}\n' for text, score in rows))
    parquet.converter(target, lambda name: name == "score")(source, target)
    assert table.read_table(target).to_pylist() == [{"input": text, "score": float(score)} for text, score in rows]
