"""Pipes are read, or a file is asked for; outputs that cannot be written, or whose suffix lies, are refused at once."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from regard.cli import run
from regard.data.text import open_pairs
from regard.data.text_file import regular

PAIRS = "cat\tK AE T\ndog\tD AO G\n"


@contextmanager
def pipe(content: str) -> Iterator[str]:
    """The name of a pipe that holds a text, as of `<(cat FILE)`."""
    reader, writer = os.pipe()
    thread = threading.Thread(target=lambda: (os.write(writer, content.encode()), os.close(writer)))
    thread.start()
    try:
        yield f"/dev/fd/{reader}"
    finally:
        thread.join()
        os.close(reader)


linux = pytest.mark.skipif(not Path("/dev/fd").is_dir(), reason="no /dev/fd")


@linux
def test_a_pipe_is_read_by_every_verb_that_reads_pairs(capsys: pytest.CaptureFixture[str]) -> None:
    with pipe(PAIRS) as name:
        assert run(["evaluate", "-m", "g2p-en", name]) == 0
    assert capsys.readouterr().out.startswith("2 items")
    with pipe(PAIRS) as name:
        assert run(["align", "g2p-en", name]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    with pipe("cat\ndog\n") as name:
        assert run(["predict", "-m", "g2p-en", "-i", name, "--format", "text"]) == 0
    assert capsys.readouterr().out == "K AE T\nD AO G\n"
    words = "".join(f"{a}{b}\t{a.upper()} {b.upper()}\n" for a in "bcdfghklmnprst" for b in "aeiou")
    with pipe(words) as name:
        assert run(["data", "check", "--preset", "g2p", name]) == 0
    assert "train has 6" in capsys.readouterr().out


def test_a_dash_is_stdin(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(PAIRS.encode())))
    monkeypatch.setattr("regard.data.text_file._copies", {})
    assert run(["evaluate", "-m", "g2p-en", "-"]) == 0
    assert capsys.readouterr().out.startswith("2 items")


@linux
def test_a_pipe_is_read_once_and_by_all_readers() -> None:
    with pipe(PAIRS) as name:
        assert [len(open_pairs(name)) for _ in range(2)] == [2, 2]
        assert regular(Path(name)).read_text() == PAIRS
    assert regular(Path(__file__)) == Path(__file__)


@linux
def test_a_training_and_a_conversion_need_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pipe(PAIRS) as name:
        out = str(tmp_path / "run")
        assert run(["train", "--preset", "g2p", "--set", f"data.train={name}", "-o", out]) == 2
        assert "a training reads its data again" in capsys.readouterr().err
        assert run(["convert", "opennmt", name, "-o", out]) == 2
        assert "a model is read from a file or a folder" in capsys.readouterr().err
    assert run(["evaluate", "-m", "g2p-en", "/dev/zero"]) == 2
    assert "/dev/zero is a device; give a file" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_pipe_that_nobody_writes_into_is_waited_for_aloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "in")
    monkeypatch.setattr("regard.data.text_file.PATIENCE", 0.05)
    said: list[str] = []

    def warn(message: str, **_: object) -> None:
        said.append(message)
        (tmp_path / "in").write_text(PAIRS)

    monkeypatch.setattr("regard.data.text_file.warnings.warn", warn)
    assert len(open_pairs(tmp_path / "in")) == 2
    assert "waiting for data on the pipe" in said[0]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("loop", "loop is a symbolic link that leads back to itself"),
        ("circle", "circle is a symbolic link that leads back to itself"),
        ("folder", "folder is a folder; give the name of a file"),
        ("file/out", "a part of its folder is a file"),
        ("in.txt", "in.txt would overwrite in.txt, which is read"),
        ("to_in", "to_in would overwrite in.txt, which is read"),
        ("out.xlsx", "this command does not write files that end in .xlsx"),
        ("out.wav", "this command does not write files that end in .wav"),
        ("out.tsv.gz", "this command does not write files that end in .gz"),
    ],
)
def test_an_output_that_cannot_be_written_is_refused_before_anything_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in.txt").write_text("ab\n")
    Path("file").write_text("")
    Path("folder").mkdir()
    for link, target in (("loop", "loop"), ("circle", "back"), ("back", "circle"), ("to_in", "in.txt")):
        Path(link).symlink_to(target)
    before = {path.name for path in tmp_path.iterdir()}
    for verb in (["predict", "-m", "g2p-en", "-i", "in.txt"], ["evaluate", "-m", "g2p-en", "in.txt"]):
        assert run([*verb, "-o", name, "--overwrite"]) == 2
        assert message in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == before
    assert Path("in.txt").read_text() == "ab\n"


def test_a_dangling_link_leads_to_the_new_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("link.tsv").symlink_to("sub/real.tsv")
    assert run(["predict", "-m", "g2p-en", "cat", "-o", "link.tsv"]) == 0
    assert Path("sub/real.tsv").read_text() == "cat\tK AE T\n"


@pytest.mark.parametrize(
    ("verb", "name", "message"),
    [
        (["evaluate", "-m", "g2p-en", "in.tsv"], "out.csv", "files that end in .csv; use one of .json, .txt"),
        (
            ["align", "g2p-en", "in.tsv"],
            "out.csv",
            "files that end in .csv; use one of .json, .jsonl, .ndjson, .npz, .tsv",
        ),
        (["align", "g2p-en", "in.tsv", "--format", "tsv"], "out.jsonl", "is that of jsonl, but --format is tsv"),
        (["export", "g2p-en", "--format", "onnx"], "g2p.onnx", "give the name of a folder"),
        (["convert", "opennmt", "in.tsv"], "out.pt", "give the name of a folder"),
    ],
)
def test_the_suffix_of_an_output_decides_or_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    verb: list[str],
    name: str,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in.tsv").write_text(PAIRS)
    assert run([*verb, "-o", name]) == 2
    assert message in capsys.readouterr().err
    assert run(["data", "synthetic", "copy", "pairs.csv"]) == 2
    assert "; use one of .tab, .tsv" in capsys.readouterr().err


def test_an_evaluation_into_a_json_file_is_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in.tsv").write_text(PAIRS)
    assert run(["evaluate", "-m", "g2p-en", "in.tsv", "-o", "figures.json"]) == 0
    assert Path("figures.json").read_text().startswith("{")
