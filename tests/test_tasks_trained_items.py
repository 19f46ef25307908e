"""Held-out data that are trained on: refused as data.dev, counted by evaluations."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest

from regard.cli import run
from regard.config import from_preset
from regard.config import load as load_configuration
from regard.errors import DataError
from regard.runs.contract import TASKS
from regard.runs.store import save
from regard.runs.trained_items import DataItem, TrainedItems
from regard.tasks import load, train
from task_cases import TASK_CASES

SMALL = [
    "model.encoder={size: 8, layers: 1, embedding_size: 8}",
    "model.decoder={size: 8, embedding_size: 8}",
    "training={max_steps: 4, validate_every: 2, warmup_steps: 0, samples: 0, device: cpu, threads: 1}",
]


def words(count: int, seed: int) -> list[tuple[str, str]]:
    draw = random.Random(seed)
    texts = ["".join(draw.choices("abcdefgh", k=8)) for _ in range(count)]
    return [(text, " ".join(reversed(text))) for text in texts]


def written(path: Path, pairs: list[tuple[str, str]]) -> Path:
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    return path


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "train.tsv", words(40, 1))
    return tmp_path


def settings(*overrides: str) -> list[str]:
    return ["data.train=train.tsv", *SMALL, *overrides]


def test_held_out_items_that_are_trained_on_are_refused_whatever_their_file_is_called(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shuffled = [(source.upper(), target) for source, target in words(40, 1)[::-1]]  # the preset ignores letter case
    written(project / "dev.tsv", shuffled[:12] + words(12, 2))
    with pytest.raises(DataError, match=r"(?s)error: 12 of 24 held-out items are also .* cannot be trained on"):
        train(from_preset("g2p", settings("data.dev=dev.tsv")), "run")
    assert not (project / "run").exists()
    check = ["data", "check", "--preset", "g2p", "train.tsv", "dev.tsv"]
    assert run(check) == 2
    assert run([*check, "--set", "training.allow_trained_dev=true"]) == 0
    assert "warning: 12 of 24 held-out items are also in the training" in capsys.readouterr().out


def test_other_outputs_of_trained_inputs_and_few_shared_items_are_no_reason_to_refuse(project: Path) -> None:
    others = [(source, f"{target} a") for source, target in words(40, 1)]
    written(project / "dev.tsv", others + words(40, 1)[:3])
    assert run(["data", "check", "--preset", "g2p", "train.tsv", "dev.tsv"]) == 0


def test_shared_items_and_inputs_are_told_once_with_both_places(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = words(40, 1)
    written(project / "dev.tsv", [known[2], (known[3][0], "a"), *words(20, 4)])
    assert run(["data", "check", "--preset", "g2p", "train.tsv", "dev.tsv"]) == 0
    shared = [line for line in capsys.readouterr().out.splitlines() if "training" in line and "output" in line]
    assert [line.replace(f"{project}/", "") for line in shared] == [
        "warning: 1 of 22 held-out items is also in the training, with the same output, so figures flatter the "
        "model (dev.tsv:1 is train.tsv:3)",
        "warning: 1 of 22 held-out items has the input of a training item, with another output "
        "(dev.tsv:2 and train.tsv:4)",
    ]


def test_both_files_of_parallel_held_out_texts_count(project: Path) -> None:
    pairs = words(40, 1)
    for name, side in (("a", 0), ("b", 1)):
        (project / f"train.{name}").write_text("".join(f"{pair[side]}\n" for pair in pairs))
        (project / f"dev.{name}").write_text("".join(f"{pair[side]}\n" for pair in reversed(pairs)))
    files = ["data.train={source: train.a, target: train.b}", "data.dev={source: dev.a, target: dev.b}"]
    command = ["data", "check", "--preset", "g2p", *(word for file in files for word in ("--set", file))]
    assert run(command) == 2
    (project / "dev.b").write_text("".join(f"{pair[1]}\n" for pair in pairs))  # the other file is in another order
    assert run(command) == 0


def test_evaluate_counts_what_was_trained_on(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(project / "dev.tsv", words(10, 9))
    train(from_preset("g2p", settings("data.dev=dev.tsv")), "run")
    known = words(40, 1)
    written(project / "mixed.tsv", [*words(7, 5), known[2], known[3], (known[4][0], "a b")])
    capsys.readouterr()
    assert run(["evaluate", "--model", "run", "mixed.tsv", "--json"]) == 0
    printed = capsys.readouterr()
    figures = json.loads(printed.out)
    assert (figures["items"], figures["trained_items"], figures["trained_inputs"]) == (10, 2, 1)
    assert "2 of 10 items were trained on with the same output (mixed.tsv:8, mixed.tsv:9)" in printed.err
    assert "1 other item has an input that was trained on with another output (mixed.tsv:10)" in printed.err
    assert run(["evaluate", "--model", "run", str(written(project / "new.tsv", words(9, 7)))]) == 0
    assert "trained on" not in capsys.readouterr().err


def test_a_run_that_starts_from_another_has_seen_the_items_of_both_even_if_it_is_interrupted(project: Path) -> None:
    train(from_preset("g2p", settings("data.dev_fraction=0.2")), "first")
    written(project / "more.tsv", words(40, 3))
    more = [*settings("data.dev_fraction=0.2", "training.start_from=first")]
    more[0] = "data.train=more.tsv"
    train(from_preset("g2p", more), "second")
    first, second = load("first", device="cpu").trained_items, load("second", device="cpu").trained_items
    assert np.isin(first.hashes, second.hashes).all()
    assert len(second.hashes) > len(first.hashes)
    train(from_preset("g2p", [*more, "training.max_steps=6"]), "second")
    assert np.array_equal(load("second", device="cpu").trained_items.hashes, second.hashes)


@pytest.mark.parametrize("task", ["documents", "labelling", "text_to_speech", "image_to_text", "text_to_text"])
def test_every_task_of_items_finds_them_again(task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = TASK_CASES[task]
    case.write(tmp_path)
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "run.yaml"
    path.write_text(json.dumps({"task": task, **case.sections, "training": case.training}))
    config = load_configuration(path).config
    material = TASKS[task].read(config)
    train_items, dev_items = map(list, TASKS[task].items(material))
    assert train_items
    assert dev_items
    seen = TrainedItems.of(train_items).seen(train_items)
    assert len(seen.items) == seen.count == len(train_items)
    model = TASKS[task].build(config, material, name="m")
    evaluation = model.evaluate(case.held_out)
    evaluated = list(model.evaluated_items(evaluation, case.held_out))
    assert len(TrainedItems.of(evaluated).seen(evaluated).items) == len(evaluated) > 0


def test_items_are_kept_in_five_bytes_each_and_a_damaged_file_is_named(tmp_path: Path) -> None:
    items = [DataItem(f"a:{i}", f"word {i}", (f"{i}", f"{i} again")) for i in range(500)]
    trained = TrainedItems.of(items)
    trained.save(tmp_path / "trained.npy")
    assert (tmp_path / "trained.npy").stat().st_size < 5 * 1_500 + 200
    assert np.array_equal(TrainedItems.load(tmp_path / "trained.npy").hashes, trained.hashes)
    others = [DataItem("b:1", "word 3", ("other",)), DataItem("b:2", "word 3", ("other", "3 again"))]
    seen = trained.seen(others)
    assert (seen.items, seen.inputs) == (("b:2",), ("b:1",))
    (tmp_path / "trained.npy").write_bytes(b"abc")
    with pytest.raises(DataError, match=r"trained\.npy: not the items"):
        TrainedItems.load(tmp_path / "trained.npy")


def test_a_model_without_a_record_says_nothing_and_leaves_no_other_record(project: Path) -> None:
    train(from_preset("g2p", settings("data.dev_fraction=0.2")), "run")
    model = load("run", device="cpu")
    model.trained_items = None
    assert model.seen(None, "x") is None
    save(model, "run")
    assert load("run", device="cpu").trained_items is None
