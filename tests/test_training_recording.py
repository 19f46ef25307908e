"""Optimiser steps that are recorded: on a tape in place of a GPU they are the ordinary ones, and none waits for it."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from regard.config import from_preset
from regard.config import load as read_config
from regard.errors import RegardError, UnsupportedError
from regard.layers.cells import padded
from regard.layers.cells.layer import GRU, LSTM, run_in_torch
from regard.layers.items import ItemDraws, drawing, sites
from regard.layers.packing import RightPadding
from regard.ops.recording import MOST, Recordings
from regard.runs.contract import task_of
from regard.shapes import trusted
from regard.tasks import explain
from regard.training.accumulation import LocalBatch
from regard.training.grid import on_grid
from regard.training.step import Stepper
from regard.training.trainee import DivisibleTrainee, RecordableTrainee
from support import tape
from task_cases import LOOP, TASK_CASES

HARD = {"recipe": "show_attend_tell", "hard": True, "size": 8, "gate": None}
RECORDED = (
    "documents",
    "forecasting",
    "image_to_text",
    "labelling",
    "language_modelling",
    "text_to_speech",
    "text_to_text",
)
FED_BACK: dict[str, tuple[str, dict[str, Any]]] = {
    "tokens": ("text_to_text", {"scheduled_sampling": 0.5, "sequence_teacher_forcing": 0.7}),
    "tokens, ever more": (
        "text_to_text",
        {"scheduled_sampling": 0.9, "scheduled_sampling_start": 1, "scheduled_sampling_warmup": 9},
    ),
    "words of pictures": ("image_to_text", {"scheduled_sampling": 0.5}),
    "frames, ever more": (
        "text_to_speech",
        {"scheduled_sampling": 0.9, "scheduled_sampling_warmup": 20, "scheduled_sampling_schedule": "cosine"},
    ),
}
TABLE = Path(__file__).parent / "operators.json"
"""The operators of the passes of a step, by preset and settings, over the data of `task_cases`, dropout as one each."""
ROWS = tuple(json.loads(TABLE.read_text(encoding="utf-8"))) if TABLE.exists() else ()


def trainee_of(config: Any) -> Any:
    """An untrained model's trainee."""
    task: Any = task_of(config)
    torch.manual_seed(1)
    material = task.read(config)
    check = task.checked if hasattr(task, "checked") else task.check
    resolved = task.resolve(config, material, check(config, material)).config
    return task.trainee(task.build(resolved, material, name=config.task), material)


def case(task: str, folder: Path, *, model: Any = None, data: Any = None, **training: Any) -> Any:
    """The trainee of a task's case, with other settings of its model and data, left out where None, and training."""
    import yaml

    one = TASK_CASES[task]
    if not (folder / one.held_out).exists():
        one.write(folder)
    path = folder / "run.yaml"
    sections: Any = {"task": task, **one.sections, "training": {**LOOP, **one.training, **training}}
    for name, changes in (("model", model), ("data", data)):
        merged = {**sections[name], **(changes or {})}
        sections[name] = {key: value for key, value in merged.items() if value is not None}
    path.write_text(yaml.safe_dump(sections), encoding="utf-8")
    return trainee_of(read_config(path).config)


def on_a_tape(trainee: Any) -> Stepper:
    """A stepper that records as on a GPU."""
    stepper = Stepper(trainee, trainee.config.training, torch.device("cpu"), seed=3)
    stepper._recordings = Recordings(tape.capture)
    return stepper


def made(stepper: Stepper, trainee: Any, numbers: range) -> list[Any]:
    """Steps by growing rates on two of the batches in turn."""
    descriptions, generator, known = trainee.descriptions(0), torch.Generator().manual_seed(1), []
    trainee.module.train()
    for number in numbers:
        description = descriptions[(number % 2) * (len(descriptions) - 1)]
        pair = LocalBatch(description), trainee.batch(description)
        known += stepper([pair], step=number, learning_rate=1e-3 * (number + 1), generator=generator)
    return known + stepper.read()


def descent(weights: Any, *, lr: float, **options: Any) -> torch.optim.Optimizer:
    """Plain gradient descent in place of Adam."""
    return torch.optim.SGD(weights, lr=lr, fused=True)


@pytest.fixture
def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Recurrent layers read no lengths, and are not oneDNN's, whose workspace holds what a tape cannot write again."""
    reason = "no gate holds"
    monkeypatch.setattr(padded, "unsupported_reason", lambda cell, *_: None if cell in padded.GATES else reason)
    with torch.backends.mkldnn.flags(enabled=False):
        yield


@pytest.fixture
def by_descent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Adam makes rounding of small gradients as large as its steps."""
    for name in ("Adam", "AdamW"):
        monkeypatch.setattr(f"regard.training.optimizers.{name}", descent)


@pytest.mark.parametrize("task", RECORDED)
def test_recorded_steps_are_ordinary_ones(task: str, tmp_path: Path, as_on_a_gpu: None, by_descent: None) -> None:
    compare_recorded_with_ordinary(*(case(task, tmp_path) for _ in range(2)))


@pytest.mark.parametrize("name", FED_BACK)
def test_recorded_steps_feed_back_what_ordinary_ones_do(
    name: str, tmp_path: Path, as_on_a_gpu: None, by_descent: None
) -> None:
    task, settings = FED_BACK[name]
    compare_recorded_with_ordinary(*(case(task, tmp_path, **settings) for _ in range(2)), steps=10)


def test_recorded_steps_are_of_flat_networks(tmp_path: Path, as_on_a_gpu: None, by_descent: None) -> None:
    model = {"architecture": "flat", "sentences": None}
    compare_recorded_with_ordinary(*(case("documents", tmp_path, model=model) for _ in range(2)))


def test_recorded_steps_have_losses_on_alignments(tmp_path: Path, as_on_a_gpu: None, by_descent: None) -> None:
    (tmp_path / "links.txt").write_text("0-0\n" * 40, encoding="utf-8")
    names = ("guided_attention", "coverage", "doubly_stochastic", "entropy", "forward_sum", "supervision")
    settings: dict[str, Any] = {"alignment_losses": dict.fromkeys(names, 0.5), "data": {"alignments": "links.txt"}}
    compare_recorded_with_ordinary(*(case("text_to_text", tmp_path, **settings) for _ in range(2)))


def test_recorded_steps_draw_positions_anew(tmp_path: Path, as_on_a_gpu: None, by_descent: None) -> None:
    settings: dict[str, Any] = {"model": {"attention": HARD}, "reinforce": {}}
    compare_recorded_with_ordinary(*(case("text_to_text", tmp_path, **settings) for _ in range(2)))


def test_recorded_steps_in_float16_scale_the_loss_and_leave_out_what_overflows(
    tmp_path: Path, as_on_a_gpu: None, by_descent: None
) -> None:
    ordinary, recorded = (case("text_to_text", tmp_path, precision="float16") for _ in range(2))
    plain, stepper = Stepper(ordinary, ordinary.config.training, torch.device("cpu"), seed=3), on_a_tape(recorded)
    for each in (plain, stepper):  # overflows at once, falls four times, and grows after two steps that do not overflow
        each.precision.restore({**each.precision.state(), "scale": 2.0**24, "growth_interval": 2})
    expected, found = made(plain, ordinary, range(12)), made(stepper, recorded, range(12))
    assert stepper._recordings is not None
    assert stepper._recordings._kept
    assert [one.skipped for one in found] == [one.skipped for one in expected]
    assert {one.skipped for one in found} == {True, False}
    assert stepper.precision.state() == plain.precision.state()
    for name, weight in ordinary.module.state_dict().items():
        torch.testing.assert_close(recorded.module.state_dict()[name], weight, rtol=2e-3, atol=1e-4)
    # a run that goes on has the scale and the steps since it grew
    again = on_a_tape(recorded)
    again.precision.restore(stepper.precision.state())
    assert again.precision.state() == stepper.precision.state()


def compare_recorded_with_ordinary(ordinary: Any, recorded: Any, *, steps: int = 6) -> None:
    """Makes some steps of both."""
    plain = Stepper(ordinary, ordinary.config.training, torch.device("cpu"), seed=3)
    stepper = on_a_tape(recorded)
    expected, found = made(plain, ordinary, range(steps)), made(stepper, recorded, range(steps))
    assert stepper.unrecorded == "steps are recorded on a GPU"  # no program was refused
    assert stepper._recordings is not None
    assert stepper._recordings.failures == {}
    assert stepper._recordings._kept
    owned = [*recorded.module.state_dict().values(), *recorded.module.buffers(), stepper._broken]
    owned += [x for state in stepper.optimizer.state.values() for x in state.values() if isinstance(x, torch.Tensor)]
    assert [stranger for each in stepper._recordings._kept.values() for stranger in tape.strangers(each, owned)] == []
    assert len(found) == steps
    for one, other in zip(expected, found, strict=True):
        assert (other.loss, other.gradient_norm) == pytest.approx((one.loss, one.gradient_norm), rel=1e-4)
        assert other.count == one.count
        assert other.metrics == pytest.approx(one.metrics, rel=1e-4, abs=1e-5)
    for name, weight in ordinary.module.state_dict().items():
        torch.testing.assert_close(recorded.module.state_dict()[name], weight, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("task", "settings"), [("documents", {}), FED_BACK["tokens, ever more"]])
def test_a_run_that_goes_on_makes_the_steps_of_one_that_did_not_stop(
    task: str, settings: dict[str, Any], tmp_path: Path, as_on_a_gpu: None, by_descent: None
) -> None:
    whole, begun, resumed = (case(task, tmp_path, **settings) for _ in range(3))
    made(on_a_tape(whole), whole, range(10))
    stepper, again = on_a_tape(begun), on_a_tape(resumed)
    made(stepper, begun, range(4))
    resumed.module.load_state_dict(begun.module.state_dict())
    again.restore(stepper.state())
    made(again, resumed, range(4, 10))
    for name, weight in whole.module.state_dict().items():
        # the first step of a form is not on the tape, where operations are their formulas
        torch.testing.assert_close(resumed.module.state_dict()[name], weight, rtol=1e-4, atol=1e-6)


def test_after_a_step_that_is_not_finite_no_weight_changes_and_the_step_is_named(
    tmp_path: Path, as_on_a_gpu: None
) -> None:
    trainee = case("text_to_text", tmp_path)
    stepper = on_a_tape(trainee)
    made(stepper, trainee, range(4))
    weight = next(p for p in trainee.module.parameters() if p.dim() == 2)
    kept = {name: p.clone() for name, p in trainee.module.named_parameters()}
    with torch.no_grad():
        weight[:] = float("nan")
    with pytest.raises(RegardError, match=r"at step 5; the weights are those before it") as error:
        made(stepper, trainee, range(4, 8))
    assert "train.tsv:" in str(error.value)
    for name, p in trainee.module.named_parameters():
        assert p is weight or torch.equal(p, kept[name]), name


def test_what_cannot_be_recorded_is_called_as_it_is_and_tells_why() -> None:
    def capture(function: Any) -> Any:
        raise RuntimeError("operation not permitted when stream is capturing")

    recordings = Recordings(capture)
    for number in range(3):
        assert recordings.call("form", torch.tensor(number), lambda x: x + 1) == number + 1
    assert list(recordings.failures.values()) == ["RuntimeError: operation not permitted when stream is capturing"]


def test_a_stepper_tells_why_a_step_was_not_recorded_and_makes_it(tmp_path: Path) -> None:
    def capture(function: Any) -> Any:
        raise RuntimeError("no room")

    trainee = case("text_to_text", tmp_path)
    stepper = on_a_tape(trainee)
    stepper._recordings = Recordings(capture)
    assert len(made(stepper, trainee, range(6))) == 6
    assert stepper.unrecorded == "RuntimeError: no room"


def test_recordings_are_bounded_and_replay_what_they_are_given() -> None:
    recordings = Recordings(tape.capture)
    for form in range(MOST + 3):
        for number in range(3):
            assert recordings.call(form, torch.tensor(number), lambda x, form=form: x * 2 + form) == 2 * number + form
    assert len(recordings._kept) == MOST


def test_why_steps_are_not_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainee = case("text_to_text", tmp_path)
    assert Stepper(trainee, trainee.config.training, torch.device("cpu")).unrecorded == "steps are recorded on a GPU"
    monkeypatch.setattr(trainee, "program", unsupported)
    stepper = on_a_tape(trainee)
    assert len(made(stepper, trainee, range(3))) == 3
    assert stepper.unrecorded == "sizes follow from what is drawn"


def unsupported(step: int) -> None:
    """A program that cannot be told."""
    raise UnsupportedError("sizes follow from what is drawn")


@pytest.mark.parametrize(
    ("task", "settings", "training", "prediction"),
    [
        ("text_to_text", {}, "replays recorded steps (CUDA graphs)", "replays recorded steps (CUDA graphs)"),
        (
            "text_to_speech",
            {"graphs": "none"},
            "records no steps: training.graphs is none",
            "replays recorded steps (CUDA graphs)",
        ),
        ("documents", {}, "replays recorded steps (CUDA graphs)", None),
        ("labelling", {}, "replays recorded steps (CUDA graphs)", None),
    ],
)
def test_explain_tells_without_a_gpu_what_would_be_recorded_on_one(
    task: str, settings: Any, training: str, prediction: str | None, tmp_path: Path
) -> None:
    lines = explain(case(task, tmp_path, **settings).model).splitlines()
    assert f"  training on a GPU {training}" in lines
    told = [line for line in lines if line.startswith("  prediction on a GPU")]
    assert told == ([] if prediction is None else [f"  prediction on a GPU {prediction}"])


@pytest.mark.parametrize("task", RECORDED)
def test_a_batch_on_the_grid_keeps_its_loss(task: str, tmp_path: Path) -> None:
    trainee = case(task, tmp_path)
    assert isinstance(trainee, RecordableTrainee)
    trainee.module.eval()
    description = trainee.descriptions(0)[0]
    batch, losses = trainee.batch(description), []
    ((whole, items),) = on_a_tape(trainee)._inputs(trainee, [(LocalBatch(description), batch)], 0, 0.1)["batches"]
    name = next(iter(whole))
    assert len(whole[name]) == on_grid(len(batch[name]), is_coarse=task == "documents")
    for each, rows in ((batch, trainee.item_ids(description)), (whole, items)):
        with trusted(), drawing(ItemDraws({}, rows, seed=1, step=0)):
            losses.append(trainee.loss(each, step=0, generator=torch.Generator()))
    assert int(losses[0].count) == int(losses[1].count)
    torch.testing.assert_close(losses[1].total, losses[0].total, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("kind", [LSTM, GRU])
def test_padding_that_is_held_is_padding_that_is_left_out(kind: Any, bidirectional: bool) -> None:
    torch.manual_seed(0)
    layer = kind(3, 5, bidirectional=bidirectional).double()
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0], [1, 0, 0, 0]]).bool()
    x = torch.randn(4, 4, 3, dtype=torch.float64).masked_fill(~mask[..., None], 0).requires_grad_()
    torchs = getattr(nn, kind.__name__).forward
    states = [None, (torch.randn(4, 5, dtype=torch.float64),)]
    for first in states if kind is GRU and not bidirectional else states[:1]:
        results = [
            run_in_torch(lambda *inputs: torchs(layer, *inputs), layer.cell, x, first, RightPadding(4, 4, mask)),
            padded.run(layer.cell, layer.directions(), x, first, mask),
        ]
        leaves = [[outputs, *last] for outputs, last in results]
        probes = [torch.randn_like(leaf) for leaf in leaves[0]]
        gradients = [
            torch.autograd.grad(sum((a * b).sum() for a, b in zip(each, probes)), [x, *layer.parameters()])
            for each in leaves
        ]
        for found, expected in ((leaves[1], leaves[0]), (gradients[1], gradients[0])):
            for a, b in zip(found, expected, strict=True):
                torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-14)


class Counted(tape.Watched):
    """Counts operators on the meta device, where nothing is computed; what may not be recorded fails there."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(self, function: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.counts[str(function)] += 1
        return super().__torch_dispatch__(function, kinds, args, kwargs)


def operators(row: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """The operators of a step's passes on the first batch, of a preset and settings."""
    preset, *settings = row.split()
    task = from_preset(preset, ["data.train=x"]).config.task
    one = TASK_CASES[task]
    one.write(folder)
    if preset.startswith("inflection"):  # with tags in a third column
        for path in folder.glob("*.tsv"):
            lines = path.read_text(encoding="utf-8").splitlines()
            path.write_text("".join(f"{line}\tN;PL\n" for line in lines), encoding="utf-8")
    overrides = [
        f"data.{key}={folder / value}" for key, value in one.sections["data"].items() if key in ("train", "dev")
    ]
    trainee = trainee_of(from_preset(preset, [*overrides, *settings, "training.device=cpu"]).config)
    description = trainee.descriptions(0)[0]
    module, batch = trainee.module.train(), trainee.batch(description)
    numbers = sites(module)
    module.to_empty(device="meta")
    mask = lambda items, _, width, *, dtype, **options: items.new_empty(len(items), width, dtype=dtype)  # noqa: E731
    monkeypatch.setitem(sys.modules["regard.ops.dropout"].MASKS, "reference", mask)
    draws = None
    if isinstance(trainee, DivisibleTrainee):
        draws = ItemDraws(
            numbers, trainee.item_ids(description).to("meta"), seed=1, step=torch.tensor(3, device="meta")
        )
    # operations with gradients of their own are counted as a GPU takes them: no kernel computes on the meta device
    monkeypatch.setattr(torch._C, "_len_torch_dispatch_stack", lambda: 0)
    mode = Counted()
    moved = {name: x.to("meta") for name, x in batch.items()}
    with mode, trusted(), drawing(draws):
        trainee.loss(moved, step=3, generator=torch.Generator()).total.backward()
    return mode.counts.total()


@pytest.mark.parametrize("row", ROWS)
def test_a_step_of_a_preset_waits_for_nothing_and_has_no_more_operators(
    row: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = json.loads(TABLE.read_text(encoding="utf-8"))[row]
    found = operators(row, tmp_path, monkeypatch)
    assert found <= most, "more operators are more launches on a GPU; where they are needed, the table says so"
