"""Predicting files: their columns are kept, and no file is lost."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from regard.cli import run
from regard.data.text import Field
from regard.runs.store import save
from regard.tasks import TextToText
from regard.tasks.text_to_text.config import SideConfig, TextToTextConfig

TAGS = {"units": ["character", "separator"], "separator": ";"}


def saved(folder: Path, *, source_field: object = 0, columns: int = 1, **data: object) -> str:
    torch.manual_seed(0)
    side = {"size": 6, "embedding_size": 4, "dropout": 0.0}
    source = TAGS if columns > 1 else {}
    config = TextToTextConfig(
        data={"train": "x.tsv", "source_field": source_field, "source": source, **data},
        model={"encoder": side, "decoder": side},
        decoding={"beam": 1, "max_length": 3},
    )
    made = Field.build(config.data.source, ["abc\tV;N"] if columns > 1 else ["abc"], num_columns=columns)
    save(TextToText.build(config, made, Field.build(SideConfig(), ["xyz"])), folder)
    return str(folder)


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    return saved(tmp_path / "model")


def outputs(model: str, *texts: str) -> list[str]:
    from regard.tasks import load

    return [one.text for one in load(model, device="cpu").predict(list(texts))]


def test_a_tsv_file_keeps_its_columns_and_gets_one_more(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("in.tsv").write_text("ab\tnote 1\tx\nc\t\ty\n\nb\tlast\tz\n")
    first, second, last = outputs(model, "ab", "c", "b")
    assert run(["predict", "-m", model, "-i", "in.tsv"]) == 0
    printed = capsys.readouterr()
    assert printed.out == f"ab\tnote 1\tx\t{first}\nc\t\ty\t{second}\n\t\nb\tlast\tz\t{last}\n"
    assert "in.tsv:3: '': the input is empty" in printed.err
    assert run(["predict", "-m", model, "-i", "in.tsv", "--source-field", "2", "--scores"]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [len(row) for row in rows] == [5, 5, 3, 5]
    assert rows[0][3] == outputs(model, "x")[0]


def test_a_file_of_words_is_read_as_before_whatever_its_suffix(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("words.txt", "words.tsv", "words"):
        Path(name).write_text("ab\nc\n")
        assert run(["predict", "-m", model, "-i", name]) == 0
        assert capsys.readouterr().out == "".join(f"{a}\t{b}\n" for a, b in zip(("ab", "c"), outputs(model, "ab", "c")))


def test_the_columns_of_a_model_with_several_are_found_in_files_of_both_forms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    model = saved(tmp_path / "model", source_field=[0, 2], columns=2)
    (said,) = outputs(model, "ab\tV")
    for name, content, expected in (
        ("german-dev", "ab\tform\tV\n", f"ab\tform\tV\t{said}\n"),
        ("german-test", "ab\tV\n", f"ab\tV\t{said}\n"),
    ):
        Path(name).write_text(content)
        assert run(["predict", "-m", model, "-i", name]) == 0
        assert capsys.readouterr().out == expected
    Path("other").write_text("V\tab\n")
    assert run(["predict", "-m", model, "-i", "other", "--source-field", "1,0"]) == 0
    assert capsys.readouterr().out == f"V\tab\t{said}\n"
    assert run(["predict", "-m", model, "-i", "other", "--source-field", "1"]) == 2
    assert "--source-field lists 1, but the model's input has 2 columns" in capsys.readouterr().err
    Path("short").write_text("ab\tform\tV\nab\tform\n")
    assert run(["predict", "-m", model, "-i", "short"]) == 1
    printed = capsys.readouterr()
    assert printed.out == f"ab\tform\tV\t{said}\nab\tform\t\n"
    assert "short:2: '': expected 3 columns or more; got 2" in printed.err
    Path("one").write_text("ab\n")
    assert run(["predict", "-m", model, "-i", "one"]) == 2
    assert "one:1: 1 tab-separated column, but the input is in 0, 2" in capsys.readouterr().err


def test_json_objects_keep_their_fields(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"id": 7, "word": "ab"}, {"id": 8}, {"id": 9, "word": "c"}]
    Path("in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows) + "\n")
    assert run(["predict", "-m", model, "-i", "in.jsonl", "--source-field", "word", "--alignments"]) == 1
    printed = capsys.readouterr()
    records = [json.loads(line) for line in printed.out.splitlines()]
    assert [{k: v for k, v in one.items() if k != "prediction"} for one in records] == rows
    assert [one["prediction"]["text"] for one in records] == [
        "" if i == 1 else text for i, text in enumerate(outputs(model, "ab", "a", "c"))
    ]
    assert records[0]["prediction"]["alignment"]
    assert "in.jsonl:2: '': no field 'word'" in printed.err
    assert run(["predict", "-m", model, "-i", "in.jsonl", "--source-field", "word", "--format", "tsv"]) == 1
    assert capsys.readouterr().out.splitlines()[0].startswith("ab\t")
    Path("broken.jsonl").write_text("{\n")
    assert run(["predict", "-m", model, "-i", "broken.jsonl"]) == 2
    assert "broken.jsonl:1: not JSON" in capsys.readouterr().err


def test_an_existing_output_is_kept_unless_it_may_be_replaced(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("out.tsv").write_text("precious\n")
    Path("in.txt").write_text("ab\n")
    for command in (
        ["predict", "-m", model, "-i", "in.txt", "-o", "out.tsv"],
        ["predict", "-m", model, "-i", "missing.txt", "-o", "out.tsv", "--overwrite"],
        ["predict", "-m", "no model", "-i", "in.txt", "-o", "out.tsv", "--overwrite"],
        ["predict", "-m", model, "-i", "in.txt", "-o", "out.tsv", "--overwrite", "--beam", "0"],
        ["predict", "-m", model, "a?", "-o", "out.tsv", "--overwrite", "--strict"],
    ):
        assert run(command) == 2
        assert Path("out.tsv").read_text() == "precious\n"
    assert "out.tsv: the file exists; choose another name or add --overwrite." in capsys.readouterr().err
    assert run(["predict", "-m", model, "-i", "in.txt", "-o", "out.tsv", "--overwrite"]) == 0
    assert Path("out.tsv").read_text().startswith("ab\t")
    assert sorted(os.listdir()) == ["in.txt", "model", "out.tsv"]


def test_a_failed_prediction_leaves_no_file(model: str) -> None:
    assert run(["predict", "-m", model, "ab", "a?", "-o", "out.tsv", "--strict"]) == 2
    assert os.listdir() == ["model"]


def test_a_symbolic_link_stays_one_and_a_pipe_is_written_as_it_is(model: str) -> None:
    Path("real.tsv").write_text("old\n")
    Path("link.tsv").symlink_to("real.tsv")
    assert run(["predict", "-m", model, "ab", "-o", "link.tsv", "--overwrite"]) == 0
    assert Path("link.tsv").is_symlink()
    assert Path("real.tsv").read_text().startswith("ab\t")
    assert run(["predict", "-m", model, "ab", "-o", "/dev/null"]) == 0
    assert Path("/dev/null").is_char_device()


def test_an_interrupted_prediction_leaves_what_was_there(model: str) -> None:
    Path("out.tsv").write_text("precious\n")
    os.mkfifo("in")
    child = subprocess.Popen(
        [sys.executable, "-m", "regard", "predict", "-m", model, "-i", "in", "-o", "out.tsv", "--overwrite"],
        stderr=subprocess.PIPE,
    )
    with open("in", "w") as pipe:
        pipe.write("ab\n" * 100)  # as many as are read before the output is begun
        pipe.flush()
        limit = time.monotonic() + 60
        while not Path("out.tsv.partial").exists() and time.monotonic() < limit:
            time.sleep(0.05)
        assert Path("out.tsv.partial").exists()
        child.send_signal(signal.SIGINT)
    assert child.wait(timeout=60) == 130
    assert child.stderr is not None
    child.stderr.close()
    assert Path("out.tsv").read_text() == "precious\n"
    assert sorted(os.listdir()) == ["in", "model", "out.tsv"]


def test_an_input_that_is_far_too_long_harms_no_other(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("in.txt").write_text("ab\n" + "a" * 1_000_000 + "\nc\n")
    assert run(["predict", "-m", model, "-i", "in.txt", "-o", "out.tsv"]) == 1
    first, _, last = Path("out.tsv").read_text().splitlines()
    assert [first, last] == [f"{a}\t{b}" for a, b in zip(("ab", "c"), outputs(model, "ab", "c"))]
    assert "in.txt:2: " in (said := capsys.readouterr().err)
    assert "1,000,000 symbols, but an input may have at most 4,000 (max_source_length)" in said
    assert run(["predict", "-m", model, "abcab", "--max-source-length", "4"]) == 1
    assert capsys.readouterr().out == "abcab\t\n"
    assert run(["predict", "-m", model, "a" * 4100, "--max-source-length", "5000", "--max-length", "1"]) == 0
    assert "max_source_length" not in capsys.readouterr().err


def test_half_a_surrogate_pair_harms_no_other(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("in.jsonl").write_text('["ab"]\n["a\\ud800"]\n["c"]\n')
    assert run(["predict", "-m", model, "-i", "in.jsonl"]) == 1
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == 3
    assert "in.jsonl:2: " in printed.err
    assert "half a surrogate pair" in printed.err
    assert run(["predict", "-m", model, "ab", "a\udcff", "-o", "out.tsv"]) == 1  # the bytes of a Latin-1 argument
    assert Path("out.tsv").read_text().splitlines()[1] == "a\\udcff\t"
    assert "the input was not UTF-8" in capsys.readouterr().err


def test_fields_that_a_file_has_not_stop_at_its_first_line_and_name_the_option(
    model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("in.jsonl").write_text('{"text": "ab", "said": "c"}\n' * 3)
    assert run(["predict", "-m", model, "-i", "in.jsonl"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("in.jsonl:") == 1
    assert "--source-field" in printed.err
    assert run(["evaluate", "-m", model, "in.jsonl"]) == 2
    assert "--source-field" in capsys.readouterr().err
    assert run(["evaluate", "-m", model, "in.jsonl", "--source-field", "text", "--target-field", "said"]) == 0
    assert capsys.readouterr().out.startswith("1 item:")
    assert run(["evaluate", "-m", model, "in.jsonl", "--source-field", "text", "--target-field", "said,x"]) == 2
    assert run(["evaluate", "-m", model, "--source", "a", "--target", "b", "--target-field", "1"]) == 2


def test_columns_and_json_from_stdin_are_read_where_fields_are_named_and_told_of_where_not(
    model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def predicted(text: str, *options: str) -> tuple[str, str]:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        assert run(["predict", "-m", model, *options]) == 0
        printed = capsys.readouterr()
        return printed.out, printed.err

    out, _ = predicted('{"text": "ab"}\n', "--source-field", "text", "--format", "text")
    assert out.splitlines() == outputs(model, "ab")
    assert "stdin:1: read as plain text, although it looks like JSON" in predicted('{"text": "ab"}\n')[1]
    assert "stdin:1: read as plain text, although it has a tab; use --source-field 0" in predicted("ab\tc\n")[1]
    assert "read as a text" not in predicted("ab\tc\n", "--source-field", "0")[1]


def test_a_text_that_names_a_file_is_told_of(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("ab").write_text("c\n")
    assert run(["predict", "-m", model, "ab", "c"]) == 0
    printed = capsys.readouterr()
    assert printed.err == "argument 1: 'ab' is read as a text; --input reads the file of that name.\n"
    assert len(printed.out.splitlines()) == 2


def test_a_model_that_is_not_there_is_told_by_its_nearest_name(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["predict", "-m", "modle", "ab"]) == 2
    assert "did you mean 'model'?" in capsys.readouterr().err
    assert run(["predict", "-m", "g2p_en", "ab"]) == 2
    assert "did you mean 'g2p-en'?" in capsys.readouterr().err


def test_a_table_of_commas_keeps_its_header_and_columns_and_gets_one_more(
    model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("in.csv").write_text('word,note\nab,"x, y"\nc,"two\nlines"\n')
    first, last = outputs(model, "ab", "c")
    expected = f'word,note,prediction\nab,"x, y",{first}\nc,"two\nlines",{last}\n'
    assert run(["predict", "-m", model, "-i", "in.csv"]) == 0
    printed = capsys.readouterr()
    assert printed.out == expected
    assert "in.csv: CSV; the input is column 0 of 2; the first line names the columns" in printed.err
    assert run(["predict", "-m", model, "-i", "in.csv", "-o", "out.csv"]) == 0
    assert Path("out.csv").read_text() == expected
    assert run(["predict", "-m", model, "-i", "in.csv", "-o", "out.jsonl"]) == 0
    assert json.loads(Path("out.jsonl").read_text().splitlines()[0])["columns"] == ["ab", "x, y"]
    Path("semicolon.csv").write_text("sep=;\nab;x\nc;y\n")
    assert run(["predict", "-m", model, "-i", "semicolon.csv", "--scores"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "input_0;input_1;prediction;score"
    assert lines[1].startswith(f"ab;x;{first};-")


def test_a_row_of_commas_with_other_columns_than_the_first_does_not_move_its_output(
    model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("in.csv").write_text("word,note,more\nab,x,y\nc\nc,x,y,\nc,a text, with a comma\nc,x,y,z\n")
    first, last = outputs(model, "ab", "c")
    assert run(["predict", "-m", model, "-i", "in.csv", "-o", "out.csv"]) == 1
    assert "in.csv:6: '': expected 3 columns, as in the first row; got 4" in " ".join(capsys.readouterr().err.split())
    with Path("out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["prediction"] for row in rows[:4]] == [first, last, last, last]
    assert rows[1]["note"] == rows[1]["more"] == ""


def test_the_suffix_of_the_output_is_its_format(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    (said,) = outputs(model, "ab")
    for name, expected in (
        ("o.csv", f"input,prediction\nab,{said}\n"),
        ("o.tsv", f"ab\t{said}\n"),
        ("o", f"ab\t{said}\n"),
    ):
        assert run(["predict", "-m", model, "ab", "-o", name]) == 0
        assert Path(name).read_text() == expected
    Path("returns.txt").write_bytes(b"a\rb\n")
    assert run(["predict", "-m", model, "-i", "returns.txt", "-o", "returns.csv"]) == 0
    with Path("returns.csv").open(newline="") as file:
        assert [row[0] for row in csv.reader(file)] == ["input", "a\rb"]
    assert run(["predict", "-m", model, "ab", "-o", "o.jsonl"]) == 0
    assert json.loads(Path("o.jsonl").read_text())["text"] == said
    assert run(["predict", "-m", model, "ab", "-o", "o2.csv", "--format", "tsv"]) == 2
    assert "the suffix .csv is that of csv, but --format is tsv" in capsys.readouterr().err


def test_a_table_of_pairs_is_read_as_training_reads_it_whatever_its_suffix(
    model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    first, last = outputs(model, "ab", "c")
    for content in ("ab\tx\nc\ty\n", "source\ttarget\nab\tx\nc\ty\n", "ab ||| x\nc ||| y\n"):
        Path("pairs.txt").write_text(content)
        assert run(["predict", "-m", model, "-i", "pairs.txt"]) == 0
        printed = capsys.readouterr()
        rows = [line.split("\t") for line in printed.out.splitlines()]
        assert rows[-2:] == [["ab", "x", first], ["c", "y", last]]
        assert rows[:-2] == ([["source", "target", "prediction"]] if content.startswith("source") else [])
        assert "the input is column 0 of 2" in printed.err
    Path("pairs.txt").write_text("ab\tx\nc\n")  # no table: the lines have different numbers of columns
    assert run(["predict", "-m", model, "-i", "pairs.txt"]) == 0
    assert "read as plain text, although it has a tab" in capsys.readouterr().err
    Path("pairs.txt").write_text("ab\tx\nc\ty\n")
    assert run(["predict", "-m", model, "-i", "pairs.txt", "--input-format", "lines", "--format", "jsonl"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[0])["input"] == "ab\tx"
    assert run(["predict", "-m", model, "pairs.txt", "--format", "text"]) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines() == [first, last]
    assert "pairs.txt is read as a file of inputs" in printed.err


def test_plot_draws_the_inputs_of_a_file(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("pairs.tsv").write_text("ab\tx\nc\ty\nb\tz\n")
    assert run(["plot", "-m", model, "-i", "pairs.tsv", "-o", "a.html"]) == 0
    assert run(["plot", "-m", model, "pairs.tsv", "-o", "b.html"]) == 0
    assert Path("a.html").read_text() == Path("b.html").read_text()
    assert "pairs.tsv" not in Path("a.html").read_text()
    capsys.readouterr()
    assert run(["plot", "-m", model, "-i", "pairs.tsv", "--first", "2", "--separate", "-o", "c.svg"]) == 0
    assert sorted(path.name for path in Path().glob("c*")) == ["c-1.svg", "c-2.svg"]
    assert "The first 2 inputs are drawn" in capsys.readouterr().err
    assert run(["plot", "-m", model, "-o", "d.svg"]) == 2
    assert run(["plot", "-m", model, "-i", "pairs.tsv", "ab", "-o", "d.svg"]) == 2


def test_the_status_is_1_if_inputs_have_no_output(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["predict", "-m", model, "ab", "a" * 5000, "c"]) == 1
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == 3
    assert printed.err.endswith("1 input has no output; see above.\n")
    assert run(["predict", "-m", model, "ab", "a?", ""]) == 0  # an unknown symbol, and nothing to read


def test_progress_is_said_now_and_then_where_there_is_no_terminal(
    model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from regard.cli import inputs, progress

    monkeypatch.setattr(inputs, "CHUNK_ROWS", 50)
    monkeypatch.setattr(progress, "FIRST_LINE_AFTER", 0.0)
    Path("in.txt").write_text("ab\n" * 200)
    assert run(["predict", "-m", model, "-i", "in.txt", "-o", "out.tsv"]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("50 inputs, 50%, ")
    assert line.endswith("left")


def test_a_table_that_is_no_csv_is_named(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.csv").write_bytes(b"word,phones\na\rb,c\n")
    assert run(["predict", "-m", model, "-i", "a.csv"]) == 2
    error = "a.csv:2: not CSV: new-line character seen in unquoted field, in the row that begins here."
    assert error in capsys.readouterr().err


def test_parquet_needs_a_file_and_its_package(
    model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["predict", "-m", model, "ab", "--format", "parquet"]) == 2
    assert capsys.readouterr().err == "Parquet is written into a file: add --output FILE.parquet.\n"
    monkeypatch.setitem(sys.modules, "pyarrow.csv", None)
    assert run(["predict", "-m", model, "ab", "-o", "out.parquet"]) == 2
    assert "out.parquet: Parquet needs the pyarrow package: pip install 'regard[series]'" in capsys.readouterr().err
    assert not Path("out.parquet").exists()


def test_csv_of_json_inputs_has_their_fields(model: str) -> None:
    Path("in.jsonl").write_text('{"nr": 7, "word": "ab", "note": null}\n{"nr": 8, "word": "c", "note": "x, y"}\n')
    (first,), (last,) = outputs(model, "ab"), outputs(model, "c")
    assert run(["predict", "-m", model, "-i", "in.jsonl", "--source-field", "word", "-o", "out.csv"]) == 0
    expected = f'nr,word,note,prediction\n7,ab,,{first}\n8,c,"x, y",{last}\n'
    assert Path("out.csv").read_text() == expected
