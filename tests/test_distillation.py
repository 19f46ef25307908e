"""Distillation: what teachers say about training pairs, what a student learns of it, and the command."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard import losses, tasks
from regard.cli import run
from regard.config import load as read_config
from regard.data.cache import entries
from regard.data.text.vocabulary import SPECIALS, Vocabulary
from regard.errors import ConfigError, DataError
from regard.runs.contract import TASKS
from regard.runs.distillation import distill
from regard.runs.store import load_fingerprints
from regard.tasks.text_to_text.config import DecodingConfig
from regard.tasks.text_to_text.teachers import MOST_SYMBOLS, TeacherProbabilities
from task_cases import configured, interrupt

SHORT = ["training.max_steps=4", "training.validate_every=2", "training.samples=0", "training.threads=1"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with pairs, a configuration, and two teachers."""
    folder = tmp_path_factory.mktemp("distillation") / "data"
    path = configured("text_to_text", folder)
    for seed in (1, 2):
        settings = [
            *SHORT,
            f"seed={seed}",
            "training.epochs=80",
            "training.max_steps=200",
            "training.learning_rate=0.02",
            "training.validate_every=200",
        ]
        tasks.train(read_config(path, settings), folder / f"teacher{seed}", quiet=True)
    return folder


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))


def teachers(folder: Path) -> list[Path]:
    return [folder / "teacher1", folder / "teacher2"]


def taught(folder: Path, to: Path, **options: Any) -> Any:
    options = {"overrides": SHORT, "quiet": True, **options}
    return distill(teachers(folder), folder / "train.tsv", to, **options)


def trainee(folder: Path, *settings: str) -> Any:
    """The trainee of a student with both teachers."""
    paths = [str(path) for path in teachers(folder)]
    config = read_config(folder / "text_to_text.yaml", [*SHORT, f"training.teachers={json.dumps(paths)}", *settings])
    task = TASKS["text_to_text"]
    material = task.read(config.config)
    return task.trainee(task.build(config.config, material, name="student"), material)


def test_the_loss_is_the_cross_entropy_with_the_teacher() -> None:
    torch.manual_seed(0)
    logits = torch.randn(2, 3, 5, dtype=torch.float64, requires_grad=True)
    logp = logits.log_softmax(-1)
    p = torch.rand(2, 3, 5, dtype=torch.float64).softmax(-1)
    mask = torch.tensor([[True, True, True], [True, False, False]])
    symbols = torch.arange(5).expand(2, 3, 5)
    total = losses.distillation(logp, symbols, p, mask)
    assert torch.allclose(total, -(p * logp)[mask].sum())
    total.backward()
    assert torch.allclose(logits.grad, (logp.exp() - p).masked_fill(~mask[..., None], 0))


def test_what_is_impossible_for_the_student_has_no_share_and_no_gradient() -> None:
    logits = torch.zeros(1, 1, 3, requires_grad=True)
    logp = logits.masked_fill(torch.tensor([False, False, True]), float("-inf")).log_softmax(-1)
    symbols, p = torch.tensor([[[0, 2]]]), torch.tensor([[[1.0, 0.0]]])
    losses.distillation(logp, symbols, p, torch.tensor([[True]])).backward()
    assert torch.isfinite(logits.grad).all()


@pytest.mark.parametrize("direction", ["left_to_right", "right_to_left"])
def test_the_targets_are_the_mean_of_the_teachers_at_every_symbol(
    folder: Path, direction: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if direction == "right_to_left":
        path = folder / "text_to_text.yaml"
        for seed in (1, 2):
            config = read_config(path, [*SHORT, f"seed={seed}", f"data.target.direction={direction}"])
            tasks.train(config, tmp_path / f"teacher{seed}", quiet=True)
        monkeypatch.setattr("test_distillation.teachers", lambda _: [tmp_path / "teacher1", tmp_path / "teacher2"])
    student = trainee(folder, f"data.target.direction={direction}")
    models = [tasks.load(path, device="cpu") for path in teachers(folder)]
    for description in student.descriptions(0):
        batch = student.batch(description)
        each = []
        for model in models:
            with torch.inference_mode():
                memory = model.module.prepare(batch["source"], batch["source_mask"])
                each.append(model.module.decoder.forward(batch["inputs"], memory).log_probabilities.exp())
        mean = torch.stack(each).mean(0)
        known = torch.zeros_like(mean).scatter_add_(-1, batch["taught_symbols"], batch["taught"])
        assert mean.shape[-1] > MOST_SYMBOLS
        best = mean.topk(MOST_SYMBOLS)
        expected = torch.zeros_like(mean).scatter_(-1, best.indices, best.values / best.values.sum(-1, keepdim=True))
        assert torch.allclose(known[batch["mask"]], expected[batch["mask"]], atol=2e-3)
        assert not batch["taught"][~batch["mask"]].any()


def test_symbols_are_known_by_name_and_computed_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    student = trainee(folder)
    first = student.teachers
    assert [path.name.split("-")[0] for path, _, _ in entries()] == ["teachers"]
    monkeypatch.setattr("regard.tasks.text_to_text.teachers._computed", None)
    again = trainee(folder).teachers
    assert np.array_equal(first.symbols, again.symbols)
    assert np.array_equal(first.probabilities, again.probabilities)
    monkeypatch.undo()
    # a student with more symbols, in another order, finds the same probabilities by their names
    target = student.model.target
    vocabulary = Vocabulary(["new", *reversed(target.vocabulary.symbols)])
    model = type(student.model).build(student.config, student.model.source, replace(target, vocabulary=vocabulary))
    other = TeacherProbabilities.of(model, student._survey.of(model.source, model.target))
    names = [np.array([*SPECIALS, *each.symbols], object) for each in (target.vocabulary, vocabulary)]
    assert (names[0][first.symbols[:, 0]] == names[1][other.symbols[:, 0]]).all()
    assert np.allclose(first.probabilities[:, 0], other.probabilities[:, 0], atol=2e-3)


def test_the_weight_is_the_share_of_the_teachers(folder: Path) -> None:
    values = []
    for weight in (0.0, 0.25, 1.0):
        student = trainee(folder, f"training.teacher_weight={weight}", "training.label_smoothing=0.1")
        torch.manual_seed(0)
        for parameter in student.module.parameters():
            torch.nn.init.uniform_(parameter, -0.1, 0.1)
        student.module.eval()
        batch = student.batch(student.descriptions(0)[0])
        values.append(student.loss(batch, step=0, generator=torch.Generator()).total.item())
    assert values[1] == pytest.approx(0.75 * values[0] + 0.25 * values[2], rel=1e-5)
    del batch["taught"]
    assert student.loss(batch, step=0, generator=torch.Generator()).total.item() == pytest.approx(values[0], rel=1e-6)


def test_a_student_is_an_ordinary_run_of_the_data_and_what_its_teachers_say(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "more.txt").write_text("0 1\n\n4 3 1 4 1 1\n", encoding="utf-8")
    words = [*map(str, teachers(folder)), str(folder / "train.tsv"), "--inputs", str(tmp_path / "more.txt")]
    settings = [word for setting in SHORT for word in ("--set", setting)]
    assert run(["distill", *words, "--output", str(tmp_path / "student"), *settings]) == 0
    shown = capsys.readouterr().err
    assert "distill: teacher1 + teacher2: " in shown
    assert re.search(r"distill: 40 pairs of the data; \d+ further outputs of the teachers for \d+ inputs", shown)
    model = tasks.load(tmp_path / "student")
    assert model.config.data.dev == tmp_path / "student" / "data" / "dev.jsonl"
    rows = [json.loads(line) for line in (tmp_path / "student/data/train.jsonl").read_text().splitlines()]
    assert len(rows) > 40
    together = tasks.ensemble([tasks.load(path) for path in teachers(folder)])
    assert ["4 3 1 4 1 1", together.predict(["4 3 1 4 1 1"])[0].text] in rows
    prints = load_fingerprints(tmp_path / "student")
    assert prints["teachers.1.train"] == load_fingerprints(folder / "teacher2")["train"]
    # the records of the teachers belong to the student: what they were trained on is no test
    with pytest.raises(DataError, match="trained on"):
        model.evaluate(folder / "train.tsv")
    # a finished run is not computed again, and neither are the outputs of another student
    assert run(["distill", *words, "--output", str(tmp_path / "student"), *settings]) == 0
    assert "are predicted" not in capsys.readouterr().err
    # the student can be adapted without its teachers
    new = tmp_path / "new.tsv"
    new.write_text("".join(f"a {i}\t{i} a\n" for i in range(60)), encoding="utf-8")
    adapted = tasks.adapt(tmp_path / "student", new, tmp_path / "adapted", overrides=SHORT, quiet=True)
    assert adapted.model.config.training.taught_by == ()


def test_an_interrupted_student_continues_to_the_same_weights(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = taught(folder, tmp_path / "whole", overrides=[*SHORT, "seed=5"])
    interrupt(monkeypatch, "text_to_text", 2)
    options: dict[str, Any] = {"overrides": [*SHORT, "seed=5"]}
    assert taught(folder, tmp_path / "parts", **options).stop_reason == "interrupted"
    assert taught(folder, tmp_path / "parts", **options).stop_reason == whole.stop_reason
    first, second = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "parts"))
    assert first == second


def test_columns_of_inputs_and_data_of_python_are_kept(tmp_path: Path) -> None:
    rows = [(f"w{i // 2}", f"w{i // 2}{'s' * (i % 2)}", "N;PL" if i % 2 else "N;SG") for i in range(200)]
    settings = {"data.source_field": [0, 2], "data.target_field": 1, "training.device": "cpu"}
    settings |= {"training.max_steps": 2, "training.validate_every": 2, "model.encoder.size": 8}
    settings |= {"model.decoder.size": 8, "training.threads": 1}
    bases = [
        tasks.train("inflection", tmp_path / f"{seed}", train=rows, settings=settings | {"seed": seed}, quiet=True)
        for seed in (1, 2)
    ]
    student = distill(
        [base.folder for base in bases], rows, tmp_path / "student", inputs=["w800\tN;PL"], overrides=SHORT, quiet=True
    )
    lines = (tmp_path / "student/data/train.jsonl").read_text().splitlines()
    assert all(len(json.loads(line)) == 3 for line in lines)
    assert json.loads(lines[0])[0::2] in [list(row[0::2]) for row in rows]
    assert student.model.predict([("w3", "N;PL")])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["teacher1"], "Give one teacher or more, and then FILE."),
        (["nowhere", "train.tsv"], "nowhere"),
        (["teacher1", "train.tsv", "--preset", "documents"], "The student is a model of documents"),
        (["teacher1", "missing.tsv"], "missing.tsv"),
        (["teacher1", "train.tsv", "--set", "data.target.direction=both"], "teachers write in one direction"),
        (["teacher1", "train.tsv", "--set", "data.target.direction=right_to_left"], "writes left_to_right"),
        (["teacher1", "train.tsv", "--set", "training.teacher_weight=2"], "teacher_weight"),
        (["teacher1", "train.tsv", "--set", "data.target.units=whitespace"], "divides the targets of its pairs"),
        (["teacher1", "train.tsv", "--inputs", "empty.txt"], "empty.txt: the file has no inputs."),
    ],
)
def test_what_cannot_be_taught_is_one_clear_error(
    words: Sequence[str],
    message: str,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    (folder / "empty.txt").write_text("\n")
    settings = [word for setting in SHORT for word in ("--set", setting)]
    assert run(["distill", *words, *settings, "--output", str(tmp_path / "student")]) == 2
    assert message in capsys.readouterr().err


def test_teachers_of_other_tasks_and_of_the_held_out_data_are_refused(folder: Path, tmp_path: Path) -> None:
    path = configured("documents", tmp_path / "documents")
    tasks.train(read_config(path), tmp_path / "documents/run", quiet=True)
    with pytest.raises(ConfigError, match="only models of text_to_text are distilled"):
        distill([tmp_path / "documents/run"], folder / "train.tsv", tmp_path / "student", quiet=True)
    values = [*SHORT, f"data.dev={folder / 'train.tsv'}", f"data.train={folder / 'test.tsv'}"]
    config = read_config(folder / "text_to_text.yaml", [*values, f"training.teachers={folder / 'teacher1'}"])
    with pytest.raises(DataError, match=r"teacher1 was trained on data\.dev"):
        tasks.train(config, tmp_path / "student", quiet=True)
    parts = [{"file": folder / "train.tsv", "weight": 2.0}, {"file": folder / "test.tsv"}]
    with pytest.raises(ConfigError, match="weights and temperatures"):
        distill(teachers(folder), parts, tmp_path / "student", quiet=True)


def test_a_configuration_without_a_training_may_be_taught_and_a_reranker_chooses_what_teachers_say(
    folder: Path, tmp_path: Path
) -> None:
    backwards = [*SHORT, "data.target.direction=right_to_left"]
    tasks.train(read_config(folder / "text_to_text.yaml", backwards), tmp_path / "backwards", quiet=True)
    sizes = {"encoder": {"size": 8}, "decoder": {"size": 8}}
    held_out = (folder / "dev.tsv").read_text().partition("\t")[0]
    student = distill(
        teachers(folder),
        folder / "train.tsv",
        tmp_path / "student",
        dev=folder / "dev.tsv",
        student={"task": "text_to_text", "data": {"train": "", "source": {"units": "whitespace"}}, "model": sizes},
        inputs=["0 4 1 2 3 3", held_out],
        relabel=False,
        search={"reranker": tmp_path / "backwards", "beam": 3},
        overrides=[*SHORT, "training.device=cpu"],
        quiet=True,
    )
    assert student.model.config.training.taught_by == tuple(teachers(folder))
    rows = [json.loads(line) for line in (tmp_path / "student/data/train.jsonl").read_text().splitlines()]
    ranked = tasks.load(folder / "teacher1").predict(
        ["0 4 1 2 3 3"],
        search=DecodingConfig(beam=3, ensemble=(folder / "teacher2",), reranker=tmp_path / "backwards"),
    )
    assert rows[40:] == [["0 4 1 2 3 3", ranked[0].text]]


def test_a_finished_run_needs_no_teachers_any_more_and_one_that_begins_does(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(folder / "teacher1", tmp_path / "teacher")
    settings = [*SHORT, f"training.teachers={tmp_path / 'teacher'}"]
    config = read_config(folder / "text_to_text.yaml", settings)
    assert tasks.train(config, tmp_path / "student", quiet=True).stop_reason == "max_steps"
    shutil.rmtree(tmp_path / "teacher")
    assert tasks.train(config, tmp_path / "student").stop_reason == "max_steps"
    with pytest.raises(ConfigError, match="teacher is not a saved model"):
        tasks.train(config, tmp_path / "other", quiet=True)
    assert not (tmp_path / "other" / "config.yaml").exists()


def test_held_out_items_that_a_teacher_knows_are_a_warning(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = (folder / "train.tsv").read_text().splitlines()
    (tmp_path / "some.tsv").write_text("\n".join(lines[:5]) + "\n")
    (tmp_path / "others.tsv").write_text("\n".join(line for line in lines if line not in lines[:5]) + "\n")
    options: dict[str, Any] = {"dev": tmp_path / "some.tsv", "overrides": SHORT, "relabel": False}
    distill([folder / "teacher1"], tmp_path / "others.tsv", tmp_path / "student", **options)
    assert "teacher1 knows held-out items: 5 of 5 items were trained on" in capsys.readouterr().err
