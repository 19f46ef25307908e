"""Searches for settings: draws, kills, successive halving, the folder, and what is refused."""

from __future__ import annotations

import csv
import json
import math
import re
import sys

import pytest
import yaml

from regard import tasks
from regard.cli import run as command
from regard.config import dump, from_preset, load
from regard.config.ranges import chosen, ranges
from regard.errors import ConfigError, DataError, RegardError, UnsupportedError
from regard.runs.run import TrainingRun
from regard.runs.sweep import loop, trial
from regard.runs.sweep.halving import Halving
from regard.runs.sweep.study import Study
from regard.runs.sweep.table import WIDTH
from regard.runs.sweep.trial import Trial
from regard.training.report import StepInfo
from task_cases import TASK_CASES, configured

RANGES = {
    "training": {"learning_rate": {"low": 1e-4, "high": 1e-1, "log": True}},
    "model.encoder.size": {"low": 4, "high": 12, "step": 2},
    "model": {"encoder": {"dropout": {"low": 0.0, "high": 0.5}}},
    "model.attention": [{"recipe": "bahdanau"}, {"recipe": "luong"}],
}
METRIC = "sequence_error_rate"
VALIDATIONS = 6
FILES = ["config.yaml", "model.safetensors"]


class Killed(BaseException):
    """Stands for a kill: nothing after it runs."""


@pytest.fixture
def words(tmp_path, monkeypatch):
    """A function that writes a configuration with a search in the working folder."""
    monkeypatch.chdir(tmp_path)
    base = configured("text_to_text", tmp_path / "data")

    def write(**plan):
        values = yaml.safe_load(base.read_text())
        halving = {} if "halving" in plan else {"halving": 2, "halving_from": 0.1}
        values["sweep"] = {"trials": 6, "ranges": RANGES} | halving | plan
        path = base.with_name("swept.yaml")
        path.write_text(yaml.safe_dump(values, sort_keys=False))
        return path

    return write


def error_of(config, step):
    """The error of a made training: a function of its settings and its validations."""
    model = config.model
    distance = abs(math.log10(config.training.learning_rate) + 2) + 0.1 * abs(model.encoder.size - 8)
    return distance + model.encoder.dropout + (model.attention.recipe == "luong") + 2 / step


class Trainings:
    """Trainings that are made in no time; after a kill they continue from the last validation saved in their folder.

    Args:
        moments: the moments until a kill; None: there is none.
        made: the validations that were made.
    """

    def __init__(self):
        self.moments, self.made, self.fail = None, 0, lambda config: None

    def pass_moment(self):
        if self.moments is not None:
            self.moments -= 1
            if self.moments < 0:
                raise Killed

    def around(self, original):
        def method(*arguments, **options):
            self.pass_moment()
            result = original(*arguments, **options)
            self.pass_moment()
            return result

        return method

    def train(self, configuration, folder, *, callback, quiet):
        config, saved = configuration.config, folder / "position.json"
        if (error := self.fail(config)) is not None:
            raise error
        folder.mkdir(parents=True, exist_ok=True)
        step = json.loads(saved.read_text()) if saved.is_file() else 0
        while step < VALIDATIONS:
            step, self.made = step + 1, self.made + 1
            self.pass_moment()
            info = StepInfo("validation", step, VALIDATIONS, 1, {METRIC: error_of(config, step)}, 0.1, float(step))
            stops = callback(info)
            self.pass_moment()
            saved.write_text(json.dumps(step))
            self.pass_moment()
            if stops and step < VALIDATIONS:
                return TrainingRun(step, 1, None, None, "interrupted", float(step), folder=folder)
        (folder / "config.yaml").write_text(dump(config))
        (folder / "model.safetensors").write_text(str(error_of(config, step)))
        (folder / "run.json").write_text(json.dumps({"format": 1, "files": FILES}))
        metrics = {METRIC: error_of(config, step)}
        return TrainingRun(step, 1, None, None, "max_steps", float(step), metrics, [step], folder=folder)


@pytest.fixture
def trainings(monkeypatch):
    """The made trainings in place of real ones; before and after every change of the database may be a kill."""
    made = Trainings()
    monkeypatch.setattr(trial, "train", made.train)
    monkeypatch.setattr(loop, "_check", lambda configuration: configuration.check_unread())
    monkeypatch.setattr(loop, "_draw", lambda result, path: path.write_text("a picture"))
    for name in ("begin", "report", "note", "end"):
        monkeypatch.setattr(Study, name, made.around(getattr(Study, name)))
    return made


def test_a_search_that_is_killed_at_any_moment_continues_to_the_same_table_and_the_same_best_model(
    words, trainings, tmp_path
):
    configuration = load(words(trials=3))
    whole = tasks.sweep(configuration, tmp_path / "whole")
    made = trainings.made
    assert {each.state for each in whole.trials} == {"finished", "stopped"}
    kills = 0
    while True:
        trainings.moments = 5 + 4 * kills % 13  # so that every kind of moment is met
        try:
            again = tasks.sweep(configuration, tmp_path / "killed")
            break
        except Killed:
            kills += 1
    assert kills > 5
    assert trainings.made - made <= made + kills  # a kill costs no more than the validation that it interrupts
    for name in ("trials.csv", "best/config.yaml", "best/model.safetensors"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert (again.importances, again.best.number) == (whole.importances, whole.best.number)


def test_the_first_training_has_the_configuration_as_it_is_and_the_best_is_never_worse(words, trainings, tmp_path):
    found = tasks.sweep(words(trials=4), tmp_path / "run")
    first = found.trials[0]
    assert first.settings == {
        "training.learning_rate": 0.002,
        "model.encoder.size": 8,
        "model.encoder.dropout": 0.3,
        "model.attention": {"recipe": "bahdanau", "size": 8},
    }
    assert first.state == "finished"
    assert found.best.value == min(each.value for each in found.trials if each.state == "finished") <= first.value
    assert (tmp_path / "run/best/model.safetensors").read_text() == str(found.best.value)
    for each in found.trials[1:]:
        assert 1e-4 <= each.settings["training.learning_rate"] <= 1e-1
        assert each.settings["model.encoder.size"] in (4, 6, 8, 10, 12)
        assert 0 <= each.settings["model.encoder.dropout"] <= 0.5


def test_a_finished_search_continues_with_more_trials_and_repeats_none(words, trainings, tmp_path):
    short = tasks.sweep(words(trials=2), tmp_path / "run")
    made = trainings.made
    assert tasks.sweep(words(trials=2), tmp_path / "run").rows == short.rows
    assert trainings.made == made
    longer = tasks.sweep(words(trials=3), tmp_path / "run")
    assert longer.rows[:3] == short.rows
    assert longer.rows == tasks.sweep(words(trials=3), tmp_path / "other").rows


def test_a_small_space_is_tried_completely_and_no_settings_twice(words, trainings, tmp_path):
    small = {
        "model.encoder.size": {"low": 4, "high": 6, "step": 2},
        "model.attention": [{"recipe": "bahdanau", "size": 8}, {"recipe": "luong"}],
    }
    found = tasks.sweep(words(ranges=small, trials=50, halving=None), tmp_path / "run")
    tried = [(each.settings["model.encoder.size"], each.settings["model.attention"]["recipe"]) for each in found.trials]
    assert sorted(tried[1:]) == [(size, recipe) for size in (4, 6) for recipe in ("bahdanau", "luong")]


def test_no_training_begins_after_the_seconds(words, trainings, tmp_path):
    found = tasks.sweep(words(seconds=VALIDATIONS + 0.5, halving=None), tmp_path / "run")
    assert [each.seconds for each in found.trials] == [VALIDATIONS] * 2


def test_failures_are_rows_with_their_reasons_and_all_failures_an_error(words, trainings, tmp_path):
    def diverges(config):
        return RegardError("the loss is nan.\n  Lower it.") if config.training.learning_rate > 0.008 else None

    trainings.fail = diverges
    found = tasks.sweep(words(halving=None, trials=4), tmp_path / "run")
    failed = [each for each in found.trials if each.state == "failed"]
    assert failed
    assert {(each.value, each.reason) for each in failed} == {(None, "the loss is nan.")}
    trainings.fail = lambda config: RegardError("the loss is nan.")
    with pytest.raises(RegardError, match=r"no training could be finished.*\n  the loss is nan"):
        tasks.sweep(words(trials=2), tmp_path / "other")
    trainings.fail = lambda config: DataError("train.tsv:3: no output")
    with pytest.raises(DataError, match=r"train\.tsv:3"):  # all trainings would fail with these data
        tasks.sweep(words(), tmp_path / "third")
    trainings.fail = lambda config: None
    assert tasks.sweep(words(trials=1), tmp_path / "third", overwrite=True).best is not None


def test_the_table_fits_a_terminal_and_the_file_has_everything(words, trainings, tmp_path):
    many = RANGES | {f"decoding.{name}": {"low": 1, "high": 9} for name in ("beam", "min_length")}
    found = tasks.sweep(words(ranges=many, trials=5), tmp_path / "run")
    lines = str(found).splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert lines[0].split()[:2] == ["trial", METRIC]
    assert "as configured" in str(found)
    assert re.fullmatch(r"\(\d more keys in the file\)", lines[-1])
    with (tmp_path / "run/trials.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["trial"]) for row in rows] == list(range(6))
    assert set(rows[0]) == {"trial", "state", METRIC, "steps", "validations", "seconds", "reason"} | {
        each.name for each in ranges(load(words(ranges=many)))
    }
    assert [float(row[METRIC]) for row in rows] == [each.value for each in found.trials]


HALVED = [
    # factor, first, own validations, those of earlier trainings, whether it stops
    (2, 0.1, [0.5], [], False),
    (2, 0.1, [0.5], [[0.4]], True),
    (2, 0.1, [0.3], [[0.4], [0.2], [0.5]], False),
    (2, 0.1, [0.45], [[0.4], [0.2], [0.5]], True),
    (3, 0.2, [9.0], [[0.4, 0.4]], False),
    (3, 0.2, [0.9, 0.9], [[0.4]], False),
    (3, 0.2, [0.9, 0.9], [[0.4, 0.4]], True),
    (3, 0.2, [0.2, 0.9], [[0.4, 0.4]], False),
    (3, 0.2, [math.nan, math.nan], [[0.4, 0.4]], True),
    (3, 0.2, [0.9] * 4, [[0.4] * 4], False),
    (3, 0.2, [0.9] * 7, [[0.4] * 7], False),
    (None, 0.1, [0.9], [[0.4]], False),
]


@pytest.mark.parametrize(("factor", "first", "own", "others", "stops"), HALVED)
def test_a_training_stops_unless_it_is_among_the_best_share_at_a_stage(factor, first, own, others, stops):
    def course(values, sign=1):
        return [(number / 10, sign * value) for number, value in enumerate(values, start=1)]

    assert Halving(factor, first).stops(course(own), map(course, others)) == stops
    turned = [course(each, -1) for each in others]
    assert Halving(factor, first, larger_is_better=True).stops(course(own, -1), turned) == stops


def test_validations_are_compared_at_the_same_share_of_the_steps():
    sparse, dense = [(0.25, 0.5), (0.5, 0.3)], [(0.1, 0.9), (0.2, 0.8), (0.3, 0.4)]
    assert not Halving(2, 0.25).stops(dense, [sparse])
    assert Halving(2, 0.25).stops([*dense[:2], (0.3, 0.6)], [sparse])


REFUSED = {
    "nowhere": (
        {"model.encoder.sise": [1, 2]},
        r"swept\.yaml:\d+:\d+: model\.encoder\.sise: unknown key; did you mean 'size'\?",
    ),
    "out of range": (
        {"training": {"learning_rate": {"low": -1.0, "high": 0.1}}},
        r"swept\.yaml:\d+:\d+: training\.learning_rate: expected a number above 0; got -1",
    ),
    "a choice": (
        {"model.encoder.cell": ["gru", "gruu"]},
        r"model\.encoder\.cell: expected one of .* did you mean 'gru'",
    ),
    "another kind": ({"model.encoder.heads": [1, 2]}, r"model\.encoder\.heads: .*architecture: transformer"),
    "unread": ({"training.noam_factor": {"low": 0.5, "high": 2}}, r"noam_factor has no effect with schedule: cosine"),
    "an option": (
        {"model.attention.recipe": ["bahdanau", "luon"]},
        r"model\.attention\.recipe: .*'luon'; did you mean",
    ),
    "turned": ({"model.encoder.size": {"low": 9, "high": 3}}, r"sweep\.ranges.*high is 3; it must be above low, 9"),
    "zero": ({"training.learning_rate": {"low": 0, "high": 1, "log": True}}, r"with log: true it must be above 0"),
    "half": ({"model.encoder.size": {"low": 9}}, r"high is missing; expected a range, as \{low: 1, high: 10\}"),
    "misspelt": ({"model.encoder.size": {"low": 1, "hihg": 3}}, r"hihg: unknown key; a range has low, high, log, step"),
    "a step": ({"model.encoder.size": {"low": 1, "high": 3, "step": 5}}, r"step is 5; it must be above 0 and at most"),
    "a word": ({"model.encoder.size": {"low": 1, "high": "3"}}, r"expected a number; got 3"),
    "no range": ({"model.encoder.size": 12}, r"expected a range, as .*, or a list of choices; got 12"),
    "one choice": ({"model.encoder.cell": ["gru"]}, r"a list of choices has at least two"),
    "twice": (
        {"model.encoder.size": [4, 8], "model": {"encoder": {"size": [4, 6]}}},
        r"model\.encoder\.size has two ranges",
    ),
    "task": ({"task": ["labelling", "documents"]}, r"task cannot vary: it decides what is learned"),
    "select": ({"select": ["loss", METRIC]}, r"select cannot vary: it decides what is compared"),
    "held out": ({"data.dev_fraction": [0.1, 0.2]}, r"data\.dev_fraction cannot vary: the held-out data"),
    "nothing": ({}, r"there are no ranges"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_range_that_fits_nothing_is_one_error_with_its_place(name, words, tmp_path):
    given, message = REFUSED[name]
    with pytest.raises(ConfigError, match=message) as caught:
        tasks.sweep(words(ranges=given), tmp_path / "run")
    assert "swept.yaml:" in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_choices_that_are_possible_only_together_are_accepted_and_others_drawn_again(words, trainings, tmp_path):
    given = {"training.schedule": ["cosine", "noam"], "training.noam_factor": {"low": 0.5, "high": 2.0}}
    found = tasks.sweep(words(ranges=given, trials=3), tmp_path / "run")
    assert [each.settings["training.schedule"] for each in found.trials[1:]] == ["noam"] * 3


def test_ranges_of_a_preset_are_set_on_the_command_line(tmp_path):
    rate = "sweep.ranges.training.learning_rate={low: 1e-4, high: 1e-2, log: true}"
    given = from_preset("g2p", ["data.train=a.tsv", rate, "sweep.ranges.model.attention.recipe=[bahdanau, luong]"])
    first, second = ranges(given)
    assert (first.low, first.high, first.log, first.whole, first.size) == (1e-4, 1e-2, True, False, math.inf)
    config = chosen(given, {first: 0.003, second: "luong"}).config
    assert (config.training.learning_rate, config.model.attention.recipe, config.sweep) == (0.003, "luong", None)
    with pytest.raises(ConfigError, match=r"sweep\.ranges\.model\.encoder\.heads=.*architecture: transformer"):
        from_preset("g2p", ["data.train=a.tsv", "sweep.ranges.model.encoder.heads=[2, 4]"])


def test_train_refuses_ranges_and_sweep_a_configuration_without_them(words, tmp_path, capsys):
    path = words()
    assert command(["train", str(path), "--output", "run"]) == 2
    assert re.search(r"swept\.yaml:\d+:\d+: sweep: .*`regard sweep` runs", capsys.readouterr().err)
    assert command(["sweep", "data/text_to_text.yaml", "--output", "run"]) == 2
    assert "has no ranges: add a section sweep" in capsys.readouterr().err
    with pytest.raises(ConfigError, match="halving_from has no effect with halving: null"):
        tasks.sweep(words(halving=None, halving_from=0.2), "run")
    assert not (tmp_path / "run").exists()


def test_a_folder_with_something_else_is_left_alone(words, trainings, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match=r"has files but no sweep \(notes\.txt\)"):
        tasks.sweep(words(), other, overwrite=True)
    tasks.sweep(words(trials=1), tmp_path / "run")
    wider = RANGES | {"model.encoder.layers": [1, 2]}
    with pytest.raises(
        ConfigError, match=r"another configuration:\n  sweep\.ranges\.model\.encoder\.layers: not set →"
    ):
        tasks.sweep(words(trials=1, ranges=wider), tmp_path / "run")
    with (tmp_path / "data/train.tsv").open("a") as file:
        file.write("1 2\t2 1\n")
    with pytest.raises(DataError, match=r"the data changed since the sweep began: data\.train\."):
        tasks.sweep(words(trials=2), tmp_path / "run")
    assert len(tasks.sweep(words(trials=1, ranges=wider), tmp_path / "run", overwrite=True).trials) == 2
    run = tmp_path / "run/trials/000"
    with pytest.raises(ConfigError, match="has a run, not a sweep"):
        tasks.sweep(words(), run)
    (tmp_path / "run/study.db").write_text("no database")
    with pytest.raises(DataError, match=r"study\.db: not the database of a sweep"):
        tasks.sweep(words(trials=1, ranges=wider), tmp_path / "run")
    (tmp_path / "run/sweep.json").write_text("[]")
    with pytest.raises(DataError, match=r"sweep\.json: not the record of a sweep"):
        tasks.sweep(words(trials=1, ranges=wider), tmp_path / "run")


def test_a_missing_package_is_named_with_its_command_and_processes_are_refused(words, monkeypatch, tmp_path):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UnsupportedError, match="A sweep runs in one process"):
        tasks.sweep(words(), tmp_path / "run")
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(
        UnsupportedError, match=re.escape("A sweep needs the optuna package: pip install 'regard[sweep]'.")
    ):
        tasks.sweep(words(), tmp_path / "run")


def test_the_picture_shows_importances_choices_and_stopped_trainings(tmp_path):
    settings = [{"a.rate": 10.0**-k, "b.kind": {"recipe": "x" * k}, "c.flag": k % 2 == 0} for k in range(1, 6)]
    states = ["finished", "stopped", "finished", "stopped", "finished"]
    trials = tuple(
        Trial(k, state, 0.1 * k, 10, 2, each, 1.0, None, tmp_path)
        for k, (state, each) in enumerate(zip(states, settings))
    )
    result = loop.Sweep(tmp_path, "loss", False, trials, {"a.rate": 0.75, "c.flag": 0.25})
    loop._draw(result, tmp_path / "importances.svg")
    drawn = (tmp_path / "importances.svg").read_text()
    for shown in ("What mattered", "a.rate", "b.kind", "stopped", "as configured", "loss: smaller is better"):
        assert f"<!-- {shown} -->" in drawn


# the smallest search of each task: a key of its own and the rate
OWN = {
    "image_to_text": "model.decoder.size",
    "documents": "model.embedding_size",
    "language_modelling": "model.layers",
    "labelling": "model.encoder.size",
    "text_to_text": "model.encoder.size",
    "forecasting": "model.encoder.size",
    "text_to_speech": "model.decoder.size",
}


@pytest.mark.parametrize("task", TASK_CASES)
def test_every_task_is_searched(task, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    path = configured(task, tmp_path / "data", max_steps=2, validate_every=1)
    flags = [f"sweep.ranges.{OWN[task]}=[2, 4]", "sweep.trials=2", "sweep.halving_from=0.5"]
    rate = "sweep.ranges.training.learning_rate={low: 1e-4, high: 1e-2, log: true}"
    sets = [word for flag in (*flags, rate) for word in ("--set", flag)]
    assert command(["sweep", str(path), "--output", "found", *sets]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.startswith("trial ")
    assert len(rows) == 3
    assert not [*(tmp_path / "found").glob("trials/*/checkpoints/step-*")]
    assert command(["info", "found/best"]) == 0
    assert tasks.load(tmp_path / "found/best").config.sweep is None
