"""A text of a command line is the value as it stands; what YAML makes of one in a file is an error with its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.cli.options import _with_settings
from regard.config import from_preset, load
from regard.config.place import legible
from regard.errors import ConfigError


def data(preset: str, *overrides: str) -> Any:
    return from_preset(preset, ["data.train=table.csv", *overrides]).config.data


ODD = [
    "#", "|", ">", ":", "NO", "on", "~", " ", "'", "a: b", "[x", "[x]", "{", "%d/%m", "12:30", "1e3", "012", "- a",
    "&a", "a #b", "!", "*", "@", "'a' or 'b'", "2020-01-02", "0x1f", "a\tb",
]  # fmt: skip


@pytest.mark.parametrize("text", ODD)
def test_a_text_is_the_value_as_it_stands(text):
    assert data("documents", f"data.label_separator={text}").label_separator == text
    assert data("forecasting", f"data.time_format={text}").time_format == text
    assert data("forecasting", f"data.train={text}").train == Path.cwd() / Path(text).expanduser()
    assert from_preset("g2p", ["data.train=a", f"decoding.prefix={text}"]).config.decoding.prefix == text


LETTERS = st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Cn"], exclude_characters="\ufeff")


@given(text=st.text(LETTERS, min_size=1).filter(lambda text: text != "null" and text.strip()[:1] not in ("'", '"')))
def test_every_text_that_a_file_can_have_comes_through(text):
    assert data("documents", f"data.label_separator={text}").label_separator == text


@pytest.mark.parametrize(
    ("written", "value"),
    [("null", None), ("'null'", "null"), ("'#'", "#"), ('"\\t"', "\t"), ("''''", "'"), (" '#' ", "#")],
)
def test_null_is_null_and_quotes_are_those_of_yaml(written, value):
    assert data("documents", f"data.label_separator={written}").label_separator == value


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("0", 0), ("-1", -1), ("'0'", "0"), ("012", "012"), ("1e3", "1e3"), ("NO", "NO"), ("null", None),
        ("[NO,CO]", ("NO", "CO")), ("[0, a b, 'c, d', #]", (0, "a b", "c, d", "#")), ("[]", ()),
    ],
)  # fmt: skip
def test_a_column_is_a_number_a_name_or_a_list_of_these(written, value):
    assert data("documents", f"data.text_field={written}").text_field == value


def test_lists_of_texts_keep_every_entry():
    assert data("forecasting", "data.known=[NO, CO, on, 1, |]").known == ("NO", "CO", "on", "1", "|")
    model = from_preset("g2p", ["data.train=a", "decoding.include=[#1, no]", "decoding.exclude=no"]).config.decoding
    assert (model.include, model.exclude) == (("#1", "no"), "no")
    train = from_preset("language-model", ["data.train=[a #1.txt, b.txt]"]).config.data.train
    assert train == (Path("a #1.txt").absolute(), Path("b.txt").absolute())


def test_numbers_switches_and_sections_are_yaml_and_words_are_words():
    config = from_preset(
        "g2p",
        ["data.train={source: a, target: b}", "training.max_steps = 1e3", "training . schedule = noam ",
         "model.decoder.input_feeding=no", "model.decoder.dropout=0.1"],
    ).config  # fmt: skip
    assert config.data.train.source == Path("a").absolute()
    assert (config.training.max_steps, config.training.schedule) == (1000, "noam")
    assert config.model.decoder.input_feeding is False
    assert from_preset("g2p", ["data.train=a", "model.decoder.input_feeding=linear"]).config.model.decoder.input_feeding


def test_a_task_that_a_later_setting_names_decides_the_types(tmp_path):
    file = tmp_path / "a.yaml"
    file.write_text("data: {train: a.csv}\n")
    assert load(file, ["data.label_separator=#", "task=documents"]).config.data.label_separator == "#"


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("data.label_separator=", "expected text or null; got ''; write null"),
        ("data.dev=", "expected a file name; got ''; write null, or leave the key out"),
        ("data.text_field=[a", "a list ends with ]; put a text that begins with [ in quotes"),
        ("data.text_field=[a,,b]", "an entry of the list is empty, or continues after its quotes; separate entries by "
         "commas"),
        ("data.label_separator=\x07", "the character U+0007 is not allowed in YAML; remove it"),
        ("training.epochs=3 #4", "'#4' is a comment in YAML, which ends the value; leave it out, or put the value in "
         "quotes"),
        ("training.schedule=#", "expected one of constant, inverse_square_root, cosine, plateau, noam; got '#'"),
        ("model.words={size: 3} # 4", "'# 4' is a comment in YAML, which ends the value; leave it out, or put the "
         "value in quotes"),
    ],
)  # fmt: skip
def test_what_is_no_value_of_a_key_is_refused_as_it_was_given(override, message):
    with pytest.raises(ConfigError) as caught:
        data("documents", override)
    assert str(caught.value) == f"{legible(override)}: {message}"


def test_a_list_that_is_written_as_one_text_is_told_its_form():
    with pytest.raises(ConfigError, match=r"got 'NO'; write \[NO\]$"):
        data("forecasting", "data.targets=NO")


def test_flags_of_predict_are_read_like_settings():
    config = from_preset("documents", ["data.train=a"]).config
    with pytest.raises(ConfigError, match="--label-separator is not for models of documents"):
        _with_settings(config, {"label_separator": "#"})
    text = from_preset("g2p", ["data.train=a"]).config
    told = _with_settings(text, {"prefix": "[a]", "include": "[#, NO]", "exclude": "a: b", "beam": "3"}).decoding
    assert (told.prefix, told.include, told.exclude, told.beam) == ("[a]", ("#", "NO"), "a: b", 3)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("label_separator: #", "4:19: data.label_separator: '#' is a comment in YAML, so there is no value; put a text "
         "in quotes, or write null"),
        ("label_separator:  #|", "4:19: data.label_separator: '#|' is a comment in YAML"),
        ("label_separator: !", "4:20: data.label_separator: '!' is a tag in YAML"),
        ("label_separator: |", "4:20: data.label_separator: | begins a block of lines in YAML; write '|' in quotes"),
        ("label_separator: %d", "4:20: not YAML: found character '%' that cannot start any token while scanning for "
         "the next token; put a text with such a character in quotes"),
        ("label_separator: - a", "4:20: not YAML: sequence entries are not allowed here; put a text"),
        ("label_separator: NO", "4:20: data.label_separator: expected text or null; got NO, which YAML reads as false; "
         "write 'NO' in quotes to mean the word"),
        ("label_separator: 012", "4:20: data.label_separator: expected text or null; got 012; write '012' in quotes"),
        ("text_field: [NO, CO]", "4:16: data.text_field: YAML reads NO as false; write 'NO' in quotes to mean"),
        ("text_field: [a, ~]", "4:19: data.text_field: YAML reads ~ as null; write '~' in quotes to mean"),
        ("text_field: 012", "4:15: data.text_field: YAML reads 012 as 12; write 12 for the number, or '012' in quotes"),
        ("text_field: 1e3", "4:15: data.text_field: YAML reads 1e3 as 1000; write 1000 for the number, or '1e3'"),
        ("dev: ''", "4:8: data.dev: expected a file name; got ''; write null, or leave the key out"),
    ],
)  # fmt: skip
def test_a_file_in_which_yaml_reads_no_text_is_told_how_to_write_it(tmp_path, line, message):
    file = tmp_path / "a.yaml"
    file.write_text(f"task: documents\ndata:\n  train: a.csv\n  {line}\n")
    with pytest.raises(ConfigError) as caught:
        load(file)
    (shown,) = str(caught.value).splitlines()
    assert shown.startswith(f"{file}:{message}")


def test_a_comment_behind_an_empty_value_and_times_stay_what_they_are(tmp_path):
    file = tmp_path / "a.yaml"
    file.write_text(
        "task: documents\ndata:\n  train: a.csv  #the table\n  label_separator:  # none yet\n  dev: ~\n"
        "  text_field: [12:30, 2020-01-02, 3]\n"
    )
    read = load(file).config.data
    assert (read.label_separator, read.dev, read.text_field) == (None, None, ("12:30", "2020-01-02", 3))
