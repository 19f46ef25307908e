"""What a configuration leaves open follows from the data; what it gives stays as it is."""

from __future__ import annotations

import json
import unicodedata
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.cli import run
from regard.config import from_preset, presets
from regard.config import load as load_configuration
from regard.config.keys import keys
from regard.data import bucket
from regard.errors import ConfigError
from regard.runs.automatic_settings import adopt, is_set
from regard.runs.contract import TASKS
from regard.runs.plan import FEW_STEPS
from regard.tasks import train
from regard.tasks.text_to_text.config import TextToTextConfig
from regard.tasks.text_to_text.defaults import resolve
from regard.tasks.text_to_text.reading import read_pairs as read_data
from task_cases import TASK_CASES

SYLLABLES = ["".join(chr(0xAC00 + 588 * a + 28 * b + (a * b) % 28) for b in range(12)) for a in range(19)]
"""Texts of rare Hangul syllables with few letters."""


def syllables(path: Path, target: str = "ab") -> Path:
    """Pairs of these texts; a target `=` is the source."""
    path.write_text("".join(f"{text}\t{text if target == '=' else target}\n" for text in SYLLABLES), encoding="utf-8")
    return path


def words(count: int, length: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Lengths of pairs, some shorter than others."""
    lengths = np.full(count, length) - np.arange(count) % 3
    return lengths, lengths - 1


def opened(**training: object) -> TextToTextConfig:
    return TextToTextConfig(data={"train": "pairs.tsv"}, training=training)


@pytest.mark.parametrize("count", [100, 300, 1_000, 3_600, 30_000, 300_000])
def test_the_number_of_steps_trains_a_model_whatever_the_size_of_the_file(count: int) -> None:
    resolved = resolve(opened(), *words(count))
    assert FEW_STEPS <= resolved.steps <= 20_000
    assert resolved.config.training.warmup_steps <= resolved.steps / 10
    assert 15 <= resolved.steps / resolved.config.training.validate_every <= 35
    assert resolved.warnings == []


def test_larger_files_have_larger_batches_more_steps_and_fewer_epochs() -> None:
    plans = [resolve(opened(), *words(count)) for count in (300, 3_600, 100_000)]
    for smaller, larger in pairwise(plans):
        assert smaller.config.training.batch_tokens < larger.config.training.batch_tokens
        assert smaller.steps < larger.steps
        assert smaller.config.training.epochs > larger.config.training.epochs


def test_dropout_falls_and_size_grows_with_the_data() -> None:
    models = [resolve(opened(), *words(count)).config.model for count in (300, 3_600, 100_000, 1_000_000)]
    dropouts = [model.encoder.dropout for model in models]
    assert dropouts == sorted(dropouts, reverse=True)
    assert dropouts[0] > dropouts[-1]
    assert all(model.decoder.dropout == model.encoder.dropout for model in models)
    assert models[-1].decoder.size > models[0].decoder.size


def test_what_is_given_stays_even_if_it_is_the_default() -> None:
    given = {"epochs": 30, "batch_tokens": 4096, "warmup_steps": 0, "validate_every": None}
    resolved = resolve(opened(**given), *words(3_600))
    assert {key: getattr(resolved.config.training, key) for key in given} == given
    assert not any(key.startswith("training.") for key in resolved.automatic.chosen)
    assert any("steps are few" in warning for warning in resolved.warnings)


def test_as_many_epochs_as_come_nearest_to_the_least_steps_are_enough() -> None:
    plan = resolve(opened(epochs=30, batch_tokens=4096), *words(3_600))
    for few, is_said in ((plan.steps + plan.steps_per_epoch // 2, False), (plan.steps + plan.steps_per_epoch, True)):
        lines = replace(plan, few_steps=few).warnings
        assert any("steps are few" in line for line in lines) == is_said


def test_a_training_that_mostly_warms_up_is_warned_of() -> None:
    (warning,) = resolve(opened(warmup_steps=3_000), *words(3_600)).warnings
    assert "warmup_steps" in warning


def test_steps_an_epoch_are_those_that_training_makes() -> None:
    source, target = words(1_000)
    for accumulation in (1, 3):
        resolved = resolve(opened(accumulation=accumulation), source, target)
        training = resolved.config.training
        batches = bucket(source + 1, target + 1, batch_tokens=training.batch_tokens, seed=1, epoch=0)
        assert resolved.steps_per_epoch == -(-len(batches) // accumulation)


def test_pairs_that_training_leaves_out_do_not_count() -> None:
    source, target = words(500)
    long, empty = np.append(source, [10_000, 5]), np.append(target, [3, 0])
    assert resolve(opened(), long, empty) == resolve(opened(), source, target)


def test_epochs_follow_from_given_batches_so_that_the_steps_stay() -> None:
    free = resolve(opened(), *words(3_600))
    large = resolve(opened(batch_tokens=2_048), *words(3_600))
    assert large.config.training.epochs > 4 * free.config.training.epochs
    assert large.steps == pytest.approx(free.steps, rel=0.1)


def test_the_plan_says_what_was_chosen_and_why() -> None:
    text = str(resolve(opened(epochs=7), *words(3_600)))
    assert "3,600 pairs" in text
    assert "7 epochs" in text
    assert "training.batch_tokens=" in text
    assert "training.epochs=" not in text


@pytest.mark.parametrize(
    ("training", "length"),
    [
        ({"epochs": 7}, "7 epochs: 854 steps"),
        ({"epochs": 1}, "1 epoch: 122 steps"),
        ({"epochs": 0}, "0 epochs: 0 steps"),
        ({"epochs": 69, "max_steps": 3_000}, "3,000 steps, as training.max_steps says: 24.6 of 69 epochs"),
        ({"epochs": 7, "max_steps": 854}, "7 epochs: 854 steps"),
        ({"epochs": 7, "max_steps": 9_000}, "7 epochs: 854 steps"),
        ({"max_steps": 1}, "1 step, as training.max_steps says: 0.0082 of 19 epochs"),
        ({"max_steps": 12_200}, "100 epochs: 12,200 steps"),
        ({"max_steps": 12_201}, "12,201 steps, as training.max_steps says: 100 of 101 epochs"),
        (
            {"epochs": 7, "early_stopping": 5},
            "7 epochs: 854 steps, fewer if 5 validations in a row bring no improvement",
        ),
    ],
)
def test_steps_and_epochs_of_the_plan_agree(training: dict[str, int], length: str) -> None:
    assert str(resolve(opened(**training), *words(3_600))).splitlines()[0].endswith(f"; {length}")


@pytest.mark.parametrize(
    ("training", "remedy"),
    [
        ({"max_steps": 400}, "Raise training.max_steps, or leave it out"),
        ({"max_steps": 400, "epochs": 90}, "Raise training.max_steps, or leave it out"),
        ({"epochs": 3}, "Raise training.epochs; left out, it follows from the data"),
        (
            {"epochs": 3, "batch_tokens": 300},
            "Raise training.epochs or lower training.batch_tokens; left out, both follow from the data",
        ),
    ],
)
def test_the_remedy_for_few_steps_is_about_the_key_that_makes_them_few(training: dict[str, int], remedy: str) -> None:
    (warning,) = resolve(opened(**training, warmup_steps=0), *words(3_600)).warnings
    assert warning.endswith(f"steps are few; most models need 1,000 or more. {remedy}")


@pytest.mark.parametrize("held_out", [30, 360, 1_000, 20_000])
@pytest.mark.parametrize("training", [{}, {"epochs": 3}, {"max_steps": 500}])
def test_validations_take_a_tenth_of_the_time_or_are_five(held_out: int, training: dict[str, int]) -> None:
    plan = resolve(opened(**training), *words(3_600), held_out=held_out)
    validations = plan.steps / plan.config.training.validate_every
    share = validations * plan.validation_cost / (plan.steps / plan.steps_per_epoch)
    assert plan.validation_cost == pytest.approx(0.8 * held_out / 3_600, rel=0.01)
    least = 5 if plan.steps >= 1_000 else 1  # a short training has as few as keep within a tenth of its time
    assert validations <= least + 0.1 or share <= 0.12
    assert validations >= least - 0.1
    assert any("of the time of the training" in line for line in plan.warnings) == (share / (1 + share) >= 0.25)


def test_a_given_time_between_validations_stays_and_its_price_is_told() -> None:
    plan = resolve(opened(validate_every=10, epochs=3), *words(3_600), held_out=360)
    assert plan.config.training.validate_every == 10
    (warning,) = [line for line in plan.warnings if "validation" in line]
    assert warning.startswith("warning: 36 validations take about 49% of the time of the training.")
    assert "Raise training.validate_every; left out" in warning
    plan = resolve(opened(validate_every=None, epochs=3), *words(3_600), held_out=36_000)
    assert any(line.startswith("warning: 3 validations take about") for line in plan.warnings)


@pytest.mark.parametrize("task", TASKS)
def test_every_task_says_what_its_validations_cost(task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    TASK_CASES[task].write(tmp_path)
    path = tmp_path / "run.yaml"
    path.write_text(json.dumps({"task": task, **TASK_CASES[task].sections}))
    config = load_configuration(path).config
    material = TASKS[task].read(config)
    plan = TASKS[task].resolve(config, material, TASKS[task].check(config, material))
    assert 0.0 < plan.validation_cost < 10.0


def test_a_continued_run_keeps_what_was_resolved_before() -> None:
    before = resolve(opened(learning_rate=0.01), *words(3_600)).config
    assert adopt(opened(learning_rate=0.01), before) == before
    changed = adopt(opened(learning_rate=0.01, epochs=3), before)
    assert changed.training.epochs == 3
    assert changed.training.batch_tokens == before.training.batch_tokens


def test_given_means_written_somewhere() -> None:
    config = from_preset("g2p", ["data.train=pairs.tsv", "training.log_every=50"]).config
    assert is_set(config, ("training", "log_every"))
    assert not is_set(config, ("training", "threads"))
    assert not is_set(TextToTextConfig(data={"train": "a"}), ("training", "epochs"))


@pytest.mark.parametrize("name", presets())
def test_no_preset_fixes_how_long_training_takes(name: str) -> None:
    config = from_preset(name, ["data.train=pairs.tsv"]).config
    open_keys = [
        path for path, key in keys(TextToTextConfig).items() if key.follows_from_data and path[0] == "training"
    ]
    open_keys.remove(("training", "learning_rate"))
    assert open_keys
    assert not any(is_set(config, path) for path in open_keys)


@pytest.mark.parametrize(("count", "held"), [(300, 30), (3_600, 360), (60_000, 2_000)])
def test_a_tenth_is_held_out_and_some_2000_at_most(tmp_path: Path, count: int, held: int) -> None:
    file = tmp_path / "pairs.tsv"
    file.write_text("".join(f"{number}\t{number}\n" for number in range(count)), encoding="utf-8")
    config = TextToTextConfig(data={"train": file})
    data = read_data(config.data)
    assert len(data.train) + len(data.dev) == count
    assert len(data.dev) == pytest.approx(held, rel=0.5 if count == 300 else 0.1)
    before = resolve(config, *words(count), chosen=data.chosen).config
    assert before.data.dev_fraction == data.chosen["data.dev_fraction"]
    assert adopt(config, before).data == before.data
    given = TextToTextConfig(data={"train": file, "dev_fraction": 0.3})
    assert "data.dev_fraction" not in read_data(given.data).chosen
    assert adopt(given, before).data.dev_fraction == 0.3


def test_train_says_what_the_check_of_the_data_says_before_anything_is_spent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("words.tsv").write_text("".join(f"{word}\ta b\n" for word in SYLLABLES * 2), encoding="utf-8")
    training = "training={epochs: 2, warmup_steps: 200, device: cpu}"
    given = ["data.train=words.tsv", "data.dev_fraction=0.2", "data.source.units=character", training]
    assert run(["data", "check", "--preset", "g2p", *(word for one in given for word in ("--set", one))]) == 0
    checked = capsys.readouterr().out
    for said in (
        "plan: ",
        "steps are few",
        "rises for 200 of",
        "units `letter` (data.source.units) split",
        "pairs are too few",
    ):
        assert said in checked, said

    class Begun(Exception):
        pass

    def begin(*arguments: object, **options: object) -> None:
        raise Begun(capsys.readouterr().err)

    monkeypatch.setattr("regard.runs.training.run_loop", begin)
    with pytest.raises(Begun) as begun:
        train(from_preset("g2p", given), Path("run"))
    assert checked in str(begun.value)


@pytest.mark.parametrize(
    ("target", "data", "units"),
    [
        ("ab", {}, ("letter", "character")),
        ("=", {}, ("letter", "letter")),
        ("=", {"source": {"units": "character"}}, ("character", "letter")),
        ("ab", {"source": {"units": "whitespace"}}, ("whitespace", "character")),
        ("ab", {"source": {"unicode": "keep"}}, ("character", "character")),
        ("ab", {"joint_vocabulary": True}, ("letter", "letter")),
        ("=", {"autoencode": True}, ("letter", "letter")),
        ("=", {"source_field": (0, 0), "source": {"units": ("whitespace", "character")}}, None),
    ],
    ids=["source", "both", "a source that is set", "words", "not composed", "joint", "autoencoder", "columns"],
)
def test_rare_characters_of_few_letters_are_divided(
    tmp_path: Path, target: str, data: dict[str, Any], units: tuple[str, str] | None
) -> None:
    config = TextToTextConfig(data={"train": syllables(tmp_path / "pairs.tsv", target), "dev_fraction": 0.3, **data})
    material = read_data(config.data)
    expected = units or (("whitespace", "character"), "letter")
    assert (material.config.source.units, material.config.target.units) == expected
    for field, each in ((material.source, expected[0]), (material.target, expected[1])):
        if each in ("character", "letter") and field.vocabulary.symbols[0] not in "ab":
            form = "NFD" if each == "letter" else "NFC"
            assert field.split(SYLLABLES[7]) == list(unicodedata.normalize(form, SYLLABLES[7]))
            assert field.units.join(field.split(SYLLABLES[7])) == SYLLABLES[7]
    plan = resolve(config, *words(200), chosen=material.chosen)
    assert str(plan.automatic).count("units=letter") == expected.count("letter")
    saved = adopt(config, plan.config)
    again = read_data(saved.data)
    assert again.source.vocabulary == material.source.vocabulary
    assert again.target.vocabulary == material.target.vocabulary
    assert list(again.dev) == list(material.dev)


def test_letters_of_texts_that_are_not_composed_are_refused(tmp_path: Path) -> None:
    data = {"train": syllables(tmp_path / "a.tsv"), "target": {"units": "letter", "unicode": "NFD"}}
    with pytest.raises(ConfigError, match=r"data\.target\.unicode=NFD does not compose texts; .* NFC or NFKC"):
        read_data(TextToTextConfig(data=data).data)


def test_both_sides_of_a_pointer_are_divided_or_none(tmp_path: Path) -> None:
    def units(target: str, **data: Any) -> list[Any]:
        read = read_data(
            TextToTextConfig(
                data={"train": syllables(tmp_path / "pairs.tsv", target), "dev_fraction": 0.3, **data}
            ).data,
            are_alike=True,
        )
        return [read.config.source.units, read.config.target.units]

    assert units("ab") == ["letter", "letter"]
    assert units("=", source={"units": "character"}) == ["character", "character"]


@pytest.mark.parametrize(("settings", "is_warned"), [({}, False), ({"units": "character"}, True)])
def test_only_sources_that_stay_composed_are_warned_of(
    tmp_path: Path, settings: dict[str, str], is_warned: bool
) -> None:
    data = {"train": syllables(tmp_path / "a.tsv"), "dev_fraction": 0.3, "source": settings}
    material = read_data(TextToTextConfig(data=data).data)
    assert ("units `letter` (data.source.units) split" in str(material.check())) == is_warned
