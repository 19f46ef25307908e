"""A key that is set and read by nothing is refused, by what its schema declares; presets and saved models are not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import NoneType
from typing import Any, get_args

import pytest
import yaml
from pydantic import BaseModel

import regard
from regard.cli import run
from regard.cli.options import _with_settings
from regard.config import Configuration, from_preset, load, save
from regard.config.keys import Key, SectionPlace, keys_of, places
from regard.config.schema import SCHEMAS, TrainingConfig
from regard.errors import ConfigError
from regard.tasks.documents.config import DocumentsConfig
from regard.tasks.text_to_speech.config import TextToSpeechConfig
from regard.tasks.text_to_text.config import TextToTextConfig
from task_cases import LOOP, TASK_CASES

Condition = tuple[str, list[Any], bool, Any]


def conditional() -> Iterator[tuple[str, SectionPlace, Key, list[Condition]]]:
    """Every key of every task that is read only where another one has some values."""
    for task, schema in SCHEMAS.items():
        for place in places(schema):
            for key in keys_of(place.section, place.path):
                extra = key.field.json_schema_extra
                if isinstance(extra, dict) and extra.get("only_with"):
                    yield task, place, key, extra["only_with"]


CASES = list(conditional())


def other(key: Key) -> Any:
    """A value that is not the default."""
    default = key.field.get_default(call_default_factory=True)
    for member in key.members:
        if member.choices:
            return next(choice for choice in get_args(member.type) if choice != default)
        if member.type is bool:
            return not default
        if member.type is int:
            return (default or 1) + 1
        if member.type is float:
            return default / 2 if default else 0.25
        if member.type is Path:
            return "other.tsv"
        if member.items and member.items[0].type is float:
            return [0.5, 0.25, 0.25]
        if member.type is str:
            return "other"
    raise AssertionError(key.path)


def key_at(task: str, place: SectionPlace, name: str) -> Key:
    path = tuple(name.split(".")) if "." in name else (*place.path, name)
    found = [key for each in places(SCHEMAS[task]) for key in keys_of(each.section, each.path) if key.path == path]
    return found[0]


def written(path: tuple[Any, ...], value: Any, into: dict[str, Any]) -> dict[str, Any]:
    section = into
    for part in path[:-1]:
        section = section.setdefault(part, {})
    section[path[-1]] = value
    return into


def configuration(
    task: str, place: SectionPlace, key: Key, conditions: list[Condition], *, holds: bool
) -> dict[str, Any]:
    """A configuration that sets the key where its conditions hold, or where the last one does not."""
    values: dict[str, Any] = {"task": task, "data": {"train": "a.tsv"}}
    if place.path == ("sweep",):
        written(("sweep", "ranges"), {"seed": [1, 2]}, values)
    if place.kind:
        name, _, kind = place.kind.partition(": ")
        section = next(n for n in range(len(place.path), 0, -1) if _discriminates(task, place.path[:n], name))
        written((*place.path[:section], name), kind, values)
    for number, (name, allowed, is_exception, exception) in enumerate(conditions):
        against = not holds and number == len(conditions) - 1
        reference = key_at(task, place, name)
        if isinstance(reference.field.default, BaseModel):  # a section counts if a key of it has another value
            first, field = next(iter(type(reference.field.default).model_fields.items()))
            written((*reference.path, first), field.default if against else 0.5, values)
            continue
        if is_exception:
            value = exception if against else _besides(reference, exception)
        else:
            value = _besides(reference, allowed[0]) if against else allowed[0]
        written(reference.path, value, values)
    return written(key.path, other(key), values)


def _discriminates(task: str, path: tuple[str, ...], name: str) -> bool:
    return any(
        key.path == path and key.field.discriminator == name
        for each in places(SCHEMAS[task])
        for key in keys_of(each.section, each.path)
    )


def _besides(key: Key, value: Any) -> Any:
    """Another value of a key than this one."""
    if value is None:
        kind = next(member.type for member in key.members if member.type is not NoneType)
        return {Path: "b.tsv", str: "2024-01-01"}.get(
            kind, [8, 8, 8] if "counts" in key.path else [8, 8] if key.path[-1] == "size" else 2
        )
    if isinstance(value, bool):
        return not value
    if isinstance(value, tuple):  # files
        return ["b.tsv"]
    if key.choices:
        return next(choice for choice in key.choices if choice != value)
    if isinstance(value, str):  # a recipe
        return key.field.default
    return value + 1 if isinstance(value, int) and int in {member.type for member in key.members} else 0.5


def name_of(case: tuple[str, SectionPlace, Key, list[Condition]]) -> str:
    task, place, key, _ = case
    return f"{task}:{'.'.join(map(str, key.path))}" + f"({place.kind})" * bool(place.kind)


def test_every_key_of_the_kind_is_declared():
    named = {".".join(map(str, key.path)).rpartition(".")[2] for _, _, key, _ in CASES}
    assert named >= {
        "plateau_factor", "plateau_patience", "noam_factor", "noam_size", "learning_rate", "min_learning_rate",
        "scheduled_sampling_start", "scheduled_sampling_warmup", "scheduled_sampling_schedule", "residual",
        "guided_attention_width", "doubly_stochastic_rate", "label_smoothing_others", "stop_positive_weight",
        "consistency_weight", "dev_fraction", "stop_threshold", "silence_threshold", "threshold", "max_length_ratio",
        "fractions", "max_pixels", "filters", "convolutions", "target_field", "alignment_losses_until", "input_feeding",
        "backbone_precision",
    }  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=map(name_of, CASES))
def test_a_key_is_refused_where_nothing_reads_it_and_taken_where_something_does(case, tmp_path):
    task, place, key, conditions = case
    name, file = str(key.path[-1]), tmp_path / "a.yaml"
    file.write_text(yaml.safe_dump(configuration(task, place, key, conditions, holds=False)))
    with pytest.raises(ConfigError) as caught:
        load(file).check_unread()
    lines = [line for line in str(caught.value).splitlines() if f"{name} has no effect with" in line]
    assert lines
    assert lines[0].startswith(f"{file}:")
    file.write_text(yaml.safe_dump(configuration(task, place, key, conditions, holds=True)))
    load(file).check_unread()


def test_what_a_preset_or_a_saved_configuration_has_is_never_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"^training.plateau_factor=0.3: plateau_factor has no effect with"):
        from_preset("g2p", ["data.train=a.tsv", "training.plateau_factor=0.3"]).check_unread()
    config = from_preset("g2p", ["data.train=a.tsv", "training.plateau_factor=0.3", "training.schedule=plateau"]).config
    old = config.model_copy(update={"training": config.training.model_copy(update={"schedule": "cosine"})})
    save(old, tmp_path / "config.yaml")
    with pytest.raises(ConfigError, match=r"config.yaml:\d+:3: training.plateau_factor: plateau_factor has no effect"):
        load(tmp_path / "config.yaml").check_unread()
    (tmp_path / "run.json").touch()
    saved = load(tmp_path / "config.yaml")
    assert (saved.config, saved.unread) == (old, ())
    with pytest.raises(ConfigError, match=r"^training.noam_factor=2: noam_factor has no effect with"):
        load(tmp_path / "config.yaml", ["training.noam_factor=2"]).check_unread()


def test_a_run_that_began_with_such_a_key_is_continued_with_a_warning_and_none_begins(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    case = TASK_CASES["text_to_text"]
    case.write(tmp_path)
    sections = {**case.sections, "training": {**LOOP, **case.training, "max_steps": 2}}
    unread = {**sections, "training": {**sections["training"], "plateau_factor": 0.3}}
    (tmp_path / "b.yaml").write_text(yaml.safe_dump(unread))
    for verb in (["train", "b.yaml", "-o", "new"], ["data", "check", "b.yaml"]):
        assert run(verb) == 2
        assert "training.plateau_factor: plateau_factor has no effect with schedule: cosine" in capsys.readouterr().err
    with monkeypatch.context() as earlier:
        earlier.setattr(Configuration, "check_unread", lambda self: None)
        assert run(["train", "b.yaml", "-o", "old"]) == 0
    capsys.readouterr()
    assert run(["train", "b.yaml", "-o", "old", "--set", "training.max_steps=3"]) == 0
    assert "warning: b.yaml:" in capsys.readouterr().err


def test_a_flag_that_nothing_reads_in_a_model_is_refused():
    config = from_preset("documents", ["data.train=a"]).config
    with pytest.raises(ConfigError, match=r"^--threshold: threshold has no effect with data\.label_separator: null; "):
        _with_settings(config, {"threshold": "0.4"})
    several = from_preset("documents", ["data.train=a", "data.label_separator=|"]).config
    assert _with_settings(several, {"threshold": "0.4"}).decoding.threshold == 0.4
    assert _with_settings(config, {"threshold": "0.5", "num_best": "2"}).decoding.num_best == 2


def test_a_value_that_is_read_whatever_the_other_key_is_is_taken():
    speech = ["data.train=a.csv", "model.architecture=tacotron1"]
    from_preset("speech", [*speech, "model.postnet.layers=0"]).check_unread()
    with pytest.raises(ConfigError, match=r"layers has no effect with model\.architecture: tacotron1; leave it out"):
        from_preset("speech", [*speech, "model.postnet.layers=3"]).check_unread()


def test_the_default_may_be_written_out_anywhere():
    from_preset("g2p", ["data.train=a.tsv", "training.plateau_factor=0.5", "training.noam_size=null"]).check_unread()


def test_configurations_of_python_are_judged_by_what_they_set():
    with pytest.raises(ValueError, match="noam_factor has no effect with schedule: cosine"):
        TrainingConfig(noam_factor=2.0)
    TrainingConfig(noam_factor=2.0, schedule="noam")
    with pytest.raises(ValueError, match=r"consistency_weight has no effect with model.decoder\.coarse_frames: null"):
        TextToSpeechConfig(data={"train": "a"}, training={"consistency_weight": 0.5})
    TextToSpeechConfig(
        data={"train": "a"}, training={"consistency_weight": 0.5}, model={"decoder": {"coarse_frames": 4}}
    )
    with pytest.raises(ValueError, match="dev_fraction has no effect with a dev file; leave out one of them"):
        TextToTextConfig(data={"train": "a", "dev": "b", "dev_fraction": 0.2})
    with pytest.raises(ValueError, match=r"threshold has no effect with data\.label_separator: null"):
        DocumentsConfig(data={"train": "a"}, decoding={"threshold": 0.4})


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("training.threads=1000000000", "expected a whole number from 1 to 1024, or null; got 1000000000"),
        ("model.encoder.layers=1000000", "expected a whole number from 1 to 1000; got 1000000"),
        ("decoding.beam=1000000000", "expected a whole number from 1 to 1000000; got 1000000000"),
        ("training.batch_tokens=10000000000000", "batch_tokens is 10000000000000; it must be below 2147483648"),
        ("data.max_length=99999999999", "max_length is 99999999999; it must be below 2147483648"),
        ("training.epochs=1e12", "epochs is 1000000000000; it must be below 2147483648"),
        ("model.encoder.size=1000000000", "model: a training of this model needs"),
        ("model.attention.size=1000000000", "model: a training of this model needs"),
        ("model.decoder.embedding_size=100000000", "model: a training of this model needs"),
    ],
)
def test_absurd_numbers_are_refused_before_anything_is_allocated(tmp_path, monkeypatch, capsys, setting, message):
    monkeypatch.chdir(tmp_path)
    case = TASK_CASES["text_to_text"]
    case.write(tmp_path)
    (tmp_path / "a.yaml").write_text(yaml.safe_dump({**case.sections, "training": {"device": "cpu"}}))
    assert run(["train", "a.yaml", "--set", setting]) == 2
    assert message in capsys.readouterr().err


def test_a_training_of_python_takes_a_file_nested_dicts_or_a_configuration(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    case = TASK_CASES["text_to_text"]
    case.write(tmp_path)
    values = {**case.sections, "training": {**LOOP, "max_steps": 1}}
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(values))
    given = (values, "a.yaml", Path("a.yaml"), load("a.yaml"))
    saved = [regard.train(each, f"runs/{number}") for number, each in enumerate(given)]
    assert {outcome.steps for outcome in saved} == {1}
    texts = {(tmp_path / f"runs/{n}/config.yaml").read_text() for n in range(4)}
    assert len(texts) == 1
    for wrong, message in (
        ({"data": {"trian": "train.tsv"}}, r"^the configuration: data.trian: unknown key; did you mean 'train'\?$"),
        ({**values, "seed": object()}, "the configuration has a value that YAML cannot express"),
        ("train.tsv", "the file has data, not a configuration"),
    ):
        with pytest.raises(ConfigError, match=message):
            regard.train(wrong, "runs/new")
    for wrong, message in (
        (3, r"a YAML file, nested dicts, or a result of regard.config.load; got 3"),
        ("g2q", r"There is no preset 'g2q'; did you mean 'g2p'\?"),
    ):
        with pytest.raises(ConfigError, match=message):
            regard.train(wrong, "runs/new")
