from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console

from regard.errors import ConfigError, RegardError
from regard.tasks.text_to_text.config import TextTrainingConfig
from regard.training import Loss, Outcome, Validation, train
from regard.training.manifest import Manifest
from regard.training.progress import Display
from regard.training.report import Position, RunReport
from training_toy import ITEMS, Toy, ToyTrainee, config


@pytest.fixture(autouse=True)
def _quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda handle: None)


def run(
    folder: Path, trainee: ToyTrainee | None = None, *, select: str = "teacher_forced_loss", **changes: Any
) -> Outcome:
    settings = config(**changes)
    return train(
        trainee or ToyTrainee(settings), settings, folder, seed=3, select=select, console=Console(file=StringIO())
    )


def lines(folder: Path, kind: str) -> list[dict[str, Any]]:
    entries = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [entry for entry in entries if entry["kind"] == kind]


class Scripted(ToyTrainee):
    """Its validations give the figures of a list, the last one for ever."""

    def __init__(self, figures: list[float], settings: TextTrainingConfig | None = None) -> None:
        super().__init__(settings or config())
        self.figures = figures

    def validate(self) -> Validation:
        figure = self.figures[min(self.validations, len(self.figures) - 1)]
        self.validations += 1
        return Validation({"rate": figure})


class Resized(ToyTrainee):
    """The items in batches of another size, without dropout."""

    def __init__(self, size: int) -> None:
        super().__init__(config(), dropout=0.0)
        self.size = size

    def descriptions(self, epoch: int) -> list[np.ndarray]:
        return list(np.arange(ITEMS).reshape(-1, self.size))


def weights(trainee: ToyTrainee) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in trainee.module.parameters()])


def test_training_learns(tmp_path: Path) -> None:
    outcome = run(tmp_path, epochs=25, learning_rate=0.03, early_stopping=None)
    assert outcome.stop_reason == "epochs"
    assert outcome.best is not None
    assert outcome.best < 0.5 < lines(tmp_path, "validation")[0]["teacher_forced_loss"]


def test_accumulated_batches_equal_one_large_batch(tmp_path: Path) -> None:
    small, large = Resized(5), Resized(20)
    # A small rate, and no adaptive division by tiny second moments: differences stay those of the gradients.
    changes = {"epochs": 2, "schedule": "constant", "learning_rate": 1e-3}
    run(tmp_path / "small", small, accumulation=4, **changes)
    run(tmp_path / "large", large, accumulation=1, **changes)
    torch.testing.assert_close(weights(small), weights(large), atol=1e-6, rtol=0)
    for left, right in zip(lines(tmp_path / "small", "train"), lines(tmp_path / "large", "train")):
        assert left["loss"] == pytest.approx(right["loss"], abs=1e-6)
        assert left["gradient_norm"] == pytest.approx(right["gradient_norm"], abs=1e-6)


def test_the_last_step_of_an_epoch_takes_what_is_left(tmp_path: Path) -> None:
    assert run(tmp_path, epochs=2, accumulation=3).steps == 2 * math.ceil(7 / 3)


def test_gradients_are_clipped_over_all_parameters_and_their_true_norm_is_logged(tmp_path: Path) -> None:
    trainee = ToyTrainee(config())
    seen: list[float] = []
    step = torch.optim.AdamW.step

    def spy(optimizer: torch.optim.AdamW, *args: Any) -> Any:
        gradients = [p.grad for p in trainee.module.parameters() if p.grad is not None]
        seen.append(torch.nn.utils.get_total_norm(gradients).item())
        return step(optimizer, *args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.optim.AdamW, "step", spy)
        run(tmp_path, trainee, epochs=1, clip_norm=0.01, log_every=1)
    assert seen == pytest.approx([0.01] * 7, rel=1e-3)
    assert all(line["gradient_norm"] > 0.1 for line in lines(tmp_path, "train"))


def test_max_steps_ends_a_run_in_the_middle_of_an_epoch_with_a_validated_model(tmp_path: Path) -> None:
    outcome = run(tmp_path, max_steps=10)
    assert (outcome.stop_reason, outcome.steps, outcome.epochs) == ("max_steps", 10, 1)
    assert [line["step"] for line in lines(tmp_path, "validation")] == [7, 10]
    assert lines(tmp_path, "train")[-1]["step"] == 10
    assert (tmp_path / "model.safetensors").is_file()


def test_no_epochs_save_and_validate_the_model_as_it_came(tmp_path: Path) -> None:
    trainee = ToyTrainee(config())
    before = weights(trainee).clone()
    outcome = run(tmp_path, trainee, epochs=0)
    assert (outcome.steps, outcome.stop_reason, outcome.best_step) == (0, "epochs", 0)
    assert torch.equal(weights(trainee), before)
    assert (tmp_path / "model.safetensors").is_file()


def test_early_stopping_counts_validations_without_improvement(tmp_path: Path) -> None:
    trainee = Scripted([0.5, 0.4, 0.4, 0.6, 0.7, 0.1])
    outcome = run(tmp_path, trainee, select="rate", early_stopping=3, epochs=30)
    assert (outcome.stop_reason, outcome.epochs, outcome.best, outcome.best_step) == ("early_stopping", 5, 0.4, 14)


class Tied(ToyTrainee):
    """Its selected metric stands still; its teacher-forced loss has the figures of a list, the last one for ever."""

    def __init__(self, losses: list[float], settings: TextTrainingConfig | None = None) -> None:
        super().__init__(settings or config())
        self.losses = losses

    def validate(self) -> Validation:
        loss = self.losses[min(self.validations, len(self.losses) - 1)]
        self.validations += 1
        return Validation({"rate": 1.0, "teacher_forced_loss": loss})


def test_ties_are_broken_by_the_loss_and_training_goes_on_while_it_falls(tmp_path: Path) -> None:
    outcome = run(tmp_path, Tied([4.0, 3.0, 2.0, 1.0, 1.5]), select="rate", early_stopping=2, epochs=30)
    assert (outcome.stop_reason, outcome.best_step, outcome.epochs) == ("early_stopping", 28, 6)
    assert outcome.metrics["teacher_forced_loss"] == 1.0


def test_a_falling_loss_keeps_a_training_alive_whose_metric_gets_worse_but_names_no_best_model(tmp_path: Path) -> None:
    class Worse(Tied):
        def validate(self) -> Validation:
            rate = 0.1 * (self.validations + 1)
            return Validation({**super().validate().metrics, "rate": rate})

    outcome = run(tmp_path, Worse([4.0, 3.0, 2.0, 1.0, 1.5]), select="rate", early_stopping=2, epochs=30)
    assert (outcome.stop_reason, outcome.best_step, outcome.epochs) == ("early_stopping", 7, 6)


def test_early_stopping_can_be_switched_off(tmp_path: Path) -> None:
    assert run(tmp_path, Scripted([0.5]), select="rate", early_stopping=None, epochs=12).stop_reason == "epochs"


def test_larger_may_be_better(tmp_path: Path) -> None:
    trainee = Scripted([0.5, 0.7, 0.6])
    outcome = train(
        trainee, config(epochs=3), tmp_path, seed=1, select="rate", larger_is_better=True,
        console=Console(file=StringIO()),
    )  # fmt: skip
    assert (outcome.best, outcome.best_step) == (0.7, 14)


def test_a_metric_that_is_not_a_number_is_worse_than_any(tmp_path: Path) -> None:
    outcome = run(tmp_path, Scripted([math.nan, 0.7, math.nan]), select="rate", epochs=3)
    assert (outcome.best, outcome.best_step) == (0.7, 14)
    assert [line["rate"] for line in lines(tmp_path, "validation")] == [None, 0.7, None]


def test_plateau_lowers_the_rate_after_its_patience_and_never_below_the_floor(tmp_path: Path) -> None:
    run(
        tmp_path, Scripted([0.5]), select="rate", epochs=9, early_stopping=None, log_every=7, learning_rate=0.01,
        plateau_patience=1, plateau_factor=0.1, min_learning_rate=5e-5,
    )  # fmt: skip
    rates = [line["learning_rate"] for line in lines(tmp_path, "train")]
    assert rates == pytest.approx([0.01, 0.01, 0.01, 1e-3, 1e-3, 1e-4, 1e-4, 5e-5, 5e-5])


def test_the_saved_model_is_the_best_one_and_the_module_ends_with_its_weights(tmp_path: Path) -> None:
    trainee = Scripted([0.5, 0.4, 0.6])
    kept: list[torch.Tensor] = []
    validate = trainee.validate

    def spy() -> Validation:
        kept.append(weights(trainee).clone())
        return validate()

    trainee.validate = spy  # type: ignore[method-assign]
    run(tmp_path, trainee, select="rate", epochs=3)
    assert torch.equal(weights(trainee), kept[1])
    assert saved_weights(tmp_path).equal(kept[1])
    assert not trainee.module.training


@pytest.mark.parametrize(("mean", "steps"), [(0.1, [14, 21, 28]), (0.2, [21]), (0.3, [21])])
def test_the_mean_of_the_last_validations_is_saved_only_where_it_is_better_than_the_best(
    tmp_path: Path, mean: float, steps: list[int]
) -> None:
    trainee = Scripted([0.5, 0.4, 0.2, 0.3, mean])
    kept: list[torch.Tensor] = []
    validate = trainee.validate

    def spy() -> Validation:
        kept.append(weights(trainee).clone())
        return validate()

    trainee.validate = spy  # type: ignore[method-assign]
    settings, shown = config(epochs=4, average_checkpoints=3), StringIO()
    outcome = train(trainee, settings, tmp_path, seed=3, select="rate", console=Console(file=shown, width=300))
    expected = torch.stack(kept[1:4]).double().mean(0).float() if len(steps) == 3 else kept[2]
    assert torch.equal(saved_weights(tmp_path), expected)
    assert torch.equal(weights(trainee), expected)
    assert outcome.weights == steps
    assert outcome.metrics == {"rate": min(mean, 0.2)}
    (line,) = lines(tmp_path, "averaged")
    assert line["rate"] == mean
    of_mean = f"the mean of 3 models, steps 14 to 28 (rate {mean})"
    of_best = "the best single one, of step 21 (rate 0.2)"
    text = f"{of_mean}, rather than {of_best}" if len(steps) == 3 else f"{of_best}; {of_mean}, is no better"
    assert f"The saved model is {text}." in shown.getvalue()
    names = {path.name for path in (tmp_path / "checkpoints/weights").iterdir()}
    assert names == {"step-00000021.safetensors", *(["mean.safetensors"] if len(steps) == 3 else [])}
    again = Scripted([])
    assert train(again, settings, tmp_path, seed=3, select="rate", console=Console(file=StringIO())) == outcome
    assert torch.equal(weights(again), expected)


def saved_weights(folder: Path) -> torch.Tensor:
    from safetensors.torch import load_file

    saved = load_file(folder / "model.safetensors")
    return torch.cat([saved[name].flatten() for name, _ in Toy().named_parameters()])


def test_an_unknown_metric_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"select is 'symbol_eror_rate'.*\n?.*Did you mean 'symbol_error_rate'"
    ) as info:
        run(tmp_path, select="symbol_eror_rate")
    assert info.value.path == ("select",)


@pytest.mark.parametrize("where", ["loss", "gradient"])
def test_what_is_not_finite_stops_training_and_names_step_and_batch(tmp_path: Path, where: str) -> None:
    class Broken(ToyTrainee):
        def loss(self, batch: Mapping[str, Any], *, step: int, generator: torch.Generator) -> Loss:
            loss = super().loss(dict(batch), step=step, generator=generator)
            if step != 4:
                return loss
            factor = torch.tensor(math.nan) if where == "loss" else torch.sqrt(self.module.output.bias.sum() * 0)
            return Loss(loss.total * factor, loss.count)

    trainee = Broken(config())
    with pytest.raises(RegardError, match=r"(?s)is nan at step 5.*batch array\(\[") as info:
        run(tmp_path, trainee, save_every_minutes=1e-6)
    assert str(trainee.descriptions(0)[4][:3])[1:-1].split()[0] in str(info.value)
    assert torch.isfinite(weights(trainee)).all()
    assert (tmp_path / "checkpoints/latest").read_text() == "step-00000004\n"


def test_a_batch_that_is_not_finite_is_named_by_files_and_lines_if_they_are_known(tmp_path: Path) -> None:
    class Broken(ToyTrainee):
        def loss(self, batch: Mapping[str, Any], *, step: int, generator: torch.Generator) -> Loss:
            loss = super().loss(dict(batch), step=step, generator=generator)
            return Loss(loss.total * math.nan, loss.count)

        def places(self, description: Any) -> list[str]:
            return [f"train.tsv:{index + 1}" for index in description]

    trainee = Broken(config())
    first = trainee.descriptions(0)[0]
    with pytest.raises(RegardError) as info:
        run(tmp_path, trainee)
    assert f"  batch of {len(first)}: train.tsv:{first[0] + 1}, " in str(info.value)


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_half_precision_learns_with_float32_weights(tmp_path: Path, precision: str) -> None:
    trainee = ToyTrainee(config())
    types: set[torch.dtype] = set()
    trainee.module.output.register_forward_hook(lambda module, inputs, output: types.add(output.dtype) or None)
    outcome = run(tmp_path, trainee, precision=precision, epochs=3)
    assert getattr(torch, precision) in types
    assert weights(trainee).dtype is torch.float32
    figures = [line["teacher_forced_loss"] for line in lines(tmp_path, "validation")]
    assert outcome.best is not None
    assert figures[-1] < figures[0]


def test_float16_skips_steps_whose_gradients_overflow_and_counts_them(tmp_path: Path) -> None:
    class Steep(ToyTrainee):
        def loss(self, batch: Mapping[str, Any], *, step: int, generator: torch.Generator) -> Loss:
            loss = super().loss(dict(batch), step=step, generator=generator)
            return Loss(loss.total * (1e35 if step == 2 else 1.0), loss.count)

    trainee = Steep(config())
    run(tmp_path, trainee, precision="float16", epochs=1, log_every=7)
    (line,) = lines(tmp_path, "train")
    assert line["skipped_steps"] == 1
    assert 0 < line["loss"] < 3
    assert torch.isfinite(weights(trainee)).all()


def test_float16_gives_up_on_a_loss_that_no_scale_helps(tmp_path: Path) -> None:
    class Broken(ToyTrainee):
        def loss(self, batch: Mapping[str, Any], *, step: int, generator: torch.Generator) -> Loss:
            loss = super().loss(dict(batch), step=step, generator=generator)
            return Loss(loss.total * math.nan, loss.count)

    with pytest.raises(RegardError, match="overflow at every scale"):
        run(tmp_path, Broken(config()), precision="float16", epochs=9)


def test_lines_of_metrics_have_what_they_promise(tmp_path: Path) -> None:
    run(tmp_path, epochs=2, log_every=2, scheduled_sampling=0.5)
    train_lines = lines(tmp_path, "train")
    assert [line["step"] for line in train_lines] == [2, 4, 6, 8, 10, 12, 14]
    assert [line["epoch"] for line in train_lines] == [1, 1, 1, 2, 2, 2, 2]
    for line in train_lines:
        assert set(line) == {
            "kind", "step", "epoch", "loss", "learning_rate", "gradient_norm", "fed_back", "correct", "timing",
        }  # fmt: skip
        assert set(line["timing"]) == {"seconds", "symbols_per_second", "waiting", "total_seconds"}
        assert 0 <= line["timing"]["waiting"] <= 1
    assert 1.0 < train_lines[0]["loss"] < 3.0  # natural logarithms per symbol: near ln 7
    assert {"symbol_error_rate", "teacher_forced_loss"} <= set(lines(tmp_path, "validation")[0])


def test_the_logged_loss_is_the_mean_over_the_real_symbols_of_its_steps(tmp_path: Path) -> None:
    trainee = ToyTrainee(config())
    sums: list[tuple[float, int]] = []
    compute = trainee.loss

    def loss(batch: Any, *, step: int, generator: torch.Generator) -> Loss:
        result = compute(batch, step=step, generator=generator)
        sums.append((result.total.item(), int(result.count)))
        return result

    trainee.loss = loss  # type: ignore[method-assign]
    run(tmp_path, trainee, epochs=1, log_every=7, accumulation=1)
    (line,) = lines(tmp_path, "train")
    assert line["loss"] == pytest.approx(sum(total for total, _ in sums) / sum(count for _, count in sums))


def test_a_metric_may_not_take_a_name_of_the_line(tmp_path: Path) -> None:
    trainee = ToyTrainee(config())
    trainee.validate = lambda: Validation({"epoch": 1.0})  # type: ignore[method-assign]
    with pytest.raises(RegardError, match="'epoch'"):
        run(tmp_path, trainee)


def test_samples_are_shown_and_pictures_written_as_many_as_asked(tmp_path: Path) -> None:
    settings, shown = config(epochs=1, samples=2), StringIO()
    train(ToyTrainee(settings), settings, tmp_path, seed=3, select="symbol_error_rate", console=Console(file=shown))
    assert "[1] [" in shown.getvalue()
    assert "[2] [" not in shown.getvalue()
    assert sorted(path.name for path in (tmp_path / "pictures/step-00000007").iterdir()) == ["0.txt", "1.txt"]


def drawn(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "pictures").iterdir())


@pytest.mark.parametrize("averaged", [0, 2])
def test_a_short_training_draws_pictures_at_its_end_only(tmp_path: Path, averaged: int) -> None:
    settings = config(epochs=4, samples=1, validate_every=2, average_checkpoints=averaged)
    train(ToyTrainee(settings), settings, tmp_path, seed=3, select="symbol_error_rate")
    assert drawn(tmp_path) == ["averaged" if averaged else "step-00000028"]


def test_a_single_validation_is_not_averaged_and_has_pictures(tmp_path: Path) -> None:
    settings = config(epochs=4, samples=1, validate_every=28, average_checkpoints=5)
    train(ToyTrainee(settings), settings, tmp_path, seed=3, select="symbol_error_rate")
    assert lines(tmp_path, "averaged") == []
    assert drawn(tmp_path) == ["step-00000028"]


def test_pictures_before_the_end_take_a_twentieth_of_the_time_and_three_times_the_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr("regard.training.report.time", SimpleNamespace(perf_counter=lambda: clock[0]))

    def draw(path: Path) -> None:
        clock[0] += 10.0

    report = RunReport(config(), tmp_path, Display(Console(file=StringIO())), Manifest(tmp_path))
    with report:
        for step in range(10, 1_000, 10):  # a step takes a second
            validation = Validation({"rate": 1.0}, pictures=[("a.png", draw)])
            position = Position(step=step, seconds=float(step))
            report.validation(validation, position, kind="validation", seconds=0.0, is_last=step == 990)
    # the first drawing was expected to take 2 seconds; then the next ones 10, in addition to those before
    assert drawn(tmp_path) == ["step-00000040", "step-00000400", "step-00000990"]


def test_a_picture_that_fails_is_a_warning(tmp_path: Path) -> None:
    def fail(path: Path) -> None:
        raise OSError("no ink")

    trainee = ToyTrainee(config())
    trainee.validate = lambda: Validation({"rate": 1.0}, pictures=[("a.png", fail)])  # type: ignore[method-assign]
    with pytest.warns(RuntimeWarning, match=r"a\.png could not be drawn: OSError\('no ink'\)"):
        assert run(tmp_path, trainee, select="rate", epochs=1).stop_reason == "epochs"


def test_a_batch_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    class Broken(ToyTrainee):
        def batch(self, description: np.ndarray) -> dict[str, torch.Tensor]:
            if description[0] == self.descriptions(0)[3][0]:
                raise OSError("the file is gone")
            return super().batch(description)

    with pytest.raises(OSError, match="the file is gone") as info:
        run(tmp_path, Broken(config()))
    assert "of epoch 1" in info.value.__notes__[0]


def test_training_data_without_batches_is_an_error(tmp_path: Path) -> None:
    trainee = ToyTrainee(config())
    trainee.descriptions = lambda epoch: []  # type: ignore[method-assign]
    with pytest.raises(RegardError, match="no batches"):
        run(tmp_path, trainee)


def test_a_module_without_parameters_is_an_error(tmp_path: Path) -> None:
    trainee = ToyTrainee(config())
    trainee.module.requires_grad_(False)
    with pytest.raises(RegardError, match="no parameters to train"):
        run(tmp_path, trainee)


def test_threads_are_set_and_put_back(tmp_path: Path) -> None:
    before, seen = torch.get_num_threads(), []
    trainee = ToyTrainee(config())
    validate = trainee.validate

    def spy() -> Validation:
        seen.append(torch.get_num_threads())
        return validate()

    trainee.validate = spy  # type: ignore[method-assign]
    run(tmp_path, trainee, epochs=1, threads=before + 1)
    assert seen == [before + 1]
    assert torch.get_num_threads() == before


def test_every_key_of_the_configuration_is_read(tmp_path: Path) -> None:
    seen: set[str] = set()

    class Spy:
        def __init__(self, settings: TextTrainingConfig) -> None:
            self._settings = settings

        def __getattr__(self, name: str) -> Any:
            seen.add(name)
            return getattr(self._settings, name)

    for i, schedule in enumerate(["plateau", "cosine", "noam"]):
        rate = TextTrainingConfig.model_fields["learning_rate"].default
        feedback = {"scheduled_sampling": 0.1, "sequence_teacher_forcing": 0.9}
        settings: Any = Spy(config(epochs=1, schedule=schedule, learning_rate=rate, **feedback))
        train(
            ToyTrainee(settings), settings, tmp_path / str(i), seed=1, select="symbol_error_rate",
            console=Console(file=StringIO()),
        )  # fmt: skip
    others = {
        "alignment_losses", "allow_trained_dev", "batch_tokens", "former", "label_smoothing", "label_smoothing_others",
        "reinforce", "replay", "start_from", "teacher_weight", "teachers",
    }  # the task's  # fmt: skip
    assert set(TextTrainingConfig.model_fields) - seen == others
