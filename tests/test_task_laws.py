"""Laws that every task keeps, whatever it is: about its configuration, its training, its predictions and its verbs."""

from __future__ import annotations

import ast
import csv
import json
import re
import shutil
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas
import pytest
import torch
import yaml

import regard
from regard import weights
from regard.cli import run
from regard.config import load as read_config
from regard.config.keys import keys
from regard.config.schema import SCHEMAS
from regard.errors import ConfigError, DataError, UnsupportedError
from regard.files import checksum
from regard.runs.automatic_settings import is_set, value_of
from regard.runs.calibration import CALIBRATION, reliability_of
from regard.runs.contract import TASKS
from regard.tasks import ImageToText, TextToText, load, train
from task_cases import TASK_CASES, Case, configured, interrupt, near

NAMES = sorted(TASK_CASES)
NOTHING = SimpleNamespace(section=None)
WITHOUT_CONFIDENCE = {
    "forecasting": "a forecast is never exactly right",
    "language_modelling": "no continuation of a text is the right one",
    "text_to_speech": "there are many right ways to read a text",
}
"""The tasks whose outputs have no confidence, and why."""


@pytest.fixture(scope="session", params=NAMES)
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A task's name, and its folder with data, configuration and the run."""
    folder = tmp_path_factory.mktemp("laws") / request.param
    path = configured(request.param, folder, samples=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("regard.runs.calibration.FEWEST", 1)
        train(read_config(path), folder / "run")
    return request.param, folder


def test_every_task_is_on_the_list() -> None:
    assert set(TASK_CASES) == set(TASKS) == set(SCHEMAS)


def test_the_saved_configuration_is_the_given_one_with_its_open_keys_resolved(trained: tuple[str, Path]) -> None:
    task, folder = trained
    given = read_config(folder / f"{task}.yaml").config
    saved = read_config(folder / "run" / "config.yaml").config
    for path, key in keys(type(given), given.model_dump()).items():
        if not key.section and is_set(given, path):
            assert value_of(saved, path) == value_of(given, path), path
    for name in TASK_CASES[task].open:
        assert not is_set(given, tuple(name.split(".")))
        assert is_set(saved, tuple(name.split(".")))
    material = TASKS[task].read(given)
    resolved = TASKS[task].resolve(given, material, TASKS[task].check(given, material)).config
    assert resolved.model_dump() == saved.model_dump()


def lines(folder: Path) -> list[dict[str, Any]]:
    entries = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in entry.items() if key != "timing"} for entry in entries]


def test_a_run_that_is_stopped_twice_inside_epochs_ends_with_the_same_bytes(
    trained: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, folder = trained
    monkeypatch.setattr("regard.runs.calibration.FEWEST", 1)
    interrupt(monkeypatch, task, 1, 2)
    configuration = read_config(folder / f"{task}.yaml")
    reasons = [train(configuration, tmp_path / "run").stop_reason for _ in range(3)]
    assert reasons == ["interrupted", "interrupted", "max_steps"]
    files = weights.read(folder / "run" / "model.safetensors")[1]["files"]
    calibrated = [CALIBRATION] * (task not in WITHOUT_CONFIDENCE)
    for name in ("model.safetensors", "config.yaml", *calibrated, *files):
        assert (tmp_path / "run" / name).read_bytes() == (folder / "run" / name).read_bytes(), name
    assert lines(tmp_path / "run") == lines(folder / "run")


def test_a_training_starts_with_all_that_the_model_knows(
    trained: tuple[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task, folder = trained
    start = [f"training.start_from={folder / 'run'}", "training.max_steps=null", "training.epochs=0"]
    train(read_config(folder / f"{task}.yaml", start), tmp_path / "next")
    assert "not copied" not in capsys.readouterr().err
    before, after = (load(path, device="cpu").module.state_dict() for path in (folder / "run", tmp_path / "next"))
    assert before.keys() == after.keys()
    for name, weight in after.items():
        assert torch.equal(weight, before[name]), name


def test_the_terms_of_items_sum_to_the_metrics(trained: tuple[str, Path]) -> None:
    task, folder = trained
    model = load(folder / "run", device="cpu")
    evaluation = model.evaluate(folder / TASK_CASES[task].held_out)
    items = model.item_terms(evaluation)
    assert len({*items.keys}) == len(items.keys) > 1
    known = dict(evaluation.metrics)
    if task == "forecasting":
        known["original_mean_absolute_error"] = evaluation.errors.original_mean_absolute_error
    for name, terms in items.metrics.items():
        assert len(terms.terms) == len(items.keys)
        assert near(terms.value, known[name]), name
        part = items.at([1]).metrics[name]
        assert near(part.value, float(terms.each[1])) or part.value != part.value
    for name, metrics in items.baselines.items():
        for metric, terms in metrics.items():
            if (figure := known.get(f"{name.replace(' ', '_')}_{metric}")) is not None:
                assert near(terms.value, figure), (name, metric)
    assert items.show(0).place


def test_a_comparison_of_a_model_with_itself_says_chance(
    trained: tuple[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task, folder = trained
    shutil.copytree(folder / "run", tmp_path / "other")
    data = ["--data", str(folder / TASK_CASES[task].held_out)]
    both = [str(folder / "run"), str(tmp_path / "other")]
    assert run(["compare", *both, *data]) == 0
    printed = capsys.readouterr().out
    assert "differ by no more than chance" in " ".join(printed.split())  # lines are wrapped
    assert "p = 1" in printed
    assert [line for line in printed.splitlines() if len(line) > 80] == []
    for suffix in ("html", "csv"):
        assert run(["compare", *both, *data, "--output", str(tmp_path / f"of.{suffix}")]) == 0
    assert "no more than chance" in (tmp_path / "of.html").read_text()
    header, *rows = (tmp_path / "of.csv").read_text().splitlines()
    assert header.startswith("metric,run,compared_with,value,low,high,p_value")
    assert len(rows) % 3 == 0  # two runs and a pair of each metric
    capsys.readouterr()
    status = run(["compare", both[0], *data, "--baselines"])
    said = capsys.readouterr()
    if task in ("forecasting", "text_to_speech"):
        assert status == 0
        assert {"forecasting": "linear", "text_to_speech": "diagonal"}[task] in said.out
        page = tmp_path / "baselines.html"
        assert run(["compare", both[0], *data, "--baselines", "--output", str(page)]) == 0
        assert "A sheet of 3 items" in page.read_text()
    else:
        assert status == 2
        assert "have no baselines" in said.err


def test_outputs_of_other_programs_are_compared_or_refused_by_name(
    trained: tuple[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of outputs that are the references no figure is better than all."""
    task, folder = trained
    held_out = folder / TASK_CASES[task].held_out
    model = load(folder / "run", device="cpu")
    items = model.item_terms(model.evaluate(held_out))
    texts = [items.show(i).reference.split(" | ")[0] for i in range(len(items.keys))]
    if task == "forecasting":
        texts = ["1.5 " * model.config.data.horizon * 2] * len(texts)
    (tmp_path / "theirs.txt").write_text("".join(f"{text}\n" for text in texts))
    status = run(["compare", str(folder / "run"), "--data", str(held_out), "--outputs", str(tmp_path / "theirs.txt")])
    printed = capsys.readouterr()
    if task in ("language_modelling", "text_to_speech"):
        assert status == 2
        assert f"cannot be compared with models of {task}" in printed.err
    else:
        assert status == 0, printed.err
        if task == "forecasting":
            assert "theirs.txt" in printed.out
        else:
            assert re.search(r"theirs.txt +0.0 %  0.0 to 0.0", printed.out)


def test_every_run_has_a_card(trained: tuple[str, Path]) -> None:
    folder = trained[1]
    text = (folder / "run/README.md").read_text(encoding="utf-8")
    _, front, body = text.split("---\n", 2)
    metadata = yaml.safe_load(front)
    assert metadata["license"] == "unknown"
    (results,) = metadata["model-index"][0]["results"]
    assert results["task"]["type"] == metadata["pipeline_tag"]
    outcome = json.loads((folder / "run/outcome.json").read_text())
    assert {each["type"] for each in results["metrics"]} >= {
        name for name, value in outcome["metrics"].items() if value == value
    }
    for heading in ("Figures", "Use", "Data", "Model", "Training", "Limits"):
        assert f"\n## {heading}\n" in body
    assert re.search(r"\| [\w\\]+ \| [\d.]+ \| [\d.]+ to [\d.]+ \|", body), body
    for picture in re.findall(r"!\[[^]]*\]\((.*?)\)", body):
        assert (folder / "run" / picture).is_file()
    assert str(folder) not in text
    assert "README.md" in json.loads((folder / "run/run.json").read_text())["files"]


def test_a_finished_run_that_was_killed_before_its_card_gets_the_same_one(trained: tuple[str, Path]) -> None:
    folder = trained[1]
    card = folder / "run/README.md"

    def text() -> str:
        *lines, seal = card.read_text(encoding="utf-8").splitlines()
        assert "sha256" in seal
        return "\n".join(lines).replace("data.span\\_scheme", "recognised from the labels")  # where it now stands

    before = text()
    card.unlink()
    train(read_config(next(folder.glob("*.yaml"))), folder / "run")
    assert text() == before


DAMAGES = (None, {}, [], -1, float("nan"), "x")
"""Values that few fields may have; every other one is tried at a depth."""


def damaged(value: Any, depth: int = 2) -> Any:
    """Copies of a JSON value of which one field, the first of several at each depth, is another."""
    yield from DAMAGES[depth % 2 :: 2]
    if depth and isinstance(value, dict | list) and value:
        for key in list(value)[:5] if isinstance(value, dict) else (0,):
            for changed in damaged(value[key], depth - 1):
                yield {**value, key: changed} if isinstance(value, dict) else [changed, *value[1:]]


def resealed(folder: Path, **tensors: Any) -> None:
    """Writes right checksums of all files into the weights, of which some are others."""
    saved, header = weights.read(folder / "model.safetensors")
    files = {name: checksum(folder / name) for name in header["files"]}
    weights.write({**saved, **tensors}, folder / "model.safetensors", extra={"files": files, "model": header["model"]})


def test_files_with_right_checksums_that_hold_something_else_are_refused(
    trained: tuple[str, Path], tmp_path: Path
) -> None:
    """A field of another type or size is an error of the data, in whatever file, or changes nothing that is needed."""
    folder = trained[1]
    header = weights.read(folder / "run" / "model.safetensors")[1]
    for name in ("model.safetensors", "config.yaml", *header["files"]):
        shutil.copy(folder / "run" / name, tmp_path / name)
    for name in (name for name in header["files"] if name != "data.json"):
        path, refused = tmp_path / name, 0
        content = path.read_bytes()
        others: list[Any] = []
        if name.endswith(".json"):
            others = [json.dumps(value).encode() for value in damaged(json.loads(content))]
        for other in others:
            path.write_bytes(other)
            resealed(tmp_path)
            with suppress(DataError):
                load(tmp_path, device="cpu")
                refused -= 1
            refused += 1
        assert refused >= len(others) // 2, name
        path.write_bytes(content)
    name, tensor = next((name, t) for name, t in weights.load(tmp_path / "model.safetensors").items() if t.numel() > 1)
    broken = tensor.clone()
    broken.flatten()[0] = torch.nan
    resealed(tmp_path, **{name: broken})
    with pytest.raises(DataError, match=f"{name} has numbers that are not finite"):
        load(tmp_path, device="cpu")


def test_an_input_alone_gives_what_it_gives_among_others(
    trained: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    task, folder = trained
    monkeypatch.chdir(folder)
    model = load(folder / "run", device="cpu")
    inputs = [model.read(argument) for argument in TASK_CASES[task].inputs]
    together = [model.record(prediction) for prediction in model.predict(inputs)]
    alone = [model.record(prediction) for each in inputs for prediction in model.predict([each])]
    assert near(together, alone)


def test_every_verb_serves_the_task(
    trained: tuple[str, Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    task, folder = trained
    case = TASK_CASES[task]
    monkeypatch.chdir(folder)
    assert run(["data", "check", f"{task}.yaml"]) == 0
    assert "plan: " in capsys.readouterr().out
    assert run(["evaluate", "-m", "run", case.held_out]) == 0
    assert re.search(r"\d", capsys.readouterr().out)
    assert run(["evaluate", "-m", "run", case.held_out, "--json", "--worst", "1"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert all(name in figures for name in load("run").evaluate(case.held_out).metrics)
    for format in load("run").formats:
        assert run(["predict", "-m", "run", *case.inputs, "--format", format]) == 0
        printed = capsys.readouterr().out.splitlines()
        assert len(printed) >= len(case.inputs)
        assert format != "jsonl" or all(isinstance(json.loads(line), dict) for line in printed)
    assert run(["plot", "-m", "run", case.inputs[0], "-o", "picture.png"]) == 0
    written = [Path(name) for name in capsys.readouterr().out.splitlines()]
    assert written
    assert all(path.read_bytes()[:4] == b"\x89PNG" for path in written if path.suffix == ".png")
    assert run(["info", "run"]) == 0
    assert task in capsys.readouterr().out
    assert run(["explain", "run"]) == 0
    assert "on the CPU" in capsys.readouterr().out


def with_confidence(trained: tuple[str, Path], monkeypatch: pytest.MonkeyPatch) -> Case:
    """The case of a task, in its folder; tests of tasks without confidences end here."""
    task, folder = trained
    monkeypatch.chdir(folder)
    if task in WITHOUT_CONFIDENCE:
        pytest.skip(f"{task} has no confidences: {WITHOUT_CONFIDENCE[task]}")
    return TASK_CASES[task]


@pytest.mark.parametrize(
    "flag", [["predict", "--confidence"], ["predict", "--at-least", "0.9"], ["evaluate", "--calibrate"]]
)
def test_tasks_without_confidences_refuse_them_by_name(
    trained: tuple[str, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], flag: list[str]
) -> None:
    task, folder = trained
    monkeypatch.chdir(folder)
    case = TASK_CASES[task]
    verb, *flags = flag
    arguments = case.inputs if verb == "predict" else [case.held_out]
    if task in WITHOUT_CONFIDENCE:
        assert run([verb, "-m", "run", *arguments, *flags]) == 2
        error = capsys.readouterr().err
        assert f"{flags[0]} is not for models of {task}: {WITHOUT_CONFIDENCE[task]}" in error
    else:
        assert load("run").no_confidence == ""


def test_confidences_are_shown_in_every_format_and_equal_those_of_python(
    trained: tuple[str, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    case, model = with_confidence(trained, monkeypatch), load("run", device="cpu")
    stated = [each.confidence for each in model.predict([model.read(argument) for argument in case.inputs])]
    assert all(0 <= confidence <= 1 for confidence in stated)
    for format in model.formats:
        command = ["predict", "-m", "run", *case.inputs, "--confidence", "--format", format]
        if format == "text":
            assert run(command) == 2
            assert "text has outputs only" in capsys.readouterr().err
            continue
        assert run(command) == 0
        printed = capsys.readouterr()
        assert "not calibrated" not in printed.err
        if format == "jsonl":
            records = [json.loads(line) for line in printed.out.splitlines()]
            assert [record["confidence"] for record in records] == pytest.approx(stated, abs=1e-4)
        elif format in ("tsv", "csv"):
            rows = printed.out.splitlines()[format == "csv" :]
            shown = [float(row.split("," if format == "csv" else "\t")[-1]) for row in rows]
            assert shown == pytest.approx(stated, abs=1e-4)
        else:  # a token per line
            assert "0." in printed.out or "1.0000" in printed.out


def test_outputs_below_a_level_are_left_empty_and_counted(
    trained: tuple[str, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    case, model = with_confidence(trained, monkeypatch), load("run", device="cpu")
    predictions = model.predict([model.read(argument) for argument in case.inputs])
    level = sorted(each.confidence for each in predictions)[-1]  # the surest output stays
    command = ["predict", "-m", "run", *case.inputs, "--at-least", f"{level:.12f}"]
    withheld = sum(each.confidence < float(f"{level:.12f}") for each in predictions)
    assert run(command) == 0
    printed = capsys.readouterr()
    whole = [model.rows(each)[0][model.output_column] for each in predictions]
    shown = [row.split("\t")[-1] for row in printed.out.splitlines()]
    for text, right, each in zip(shown, whole, predictions, strict=True):
        assert text == ("" if each.confidence < float(f"{level:.12f}") else right)
    assert (f"of {len(predictions)} left empty" in printed.err) == (withheld > 0)
    assert run([*command, "--format", "jsonl"]) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert sum(record["abstained"] for record in records) == withheld


def test_a_model_is_calibrated_once_and_old_folders_load_without_it(
    trained: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    case = with_confidence(trained, monkeypatch)
    monkeypatch.setattr("regard.runs.calibration.FEWEST", 1)
    shutil.copytree("run", tmp_path / "run")
    (tmp_path / "run" / CALIBRATION).unlink()
    listed = json.loads((tmp_path / "run" / "run.json").read_text())
    listed["files"].remove(CALIBRATION)  # as of a run before there were calibrations
    (tmp_path / "run" / "run.json").write_text(json.dumps(listed))
    model = load(tmp_path / "run", device="cpu")
    assert (model.calibration, model.temperature()) == (None, 1.0)
    assert run(["predict", "-m", str(tmp_path / "run"), *case.inputs, "--confidence"]) == 0
    assert capsys.readouterr().err.count("--calibrate") == 1
    command = ["evaluate", "-m", str(tmp_path / "run"), case.held_out]
    assert run(command) == 0
    assert "the model is not calibrated (--calibrate)" in capsys.readouterr().out
    assert run([*command, "--calibrate"]) == 0
    assert "confidences are calibrated: temperature" in capsys.readouterr().err
    calibrated = load(tmp_path / "run", device="cpu")
    assert calibrated.is_calibrated
    assert run([*command, "--calibrate"]) == 2
    assert "--overwrite calibrates it again" in capsys.readouterr().err
    assert run([*command, "--calibrate", "--overwrite"]) == 0
    assert CALIBRATION in json.loads((tmp_path / "run" / "run.json").read_text())["files"]
    capsys.readouterr()
    assert run([*command, "--json"]) == 0
    curve = reliability_of(calibrated.evaluate(case.held_out).scored)
    assert curve is not None
    assert json.loads(capsys.readouterr().out)["calibration_error"] == pytest.approx(curve.error)


def test_a_report_has_every_item_in_every_form(
    trained: tuple[str, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task, folder = trained
    monkeypatch.chdir(folder)
    held_out = TASK_CASES[task].held_out
    command = ["evaluate", "-m", "run", held_out, "--report"]
    for suffix in ("html", "csv", "jsonl", *["parquet"] * (find_spec("pyarrow") is not None)):
        assert run([*command, str(tmp_path / f"r.{suffix}")]) == 0, suffix
    assert run([*command, str(tmp_path / "r.csv")]) == 2
    assert "the file exists" in capsys.readouterr().err
    records = [json.loads(line) for line in (tmp_path / "r.jsonl").read_text().splitlines()]
    rows = list(csv.DictReader((tmp_path / "r.csv").open(encoding="utf-8", newline="")))
    assert len(rows) == len(records)
    if (tmp_path / "r.parquet").exists():
        assert len(pytest.importorskip("pandas").read_parquet(tmp_path / "r.parquet")) == len(records)
    assert list(rows[0]) == list(records[0])
    if task == "forecasting":
        assert {"origin", "step", "time", "target", "observed", "forecast"} < set(records[0])
    else:
        evaluation = load("run", device="cpu").evaluate(held_out)
        assert [record["place"] for record in records] == [entry.place for entry in evaluation.scored]
        assert {"place", "input", "references", "output", "errors", "length", "score", "confidence"} <= set(records[0])
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert not re.search(r"(src|href)=.https?:", page)
    assert ("Reliability" in page) == (task not in WITHOUT_CONFIDENCE)
    assert not (task == "documents" and "errors over length" in page)  # they are the rest of the share that is right
    is_drawn = task == "forecasting" or len(load("run", device="cpu").evaluate(held_out).worst) > 0
    assert ('<details class="page"' in page) == is_drawn  # what the model attends to, of the worst items


@pytest.mark.parametrize("name", ["r.xlsx", "r", "r.txt"])
def test_the_suffix_of_a_report_decides_or_is_refused(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["evaluate", "-m", "g2p-en", "nowhere.tsv", "--report", name]) == 2
    assert "use one of .html, .csv, .jsonl, .parquet" in capsys.readouterr().err


FOREIGN = {
    "documents": ("label,text\nnew,It was a joy.\n", "document has labels that the training lacks", "'new' (1)"),
    "image_to_text": ("test-0.png\tone three\n", "the model cannot write symbols of the reference", "'three' (1)"),
    "labelling": ("May\tB-month\nnew\tB-day\n", "labels that the training lacks", "'B-day' (1)"),
    "language_modelling": ("the ß fox\n", "is not in the vocabulary", "'ß' (1)"),
    "text_to_speech": ("test-0|9|9 sea 9\n", "characters that the training did not have", "'9' (2)"),
    "text_to_text": ("0 1\t1 x x\n", "the model cannot write symbols of the reference", "'x' (2)"),
}
"""A file of which a model cannot be right, and what is said of it."""


def test_an_evaluation_names_what_the_model_cannot_be_right_about(
    trained: tuple[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    task, folder = trained
    if task == "forecasting":
        assert task not in FOREIGN  # a series without a training is scaled by its own values: tests of the task
        return
    text, reason, names = FOREIGN[task]
    elsewhere = folder / "foreign"
    elsewhere.mkdir()
    for name in ("wavs", "test-0.png"):
        if (folder / name).exists():
            (elsewhere / name).symlink_to(folder / name)
    file = elsewhere / TASK_CASES[task].held_out
    file.write_text(text, encoding="utf-8")
    assert run(["evaluate", "--model", str(folder / "run"), str(file)]) == 0
    output, messages = capsys.readouterr()
    assert "nan" not in output
    (line,) = (each for each in messages.splitlines() if each.startswith("warning:") and reason in each)
    assert names in line
    assert run(["evaluate", "--model", str(folder / "run"), str(file), "--json"]) == 0
    assert line.removeprefix("warning: ") in json.loads(capsys.readouterr().out)["warnings"]


def test_files_that_were_trained_on_are_not_evaluated(
    trained: tuple[str, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    task, folder = trained
    monkeypatch.chdir(folder)
    assert run(["evaluate", "-m", "run", str(TASK_CASES[task].sections["data"]["train"])]) == 2
    assert "was trained on" in capsys.readouterr().err


@pytest.mark.parametrize("task", NAMES)
def test_settings_of_another_task_are_refused_by_name(task: str, tmp_path: Path) -> None:
    path = configured(task, tmp_path / task)
    own = keys(SCHEMAS[task], yaml.safe_load(path.read_text(encoding="utf-8")))
    for other, schema in SCHEMAS.items():
        if other == task:
            continue
        foreign = [
            key for key in keys(schema) if key not in own and len(key) > 1 and own.get(key[:-1], NOTHING).section
        ]
        assert foreign
        for key in foreign[:3]:
            with pytest.raises(ConfigError, match=rf"{re.escape('.'.join(key))}.*: unknown key; .*{other}"):
                read_config(path, [f"{'.'.join(key)}=1"])


@pytest.mark.parametrize("task", NAMES)
def test_the_key_that_selects_names_every_metric(task: str) -> None:
    described = SCHEMAS[task].model_fields["select"].description
    assert [metric.name for metric in TASKS[task].metrics if metric.name not in described] == []


@pytest.mark.parametrize("task", NAMES)
def test_every_metric_can_select_the_saved_model(task: str, tmp_path: Path) -> None:
    """What a validation measures depends on the metric that selects; a training selects by the last of them."""
    kind, path = TASKS[task], configured(task, tmp_path / task, max_steps=1, validate_every=1)
    settings, material = METRIC_SETTINGS.get(task, []), None
    metrics = [metric.name for metric in kind.metrics if metric.package is None or find_spec(metric.package)]
    for name in metrics:
        config = read_config(path, [*settings, f"select={name}"]).config
        material = kind.read(config) if material is None else material
        config = kind.resolve(config, material, kind.check(config, material)).config
        trainee = kind.trainee(kind.build(config, material, name=name), material)
        assert name in trainee.validate().metrics
    outcome = train(read_config(path, [*settings, f"select={metrics[-1]}"]), tmp_path / "run")
    assert metrics[-1] in outcome.metrics


METRIC_SETTINGS = {"forecasting": ["model.quantiles=[0.1, 0.5, 0.9]"]}
"""Settings without which a metric has no meaning."""


def read_names() -> set[str]:
    """Every name of an attribute that the package reads outside the schema, and every text there."""
    names: set[str] = set()
    root = Path(regard.__file__).parent
    for path in root.rglob("*.py"):
        if (root / "config" / "tasks") in path.parents or path == root / "config" / "schema.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                names.add(node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                names.add(node.value)
    return names


def test_every_key_of_every_schema_is_read_by_something() -> None:
    read = read_names()
    unread = {".".join(map(str, path)) for schema in SCHEMAS.values() for path in keys(schema) if path[-1] not in read}
    assert unread == set()


def test_given_pairs_are_aligned_or_refused_by_the_name_of_the_task(
    trained: tuple[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    task, folder = trained
    file = folder / TASK_CASES[task].held_out
    status = run(["align", str(folder / "run"), str(file)])
    if task == "text_to_text":
        assert status == 0
        assert len(capsys.readouterr().out.splitlines()) == len(file.read_text().splitlines())
    else:
        assert status == 2
        assert f"Models of {task} do not align given pairs." in capsys.readouterr().err
        with pytest.raises(UnsupportedError, match=f"Models of {task} do not align given pairs"):
            load(folder / "run", device="cpu").align([("a", "b")])


@pytest.mark.parametrize(("task", "kind"), [("text_to_text", TextToText), ("image_to_text", ImageToText)])
def test_pictures_of_validations_have_the_output_and_the_reference(task, kind, tmp_path, monkeypatch) -> None:
    path = configured(task, tmp_path / "data", max_steps=2, validate_every=2, samples=2)
    titles: list[str] = []
    monkeypatch.setattr(kind, "plot", lambda self, predictions, path, *, title="": titles.append(title))
    train(read_config(path), tmp_path / "run")
    assert len(titles) >= 2
    assert all(re.fullmatch(r"(?s).*\((the reference|reference: .+)\)", title) for title in titles)


def table_of(path: Path) -> Any:
    """The rows of an output file, and the number of its columns if it is a table."""
    if path.suffix == ".parquet":
        return pandas.read_parquet(path).astype(str).to_numpy().tolist()
    with path.open(encoding="utf-8", newline="") as file:
        if path.suffix == ".csv":
            return list(csv.reader(file))[1:]
        lines = file.read().splitlines()
    return [json.loads(line) for line in lines] if path.suffix == ".jsonl" else [line.split("\t") for line in lines]


def test_the_suffix_of_an_output_chooses_its_format_or_is_refused_by_name(
    trained: tuple[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    task, folder = trained
    monkeypatch.chdir(folder)
    model, given = load("run"), TASK_CASES[task].inputs[:1]
    written: dict[str, Any] = {}
    for suffix in (".csv", ".jsonl", ".parquet", ".tsv", ".txt", ".wav", ".xlsx"):
        path = tmp_path / f"out{suffix}"
        status = run(["predict", "--model", "run", *given, "--output", str(path)])
        said = capsys.readouterr().err
        assert (status == 2) == (not path.exists()), said
        if status == 2:
            assert said.startswith(f"{path}: this command does not write files that end in {suffix}")
        elif suffix == ".wav":
            assert path.read_bytes()[:4] == b"RIFF"
        else:
            written[suffix] = table_of(path)
        assert not [each for each in tmp_path.iterdir() if each.name.startswith(".")]
    names = {"tsv", "text", "csv", "jsonl"} & set(model.formats)
    suffixes = {f".{'txt' if name == 'text' else name}" for name in names}
    assert set(written) == suffixes | {".parquet"}, "every format of the task has its suffix"
    assert (".wav" in {path.suffix for path in tmp_path.iterdir()}) == bool(model.sounds)
    if ".csv" in written:
        for rows in zip(written[".csv"], written[".parquet"], strict=True):
            assert all(near_text(*cells) for cells in zip(*rows, strict=True)), rows


def test_an_evaluation_shows_its_progress_and_the_remaining_time(
    trained: tuple[str, Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    task, folder = trained
    monkeypatch.chdir(folder)
    monkeypatch.setattr("regard.cli.progress.FIRST_LINE_AFTER", 0.0)
    monkeypatch.setattr("regard.cli.progress.LINE_EVERY", 0.0)
    assert run(["evaluate", "--model", "run", TASK_CASES[task].held_out]) == 0
    shown = [line for line in capsys.readouterr().err.splitlines() if line.endswith(" left")]
    assert re.fullmatch(r"\d+ inputs?, 100%, [\d,]+ a second, 0 s left", shown[-1])
    assert all(len(line) < 80 for line in shown)


def test_the_tree_of_a_search_has_its_prediction_or_is_refused_by_name(
    trained: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    task, folder = trained
    monkeypatch.chdir(folder)
    model: Any = load("run")
    given = model.read(TASK_CASES[task].inputs[0])
    if task not in ("image_to_text", "language_modelling", "text_to_text"):
        with pytest.raises(UnsupportedError, match=f"Models of {task} do not search for their outputs, so there is no"):
            model.search_tree(given)
        return
    search = model.config.decoding.replace(method="beam", beam=3, num_best=2)
    tree = model.search_tree(given, search=search)
    (prediction,) = model.predict([given], search=search)
    outputs = [prediction, *prediction.alternatives]
    assert tree.prediction.record() == prediction.record()
    assert [[node.text for node in tree.path(id)] for id in tree.returned] == [each.tokens for each in outputs]
    assert {node.state for node in tree.nodes} >= {"kept", "pruned", "returned"}


def test_the_nearest_training_items_are_found_or_refused_by_name(
    trained: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    task, folder = trained
    monkeypatch.chdir(folder)
    model: Any = load("run")
    given = model.read(TASK_CASES[task].inputs[0])
    if task not in ("image_to_text", "text_to_text"):
        with pytest.raises(UnsupportedError, match=f"Models of {task} have no states to compare with those of train"):
            model.nearest(given)
        return
    item, output = Path("train.tsv").read_text(encoding="utf-8").splitlines()[0].split("\t")
    near = model.nearest(model.read(item), output, step=2, count=4)
    assert near[0].distance < 1e-4
    assert (near[0].place.endswith("train.tsv:1"), near[0].step, near[0].tokens[-1]) == (True, 2, "</s>")
    assert [each.distance for each in near] == sorted(each.distance for each in near)
    assert len({each.place for each in near}) == 4
    assert json.loads(json.dumps(near[0].record()))["tokens"] == list(near[0].tokens)
    assert model.nearest(given)[0].step >= 1
    for step in (0, len(near[0].tokens) + 1):
        with pytest.raises(DataError, match=f"step is {step}, but the output has the steps 1 to {len(near[0].tokens)}"):
            model.nearest(model.read(item), output, step=step)
    data = Path("train.tsv")
    moved = data.rename("elsewhere.tsv")
    try:
        with pytest.raises(UnsupportedError, match=r"The training data of run are not found: .*train\.tsv"):
            load("run").nearest(given)
        data.write_text("1\t2\n", encoding="utf-8")
        with pytest.raises(UnsupportedError, match=r"train\.tsv: not the training data of the model"):
            load("run").nearest(given)
    finally:
        moved.replace(data)


def test_views_have_every_head_of_every_attention(trained: tuple[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    task, folder = trained
    monkeypatch.chdir(folder)
    model: Any = load("run")
    (prediction,) = model.predict([model.read(TASK_CASES[task].inputs[0])])
    views = json.loads(json.dumps(model.views(prediction), allow_nan=False))
    assert bool(views) == (task in ("image_to_text", "language_modelling", "text_to_text"))
    for name, view in views.items():
        assert name in ("symbols", "words")
        shape = [len(view["tokens"]), len(view["source_tokens"])]
        for panel in (view["alignment"], *(head for heads in view["alignments"].values() for head in heads)):
            assert list(torch.tensor(panel).shape) == shape
    if views and task != "language_modelling":
        assert views["symbols"]["tokens"] == prediction.tokens


def near_text(left: str, right: str) -> bool:
    """Whether two cells are equal, as texts or as numbers."""
    try:
        return left == right or near(float(left), float(right))
    except ValueError:
        return False
