"""Sources of several columns, as a lemma and its tags."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.cli import run
from regard.config import from_preset, load
from regard.data.text import ByteUnits, CharacterUnits, ColumnUnits, Field, SeparatorUnits, WhitespaceUnits, open_pairs
from regard.errors import ConfigError, DataError
from regard.runs.store import save
from regard.tasks import TextToText
from regard.tasks import load as load_model
from regard.tasks.text_to_text.config import SideConfig, TextToTextConfig
from regard.tasks.text_to_text.reading import read_pairs as read_data

LINES = "gehen\tging\tV;PST;3;SG\nlaufen\tlief\tV;PST\ngehen\tgeht\tV;3;SG\n"
SIDE = SideConfig(units=("character", "separator"), separator=";")
COLUMNS = ["data.source_field=[0, 2]", "data.source.units=[character, separator]", "data.source.separator=;"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "german-train"
    path.write_text(LINES, encoding="utf-8")
    return path


def field(**options: object) -> Field:
    texts = ["gehen\tV;PST;3;SG", "laufen\tV;PST", "gehen\tV;3;SG"]
    return Field.build(SIDE.model_copy(update=options), texts, num_columns=2)


def untrained() -> TextToText:
    model = {"encoder": {"size": 8, "embedding_size": 6}, "decoder": {"size": 8, "embedding_size": 6}}
    config = TextToTextConfig(data={"train": "x.tsv", "source_field": [0, 2], "source": SIDE.model_dump()}, model=model)
    return TextToText.build(config, field(), Field.build(SideConfig(), ["gingelief"]))


def test_columns_of_tsv_and_fields_of_json_are_one_text_with_tabs(file: Path, tmp_path: Path) -> None:
    expected = [("gehen\tV;PST;3;SG", "ging"), ("laufen\tV;PST", "lief"), ("gehen\tV;3;SG", "geht")]
    assert [(p.source, p.target) for p in open_pairs(file, source_field=[0, 2])] == expected
    objects, lists = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    rows = [line.split("\t") for line in LINES.splitlines()]
    objects.write_text("".join(json.dumps(dict(zip(("lemma", "form", "tags"), row))) + "\n" for row in rows))
    lists.write_text("".join(json.dumps(row) + "\n" for row in rows))
    named = open_pairs(objects, source_field=["lemma", "tags"], target_field="form")
    assert [(p.source, p.target) for p in named] == expected
    assert [(p.source, p.target) for p in open_pairs(lists, source_field=(0, 2))] == expected
    assert open_pairs(file, source_field=[2, 0])[0].source == "V;PST;3;SG\tgehen"


def test_symbols_of_later_columns_are_marked_and_distinct() -> None:
    made = Field.build(SIDE, ["VN\tV;N", "V\tN"], num_columns=2)
    assert made.split("VN\tN; V") == ["V", "N", "+N", "+V"]
    assert set(made.vocabulary.symbols) == {"V", "N", "+V", "+N"}
    assert made.encode("VX\tV;X").unknown == ["X", "+X"]
    three = ColumnUnits((CharacterUnits(), WhitespaceUnits(), SeparatorUnits("|")))
    assert three.split("a\tb c\td|e") == ["a", "+b", "+c", "++d", "++e"]
    assert three.split("\t\t") == []


TEXT = st.text(st.sampled_from("ab+\\;é "), max_size=6)


@given(st.lists(TEXT, min_size=3, max_size=3))
def test_no_two_columns_share_a_symbol_and_joining_gives_the_columns_back(columns: list[str]) -> None:
    units = ColumnUnits((WhitespaceUnits(), SeparatorUnits(";"), CharacterUnits()))
    cut = [one.split(column) for one, column in zip(units.columns, columns)]
    joined = [one.join(symbols) for one, symbols in zip(units.columns, cut)]
    tokens = units.split("\t".join(columns))
    assert units.join(tokens).split("\t") == joined
    sizes = [len(set(symbols)) for symbols in cut]
    assert len(set(tokens)) == sum(sizes)


def test_every_column_is_normalised_for_itself() -> None:
    made = field(case="upper")
    assert made.split(" Gehen \t pst;v ") == ["G", "E", "H", "E", "N", "+PST", "+V"]
    assert made.split("\tv") == ["+V"]
    assert made.split("g\t") == ["G"]


def test_rare_symbols_of_all_columns_are_left_out_and_bytes_are_always_known() -> None:
    assert "+PST" in field(min_count=2).vocabulary
    assert "+SG" not in field(min_count=3).vocabulary
    made = Field.build(SIDE.model_copy(update={"units": ("byte", "separator")}), ["é\tV", "a\tN"], num_columns=2)
    assert made.encode("ü\tN").unknown == []
    assert isinstance(made.units, ColumnUnits)
    assert made.units.inventory is None
    both = ColumnUnits((ByteUnits(), ByteUnits()))
    assert both.inventory is not None
    assert len(set(both.inventory)) == 512


def test_a_field_of_columns_is_the_same_after_loading(tmp_path: Path) -> None:
    made = field(case="lower", unicode="NFD")
    made.save(tmp_path, "source")
    loaded = Field.load(tmp_path, "source")
    assert loaded.vocabulary == made.vocabulary
    assert loaded.num_columns == 2
    for text in ("Gehen\tV;PST", "Müde\tADJ"):
        assert loaded.split(text) == made.split(text)
    separated = Field.build(SideConfig(units="separator", separator="--"), ["a b--c"])
    separated.save(tmp_path, "target")
    assert Field.load(tmp_path, "target").split("a b--c--") == ["a b", "c"]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"separator": ";"', '"separator": ""', "`separator` must be a non-empty text; got ''"),
        ('"units": "separator"', '"units": "sentencepiece"', "`units` must be one of character, .*'sentencepiece'"),
        ('"columns": [', '"columns": [3, ', "`columns` must list the units of two columns or more; got"),
    ],
)
def test_a_damaged_field_of_columns_says_what_is_wrong(tmp_path: Path, old: str, new: str, words: str) -> None:
    field().save(tmp_path, "source")
    path = tmp_path / "source.json"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(DataError, match=words):
        Field.load(tmp_path, "source")


@pytest.mark.parametrize(
    ("settings", "key", "words"),
    [
        (
            ["data.source_field=[0, 2]", "data.source.units=[character]"],
            "data.source.units",
            "lists 1 units .*2 columns",
        ),
        (
            ["data.source.units=[character, word]"],
            "data.source.units",
            "lists 2 units .*one column; data.source_field lists",
        ),
        (["data.target.units=[character, word]"], "data.target.units", "the target has one column"),
        (["data.source.units=separator"], "data.source.units", "set data.source.separator"),
        (["data.source.separator=;"], "data.source.separator", "has no effect with units: character"),
        (
            ["data.source_field=[0, 2]", "data.source.units=sentencepiece"],
            "data.source.units",
            "needs texts of one column, not 2",
        ),
        (["data.source_field=[]"], "data.source_field", "lists no column"),
        (
            ["data.source_field=[0, 2]", "data.autoencode=true"],
            "data.source_field",
            "needs an input of one column",
        ),
        (["data.source_field=[0, -2]"], "data.source_field", "counted from 0.*got -2"),
    ],
)
def test_settings_that_do_not_fit_columns_are_refused(file: Path, settings: list[str], key: str, words: str) -> None:
    configuration = from_preset("text-to-text", [f"data.train={file}", f"data.dev={file}", *settings])
    with pytest.raises(ConfigError, match=words) as caught:
        read_data(configuration.config.data)
    assert ".".join(map(str, caught.value.path)) == key


def test_parallel_files_have_one_column(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text("x\n")
    train = f"data.train={{source: {tmp_path / 'a'}, target: {tmp_path / 'b'}}}"
    configuration = from_preset("text-to-text", [train, "data.dev_fraction=0.4", *COLUMNS])
    with pytest.raises(ConfigError, match="parallel files have one column"):
        read_data(configuration.config.data)


def test_a_tab_within_a_json_field_is_refused_where_tabs_separate_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('["a\\tb", "c", "d"]\n')
    assert open_pairs(path)[0].source == "a\tb"
    with pytest.raises(DataError, match=r"a\.jsonl:1: 'a\\tb' has a tab, which separates columns"):
        open_pairs(path, source_field=[0, 2])[0]


def test_a_line_with_too_few_columns_names_all_that_are_needed(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("a\tb\n")
    with pytest.raises(DataError, match="fields 0, 2 and 1, counted from 0, need at least 3"):
        open_pairs(path, source_field=[0, 2])[0]


def test_a_text_of_another_number_of_columns_harms_no_other_and_says_what_is_expected() -> None:
    model = untrained()
    search = model.config.decoding.replace(max_length=4)
    good, short, long = model.predict(["gehen\tV;PST", "gehen", "a\tb\tc"], search=search)
    assert good.warnings == ()
    assert good.source_tokens == ["g", "e", "h", "e", "n", "+V", "+PST", "</s>"]
    assert good.alignment is not None
    assert good.alignment.shape[1] == 8
    for one, count in ((short, 1), (long, 3)):
        assert one.text == ""
        assert one.warnings == (f"expected 2 columns with tabs between them, as in training; got {count}",)
    with pytest.raises(DataError, match=r"input 2 .*expected 2 columns"):
        model.predict(["gehen\tV;PST", "gehen"], strict=True)


def test_the_same_columns_several_times_are_references_of_one_item(tmp_path: Path) -> None:
    path = tmp_path / "test.tsv"
    path.write_text("gehen\tging\tV;PST\ngehen\tgieng\tV;PST\ngehen\tgeht\tV;3;SG\n")
    model = untrained()
    items = model.evaluate(path, search=model.config.decoding.replace(max_length=2)).scored
    assert [(one.item.source, one.item.references) for one in items] == [
        ("gehen\tV;PST", ("ging", "gieng")),
        ("gehen\tV;3;SG", ("geht",)),
    ]


def test_a_saved_model_of_columns_predicts_the_same(tmp_path: Path) -> None:
    model = untrained()
    save(model, tmp_path / "run")
    loaded = load_model(tmp_path / "run", device="cpu")
    text = "laufen\tV;PST"
    search = model.config.decoding.replace(max_length=5)
    assert loaded.predict([text], search=search)[0].tokens == model.predict([text], search=search)[0].tokens
    assert loaded.information()["source"] == "16 character and separator symbols in 2 columns"
    assert load(tmp_path / "run" / "config.yaml").config.data.source_field == (0, 2)


def test_the_checks_read_columns(file: Path) -> None:
    configuration = from_preset("text-to-text", [f"data.train={file}", f"data.dev={file}", *COLUMNS])
    found = str(read_data(configuration.config.data).check())
    assert "source 8 to 9 symbols, median 8" in found


def test_tags_decide_what_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The whole way: training, prediction, evaluation; only the tags tell what to do with the letters."""
    draw = random.Random(1)
    rows = []
    for _ in range(150):
        word = "".join(draw.choices("abcd", k=draw.randint(1, 3)))
        rows += [f"{word}\t{word}\tN;SG", f"{word}\t{word}s\tN;PL"]
    (tmp_path / "train.tsv").write_text("\n".join(dict.fromkeys(rows)) + "\n")
    settings = [
        f"data.train={tmp_path / 'train.tsv'}",
        "data.dev_fraction=0.1",
        *COLUMNS,
        "data.target.units=character",
    ]
    settings += ["model.encoder.size=32", "model.decoder.size=32", "model.attention.size=32", "training.epochs=16"]
    settings += ["model.encoder.dropout=0", "model.decoder.dropout=0", "training.learning_rate=0.01"]
    settings += ["training.batch_tokens=96", "training.schedule=cosine", "training.device=cpu", "training.samples=1"]
    flags = [part for setting in settings for part in ("--set", setting)]
    assert run(["train", "--preset", "text-to-text", *flags, "--output", str(tmp_path / "run")]) == 0
    capsys.readouterr()
    assert run(["predict", "--model", str(tmp_path / "run"), "abc\tN;PL", "abc\tN;SG", "abc"]) == 1
    said = capsys.readouterr()
    assert said.out.splitlines() == ["abc\tN;PL\tabcs", "abc\tN;SG\tabc", "abc\t"]
    assert "expected 2 columns with tabs between them" in said.err
