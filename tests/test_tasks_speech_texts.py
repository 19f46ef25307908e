"""Normalisers of speech: their effect on texts, what a model stores of them, and one text for every command."""

from __future__ import annotations

import json
import re
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.audio import FRONT_ENDS, Standardisation
from regard.cli import run
from regard.data.text import Field, Normalisation, Vocabulary
from regard.data.text.normaliser import NamedFunction, Normaliser, imported
from regard.data.text.replacements import Replacements
from regard.data.text.spoken import SpokenAbbreviations, SpokenNumbers
from regard.data.text.units import CharacterUnits
from regard.errors import ConfigError, DataError, UnsupportedError
from regard.runs.contract import TASKS
from regard.runs.material import check_all
from regard.runs.store import save
from regard.tasks import SpeechModel, load
from regard.tasks.text_to_speech import reading
from regard.tasks.text_to_speech.config import TextToSpeechConfig
from task_cases import TASK_CASES, recordings

TASK = TASKS["text_to_speech"]
SECTIONS = TASK_CASES["text_to_speech"].sections
LETTERS = " abcdefghijklmnopqrstuvwxyz-,.'"
CODE = """
import pathlib
pathlib.Path("imported").touch()
def spoken(text): return text.replace("&", "plus")
def number(text): return 5
def fails(text): raise ValueError("no such word")
value = 3
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with recordings, a table and a module, which is the current one."""
    recordings(tmp_path)
    (tmp_path / "letters.tsv").unlink()
    (tmp_path / "table.tsv").write_text("Lee\tLeigh\n${number}\t{number} dollars\n", encoding="utf-8")
    (tmp_path / "spoken_texts.py").write_text(CODE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "spoken_texts", raising=False)
    yield tmp_path
    sys.modules.pop("spoken_texts", None)


def config_of(folder: Path, **data: Any) -> TextToSpeechConfig:
    paths = {"train": folder / "train.csv", "dev": folder / "dev.csv"}
    return TextToSpeechConfig(data=paths | data, model=SECTIONS["model"], decoding=SECTIONS.get("decoding", {}))


def model_of(config: TextToSpeechConfig) -> SpeechModel:
    """An untrained model of letters."""
    field = Field(reading.normaliser_of(config.data), CharacterUnits(), Vocabulary(tuple(LETTERS)))
    front_end = FRONT_ENDS[config.data.front_end]
    torch.manual_seed(1)
    return SpeechModel.build(config, field, Standardisation.fit([torch.randn(20, front_end.num_mels)]))


ALL = {"normaliser": "spoken_texts:spoken", "abbreviations": "en", "numbers": "en", "case": "lower"}
TEXT, SPOKEN = "Dr. Lee & the 3rd of 12 paid $5", "doctor leigh plus the third of twelve paid five dollars"


@pytest.mark.parametrize("language", ["en", "de", "it", "vi"])
@given(st.text(st.sampled_from("0123456789 .,-a$\u00a0"), max_size=12))
def test_numbers_are_idempotent_and_letters_stay(language: str, text: str) -> None:
    spoken = SpokenNumbers(language)
    once = spoken(text)
    assert spoken(once) == once
    if not re.search(r"\d", text):
        assert once == text
    if language == "en":
        assert not re.search(r"\d", once)


@pytest.mark.parametrize(
    ("language", "text", "spoken"),
    [
        ("en", "1,204 rooms", "one thousand, two hundred and four rooms"),
        ("en", "7.05 and 007", "seven point zero five and zero zero seven"),
        ("en", "-5, 10-20", "minus five, ten-twenty"),
        ("en", "the 21st, 21th", "the twenty-first, twenty-one th"),
        ("en", "mp3 B2B 1.2.3", "mp three B two B one.two.three"),
        ("en", "1" * 16, " ".join(["one"] * 16)),
        ("ja", "25年", "二十五年"),
        ("de", "1.204,5", "eintausendzweihundertvier Komma fünf"),
        ("ru", "1\u00a0204", "одна тысяча двести четыре"),
        ("it", "3,05 e 3", "3,05 e tre"),  # num2words drops the decimals
        ("vi", "-5", "-năm"),  # num2words says fifteen
    ],
)
def test_numbers_are_read_as_the_language_writes_them(language: str, text: str, spoken: str) -> None:
    assert SpokenNumbers(language)(text) == spoken


def test_no_language_reads_a_decimal_as_its_integer() -> None:
    import num2words

    for language in num2words.CONVERTER_CLASSES:
        if language != "am":
            spoken = SpokenNumbers(language)
            assert spoken("3.05" if language in ("en", "ja") else "3,05") != spoken("3"), language
            assert all(spoken(str(number)).strip() for number in (0, 21, 1234, 10**6)), language


@pytest.mark.parametrize(
    "text", ["1\u00a0" * 50_000, "111\u00a0" * 25_000, "1." * 50_000, "1" * 100_000 + ".1.1", "-" * 99_999]
)
def test_hostile_texts_take_linear_time(text: str) -> None:
    table = Replacements((("{number} a", "{number} b"), ("-{number}:{number}x", "{number}{number}")))
    start = time.process_time()
    assert table(text) == text
    SpokenNumbers("en")(text[:20_000])
    assert time.process_time() - start < 5


@given(st.lists(st.sampled_from(["a", "b c", "a b", "a.", "é", "{number} a", "$"]), min_size=1, unique=True), st.data())
def test_replacements_are_those_of_a_search_from_left_to_right(texts: list[str], data: st.DataObject) -> None:
    entries = tuple((text, f"<{text}>") for text in texts)
    text = data.draw(st.text(st.sampled_from("abc .é1$"), max_size=10))
    expected, at = "", 0

    def is_word(place: int) -> bool:
        return 0 <= place < len(text) and text[place].isalnum()

    while at < len(text):
        fits = []
        for entry in texts:
            match = re.compile(re.escape(entry).replace(r"\{number\}", r"(?<!\d[.,])(?<!\d)\d+(?:[.,]\d+)*")).match(
                text, at
            )
            if match is None:
                continue
            first, last = entry.startswith("{") or entry[0].isalnum(), entry[-1].isalnum()
            if not (first and is_word(at - 1)) and not (last and is_word(match.end())):
                fits.append((len(entry.replace("{number}", "0")), entry, match[0]))
        if fits:
            _, entry, found = max(fits)
            number = re.match(r"[\d.,]*\d|", found)[0]
            expected += f"<{entry}>".replace("{number}", number)
            at += len(found)
        else:
            expected += text[at]
            at += 1
    assert Replacements(entries)(text) == expected


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("a\tb\nJoe\n", r"table.tsv:2: expected a text and its replacement .* got 1 column in 'Joe'"),
        ("a\tb\tc\n", "table.tsv:1: .* got 3 columns"),
        ("a\tb\n\na\tc\n", "table.tsv:3: 'a' is also the text of line 1"),
        ("\tb\n", "table.tsv:1: there is no text before the tab"),
        ("${number}\tdollars\n", "table.tsv:1: {number} must occur as often"),
        ("\n", "table.tsv: there are no replacements"),
    ],
)
def test_a_line_of_a_table_that_is_wrong_is_named(tmp_path: Path, table: str, message: str) -> None:
    path = tmp_path / "table.tsv"
    path.write_text(table, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        Replacements.read(path)


def test_all_wrong_lines_of_a_table_are_reported_by_the_check(folder: Path) -> None:
    (folder / "table.tsv").write_text("a\tb\nJoe\nx\ty\tz\n", encoding="utf-8")
    report = str(check_all(TASK, config_of(folder, replacements=folder / "table.tsv")).report)
    assert "table.tsv:2" in report
    assert "table.tsv:3" in report


def test_texts_are_changed_in_the_documented_order() -> None:
    function = NamedFunction("m:f", lambda text: text.replace("No. 3", "Dr. 4"))
    table = Replacements((("number", "wrong"), ("Dr.", "No.")))
    normaliser = Normaliser(Normalisation("upper"), function, table, SpokenAbbreviations("en"), SpokenNumbers("en"))
    assert normaliser("No. 3") == "NUMBER FOUR"


@given(st.text(max_size=20))
def test_case_and_form_and_numbers_are_idempotent(text: str) -> None:
    normaliser = Normaliser(Normalisation("lower", "NFKC"), numbers=SpokenNumbers("en"))
    assert normaliser(normaliser(text)) == normaliser(text)


def test_a_saved_model_reads_texts_as_before_without_the_table_of_the_configuration(folder: Path) -> None:
    model = model_of(config_of(folder, replacements=folder / "table.tsv", **ALL))
    assert "".join(model.field.split(TEXT)) == SPOKEN
    save(model, folder / "model")
    (folder / "table.tsv").unlink()
    loaded = load(folder / "model", device="cpu", normaliser=imported("spoken_texts:spoken"))
    assert loaded.field.split(TEXT) == model.field.split(TEXT)
    assert torch.equal(loaded.predict([TEXT], sound=False)[0].mel, model.predict([TEXT], sound=False)[0].mel)
    save(loaded, folder / "again")
    for name in ("source.json", "source.replacements.tsv"):
        assert (folder / "again" / name).read_bytes() == (folder / "model" / name).read_bytes()
    (folder / "model" / "source.replacements.tsv").write_text("Lee\tLi\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"source.replacements.tsv: .* its checksum is wrong"):
        load(folder / "model", device="cpu")


def test_a_model_without_a_normaliser_is_saved_as_ever(folder: Path) -> None:
    model = model_of(config_of(folder, case="lower"))
    save(model, folder / "model")
    stored = json.loads((folder / "model" / "source.json").read_text(encoding="utf-8"))
    assert stored["normalisation"] == {"case": "lower", "unicode": "NFC"}
    assert not (folder / "model" / "source.replacements.tsv").exists()
    assert type(load(folder / "model", device="cpu").field.normalisation) is Normalisation
    with pytest.raises(ConfigError, match="not normalised by a function"):
        load(folder / "model", device="cpu", normaliser=str.upper)


def test_loading_imports_no_function_and_prediction_says_what_is_missing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(model_of(config_of(folder, **ALL)), folder / "model")
    sys.modules.pop("spoken_texts")
    (folder / "imported").unlink()
    monkeypatch.syspath_prepend(str(folder))
    loaded = load(folder / "model", device="cpu")
    assert "normaliser spoken_texts:spoken" in loaded.information()["texts"]
    with pytest.raises(UnsupportedError, match=r"by the function spoken_texts:spoken.*\n.*normaliser=function"):
        loaded.predict([TEXT])
    for command in ("predict", "evaluate", "plot"):
        argument = [str(folder / "test.csv")] if command == "evaluate" else [TEXT]
        more = ["--output", str(folder / "a.png")] if command == "plot" else []
        assert run([command, "--model", str(folder / "model"), *argument, *more]) == 2
    assert not (folder / "imported").exists()
    assert "spoken_texts" not in sys.modules


def test_every_command_reads_the_same_text(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("train", "test"):
        path = folder / f"{name}.csv"
        lines = path.read_text(encoding="utf-8").splitlines()
        path.write_text("\n".join(f"{line.split('|')[0]}|{TEXT}" for line in lines), encoding="utf-8")
    config = config_of(folder, replacements=folder / "table.tsv", **ALL)
    material = TASK.read(config)
    trained = TASK.build(config, material, name="m")
    assert {trained.field.decode(ids) for ids in TASK.trainee(trained, material).ids} == {SPOKEN}
    save(model_of(config), folder / "model")
    common = ["--model", str(folder / "model"), "--normaliser", "spoken_texts:spoken"]
    spoken: list[str] = []
    speak = SpeechModel.speak

    def recorded(model: SpeechModel, sequences: Any, **options: Any) -> Any:
        spoken.extend(model.field.decode(ids) for ids in sequences)
        return speak(model, sequences, **options)

    monkeypatch.setattr(SpeechModel, "speak", recorded)
    for command in (
        ["predict", *common, TEXT, "--format", "jsonl"],
        ["evaluate", *common, str(folder / "test.csv"), "--joined", "0"],
        ["plot", *common, TEXT, "--output", str(folder / "a.svg")],
    ):
        spoken.clear()
        assert run(command) == 0
        assert set(spoken) == {SPOKEN}
        assert "did not have" not in capsys.readouterr().err


def test_the_check_shows_texts_before_and_after_and_what_is_left(folder: Path) -> None:
    for name, text in (("train", "Lee has 3 km"), ("dev", "12 ß")):
        path = folder / f"{name}.csv"
        lines = path.read_text(encoding="utf-8").splitlines()
        path.write_text("\n".join([f"{lines[0].split('|')[0]}|{text}", *lines[1:]]), encoding="utf-8")
    report = str(check_all(TASK, config_of(folder)).report)
    assert re.search(r"held-out sentence has units that no training sentence has:.* 'ß' \(1\).*dev.csv:1", report)
    assert "warning: 2 sentences have digits" in report
    assert "data.numbers=LANGUAGE" in report
    report = str(check_all(TASK, config_of(folder, replacements=folder / "table.tsv", **ALL)).report)
    assert "2 texts are changed by the normaliser (normaliser spoken_texts:spoken, replacements 2 texts" in report
    assert "'Lee has 3 km' → 'leigh has three kilometer'" in report
    assert "have digits" not in report
    assert "'ß' (1)" in report


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        ({"numbers": "english"}, ConfigError, "num2words has no language 'english'; did you mean 'en'"),
        ({"numbers": "bg"}, ConfigError, r"no language 'bg'; it has .*\n.*data.replacements"),
        ({"numbers": "am"}, ConfigError, "am: num2words raises an error"),
        ({"abbreviations": "en-gb"}, ConfigError, "abbr2words has no language 'en-gb'; did you mean 'en_GB'"),
        ({"normaliser": "spoken_texts"}, ConfigError, "expected package.module:function"),
        ({"normaliser": "spoken_texts:spokn"}, ConfigError, "no 'spokn' in spoken_texts; did you mean 'spoken'"),
        ({"normaliser": "spoken_texts:value"}, ConfigError, "is not a function, but of type int"),
        ({"normaliser": "nowhere:spoken"}, ConfigError, "nowhere cannot be imported .ModuleNotFoundError"),
    ],
)
def test_a_normaliser_that_cannot_be_had_is_refused_before_the_data_are_read(
    folder: Path, data: dict[str, str], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        TASK.draft(config_of(folder, **data))
    assert caught.value.path == ("data", next(iter(data)))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("number", "must return a text; for 'a sea' it returned 5, of type int"),
        ("fails", "failed for the text 'a sea': ValueError: no such word"),
    ],
)
def test_a_function_that_fails_or_returns_no_text_is_named_with_the_text(folder: Path, name: str, message: str) -> None:
    config = config_of(folder, normaliser=f"spoken_texts:{name}")
    with pytest.raises(DataError, match=rf"train.csv:1: text: spoken_texts:{name} {message}"):
        TASK.read(config)
    with pytest.raises(DataError, match=message):
        model_of(config).predict(["a sea"])


@pytest.mark.parametrize(("key", "package"), [("numbers", "num2words"), ("abbreviations", "abbr2words")])
def test_a_missing_package_is_named_with_the_command_that_installs_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, key: str, package: str
) -> None:
    config = config_of(folder, **{key: "en"})
    save(model_of(config), folder / "model")
    monkeypatch.setitem(sys.modules, package, None)
    message = rf"data.{key} needs the {package} package: pip install 'regard\[speech\]'"
    with pytest.raises(UnsupportedError, match=message):
        TASK.draft(config)
    loaded = load(folder / "model", device="cpu")
    with pytest.raises(UnsupportedError, match=message):
        loaded.predict(["a 5"])


def test_another_version_of_a_package_is_a_warning(folder: Path) -> None:
    save(model_of(config_of(folder, numbers="en")), folder / "model")
    path = folder / "model" / "source.json"
    text = path.read_text(encoding="utf-8")
    plain = Normalisation()
    stored = json.loads(text)["normalisation"]
    same, other = (
        Normaliser.load(plain, {"numbers": ["en", version]}, folder / "none")
        for version in (stored["numbers"][1], "0.1")
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert same("3") == "three"
    with pytest.warns(UserWarning, match=r"texts of the training were read by num2words 0\.1"):
        assert other("3") == "three"


def test_a_model_of_another_task_refuses_a_normaliser() -> None:
    with pytest.raises(UnsupportedError, match="models of text_to_text have no function that normalises texts"):
        load("g2p-en", device="cpu", normaliser=str.upper)


def test_labels_are_those_of_the_normalised_text(folder: Path) -> None:
    recorded = reading.read_ljspeech(folder / "train.csv")[:1]
    recorded = [SimpleNamespace(**{name: getattr(recorded[0], name) for name in ("id", "sound", "place")}, text="& 2")]
    rows = ["id\tindex\tstart\tend\tletter"]
    rows += [f"{recorded[0].id}\t{i}\t{i / 100}\t{(i + 1) / 100}\t{letter}" for i, letter in enumerate("plus two")]
    (folder / "letters.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    data = config_of(folder, **ALL).data
    field = reading.empty_field(data)
    (item,) = reading.read_sentences(data, recorded, folder / "train.csv", [], field)
    assert "".join(item.labels.units) == "plus two"
