"""`regard align`: files of pairs, forms of results, links of references and of the other direction."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from regard.cli import run
from regard.data.text import Field
from regard.decoding import symmetrise
from regard.runs.store import save
from regard.tasks import TextToText, load
from regard.tasks.text_to_text.config import TextToTextConfig
from regard.viz import load_alignment

LINES = ["ab cab\tca bb\tx", "", "a b\tabc a\ty", "c c c\tb c\tz"]
SOURCES, TARGETS = ["ab cab", "a b", "c c c"], ["ca bb", "abc a", "b c"]


def saved(folder: Path, seed: int = 0, heads: int = 2, **more: object) -> str:
    torch.manual_seed(seed)
    side = {"size": 8, "embedding_size": 6, "dropout": 0.0}
    config = TextToTextConfig(
        data={"train": "x.tsv"},
        model={
            "encoder": side,
            "decoder": side,
            "attention": {"recipe": "multi_head", "size": 8, "num_heads": heads} if heads else None,
        },
    )
    field = Field.build(config.data.source, ["abc abc"])
    model = TextToText.build(config, field, field)
    model.fingerprints.update(more)  # type: ignore[arg-type]
    save(model, folder)
    return str(folder)


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("p.tsv").write_text("\n".join(LINES) + "\n")
    return saved(tmp_path / "model")


def pharaoh(model: str, **options: object) -> list[str]:
    found = load(model, device="cpu").align(list(zip(SOURCES, TARGETS, strict=True)), **options)
    return [" ".join(f"{s}-{t}" for s, t in each.links()) for each in found]


def test_links_have_the_lines_of_the_file(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["align", model, "p.tsv"]) == 0
    first, second, third = pharaoh(model)
    assert capsys.readouterr().out == f"{first}\n\n{second}\n{third}\n"
    assert len({first, second, third}) > 1
    assert run(["align", model, "p.tsv", "--scores", "-o", "o.links"]) == 0
    (line, *_) = Path("o.links").read_text().splitlines()
    score = load(model, device="cpu").align([(SOURCES[0], TARGETS[0])])[0].log_probability
    assert line == f"{first}\t{score:.4f}"
    assert run(["align", model, "p.tsv", "-o", "o.links"]) == 2
    assert "--overwrite" in capsys.readouterr().err


def test_the_same_pairs_in_other_files_have_the_same_links(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("s.txt").write_text("\n".join(SOURCES) + "\n")
    Path("t.txt").write_text("\n".join(TARGETS) + "\n")
    Path("p.jsonl").write_text(
        "".join(json.dumps({"in": s, "out": t}) + "\n" for s, t in zip(SOURCES, TARGETS, strict=True))
    )
    Path("q.tsv").write_text("".join(f"{t}\t-\t{s}\n" for s, t in zip(SOURCES, TARGETS, strict=True)))
    expected = "".join(f"{line}\n" for line in pharaoh(model))
    for arguments in (
        ["--source", "s.txt", "--target", "t.txt"],
        ["p.jsonl", "--source-field", "in", "--target-field", "out"],
        ["q.tsv", "--source-field", "2", "--target-field", "0"],
    ):
        assert run(["align", model, *arguments]) == 0
        assert capsys.readouterr().out == expected


def test_each_option_changes_what_it_says(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, options in (
        (["--symbols"], {"words": False}),
        (["--end-symbol"], {"end_symbol": True}),
        (["--head", "1"], {"head": 1}),
        (["--layer", "attention"], {"layer": "attention"}),
        (["--normalise"], {"normalise": True}),
    ):
        assert run(["align", model, "p.tsv", "--format", "jsonl", *arguments]) == 0
        records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        found = load(model, device="cpu").align(list(zip(SOURCES, TARGETS, strict=True)), **options)
        for record, each in zip(records, found, strict=True):
            assert {name: record[name] for name in each.record()} == json.loads(json.dumps(each.record()))
        assert [record["line"] for record in records] == [1, 3, 4]
        assert [record["source"] for record in records] == SOURCES
    assert run(["align", model, "p.tsv", "--threshold", "0.2"]) == 0
    assert len(capsys.readouterr().out.split()) > len(" ".join(pharaoh(model)).split())


def test_weights_are_written_as_a_table_and_as_arrays(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = load(model, device="cpu").align(list(zip(SOURCES, TARGETS, strict=True)))
    assert run(["align", model, "p.tsv", "-o", "w.tsv"]) == 0
    header, *rows = [line.split("\t") for line in Path("w.tsv").read_text().splitlines()]
    assert header == ["line", "source_position", "output_position", "source", "output", "weight"]
    assert len(rows) == sum(each.alignment.numel() for each in found)
    weights = torch.tensor([float(row[-1]) for row in rows])
    torch.testing.assert_close(weights, torch.cat([each.alignment.flatten() for each in found]), atol=1e-6, rtol=0)
    assert rows[1][:5] == ["1", "1", "0", "cab", "ca"]
    assert run(["align", model, "p.tsv", "--format", "tsv", "--threshold", "0.45"]) == 0
    assert len(capsys.readouterr().out.splitlines()) - 1 == int((weights >= 0.45).sum())
    for suffix in ("npz", "json"):
        assert run(["align", model, "p.tsv", "-o", f"w.{suffix}"]) == 0
        for read, each in zip(load_alignment(f"w.{suffix}"), found, strict=True):
            torch.testing.assert_close(torch.from_numpy(read.alignment), each.alignment)
    assert sorted(path.name for path in Path().glob("*w*")) == ["w.json", "w.npz", "w.tsv"]


def test_references_give_the_error_rate(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    links = pharaoh(model)
    Path("r.links").write_text(f"{links[0]}\n\n{links[1]}\n\n")
    assert run(["align", model, "p.tsv", "--references", "r.links"]) == 0
    assert capsys.readouterr().out.startswith("3 pairs: alignment error rate 20.00%, precision 66.67%, recall 100.00%")
    assert run(["align", model, "p.tsv", "--references", "r.links", "--json", "-o", "o.links"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["error_rate"] == pytest.approx(0.2)
    assert (figures["pairs"], figures["num_links"], figures["num_sure"]) == (3, 6, 4)
    assert Path("o.links").read_text().splitlines() == [links[0], "", *links[1:]]
    ones = [
        " ".join(f"{int(s) + 1}-{int(t) + 1}" for s, t in (link.split("-") for link in line.split())) for line in links
    ]
    Path("ones.links").write_text("\n".join([ones[0], "", *ones[1:]]))
    assert run(["align", model, "p.tsv", "--references", "ones.links", "--first", "1"]) == 0
    assert "alignment error rate 0.00%" in capsys.readouterr().out
    # a link per line: nothing says that the last pairs have none
    numbers = [[int(n) + 1 for n in link.split("-")] for link in links[0].split()]
    Path("numbered").write_text("".join(f"1 {s} {t} S\n" for s, t in numbers))
    assert run(["align", model, "p.tsv", "--references", "numbered"]) == 0
    assert f"reference: {len(numbers)} sure" in capsys.readouterr().out


def test_files_of_the_training_give_no_error_rate(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    from regard.runs.fingerprints import fingerprint

    Path("r.links").write_text("0-0\n" * 4)
    for name, path in (("train", "p.tsv"), ("alignments", "r.links")):
        trained = saved(Path(f"trained-{name}").absolute(), **{name: fingerprint(path)})
        assert run(["align", trained, "p.tsv", "--references", "r.links"]) == 2
        assert f"{path}: " in capsys.readouterr().err
        assert run(["align", trained, "p.tsv"]) == 0
        capsys.readouterr()


@pytest.mark.parametrize("method", [None, "intersection", "union", "grow-diag"])
def test_both_directions_are_joined(method: str | None, model: str, capsys: pytest.CaptureFixture[str]) -> None:
    other = saved(Path("other").absolute(), seed=5)
    there = load(model, device="cpu").align(list(zip(SOURCES, TARGETS, strict=True)))
    back = load(other, device="cpu").align(list(zip(TARGETS, SOURCES, strict=True)))
    expected = []
    for one, two in zip(there, back, strict=True):
        links = symmetrise(one.hard(), two.hard(), method or "grow-diag-final-and")  # type: ignore[arg-type]
        expected.append(" ".join(f"{s}-{t}" for s, t in sorted((s, t) for t, s in links.nonzero().tolist())))
    options = [] if method is None else ["--symmetrise", method]
    assert run(["align", model, "p.tsv", "--reverse", other, *options]) == 0
    assert capsys.readouterr().out.splitlines() == [expected[0], "", *expected[1:]]
    Path("swapped.tsv").write_text("".join(f"{t}\t{s}\n" for s, t in zip(SOURCES, TARGETS, strict=True)))
    Path("q.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in zip(SOURCES, TARGETS, strict=True)))
    assert run(["align", other, "swapped.tsv", "-o", "back.links"]) == 0
    assert run(["align", model, "q.tsv", "--reverse", "back.links", *options, "--format", "jsonl"]) == 0
    assert [json.loads(line)["links"] for line in capsys.readouterr().out.splitlines()] == expected


def test_a_pair_that_cannot_be_read_has_no_links_and_stops_nothing(
    model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    other = saved(Path("other").absolute(), seed=5)
    Path("long.tsv").write_text(f"{LINES[0]}\n{'c' * 5000} b\tb c\tx\nb\t{'c' * 5000}\tx\n")
    Path("r.links").write_text("0-0\n0-0 1-1\n0-0\n")
    assert run(["align", model, "long.tsv", "--references", "r.links", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert (figures["pairs"], figures["num_links"], figures["num_sure"]) == (3, 2, 4)
    for reverse in (other, "r.links"):
        assert run(["align", model, "long.tsv", "--reverse", reverse, "--symmetrise", "union"]) == 0
        first, *rest = capsys.readouterr().out.splitlines()
        assert first
        assert rest == ["", ""]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Give FILE, or of parallel texts --source FILE --target FILE"),
        (["p.tsv", "--source", "p.tsv", "--target", "p.tsv"], "Give FILE, or of parallel"),
        (["--source", "p.tsv"], "Give FILE, or of parallel"),
        (["--source", "p.tsv", "--target", "p.tsv", "--source-field", "1"], "parallel files have no columns"),
        (["p.tsv", "--target-field", "1,2"], "an output has one column only"),
        (["p.tsv", "--format", "npz"], "--format npz needs a file"),
        (["p.tsv", "--format", "npz", "-o", "x.txt"], "--format npz needs a file: give --output FILE.npz; got x.txt"),
        (["p.tsv", "--format", "jsonl", "--scores"], "--scores is for --format pharaoh"),
        (["p.tsv", "--format", "tsv", "--reverse", "b.links"], "--reverse joins links"),
        (["p.tsv", "--symmetrise", "union"], "add --reverse"),
        (["p.tsv", "--json"], "add --references"),
        (["p.tsv", "--first", "1"], "--first is for the numbers in references: add --references"),
        (["p.tsv", "--threshold", "0.3", "-o", "x.npz"], "--threshold selects links, but npz has all weights"),
        (["p.tsv", "--references", "bad", "--scores"], "links are written to a file only: add --output"),
        (["p.tsv", "--references", "bad", "--format", "jsonl"], "links are written to a file only: add --output"),
        (["p.tsv", "--references", "short"], "short: has links for 1 lines; p.tsv:4 needs 4"),
        (
            ["p.tsv", "--references", "far"],
            "far:3: the link 0-2, counted from 0, does not fit p.tsv:3, whose input has 2",
        ),
        (["p.tsv", "--references", "bad"], "bad:2: expected links such as 0-0"),
        (["p.tsv", "--reverse", "short"], "short: has links for 1 lines"),
        (
            ["p.tsv", "--reverse", "far"],
            "far:3: the link 0-2 does not fit p.tsv:3, whose output has 2 words",
        ),
        (["missing.tsv"], "missing.tsv: no such file"),
        (["broken.tsv"], "broken.tsv:2: 1 tab-separated column"),
        (["blank.tsv"], "blank.tsv: the file has no pairs"),
        (["p.tsv", "--head", "2"], "alignment_head is 2, but attention has 2 heads"),
        (["p.tsv", "--threshold", "2"], "threshold must be a weight above 0 and at most 1; got 2"),
        (["unknown.tsv", "--strict"], "unknown.tsv:1 ('aq'): not in the training data"),
    ],
)
def test_wrong_arguments_and_files_are_named(
    arguments: list[str], message: str, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in (
        ("short", "0-0\n"),
        ("far", "\n\n0-2\n\n"),
        ("bad", "\nx\n\n\n"),
        ("broken.tsv", "a\tb\nc\n"),
        ("blank.tsv", "\n"),
        ("unknown.tsv", "aq\tb\n"),
    ):
        Path(name).write_text(text)
    assert run(["align", model, *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not list(Path().glob(".*"))


@pytest.mark.parametrize("flag", ["--references", "--reverse"])
def test_links_of_more_lines_than_there_are_pairs_are_refused(
    flag: str, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("long").write_text("0-0\n\n0-0\n0-0\n\n0?0\n")
    assert run(["align", model, "p.tsv", flag, "long"]) == 2
    assert "long:6: links without a pair; the last pair is p.tsv:4." in capsys.readouterr().err
    Path("blanks").write_text("0-0\n\n0-0\n0-0\n\n\n")
    assert run(["align", model, "p.tsv", flag, "blanks"]) == 0


def test_other_directions_with_other_words_and_models_that_do_not_align_are_refused(
    model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.manual_seed(0)
    side = {"size": 8, "embedding_size": 6, "dropout": 0.0}
    data = {"train": "x.tsv", "source": {"units": "separator", "separator": ";"}}
    config = TextToTextConfig(data=data, model={"encoder": side, "decoder": side})
    fields = Field.build(config.data.source, ["ca bb"]), Field.build(config.data.target, ["abc abc"])
    save(TextToText.build(config, *fields), Path("separated"))
    assert run(["align", model, "p.tsv", "--reverse", "separated"]) == 2
    assert "p.tsv:1: 2 words of input and 2 of output, but separated has 1 and 2" in capsys.readouterr().err
    assert run(["align", saved(Path("plain").absolute(), heads=0), "p.tsv"]) == 2
    assert "no attention" in capsys.readouterr().err


def test_pictures_of_words_and_the_head_of_predictions_are_flags(
    model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = ["plot", "-m", model, "ab cab", "--data", "json", "--min-length", "7"]
    for name, flags in (("a", []), ("b", ["--words"]), ("c", ["--no-end-symbol"]), ("d", ["--alignment-head", "1"])):
        assert run([*plain, "-o", f"{name}.html", *flags]) == 0
    symbols, words, without, head = (load_alignment(f"{name}.json")[0] for name in "abcd")
    assert words.source_tokens == ("ab", "cab", "</s>")
    assert len(symbols.source_tokens) == 7
    assert "</s>" not in without.source_tokens + without.tokens
    assert head.alignment.shape == symbols.alignment.shape
    assert abs(head.alignment - symbols.alignment).max() > 1e-4
    assert run(["plot", "-m", model, "ab", "-o", "e.html", "--alignment-layer", "cross.0"]) == 2
    assert "the alignments are attention" in capsys.readouterr().err
