"""Trainings, evaluations and predictions from Python: data as objects, settings, callbacks, and runs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import regard
from regard.cli import run
from regard.config import from_preset
from regard.errors import ConfigError, DataError, RegardError
from regard.runs.contract import TASKS, task_of
from regard.runs.given import located, temporary_file
from regard.training.manifest import Manifest
from task_cases import LOOP, TASK_CASES

LETTERS = "abcdefgh"
PAIRS = [(a + b + c, " ".join(a + b + c).upper()) for a in LETTERS for b in LETTERS[:3] for c in LETTERS[:2]]
SMALL = {"model": {"encoder.size": 8, "decoder.size": 8}, "training": {**LOOP, "samples": 0}}
HOURS = pd.date_range("2024-01-01", periods=150, freq="h")
WAVE = np.sin(np.arange(150) / 4) + 5
TAGGED = [(f"on May {number} we met".split(), ["O", "B-month", "O", "O", "O"]) for number in range(40)]
DOCUMENTS = [(f"It was {word} on day {i}.", label) for i in range(24) for word, label in (("fun", "a"), ("dull", "b"))]
TEXTS = [f"the quick fox {number} jumps over {number * 7 % 13}" for number in range(60)]


def train(folder, data=PAIRS, settings=SMALL, **options):
    return regard.train("g2p", folder, train=data, settings=settings, **{"quiet": True, **options})


def objects(task, folder):
    """Training data of a task in several forms."""
    if task == "text_to_text":
        table = pd.DataFrame(PAIRS, columns=["target", "source"][::-1])
        return [PAIRS, table[["target", "source"]], np.array(PAIRS), [{"output": b, "input": a} for a, b in PAIRS]]
    if task == "documents":
        return [
            DOCUMENTS,
            pd.DataFrame(DOCUMENTS, columns=["text", "label"]),
            [{"label": b, "text": a} for a, b in DOCUMENTS],
        ]
    if task == "forecasting":
        return [pd.DataFrame({"a": WAVE}, index=HOURS), {"time": HOURS, "a": WAVE}, pd.Series(WAVE, HOURS, name="a")]
    if task == "language_modelling":
        return [TEXTS, pd.Series(TEXTS), ["\n".join(TEXTS)]]
    if task == "labelling":
        return [
            TAGGED,
            pd.DataFrame(TAGGED, columns=["tokens", "labels"]),
            [list(zip(*each, strict=True)) for each in TAGGED],
        ]
    TASK_CASES[task].write(folder)
    if task == "image_to_text":
        rows = [line.split("\t") for line in (folder / "train.tsv").read_text().splitlines()]
        pictures = [(folder / name, text) for name, text in rows]
        return [pictures, pd.DataFrame(pictures, columns=["image", "text"])]
    rows = [line.split("|") for line in (folder / "train.csv").read_text().splitlines()]
    sounds = [(folder / "wavs" / f"{name}.wav", text) for name, *_, text in rows]
    return [sounds, pd.DataFrame(sounds, columns=["sound", "text"])]


def configuration(task):
    """The smallest configuration of a task, without its data."""
    case = TASK_CASES[task]
    sections = {name: dict(section) for name, section in case.sections.items()}
    data = {key: value for key, value in sections.pop("data", {}).items() if key not in ("train", "dev", "source")}
    return {
        "task": task,
        **sections,
        "data": data,
        "training": {**LOOP, **sections.get("training", {}), **case.training},
    }


@pytest.mark.parametrize("task", TASKS)
def test_every_form_of_data_is_written_as_the_same_file_that_the_task_reads(task, tmp_path):
    config = regard.config.from_values(configuration(task), {"data.train": "train"}).config
    contents = []
    for number, data in enumerate(objects(task, tmp_path)):
        folder = tmp_path / str(number)
        folder.mkdir()
        written = task_of(config).write_data(config, data, folder, "train")
        contents.append(written.path.read_bytes())
        settings = {"data.train": written.path, **written.settings, **(written.form if number else {})}
        read = task_of(config).read(regard.config.from_values(configuration(task), settings).config)
        assert read is not None
    assert len({content.replace(b"value", b"a") for content in contents}) == 1


@pytest.mark.parametrize("task", TASKS)
def test_a_run_on_objects_is_whole_and_found_again(task, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = objects(task, tmp_path)[0]
    run = regard.train(configuration(task), "run", train=data, quiet=True)
    assert run.stop_reason == "max_steps"
    assert [entry["step"] for entry in run.history] == [2, 4]
    assert Manifest(Path("run"))._names.keys() & {f"data/{run.model.config.data.train.name}", "data/train/metadata.csv"}
    assert regard.train(configuration(task), "run", train=data, quiet=True) == run
    assert regard.train("run/config.yaml", quiet=True) == run, "the configuration names the files"
    page = run.model.predict([TASK_CASES[task].inputs[0]] if task != "forecasting" else data)._repr_html_()
    assert "<iframe" in page or "<pre" in page


def test_settings_are_dotted_or_nested_and_a_preset_is_named(tmp_path):
    run = train(tmp_path / "run")
    config = run.model.config
    assert (config.model.encoder.size, config.training.max_steps) == (8, 4)
    assert config.data.target == from_preset("g2p", ["data.train=x"]).config.data.target, "sections are not replaced"
    with pytest.raises(ConfigError, match=r"settings\['training.epoch'\]: unknown key; did you mean 'training.epochs'"):
        train(tmp_path / "other", settings={"training.epoch": 3})


def test_other_data_in_the_folder_of_a_run_are_refused_and_overwritten_on_request(tmp_path):
    run = train(tmp_path / "run", PAIRS[5:], dev=PAIRS[:5])
    before = {path: path.read_bytes() for path in run.folder.rglob("*") if path.is_file()}
    with pytest.raises(ConfigError, match=r"holds a run with other data \(train\).*overwrite=True"):
        train(tmp_path / "run", PAIRS[6:], dev=PAIRS[:5])
    assert {path: path.read_bytes() for path in run.folder.rglob("*") if path.is_file()} == before
    again = train(tmp_path / "run", PAIRS[6:], dev=PAIRS[:5], overwrite=True)
    assert again.model.predict(["abc"])
    data = again.model.config.data
    assert data.train.is_file()
    assert data.dev.is_file()
    assert len(list((run.folder / "data").iterdir())) == 2


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([("a",)], "train has 1 column, but an item is an input and its output"),
        ([("a", "b"), ("c", 3)], r"train\[1\]: the output is 3, of type int; expected a text"),
        ([("a", "b"), ("c", None)], r"train\[1\]: the output is missing"),
        ([("a", "b"), ("c",)], r"train\[1\] has 1 values"),
        (pd.DataFrame({"nr": [1], "a": ["a"], "b": ["b"]}), "3 columns .'nr', 'a', 'b'., but an item is an input"),
        ([], "train is empty"),
        (3, "expected a table, a list of items or a file; got 3"),
        ([("a", "\ud800")], r"train\[0\]: a text has half of a surrogate pair"),
        ([("a", "A")] * 3, "Of 3 pairs"),
    ],
)
def test_data_that_cannot_be_trained_on_are_an_error_and_leave_nothing(data, message, tmp_path):
    with pytest.raises(DataError, match=message):
        train(tmp_path / "run", data)
    assert not list(tmp_path.iterdir())


def test_columns_of_inputs_are_where_the_configuration_has_them(tmp_path):
    config = from_preset("inflection", ["data.train=x"]).config
    table = pd.DataFrame({"lemma": ["go"], "form": ["went"], "tags": ["V;PST"]})
    for data in (table, [("go", "went", "V;PST")]):
        written = task_of(config).write_data(config, data, tmp_path, "train")
        assert json.loads(written.path.read_text()) == ["go", "went", "V;PST"]
    by_name = from_preset(
        "inflection", {"data": {"train": "x", "source_field": ["lemma", "tags"], "target_field": "form"}}
    )
    written = task_of(config).write_data(by_name.config, table[["tags", "form", "lemma"]], tmp_path, "train")
    assert json.loads(written.path.read_text()) == {"lemma": "go", "tags": "V;PST", "form": "went"}


def test_findings_of_a_quiet_training_are_in_its_error(tmp_path):
    message = "(?s)error: all training documents have the same label, 'a'.*A model cannot be trained on these data"
    with pytest.raises(DataError, match=message):
        regard.train("documents", tmp_path / "run", train=[(text, "a") for text, _ in DOCUMENTS], quiet=True)
    assert not list(tmp_path.iterdir())


def test_errors_of_the_reader_name_items_in_place_of_lines(tmp_path):
    config = from_preset("documents", ["data.train=x"]).config
    with temporary_file(config, DOCUMENTS, "test") as written:
        error = located(DataError(f"{written.path}:3: wrong, as {written.path}:30"), [written])
    assert str(error) == "test[2]: wrong, as test[29]"
    texts = from_preset("language-model", ["data.train=x"]).config
    with temporary_file(texts, ["one\ntwo", "three"]) as written:
        assert [written.place(line) for line in (1, 2, 3)] == ["data[0]", "data[0]", "data[1]"]


def test_keys_that_describe_files_are_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"data.format.*'tsv' describes files, and the data are objects"):
        train(tmp_path / "run", settings={**SMALL, "data.format": "tsv"})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"a": WAVE, "b": WAVE}, "no column of times: its first, 'a', has numbers"),
        (pd.DataFrame({"a": WAVE}, pd.MultiIndex.from_product([["x"], HOURS])), "the index has several levels"),
    ],
)
def test_series_without_times_are_not_read_otherwise(data, message, tmp_path):
    with pytest.raises(DataError, match=message):
        regard.train("forecasting", tmp_path / "run", train=data, quiet=True)


def test_labels_in_the_place_of_texts_are_noticed(tmp_path):
    with pytest.raises(DataError, match=r"pairs are \(text, label\)"):
        regard.train("documents", tmp_path / "run", train=[(b, a) for a, b in DOCUMENTS], quiet=True)


def test_tokens_that_a_file_reads_otherwise_are_refused(tmp_path):
    for tokens, message in ((["-DOCSTART-"], r"train\[0\]: in a file"), (["a\tb"], "has a tab"), ([], "has no tokens")):
        with pytest.raises(DataError, match=message):
            regard.train("labelling", tmp_path / "run", train=[(tokens, ["O"] * len(tokens))] * 3, quiet=True)


def test_a_callback_sees_every_step_and_validation_and_may_stop(tmp_path):
    seen = []
    whole = train(tmp_path / "whole", callback=seen.append)
    assert [(info.kind, info.step) for info in seen][:6] == [
        *[("train", 1), ("train", 2), ("validation", 2), ("train", 3), ("train", 4), ("validation", 4)]
    ]
    assert all(info.total == 4 for info in seen)
    assert seen[2].metrics == {k: v for k, v in whole.history[0].items() if k in seen[2].metrics}
    stopped = train(tmp_path / "run", callback=lambda info: info.step == 3)
    assert (stopped.stop_reason, stopped.steps) == ("interrupted", 3)
    continued = train(tmp_path / "run")
    assert continued.metrics == whole.metrics
    assert train(tmp_path / "other", callback=lambda info: info.step).steps == 4, "only True stops"


def test_a_quiet_training_prints_nothing(tmp_path, capfd):
    train(tmp_path / "run")
    assert capfd.readouterr() == ("", "")
    train(tmp_path / "run", quiet=False)
    assert "this run has already ended" in capfd.readouterr().err


def test_the_default_folder_is_that_of_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert train(None).folder == Path("runs/g2p")


def test_a_model_evaluates_and_predicts_objects_as_files(tmp_path):
    model = train(tmp_path / "run", PAIRS[:40]).model
    test = tmp_path / "test.tsv"
    test.write_text("".join(f"{a}\t{b}\n" for a, b in PAIRS[40:]))
    assert model.evaluate(PAIRS[40:]).metrics == model.evaluate(test).metrics
    with pytest.warns(UserWarning, match=r"data: .* of 5 items were trained on with the same output \(data\[0\]"):
        model.evaluate(PAIRS[:5])
    words = pd.Series([a for a, _ in PAIRS[40:]], index=range(7, 15))
    texts = [each.text for each in model.predict(list(words))]
    assert [each.text for each in model.predict(words)] == texts
    assert [each.text for each in model.predict(pd.DataFrame({"word": words}))] == texts


def test_a_model_is_saved_whole_and_never_over_another(tmp_path):
    model = train(tmp_path / "run").model
    model.save(tmp_path / "saved")
    text = model.predict(["abc"])[0].text
    assert regard.load(tmp_path / "saved").predict(["abc"])[0].text == text
    with pytest.raises(RegardError, match="the folder exists"):
        model.save(tmp_path / "saved")
    model.save(tmp_path / "saved", overwrite=True)
    (tmp_path / "saved" / "mine.txt").touch()
    with pytest.raises(RegardError, match=r"mine\.txt"):
        model.save(tmp_path / "saved", overwrite=True)


def test_a_message_names_the_argument_in_python_and_the_flag_in_a_command(tmp_path, capsys):
    occupied = tmp_path / "run"
    occupied.write_text("mine")
    with pytest.raises(ConfigError, match=r"is a file; choose a folder \(folder\)"):
        train(occupied)
    (tmp_path / "words.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in PAIRS))
    command = ["train", "--preset", "g2p", "--set", f"data.train={tmp_path / 'words.tsv'}", "--output", str(occupied)]
    assert run(command) == 2
    assert "is a file; choose a folder (--output)" in capsys.readouterr().err
    with pytest.raises(ConfigError, match=r"is a file; choose a folder \(folder\)"):
        train(occupied)


def test_errors_are_shown_without_a_traceback_in_notebooks():
    assert DataError("one\ntwo")._render_traceback_() == ["DataError: one", "two"]


def test_errors_in_notebooks_name_the_line_that_called_the_package(tmp_path):
    (tmp_path / "mine.py").write_text("import regard\n\nregard.load('nonesuch')  # here\n")
    for name, place in (
        (str(tmp_path / "mine.py"), f"{tmp_path / 'mine.py'}:3"),
        ("<ipython-input-1>", "line 3 of the cell"),
    ):
        with pytest.raises(RegardError) as caught:
            exec(compile((tmp_path / "mine.py").read_text(), name, "exec"), {})
        shown = caught.value._render_traceback_()
        assert shown[0].startswith("RegardError: There is no folder")
        assert shown[-1].startswith(f"  {place}")
        assert "# here" in shown[-1] or "cell" in shown[-1]


def test_a_table_of_history_has_a_row_for_each_validation(tmp_path):
    run = train(tmp_path / "run")
    table = pd.DataFrame(run.history)
    assert table["step"].tolist() == [2, 4]
    lines = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    losses = [line["teacher_forced_loss"] for line in lines if line["kind"] == "validation"]
    assert table["teacher_forced_loss"].tolist() == losses


def test_a_model_predicts_with_other_settings_and_stays_as_it_was():
    model = regard.load("g2p-en")
    several = model.with_decoding(num_best=3, beam=4)
    assert len(several.predict(["read"])[0].alternatives) == 2
    assert model.config.decoding.num_best == 1
    assert not model.predict(["read"])[0].alternatives
    assert several.module is model.module
    for values, text in (
        ({"num_bets": 3}, "num_bets is not a setting of models of text_to_text; did you mean 'num_best'?"),
        ({"beam": 0}, "beam=0: expected a whole number"),
        ({"temperature": 0.5}, "temperature"),
    ):
        with pytest.raises(ConfigError) as caught:
            model.with_decoding(**values)
        assert text in str(caught.value)
