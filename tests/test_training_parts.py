from __future__ import annotations

import json
import math
import os
import re
import sys
import threading
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch
from rich.console import Console
from torch import nn

from regard import weights
from regard.errors import ConfigError, DataError, RegardError
from regard.files import clean, create_folder, publish, replace_file, replace_text
from regard.layers.items import ItemDraws, drawing
from regard.training import (
    Loss,
    Validation,
    feedback_mask,
    scheduled_sampling_mask,
    scheduled_sampling_probability,
    sequence_teacher_forcing_mask,
    train,
)
from regard.training.device import choose, move
from regard.training.feedback import feedback_program
from regard.training.lock import Lock, check_free
from regard.training.log import MetricsLog
from regard.training.loop import DEPTH, Prefetch
from regard.training.progress import Display
from regard.training.report import FIRST_STEPS, TIMED_STEPS, Pace
from regard.training.schedule import Schedule
from training_toy import ToyTrainee, config


def rates(total: int, **changes: Any) -> list[float]:
    schedule = Schedule(config(**changes), total_steps=total)
    return [schedule.learning_rate(step) for step in range(1, total + 1)]


def test_every_schedule_rises_linearly_to_the_rate_over_the_warm_up() -> None:
    for name in ("constant", "inverse_square_root", "cosine", "plateau"):
        found = rates(20, schedule=name, warmup_steps=4, learning_rate=0.1)
        assert found[:4] == pytest.approx([0.025, 0.05, 0.075, 0.1]), name


def test_constant_stays() -> None:
    assert rates(5, schedule="constant", learning_rate=0.1) == [0.1] * 5


def test_inverse_square_root_falls_with_the_root_from_the_end_of_the_warm_up() -> None:
    found = rates(100, schedule="inverse_square_root", warmup_steps=25, learning_rate=0.1)
    assert found[99] == pytest.approx(0.05)
    assert rates(4, schedule="inverse_square_root", learning_rate=0.1)[3] == pytest.approx(0.05)


def test_cosine_ends_at_the_floor() -> None:
    found = rates(40, schedule="cosine", warmup_steps=4, learning_rate=0.1, min_learning_rate=0.02)
    assert found[21] == pytest.approx(0.06)
    assert found[-1] == pytest.approx(0.02)
    assert found[3:] == sorted(found[3:], reverse=True)
    schedule = Schedule(config(schedule="cosine", min_learning_rate=1e-3), total_steps=10)
    assert schedule.learning_rate(1000) == pytest.approx(1e-3)


def test_no_schedule_goes_below_the_floor_after_the_warm_up() -> None:
    for name in ("inverse_square_root", "cosine"):
        assert min(rates(5000, schedule=name, learning_rate=0.1, min_learning_rate=0.01)) == pytest.approx(0.01)


def test_a_floor_above_the_rate_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"min_learning_rate is 0\.1, above"):
        Schedule(config(learning_rate=0.01, min_learning_rate=0.1), total_steps=1)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_scheduled_sampling_draws_a_coin_for_every_step_but_the_first() -> None:
    mask = scheduled_sampling_mask(400, 50, 0.3, generator())
    assert mask.shape == (400, 50)
    assert not mask[:, 0].any()
    assert mask[:, 1:].double().mean().item() == pytest.approx(0.3, abs=0.01)
    assert mask[:, 1:].double().mean(1).std().item() < 0.1  # rows are mixed: no coin a sequence


def test_the_ends_of_scheduled_sampling_are_pure() -> None:
    assert not scheduled_sampling_mask(50, 50, 0.0, generator()).any()
    assert scheduled_sampling_mask(50, 50, 1.0, generator())[:, 1:].all()


def test_scheduled_sampling_grows_over_its_warm_up() -> None:
    found = [scheduled_sampling_probability(step, probability=0.4, warmup_steps=10) for step in (0, 5, 10, 99)]
    assert found == pytest.approx([0.0, 0.2, 0.4, 0.4])
    assert scheduled_sampling_probability(0, probability=0.4, warmup_steps=0) == 0.4


def test_scheduled_sampling_may_begin_later_and_rise_as_a_cosine() -> None:
    def at(step: int, **options: Any) -> float:
        return scheduled_sampling_probability(step, probability=0.8, warmup_steps=40, start=10, **options)

    assert [at(step) for step in (0, 9, 10, 30, 50, 99)] == pytest.approx([0, 0, 0, 0.4, 0.8, 0.8])
    found = [at(step, schedule="cosine") for step in (9, 10, 20, 30, 50, 99)]
    assert found == pytest.approx([0, 0, 0.4 * (1 - math.cos(math.pi / 4)), 0.4, 0.8, 0.8])
    late = config(scheduled_sampling=1.0, scheduled_sampling_start=10)
    assert feedback_mask(late, 3, 4, step=9, generator=generator()) is None
    assert feedback_mask(late, 3, 4, step=10, generator=generator())[:, 1:].all()
    rising = config(
        scheduled_sampling=0.9, scheduled_sampling_start=5, scheduled_sampling_warmup=10,
        scheduled_sampling_schedule="cosine",
    )  # fmt: skip
    mask = feedback_mask(rising, 300, 50, step=8, generator=generator())
    assert float(mask[:, 1:].double().mean()) == pytest.approx(0.45 * (1 - math.cos(0.3 * math.pi)), abs=0.01)


def test_sequence_teacher_forcing_draws_a_coin_a_sequence() -> None:
    forced = sequence_teacher_forcing_mask(4000, 0.7, generator())
    assert forced.double().mean().item() == pytest.approx(0.7, abs=0.03)
    assert sequence_teacher_forcing_mask(9, 1.0, generator()).all()
    assert not sequence_teacher_forcing_mask(9, 0.0, generator()).any()
    fed_back = feedback_mask(config(sequence_teacher_forcing=0.5), 200, 8, step=0, generator=generator())
    assert fed_back is not None
    assert not fed_back[:, 0].any()
    assert set(fed_back[:, 1:].sum(1).tolist()) == {0, 7}


def test_feedback_is_nowhere_unless_it_is_configured() -> None:
    assert feedback_mask(config(), 3, 4, step=9, generator=generator()) is None
    warm = config(scheduled_sampling=0.5, scheduled_sampling_warmup=100)
    assert feedback_mask(warm, 3, 4, step=0, generator=generator()) is None
    assert feedback_mask(warm, 3, 4, step=1, generator=generator()) is not None


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_a_step_in_a_tensor_draws_what_its_number_draws(schedule: str) -> None:
    settings = config(
        scheduled_sampling=0.9, scheduled_sampling_start=2, scheduled_sampling_warmup=7,
        scheduled_sampling_schedule=schedule, sequence_teacher_forcing=0.8,
    )  # fmt: skip
    for step in range(12):
        masks = []
        for number in (step, torch.tensor(step)):
            with drawing(ItemDraws({}, torch.arange(50), seed=1, step=number)):
                masks.append(feedback_mask(settings, 50, 40, step=step, generator=generator()))
        assert masks[0] is not None
        assert torch.equal(masks[0], masks[1])
    programs = [feedback_program(settings, step) for step in range(12)]
    assert programs == [0.0, 0.0, 0.0, *["rising"] * 6, 0.9, 0.9, 0.9]


def test_a_free_running_row_is_fed_back_everywhere_under_scheduled_sampling_too() -> None:
    both = config(scheduled_sampling=0.2, sequence_teacher_forcing=0.0)
    mask = feedback_mask(both, 5, 6, step=0, generator=generator())
    assert mask is not None
    assert mask[:, 1:].all()


def test_draws_come_from_the_generator_alone() -> None:
    both = config(scheduled_sampling=0.2, sequence_teacher_forcing=0.5)
    first = feedback_mask(both, 5, 6, step=0, generator=generator(7))
    torch.rand(3)
    second = feedback_mask(both, 5, 6, step=0, generator=generator(7))
    assert first is not None
    assert second is not None
    assert torch.equal(first, second)


def test_prefetching_keeps_the_order_and_runs_ahead_by_its_depth() -> None:
    made: list[int] = []
    taken = threading.Event()

    def make(item: int) -> int:
        made.append(item)
        if len(made) == DEPTH:
            taken.set()
        return item * item

    with Prefetch(make, range(20)) as ready:
        assert next(ready) == (0, 0)
        assert taken.wait(10)
        assert list(ready) == [(i, i * i) for i in range(1, 20)]
    assert made == list(range(20))


def test_an_error_of_prefetching_comes_where_its_item_is_due() -> None:
    def make(item: int) -> int:
        if item == 2:
            raise KeyError("two")
        return item

    with Prefetch(make, range(5)) as ready:
        assert [next(ready), next(ready)] == [(0, 0), (1, 1)]
        with pytest.raises(KeyError, match="two"):
            next(ready)


def test_prefetching_leaves_no_thread() -> None:
    with Prefetch(lambda item: item, range(100)) as ready:
        next(ready)
    assert not [thread for thread in threading.enumerate() if "prefetch" in thread.name]


@pytest.mark.parametrize("name", ["gpu", "cuda:x", "cpu:0", "CUDA", ""])
def test_an_unknown_device_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"use auto, cpu, cuda") as info:
        choose(name)
    assert info.value.path == ("training", "device")


def test_a_gpu_that_is_not_there_is_refused_and_auto_takes_what_is() -> None:
    with pytest.raises(ConfigError, match=r"'cuda:77'.* sees \d+ GPU"):
        choose("cuda:77")
    assert choose("cpu") == torch.device("cpu")
    assert choose("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")


def test_batches_move_by_their_own_way_or_leaf_by_leaf() -> None:
    @dataclass(frozen=True)
    class Tree:
        values: torch.Tensor
        mask: torch.Tensor | None

    class Own:
        def to(self, device: torch.device) -> str:
            return f"on {device}"

    meta = torch.device("meta")
    moved = move(Tree(torch.ones(2), None), meta)
    assert moved.values.device == meta
    assert moved.mask is None
    assert move((torch.ones(1), {"a": torch.ones(1)}), meta)[1]["a"].device == meta
    assert move(torch.ones(1), meta).device == meta
    assert move(Own(), meta) == "on meta"


def test_the_mean_of_weights_is_taken_in_float64_and_counters_are_the_last(tmp_path: Path) -> None:
    values = [1.0, 1e8, -1e8, 2.0]
    for i, value in enumerate(values):
        saved = {"w": torch.full((3,), value), "n": torch.tensor(i), "h": torch.tensor([value / 1e8]).half()}
        weights.save(saved, tmp_path / f"{i}.safetensors")
    mean = weights.mean([tmp_path / f"{i}.safetensors" for i in range(4)])
    assert mean["w"].tolist() == [0.75] * 3
    assert mean["n"].item() == 3
    assert mean["h"].dtype is torch.float16


def test_tied_weights_are_saved_and_come_back_tied(tmp_path: Path) -> None:
    module = nn.ModuleDict({"a": nn.Linear(3, 4, bias=False), "b": nn.Linear(3, 4, bias=False)})
    module["b"].weight = module["a"].weight
    before = module["a"].weight.detach().clone()
    weights.save(weights.snapshot(module), tmp_path / "w.safetensors")
    nn.init.zeros_(module["a"].weight)
    weights.restore(module, weights.load(tmp_path / "w.safetensors"))
    assert torch.equal(module["b"].weight, before)
    assert module["a"].weight is module["b"].weight


def test_a_state_that_is_no_tensor_is_refused() -> None:
    class Odd(nn.Linear):
        def get_extra_state(self) -> Any:
            return {"text": 1}

    with pytest.raises(RegardError, match="'_extra_state', a dict"):
        weights.snapshot(Odd(2, 2))


def test_a_write_that_fails_leaves_the_old_files_whole(tmp_path: Path) -> None:
    replace_text(tmp_path / "a", "old")
    create_folder(tmp_path / "folder", lambda folder: (folder / "b").write_text("old"))

    def fail(path: Path) -> None:
        (path / "b").write_text("new") if path.is_dir() else path.write_text("ne")
        raise OSError("disk full")

    for write in (
        lambda: create_folder(tmp_path / "folder", fail),
        lambda: publish(tmp_path, fail, last="b"),
    ):
        with pytest.raises(RegardError, match=f"{re.escape(str(tmp_path))}.*: cannot be written: disk full"):
            write()
        assert not list(tmp_path.glob(".*"))
    assert (tmp_path / "folder/b").read_text() == "old"
    assert not (tmp_path / "b").exists()
    replace_text(tmp_path / "a", "new")
    assert (tmp_path / "a").read_text() == "new"


def test_what_a_library_leaves_beside_the_file_it_was_killed_in_is_cleaned(tmp_path: Path) -> None:
    def killed(path: Path) -> None:  # as safetensors does it
        (path.parent / ".tmpuD7CVC").write_text("ne")
        raise KeyboardInterrupt

    replace_text(tmp_path / "below/a", "old")
    with pytest.raises(KeyboardInterrupt):
        replace_file(tmp_path / "below/a", killed)
    clean(tmp_path, tmp_path / "below")
    assert [path.name for path in tmp_path.rglob("*")] == ["below", "a"]
    assert (tmp_path / "below/a").read_text() == "old"


def test_publishing_moves_the_model_last_and_leaves_other_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    moved: list[str] = []
    replace = os.replace
    monkeypatch.setattr(os, "replace", lambda a, b: (moved.append(Path(b).name), replace(a, b)))
    (tmp_path / "metrics.jsonl").write_text("kept")
    publish(tmp_path, ToyTrainee(config()).save, last="model.safetensors")
    assert moved == ["config.yaml", "target.txt", "model.safetensors"]
    assert (tmp_path / "metrics.jsonl").read_text() == "kept"
    assert (tmp_path / "vocabularies/target.txt").is_file()


def test_a_line_that_is_not_of_metrics_is_named(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"kind": "train", "step": 1}\nnonsense\n')
    with pytest.raises(DataError, match=r"metrics\.jsonl:2: .*nonsense"):
        MetricsLog(tmp_path / "metrics.jsonl").cut(5)


def test_a_folder_that_is_trained_in_cannot_be_opened_again(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    with Lock(tmp_path):
        for enter in (lambda: check_free(tmp_path), Lock(tmp_path).__enter__):
            with pytest.raises(RegardError, match=f"process {os.getpid()} on .* is training in this folder"):
                enter()
    check_free(tmp_path)
    with Lock(tmp_path):
        pass


def test_a_metric_of_the_loss_may_not_hide_the_loss() -> None:
    with pytest.raises(RegardError, match="'loss'"):
        Loss(torch.zeros(()), 1, {"loss": 1.0})


def test_tensorboard_has_the_same_figures(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    settings = config(epochs=1, tensorboard=True)
    train(
        ToyTrainee(settings), settings, tmp_path, seed=1, select="symbol_error_rate", console=Console(file=StringIO())
    )
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert {"train/loss", "train/learning_rate", "validation/symbol_error_rate"} <= set(events.Tags()["scalars"])
    assert [event.step for event in events.Scalars("train/loss")] == [3, 6, 7]


def test_tensorboard_that_is_not_installed_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(("torch.utils.tensorboard", "tensorboard"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    settings = config(tensorboard=True)
    with pytest.raises(ConfigError, match=r"pip install 'regard\[log\]'"):
        train(ToyTrainee(settings), settings, tmp_path, seed=1, select="x", console=Console(file=StringIO()))


def test_a_terminal_gets_a_bar_and_other_places_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    figures, timing = {"loss": 0.25, "learning_rate": 1e-3}, {"symbols_per_second": 1234.0, "waiting": 0.04}
    for terminal in (True, False):
        shown = StringIO()
        with Display(Console(file=shown, force_terminal=terminal, width=150)) as display:
            display.advance(1200, 2400, figures, timing)
            display.metrics("train", 7, 1, figures, timing)
            display.say("[0] a sample, [as it is]")
        text = shown.getvalue()
        assert "loss 0.25" in text
        assert "1,234 symbols/s" in text
        assert "waiting" not in text
        assert "[0] a sample, [as it is]" in text
        assert ("step 1,200/2,400" in text) == terminal
        assert ("step 7" in text) == (not terminal)


@pytest.mark.parametrize("width", [60, 80, 140])
def test_no_width_of_a_terminal_cuts_step_loss_or_the_time_that_is_left(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    shown, timing = StringIO(), {"symbols_per_second": 123_456.0, "waiting": 0.31}
    with Display(Console(file=shown, force_terminal=True, width=width)) as display:
        display.advance(12_345, 123_456, {"loss": 0.123456, "learning_rate": 1e-3}, timing, remaining=3 * 3600 + 125)
    lines = [
        line for line in re.split(r"[\r\n]", re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.getvalue())) if line.strip()
    ]
    for part in ("step 12,345/123,456 ", " loss 0.1235", " 3:02:05"):
        assert part in lines[-1]
    assert len(lines[-1]) <= width
    assert ("123,456 symbols/s, 31% of the time waiting for data" in lines[-1]) == (width == 140)


def test_the_time_that_is_left_is_told_only_when_steps_and_a_validation_have_been_timed() -> None:
    pace = Pace()
    for _ in range(FIRST_STEPS):
        pace.add(9.0)  # what compiles and fills caches does not count
    for _ in range(TIMED_STEPS - 1):
        pace.add(0.5)
    assert pace.remaining(10, 0) is None
    pace.add(0.5)
    assert pace.remaining(10, 0) == pytest.approx(5.0)
    assert pace.remaining(10, 2) is None
    pace.validation = 30.0
    assert pace.remaining(10, 2) == pytest.approx(65.0)


def test_nothing_that_is_shown_of_a_training_moves_a_terminal() -> None:
    class Hostile(ToyTrainee):
        def validate(self) -> Validation:
            return replace(super().validate(), samples=["a\x1b[31m → \x9bb\x1b]0;title\x07"], concern="\x1b[2J all")

    shown, settings = StringIO(), config(epochs=1)
    for terminal in (True, False):
        console = Console(file=shown, force_terminal=terminal, width=200, color_system=None)
        with TemporaryDirectory() as folder:
            train(Hostile(settings), settings, Path(folder), seed=1, select="symbol_error_rate", console=console)
    assert shown.getvalue().count(r"a\x1b[31m → \x9bb\x1b]0;title\x07") == 2
    assert shown.getvalue().count(r"\x1b[2J all") == 2
    for sequence in ("\x1b[31m", "\x9b", "\x1b]0", "\x07", "\x1b[2J"):
        assert sequence not in shown.getvalue()


def test_waiting_for_data_is_shown_where_it_costs_something() -> None:
    shown = StringIO()
    Display(Console(file=shown)).metrics("train", 7, 1, {}, {"symbols_per_second": 1234.0, "waiting": 0.31})
    assert "1,234 symbols/s, 31% of the time waiting for data" in shown.getvalue()


def test_a_trainee_may_count_something_else_than_symbols(tmp_path: Path) -> None:
    class Frames(ToyTrainee):
        counted = "frames"

    for kind, counted in ((ToyTrainee, "symbols"), (Frames, "frames")):
        shown, settings = StringIO(), config(epochs=1, log_every=1)
        folder = tmp_path / counted
        train(kind(settings), settings, folder, seed=1, select="symbol_error_rate", console=Console(file=shown))
        assert f" {counted}/s" in shown.getvalue()
        assert shown.getvalue().count("/s") == shown.getvalue().count(f" {counted}/s")
        first = json.loads((folder / "metrics.jsonl").read_text().splitlines()[0])
        assert first["timing"][f"{counted}_per_second"] > 0


def test_long_lines_are_not_broken_where_there_is_no_terminal() -> None:
    shown = StringIO()
    Display(Console(file=shown, width=40)).say("word " * 30)
    assert shown.getvalue().count("\n") == 1


def test_a_rate_of_infinity_or_nan_is_null_in_the_file(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path / "metrics.jsonl")
    log.write("validation", 1, 1, {"a": math.inf, "b": math.nan, "c": 1}, {})
    log.close()
    assert '"a": null, "b": null, "c": 1.0' in (tmp_path / "metrics.jsonl").read_text()
