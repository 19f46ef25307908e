"""Comparisons of runs: which data, which items, which outputs; and what is refused, by name."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from regard.cli import run
from regard.config import load as read_config
from regard.data.output_rows import read_outputs
from regard.errors import DataError, RegardError
from regard.runs.comparison import OtherOutputs, compare_runs
from regard.tasks import train
from task_cases import configured

ITEMS = [("test.tsv:1", "a b"), ("test.tsv:3", "c"), ("test.tsv:4", "d e")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of pairs, the second with another seed, and one of documents."""
    folder = tmp_path_factory.mktemp("compare")
    for task in ("text_to_text", "documents"):
        path = configured(task, folder / task, samples=0, keep_checkpoints="none")
        train(read_config(path), folder / task / "first")
    train(read_config(folder / "text_to_text/text_to_text.yaml", ["seed=7"]), folder / "text_to_text/second")
    return folder / "text_to_text"


def test_the_common_held_out_file_is_the_default(folder: Path) -> None:
    comparison = compare_runs([folder / "first", folder / "second"], device="cpu")
    assert comparison.data == str(folder / "dev.tsv")
    assert any("chose the saved models" in note for note in comparison.notes)
    assert comparison.settings == [("seed", [1, 7])]
    assert [side.facts()["steps"] for side in comparison.sides] == ["4", "4"]


def test_better_outputs_are_called_better_and_the_first_of_items_differ(folder: Path) -> None:
    lines = (folder / "train.tsv").read_text().splitlines() * 3
    words = [f"{i} {line}" for i, line in enumerate(lines)]  # other inputs than those of the training
    (folder / "many.tsv").write_text("".join(f"{line}\n" for line in words))
    right = [line.split("\t")[1] for line in words]
    half = [text if i % 2 else "9" for i, text in enumerate(right)]
    outputs = [OtherOutputs(name, lambda items, texts=texts: texts) for name, texts in (("all", right), ("half", half))]
    comparison = compare_runs([folder / "first"], folder / "many.tsv", outputs=outputs, device="cpu")
    metric = comparison.headline
    assert metric.order[:2] == [1, 2]
    assert metric.between(1, 2).verdict == -1
    assert metric.between(0, 1).verdict == 1
    item, _ = comparison.most_different(2)
    assert {side.name: shown.output for side, shown, _ in comparison.shown(item)}["all"] == right[item]


def test_items_that_a_model_was_trained_on_are_left_out(folder: Path) -> None:
    some = list(dict.fromkeys((folder / "train.tsv").read_text().splitlines()))[:2]
    (folder / "mixed.tsv").write_text("\n".join([*some, "9 9 9\t9", "8 9\t9"]) + "\n")
    comparison = compare_runs([folder / "first", folder / "second"], folder / "mixed.tsv", device="cpu")
    assert comparison.num_items == 2
    assert "2 items that a model was trained on are left out" in comparison.notes
    (folder / "seen.tsv").write_text("\n".join(some) + "\n")
    with pytest.raises(DataError, match="trained on all of its items"):
        compare_runs([folder / "first", folder / "second"], folder / "seen.tsv", device="cpu")


def test_what_cannot_be_compared_is_refused_by_name(folder: Path, tmp_path: Path) -> None:
    documents = folder.parent / "documents/first"
    with pytest.raises(RegardError, match=r"first \(text_to_text\), .*first \(documents\)"):
        compare_runs([folder / "first", documents], device="cpu")
    with pytest.raises(RegardError, match="first is given twice"):
        compare_runs([folder / "first", folder / "first"], device="cpu")
    with pytest.raises(RegardError, match="at least two"):
        compare_runs([folder / "first"], folder / "test.tsv", device="cpu")
    with pytest.raises(RegardError, match=r"leave out baselines\."):
        compare_runs([folder / "first"], folder / "test.tsv", baselines=True, device="cpu")
    with pytest.raises(DataError, match="was trained on this file"):
        compare_runs([folder / "first", folder / "second"], folder / "train.tsv", device="cpu")
    shutil.copytree(folder / "second", tmp_path / "other")
    for name, value, message in (
        ("data.json", lambda text: text.replace(json.loads(text)["dev"], "0" * 64), "has changed since the training"),
        ("config.yaml", lambda text: text.replace("dev.tsv", "gone.tsv"), "gone.tsv does not exist here"),
    ):
        path = tmp_path / "other" / name
        before = path.read_text()
        path.write_text(value(before))
        with pytest.raises((RegardError, DataError), match=message if name == "config.yaml" else "checksum is wrong"):
            compare_runs([folder / "first", tmp_path / "other"], device="cpu")
        path.write_text(before)


def test_the_command_line_writes_what_the_suffix_says_and_replaces_nothing(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = ["compare", str(folder / "first"), str(folder / "second"), "--items", "1"]
    assert run([*both, "--output", str(tmp_path / "report.pdf")]) == 2
    assert "does not write files that end in .pdf" in capsys.readouterr().err
    assert run([*both, "--output", str(tmp_path / "report.txt")]) == 0
    assert run([*both, "--output", str(tmp_path / "report.txt")]) == 2
    assert "the file exists" in capsys.readouterr().err
    assert run([*both, "--target", str(folder / "test.tsv")]) == 2
    assert "add --data FILE" in capsys.readouterr().err
    assert "time and size" in (tmp_path / "report.txt").read_text()


def test_runs_are_named_by_what_tells_them_apart_and_by_their_paths_in_tables(folder: Path, tmp_path: Path) -> None:
    both, page, table = [str(folder / name) for name in ("first", "second")], tmp_path / "a.html", tmp_path / "a.csv"
    for output in (page, table):
        assert run(["compare", *both, "--output", str(output)]) == 0
    text = page.read_text()
    assert "<title>first and second</title>" in text
    assert [text.count(path) for path in both] == [1, 1]
    assert {line.split(",")[1] for line in table.read_text().splitlines()[1:]} == {*both}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.txt", "x\ny\nz\n"),
        ("a.txt", "x\nrepeats the first\ny\nz\n"),
        ("a.tsv", "d e\tz\na  b\tx\nc\ty\n"),
        ("a.tsv", "input\tprediction\tscore\na b\tx\t0.5\nc\ty\t0.4\nd e\tz\t0.1\n"),
        ("a.csv", "source,output\na b,x\nc,y\nd e,z\n"),
        ("a.csv", "sep=;\nscore;input;label\n1;a b;x\n2;c;y\n3;d e;z\n"),
        (
            "a.jsonl",
            '{"input": "a b", "text": "x"}\n{"input": "c", "text": "y"}\n{"input": ["d", "e"], "text": "z"}\n',
        ),
    ],
)
def test_outputs_are_lines_or_tables_of_inputs(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert read_outputs(tmp_path / name)(ITEMS) == ["x", "y", "z"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.txt", "x\ny\n", "2 lines for 3 items"),
        ("a.tsv", "a b\tx\nc\ty\n", "no output for 1 of 3 inputs, such as 'd e'"),
        ("a.tsv", "a b\n", "a column of inputs and one of outputs"),
        ("a.jsonl", '{"input": "a b"}\n', "a.jsonl:1: expected an object"),
    ],
)
def test_outputs_that_are_missing_are_named(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=message):
        read_outputs(tmp_path / name)(ITEMS)
