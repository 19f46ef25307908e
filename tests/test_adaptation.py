"""Adapting a model of every task to a new file: what it keeps, what it says, and that the result is an ordinary run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from regard import weights
from regard.cli import run
from regard.config import load as read_config
from regard.errors import ConfigError, DataError
from regard.runs.adaptation import adapt
from regard.runs.before_after import FIGURES, BeforeAfter
from regard.runs.contract import TASKS, drawn
from regard.runs.former_data import FormerData
from regard.runs.warm_start import MOST_EPOCHS
from regard.tasks import load, train
from task_cases import TASK_CASES, configured, interrupt

SHORT = ["training.max_steps=4", "training.validate_every=2", "training.samples=0", "training.threads=1"]
HELD_OUT = "data.dev_fraction=0.4"


def settings(task: str) -> list[str]:
    return [*SHORT, "training.device=cpu", *([] if task == "forecasting" else [HELD_OUT])]


def other_pictures(folder: Path) -> None:
    """Makes the pictures of the held-out table lighter than those of the training, of which some are the same."""
    from PIL import Image

    for path in folder.glob("test-*.png"):
        Image.open(path).point(lambda value: 200 if value < 200 else value).save(path)


@pytest.fixture(scope="module", params=sorted(TASK_CASES))
def data(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A task's name, and its folder with data and a configuration."""
    folder = tmp_path_factory.mktemp("adapt") / request.param
    configured(request.param, folder)
    if request.param == "image_to_text":
        other_pictures(folder)
    return request.param, folder


@pytest.fixture(scope="module")
def base(data: tuple[str, Path]) -> tuple[str, Path]:
    """The same, with the run of a model."""
    task, folder = data
    train(read_config(folder / f"{task}.yaml"), folder / "run")
    return data


def adapted(base: tuple[str, Path], to: Path, *overrides: str, **options: Any) -> Any:
    task, folder = base
    return adapt(
        folder / "run", folder / TASK_CASES[task].held_out, to, overrides=[*settings(task), *overrides], **options
    )


def test_a_model_of_every_task_is_adapted_resumed_evaluated_and_adapted_again(
    base: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    task, folder = base
    assert adapted(base, tmp_path / "whole").stop_reason == "max_steps"
    shown = capsys.readouterr().err
    assert "too few to learn" not in shown
    assert "held-out data" in shown
    assert "new: " in shown
    assert "former: " in shown
    assert "not copied" not in shown
    with monkeypatch.context() as patch:
        interrupt(patch, task, 1, 2)
        reasons = [adapted(base, tmp_path / "run").stop_reason for _ in range(3)]
    assert reasons == ["interrupted", "interrupted", "max_steps"]
    files = weights.read(tmp_path / "whole" / "model.safetensors")[1]["files"]
    for name in ("model.safetensors", "config.yaml", FIGURES, *files):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name

    figures = BeforeAfter.load(tmp_path / "run")
    assert figures is not None
    assert len(figures.parts) == 2
    for part in figures.parts:
        assert part.items > 0
        assert part.before.keys() == part.after.keys()
        assert part.after
    capsys.readouterr()
    assert adapted(base, tmp_path / "run").stop_reason == "max_steps", "the run has ended"
    assert str(figures) in capsys.readouterr().err

    file = folder / TASK_CASES[task].held_out
    model = load(tmp_path / "run", device="cpu")
    if task != "forecasting":  # which evaluates the rows after those that it has seen
        for trained in (file, read_config(folder / "run" / "config.yaml").config.data.train):  # type: ignore[attr-defined]
            with pytest.raises(DataError, match="was trained on"):
                model.evaluate(trained[0] if isinstance(trained, tuple) else trained)
    with pytest.raises(DataError, match="there is nothing new in it"):
        adapt(model, file, tmp_path / "again", overrides=settings(task))
    located = FormerData.locate(tmp_path / "run")
    assert [each.has_train for each in located] == [True, True], "its own data, and those of its base"
    assert [each.folder for each in located] == [tmp_path / "run", folder / "run"]


def test_nothing_is_learned_where_no_step_is_made(base: tuple[str, Path], tmp_path: Path) -> None:
    """Rows, scales and figures are those of the model, with and without former data."""
    task, folder = base
    for replay in (0.0, 2.0):
        adapted(base, tmp_path / f"{replay}", "training.max_steps=null", "training.epochs=0", replay=replay)
        before, after = load(folder / "run", device="cpu"), load(tmp_path / f"{replay}", device="cpu")
        for name, weight in before.module.state_dict().items():
            kept = after.module.state_dict()[name]
            assert torch.equal(kept[: len(weight)] if weight.ndim else kept, weight), name
        for side, (_, vocabulary) in before.vocabularies().items():
            symbols = after.vocabularies()[side][1].symbols
            assert symbols[: len(vocabulary.symbols)] == vocabulary.symbols
        for name in ("scale.json", "linear.npy", "linear_scale.json"):
            if (folder / "run" / name).exists():
                assert (tmp_path / f"{replay}" / name).read_bytes() == (folder / "run" / name).read_bytes()
        figures = BeforeAfter.load(tmp_path / f"{replay}")
        assert figures is not None
        assert all(part.before == part.after for part in figures.parts) or task in ("documents", "labelling")


def test_the_material_of_an_adaptation_has_the_shares_that_it_names(data: tuple[str, Path]) -> None:
    task, config = TASKS[data[0]], read_config(data[1] / f"{data[0]}.yaml").config
    material, former = task.read(config), task.read(config)
    own = task.sizes(material)
    for train_share, dev_share in ((0.0, 0.0), (0.5, 1.0), (1.0, 0.5)):
        joined = task.joined(material, former, train=train_share, dev=dev_share, seed=1)
        sizes = task.sizes(joined)
        assert sizes[0] == pytest.approx(own[0] * (1 + train_share), abs=4)
        assert sizes[1] == pytest.approx(own[1] * (1 + dev_share), abs=1)
    assert task.check(config, joined).findings


def words(path: Path, *rows: Sequence[str]) -> Path:
    path.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the run of a model of pairs."""
    folder = tmp_path_factory.mktemp("pairs") / "data"
    train(read_config(configured("text_to_text", folder)), folder / "run")
    return folder


def test_former_data_that_are_not_there_are_named_and_can_be_given(
    pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, overrides = tmp_path / "data", settings("text_to_text")
    folder.mkdir()
    for name in ("test.tsv", "dev.tsv", "train.tsv"):
        (folder / name).write_bytes((pairs / name).read_bytes())
    train(read_config(configured("text_to_text", folder)), folder / "run")
    moved = (folder / "train.tsv").rename(tmp_path / "moved.tsv")
    adapt(folder / "run", folder / "test.tsv", tmp_path / "none", overrides=overrides)
    shown = capsys.readouterr().err
    assert f"former data: {folder / 'train.tsv'}" in shown
    assert "the model may forget" in shown
    assert "former: dev.tsv (6)" in shown, "the held-out file is still there"
    assert "new training items and 0 former ones" in shown
    assert "held out, which says little about the new data: dev names others; a larger data.dev_fraction" in shown
    adapt(folder / "run", folder / "test.tsv", tmp_path / "given", former=moved, overrides=overrides)
    assert "and 32 former ones" in capsys.readouterr().err
    other = words(tmp_path / "other.tsv", *[(f"{i % 5} {i % 3}", f"{i % 3} {i % 5}") for i in range(20)])
    adapt(folder / "run", folder / "test.tsv", tmp_path / "other", former=other, overrides=overrides)
    assert "other.tsv: not the training data of the model, so former figures may flatter" in capsys.readouterr().err
    (folder / "dev.tsv").write_text("1 2\t2 1\n", encoding="utf-8")
    adapt(folder / "run", folder / "test.tsv", tmp_path / "changed", former=moved, overrides=overrides)
    assert "dev.tsv: not the held-out data of the model" in capsys.readouterr().err
    assert [part["data"] for part in json.loads((tmp_path / "changed" / FIGURES).read_text())["held_out"]] == [
        "new: test.tsv"
    ]


def parallel(folder: Path, name: str, seed: int) -> dict[str, Path]:
    """Two files whose lines belong together."""
    lines = [(f"{seed} {i // 5} {i % 5}", f"{i % 5} {i // 5} {seed}") for i in range(30)]
    paths = {"source": folder / f"{name}.in", "target": folder / f"{name}.out"}
    for path, column in zip(paths.values(), zip(*lines, strict=True), strict=True):
        path.write_text("\n".join(column) + "\n", encoding="utf-8")
    return paths


@pytest.mark.parametrize("form", ["auto", "parallel"])
def test_parallel_files_are_adapted_to_parallel_files_and_to_tables(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new, dev = (parallel(tmp_path, name, seed) for seed, name in enumerate(("old", "new", "dev")))
    path = configured("text_to_text", tmp_path / "data")
    given = {"data.train": old, "data.dev": parallel(tmp_path, "olddev", 3), "data.format": form}
    train(read_config(path, given), tmp_path / "run")
    files = [word for side, file in new.items() for word in (f"--{side}", str(file))]
    overrides = [word for setting in settings("text_to_text") for word in ("--set", setting)]
    output = ["--output", str(tmp_path / "next"), *overrides]
    assert run(["adapt", str(tmp_path / "run"), *files, *output]) == 0
    shown = capsys.readouterr().err
    assert "former data" not in shown
    assert "new: new.in" in shown
    assert "former: olddev.in (30)" in shown
    again = adapt(tmp_path / "next", new | {"source": dev["source"]}, tmp_path / "last", dev=dev, overrides=SHORT)
    assert again.stop_reason == "max_steps"
    assert again.model.config.data.dev.source == dev["source"]
    table = words(tmp_path / "table.tsv", *[(f"{i % 7}", f"{i % 7}") for i in range(30)])
    former = words(tmp_path / "former.tsv", *[(f"{i % 3}", f"{i % 3}") for i in range(30)])
    options: dict[str, Any] = {"overrides": settings("text_to_text")}
    assert adapt(tmp_path / "run", table, tmp_path / "table", **options).stop_reason == "max_steps"
    capsys.readouterr()
    adapt(tmp_path / "run", new, tmp_path / "given", former=former, **options)
    assert "former.tsv: the model has no record of it" in capsys.readouterr().err


def test_python_trains_on_and_adapts_to_files_with_weights(tmp_path: Path) -> None:
    files = [words(tmp_path / f"{name}.tsv", *[(f"{i} {name}", f"{i}") for i in range(30)]) for name in "abc"]
    path = configured("text_to_text", tmp_path / "data")
    train(read_config(path, SHORT), tmp_path / "run", train=[{"file": files[0]}, files[1]], quiet=True)
    new = [{"file": str(files[2]), "weight": 2.0}, {"file": parallel(tmp_path, "more", 2)}]
    options = settings("text_to_text")
    config = adapt(tmp_path / "run", new, tmp_path / "next", overrides=options, quiet=True).model.config
    assert [part.weight for part in config.data.train] == [2.0, 1.0]
    assert config.data.train[0].file == files[2]
    assert config.data.train[1].file.target == tmp_path / "more.out"


@pytest.mark.parametrize("words", [[], ["a", "--source", "a", "--target", "b"], ["--source", "a"]])
def test_new_data_are_a_file_or_two_parallel_ones(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["adapt", "run", *words]) == 2
    assert "Give FILE, or of parallel texts --source FILE --target FILE." in capsys.readouterr().err


def test_models_of_other_tasks_refuse_parallel_files(
    base: tuple[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task, folder = base
    if task == "text_to_text":
        return
    files = parallel(tmp_path, "new", 1)
    with pytest.raises(ConfigError, match=f"models of {task} are not trained on parallel files"):
        adapt(folder / "run", files, tmp_path / "new")


def test_an_adaptation_keeps_no_settings_that_belong_to_the_former_training(pairs: Path, tmp_path: Path) -> None:
    adapt(pairs / "run", pairs / "test.tsv", tmp_path / "next", dev=pairs / "dev.tsv", overrides=SHORT)
    before, after = (read_config(path / "config.yaml").config for path in (pairs / "run", tmp_path / "next"))
    assert after.model == before.model
    assert after.select == before.select
    assert after.seed == before.seed
    assert after.training.learning_rate == before.training.learning_rate / 2
    assert after.training.epochs <= MOST_EPOCHS
    assert after.data.dev == pairs / "dev.tsv"
    assert after.training.start_from == pairs / "run"  # type: ignore[attr-defined]
    assert load(tmp_path / "next", device="cpu").folder == tmp_path / "next"


@pytest.mark.parametrize(
    ("task", "content", "message"),
    [
        ("text_to_text", "only one column\n", "column"),
        ("documents", "label,text\n" + "".join(f"Good,a joy {i}\n" for i in range(20)), "'Good' is not new"),
        ("forecasting", "time,c\n2024-01-01 00:00,1\n2024-01-01 01:00,2\n", "targets 'c'"),
        ("labelling", "".join(f"May{i}\tb-month\n\n" for i in range(20)), "'b-month' is not new: "),
        ("labelling", "one\n\ntwo\n\n", "new.tsv:1: 1 column"),
    ],
)
def test_a_file_of_another_kind_is_one_clear_error(
    task: str, content: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "data"
    train(read_config(configured(task, folder)), folder / "run")
    file = folder / f"new{Path(TASK_CASES[task].held_out).suffix}"
    file.write_text(content, encoding="utf-8")
    overrides = [word for setting in settings(task) for word in ("--set", setting)]
    capsys.readouterr()
    status = run(["adapt", str(folder / "run"), str(file), "--output", str(tmp_path / "new"), *overrides])
    shown = capsys.readouterr().err
    assert status == 2
    assert message in shown
    assert "Traceback" not in shown
    assert not (tmp_path / "new").exists()


def test_what_contradicts_itself_is_refused(pairs: Path, tmp_path: Path) -> None:
    file, to = pairs / "test.tsv", tmp_path / "new"
    with pytest.raises(ConfigError, match="replay is 0"):
        adapt(pairs / "run", file, to, former=file, replay=0)
    with pytest.raises(ConfigError, match=r"nonesuch\.tsv: no such file"):
        adapt(pairs / "run", file, to, former=tmp_path / "nonesuch.tsv")
    with pytest.raises(ConfigError, match="cannot start from the model in its own folder"):
        adapt(pairs / "run", file, pairs / "run")
    model = load(pairs / "run", device="cpu")
    model.folder = None
    with pytest.raises(ConfigError, match="save it first"):
        adapt(model, file, to)
    with pytest.raises(ConfigError, match="replay has no effect"):
        read_config(pairs / "text_to_text.yaml", ["training.replay=2.0"]).check_unread()


def test_items_are_drawn_without_repetition() -> None:
    for count, share in ((10, 0.3), (7, 1.0), (3, 0.0), (0, 0.5)):
        chosen = drawn(count, share, seed=2)
        assert len(chosen) == len(set(chosen)) == round(count * share)
        assert chosen == sorted(chosen)
        assert all(index in range(count) for index in chosen)
