"""Files with a token per line come in and go out of predictions as they are, but for their labels."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from regard.cli import run
from regard.data.text import Vocabulary
from regard.runs.store import save
from regard.tasks import load
from regard.tasks.labelling.config import LabellingConfig
from regard.tasks.labelling.model import Tagger

CONLL = "-DOCSTART- -X- O\n\n\nAnna NNP B-per\nvan  NN\tI-per\n# X O\n10\u00a0km CD O\n\n# id = 2\nOslo NNP S\n\n\n"
CONLLU = (
    "# text = Vámonos\n1-2\tVámonos\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No\n1\tVamos\tir\tX\t_\t_\t0\troot\t_\t_\n"
    "2\tnos\t_\t_\t_\t_\t1\tobj\t_\tA=b\n2.1\tx\t_\t_\t_\t_\t_\t_\t_\t_\n\n1\tMarch\t_\t_\t_\t_\t_\t_\t_\t_\n\n# end\n"
)


def saved(folder: Path, **data: Any) -> str:
    torch.manual_seed(0)
    sizes = {"size": 4, "embedding_size": 3, "layers": 1}
    config = LabellingConfig(data={"train": "x", **data}, model={"encoder": sizes, "attention": {"size": 4}})
    letters = Vocabulary(["Anna", "van", "A", "n"])
    save(Tagger.build(config, letters, letters, Vocabulary(["O", "B-per", "I-per"]), name="m"), folder)
    return str(folder)


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    return saved(tmp_path / "model")


def predicted(*arguments: str) -> None:
    assert run(["predict", "--device", "cpu", *arguments]) == 0


def labels(model: str, *sentences: Sequence[str]) -> list[str]:
    return [label for each in load(model, device="cpu").predict(list(sentences)) for label in each.labels]


def test_a_conll_file_keeps_everything_but_its_labels(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("in.txt").write_text(CONLL)
    predicted("-m", model, "-i", "in.txt")
    printed = capsys.readouterr()
    a, b, c, d, e = labels(model, ["Anna", "van", "#", "10\u00a0km"], ["Oslo"])
    assert printed.out == (
        f"-DOCSTART- -X- O\n\n\nAnna NNP {a}\nvan  NN\t{b}\n# X {c}\n10\u00a0km CD {d}\n\n# id = 2\nOslo NNP {e}\n\n\n"
    )
    assert (
        "in.txt: sentences with a token per line, columns separated by spaces or tabs; tokens in column 0"
        in printed.err
    )


def test_a_conllu_file_keeps_everything_but_its_labels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = saved(tmp_path / "model", label_column="xpos")
    (tmp_path / "in.conllu").write_bytes(b"\xef\xbb\xbf" + CONLLU.replace("\n", "\r\n").encode())
    a, b, c = labels(model, ["Vamos", "nos"], ["March"])
    expected = CONLLU.replace("ir\tX\t_", f"ir\tX\t{a}").replace("2\tnos\t_\t_\t_", f"2\tnos\t_\t_\t{b}")
    expected = expected.replace("March\t_\t_\t_", f"March\t_\t_\t{c}")
    predicted("-m", model, "-i", str(tmp_path / "in.conllu"))
    assert capsys.readouterr().out == expected
    predicted("-m", model, "-i", str(tmp_path / "in.conllu"), "--scores")
    lines = capsys.readouterr().out.splitlines()
    assert lines[3].startswith(f"2\tnos\t_\t_\t{b}\t_\t1\tobj\t_\tA=b|Probability=0.")
    assert lines[1].endswith("SpaceAfter=No")


def test_a_file_without_labels_gets_a_column(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    a, b, c = labels(model, ["Anna", "van"], ["Oslo"])
    for text, expected in (
        ("Anna\nvan\n\nOslo\n", f"Anna {a}\nvan {b}\n\nOslo {c}\n"),
        ("Anna\tNN\nvan\tNN\n\nOslo\tNN\n", f"Anna\tNN\t{a}\nvan\tNN\t{b}\n\nOslo\tNN\t{c}\n"),
        ("Anna\t_\nvan\t_\n\nOslo\t_\n", f"Anna\t{a}\nvan\t{b}\n\nOslo\t{c}\n"),
    ):
        Path("in.tsv").write_text(text)
        predicted("-m", model, "-i", "in.tsv")
        assert capsys.readouterr().out == expected


@pytest.mark.parametrize(
    "text",
    [
        "Anna van Oslo\nOslo\n\nvan Oslo\n",
        "Anna van\nvan Anna\n",
        '{"text": "Anna"}\n',
        "Anna van\tx\nvan Oslo\ty\n\nOslo x\tz\n",
    ],
)
def test_sentences_in_lines_stay_sentences(model: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("in.txt").write_text(text)
    predicted("-m", model, "-i", "in.txt")
    assert len(capsys.readouterr().out.splitlines()) == len(text.splitlines())


def test_the_form_of_outputs_can_be_chosen(
    model: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b, c = labels(model, ["Anna", "van"], ["Oslo"])
    rest = "\t_" * 6
    new = f"# text = Anna van\n1\tAnna\t_\t{a}{rest}\n2\tvan\t_\t{b}{rest}\n\n# text = Oslo\n1\tOslo\t_\t{c}{rest}\n\n"
    predicted("-m", model, "Anna van", "Oslo", "-o", "out.conllu")
    assert Path("out.conllu").read_text() == new
    predicted("-m", model, "Anna van", "Oslo", "--format", "conll")
    assert capsys.readouterr().out == f"Anna\t{a}\nvan\t{b}\n\nOslo\t{c}\n\n"
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"Anna O\nvan O\n"), isatty=lambda: False))
    predicted("-m", model, "--format", "jsonl")
    record = json.loads(capsys.readouterr().out)
    assert (record["input"], record["labels"]) == ("Anna van", [a, b])
    assert "columns" not in record
    Path("in.conll").write_text("Anna O\nvan O\n")
    predicted("-m", model, "-i", "in.conll", "--format", "tsv")
    assert capsys.readouterr().out == f"Anna van\t{a} {b}\n"
    predicted("-m", model, "-i", "in.conll", "--input-format", "lines", "--format", "text")
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_a_line_without_columns_is_an_error_of_the_file(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("in.conllu").write_text(CONLLU + "1\tno\n")
    assert run(["predict", "-m", model, "-i", "in.conllu"]) == 2
    assert "in.conllu:10: a line of CoNLL-U has 10 columns separated by tabs; this one has 2" in capsys.readouterr().err


def test_a_picture_of_a_file_has_its_sentence(model: str) -> None:
    Path("in.conll").write_text("Anna O\n10\u00a0km O\n")
    assert run(["plot", "-m", model, "in.conll", "-o", "a.svg", "--data", "json"]) == 0
    shown = json.loads(Path("a.json").read_text())
    assert shown["items"][0]["source_tokens"] == ["Anna", "10\u00a0km"]


def test_axes_of_a_picture_name_tokens(model: str) -> None:
    assert run(["plot", "-m", model, "Anna van", "-o", "a.html"]) == 0
    page = Path("a.html").read_text()
    assert "tokens with labels" in page
