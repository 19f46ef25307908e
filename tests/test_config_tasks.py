"""The configuration is a union of tasks, and sections may be unions: messages are about what was chosen."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import Field

from regard.config import load
from regard.config.keys import keys
from regard.config.schema import SCHEMAS, Config, Section, TrainingConfig
from regard.errors import ConfigError


class Files(Section):
    train: str = Field(description="a file")


class Narrow(Section):
    architecture: Literal["narrow"] = "narrow"
    size: int = 4


class Wide(Section):
    architecture: Literal["wide"] = "wide"
    size: int = 8
    heads: int = 2


class Sorting(Config):
    task: Literal["sorting"] = "sorting"
    data: Files
    model: Narrow | Wide = Field(default=Narrow(), discriminator="architecture")
    training: TrainingConfig = TrainingConfig()
    decoding: Section = Section()
    select: str = "errors"


@pytest.fixture(autouse=True)
def _two_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    places = {"text_to_text": SCHEMAS.places["text_to_text"], "sorting": f"{__name__}:Sorting"}
    monkeypatch.setattr(SCHEMAS, "places", places)


def read(folder: Path, text: str, *overrides: str) -> Any:
    (folder / "a.yaml").write_text(text)
    return load(folder / "a.yaml", overrides).config


def refusal(folder: Path, text: str, *overrides: str) -> list[str]:
    with pytest.raises(ConfigError) as info:
        read(folder, text, *overrides)
    return [line.removeprefix(f"{folder}/") for line in str(info.value).splitlines()]


def test_without_a_task_it_is_text_to_text(tmp_path: Path) -> None:
    assert read(tmp_path, "data: {train: x.tsv}").task == "text_to_text"


def test_a_task_has_its_own_schema(tmp_path: Path) -> None:
    assert isinstance(read(tmp_path, "task: sorting\ndata: {train: x}"), Sorting)


def test_a_misspelt_task_is_named_and_the_rest_is_judged_as_of_the_nearest(tmp_path: Path) -> None:
    assert refusal(tmp_path, "task: sortin\ndata: {train: x, dev: y}\n") == [
        "a.yaml:1:7: task: expected one of text_to_text, sorting; got 'sortin'; did you mean 'sorting'?",
        "a.yaml:2:18: data.dev: unknown key; text_to_text has it: is `task:` right?",
    ]


@pytest.mark.parametrize("task", ["chess", "[a]", "3", "{a: b}"])
def test_nothing_more_is_said_of_a_task_that_is_like_none(tmp_path: Path, task: str) -> None:
    (line,) = refusal(tmp_path, f"task: {task}\ndata: {{trian: x}}\n")
    assert line.startswith("a.yaml:1:7: task: expected one of text_to_text, sorting; got ")


def test_a_key_of_another_task_is_said_to_be_one(tmp_path: Path) -> None:
    text = "task: sorting\ndata: {train: x}\ntraining:\n  label_smoothing: 0.1\n"
    (line,) = refusal(tmp_path, text)
    assert line == "a.yaml:4:3: training.label_smoothing: unknown key; text_to_text has it: is `task:` right?"


def test_a_key_of_another_kind_of_section_is_said_to_be_one(tmp_path: Path) -> None:
    start = "task: sorting\ndata: {train: x}\n"
    assert refusal(tmp_path, start + "model: {heads: 3}\n") == [
        "a.yaml:3:9: model.heads: unknown key; it belongs to architecture: wide"
    ]
    assert read(tmp_path, start + "model: {heads: 3, architecture: wide}\n").model == Wide(heads=3)
    assert read(tmp_path, start, "model.architecture=wide", "model.heads=3").model.heads == 3


def test_a_misspelt_kind_of_section_is_named(tmp_path: Path) -> None:
    assert refusal(tmp_path, "task: sorting\ndata: {train: x}\nmodel: {architecture: wyde}\n") == [
        "a.yaml:3:23: model.architecture: expected one of narrow, wide; got 'wyde'; did you mean 'wide'?"
    ]


def test_a_wrong_value_in_a_chosen_section_is_named(tmp_path: Path) -> None:
    assert refusal(tmp_path, "task: sorting\ndata: {train: x}\nmodel: {architecture: wide, heads: two}\n") == [
        "a.yaml:3:36: model.heads: expected a whole number; got 'two'"
    ]


def test_keys_follow_the_values() -> None:
    assert ("model", "heads") not in keys(Sorting)
    assert ("model", "heads") in keys(Sorting, {"model": {"architecture": "wide"}})
