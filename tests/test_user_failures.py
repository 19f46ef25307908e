"""Failures that users of attention and sequence software report again and again, by the ids of docs/failures.md.

Those that another test already provokes are only named there.
"""

from __future__ import annotations

import inspect
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from hostile import models
from hostile.trial import inside
from regard.data.text import BOS, EOS, open_pairs
from regard.decoding import Search
from regard.layers import RecurrentStack
from regard.losses import cross_entropy
from regard.models import RecurrentDecoder
from regard.tasks import TextToText
from regard.tasks.text_to_text.config import TextToTextConfig
from regard.tasks.text_to_text.trainee import PairTrainee
from support.cases import DECODERS, ENCODERS

named = pytest.mark.parametrize


def trainee(folder: Path) -> PairTrainee:
    """What trains the tiny model on a few words of different length."""
    (folder / "pairs.tsv").write_text("abc\tcba\nf\tf\nab\tbaabba\ndef\tfe\n", encoding="utf-8")
    pairs = open_pairs(folder / "pairs.tsv")
    return PairTrainee(models.model(), pairs, pairs)


@named("case", DECODERS, ids=lambda case: case.name)
def test_M6_an_argument_that_a_verb_does_not_know_is_an_error_and_never_ignored(case: Any) -> None:
    decoder = case.make()
    for verb in ("prepare", "initial_state", "step", "forward"):
        kinds = {parameter.kind for parameter in inspect.signature(getattr(decoder, verb)).parameters.values()}
        assert inspect.Parameter.VAR_KEYWORD not in kinds, f"{type(decoder).__name__}.{verb} swallows arguments"
    with pytest.raises(TypeError, match="unexpected keyword"):
        decoder.forward(torch.zeros(1, 1), None, wav_lens=torch.ones(1))
    with pytest.raises(TypeError, match="unexpected keyword"):
        models.model().module.prepare(torch.zeros(1, 2, dtype=torch.long), lengths=torch.ones(1))
    with pytest.raises(TypeError, match="unexpected keyword"):
        models.model().predict(["abc"], beam_size=3)


@named("case", ENCODERS, ids=lambda case: case.name)
@named("lengths", [(5, 3), (3, 2), (0, 1), (0, 0)])
def test_M7_an_encoder_gives_as_many_positions_as_it_was_given(case: Any, lengths: tuple[int, int]) -> None:
    encoder = case.make()
    ids = torch.randint(1, 7, (2, 5))
    mask = torch.arange(5) < torch.tensor(lengths)[:, None]
    for training in (True, False):
        encoded = encoder.train(training).encode(ids, mask)
        assert encoded.memory.shape[:2] == (2, 5)
        assert encoded.memory.isfinite().all()


def test_P2_the_loss_counts_real_symbols_whatever_the_padding(tmp_path: Path) -> None:
    taught = trainee(tmp_path)
    batch = taught.batch([0, 1, 2])
    generator = torch.Generator().manual_seed(0)
    loss = taught.loss(batch, step=0, generator=generator)
    assert loss.count == (3 + 1) + (1 + 1) + (6 + 1)
    wide = {name: torch.nn.functional.pad(tensor, (0, 4), value=0) for name, tensor in batch.items()}
    wide["inputs"][:, -4:] = 5  # whatever stands there
    again = taught.loss(wide, step=0, generator=generator)
    assert again.count == loss.count
    torch.testing.assert_close(again.total, loss.total)
    torch.testing.assert_close(again.metrics, loss.metrics)


@named("texts", [[""], ["", "  "], []])
def test_P4_a_batch_without_any_symbol_is_answered_with_warnings(texts: list[str]) -> None:
    found = models.model().predict(texts, search=Search(beam=3))
    assert [one.text for one in found] == [""] * len(texts)
    assert all(one.warnings == ("the input is empty",) for one in found)


def test_P4_a_training_pair_without_a_side_is_left_out_and_never_makes_nan(tmp_path: Path) -> None:
    taught = trainee(tmp_path)
    (tmp_path / "pairs.tsv").write_text("abc\tcba\n\tf\nab\t\ndef\tfe\n", encoding="utf-8")
    pairs = open_pairs(tmp_path / "pairs.tsv")
    taught = PairTrainee(taught.model, pairs, pairs)
    assert sorted(index for batch in taught.descriptions(0) for index in batch) == [0, 3]
    empty = taught.batch([1])
    total = taught.loss(empty, step=0, generator=torch.Generator()).total
    total.backward()
    assert total.isfinite()
    for parameter in taught.module.parameters():
        assert parameter.grad is None or parameter.grad.isfinite().all()
    taught.module.zero_grad()


@named("beam", [1, 4])
def test_B1_the_size_of_a_batch_changes_neither_outputs_nor_scores(beam: int) -> None:
    model, search = models.model(), Search(beam=beam, num_best=beam)
    texts = ["abc", "f", "fedcbafedcba", "aab", "cc", "abcdefabc", "e"]
    alone = [model.predict([text], search=search)[0] for text in texts]
    for size in (2, 7, len(texts)):
        batches = [texts[start : start + size] for start in range(0, len(texts), size)]
        together = [found for batch in batches for found in model.predict(batch, search=search)]
        for one, other in zip(alone, together, strict=True):
            assert [each.tokens for each in (one, *one.alternatives)] == [
                each.tokens for each in (other, *other.alternatives)
            ]
            assert one.score == pytest.approx(other.score, abs=1e-5)


def test_E1_the_decoder_is_fed_the_start_and_taught_the_end(tmp_path: Path) -> None:
    taught = trainee(tmp_path)
    batch = taught.batch([0, 1])
    cba, f = (taught.model.target.encode(text).ids.tolist() for text in ("cba", "f"))
    assert batch["inputs"].tolist()[0] == [BOS, *cba]
    assert batch["targets"].tolist()[0] == [*cba, EOS]
    assert batch["inputs"][1, :2].tolist() == [BOS, *f]
    assert batch["targets"][1, :2].tolist() == [*f, EOS]
    assert batch["mask"].tolist() == [[True] * 4, [True, True, False, False]]


def test_T2_a_metric_of_outputs_never_sees_the_reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taught = trainee(tmp_path)
    before = taught.validate().metrics
    (tmp_path / "pairs.tsv").write_text("abc\tf\nf\teeee\nab\tdcb\ndef\taaaaa\n", encoding="utf-8")
    other = open_pairs(tmp_path / "pairs.tsv")
    said: list[list[str]] = []
    predict = TextToText.predict

    def listen(model: TextToText, *given: Any, **options: Any) -> Any:
        predictions = predict(model, *given, **options)
        said.append([prediction.text for prediction in predictions])
        return predictions

    monkeypatch.setattr(TextToText, "predict", listen)
    taught.validate()
    after = PairTrainee(taught.model, other, other).validate().metrics
    half = len(said) // 2
    assert said[:half] == said[half:] != [], "outputs followed the references"
    assert before["teacher_forced_loss"] != after["teacher_forced_loss"]
    assert [name for name in before if "loss" in name] == ["teacher_forced_loss"]


def test_T3_every_validation_shows_teacher_forced_and_free_running_figures() -> None:
    lines = (models.finished() / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    validations = [entry for entry in map(json.loads, lines) if entry["kind"] == "validation"]
    assert len(validations) > 1
    for entry in validations:
        assert {"teacher_forced_loss", "symbol_error_rate", "sequence_error_rate"} <= entry.keys()


def test_T4_teacher_forcing_takes_no_steps_one_by_one(tmp_path: Path) -> None:
    taught = trainee(tmp_path)
    batch = taught.batch([0, 1, 2])
    verbs = (RecurrentDecoder.step, RecurrentStack.step)
    steps = {inspect.unwrap(verb).__code__: 0 for verb in verbs}

    def count(frame: FrameType, event: str, argument: object) -> None:  # a patched method would change the way
        if event == "call" and frame.f_code in steps:
            steps[frame.f_code] += 1

    def counted(act: Callable[[], object]) -> list[int]:
        steps.update(dict.fromkeys(steps, 0))
        sys.setprofile(count)
        try:
            act()
        finally:
            sys.setprofile(None)
        return list(steps.values())

    assert counted(lambda: taught.loss(batch, step=0, generator=torch.Generator())) == [0, 0]
    with regard.plain():
        assert max(counted(lambda: models.model().predict(["abc"], search=Search(beam=1)))) > 0, (
            "steps are counted where they are taken"
        )


def test_S3_a_model_is_its_folder_alone(tmp_path: Path) -> None:
    project = tmp_path / "project"
    models.copied(models.finished(), project)
    expected = regard.load(project / "run").predict(["abc", "fed"])
    shutil.move(project / "run", tmp_path / "elsewhere")
    shutil.rmtree(project)
    with inside(tmp_path / "elsewhere"):
        found = regard.load(".").predict(["abc", "fed"])
    assert [one.tokens for one in found] == [one.tokens for one in expected]
    assert not [name for name in os.listdir(tmp_path) if name != "elsewhere"]


def test_D1_a_model_predicts_without_dropout_the_same_each_time() -> None:
    config = TextToTextConfig(data={"train": "x"}, model={**models.TINY, "encoder": {"size": 4, "dropout": 0.9}})
    field = models.model().source
    model = TextToText.build(config, field, field)
    model.module.train()  # as a notebook leaves it
    loaded = TextToText(config, model.module, source=field, target=field)
    first, second = (loaded.predict(["abcdef"], search=Search(beam=2))[0] for _ in range(2))
    assert not model.module.training
    assert (first.tokens, first.score) == (second.tokens, second.score)
    assert torch.equal(Tensor(first.alignment), Tensor(second.alignment))


def test_L1_smoothing_of_nothing_is_cross_entropy_and_impossible_symbols_never_make_nan() -> None:
    torch.manual_seed(0)
    logits = torch.randn(2, 3, 5, dtype=torch.float64, requires_grad=True)
    targets, mask = torch.randint(5, (2, 3)), torch.tensor([[True, True, True], [True, False, False]])
    total, _ = cross_entropy(logits.log_softmax(-1), targets, mask, smoothing=0.0)
    plain = torch.nn.functional.cross_entropy(logits[mask], targets[mask], reduction="sum")
    torch.testing.assert_close(total, plain)
    impossible = logits.masked_fill(torch.arange(5) == (targets[..., None] + 1) % 5, -torch.inf)
    total, _ = cross_entropy(impossible.log_softmax(-1), targets, mask, smoothing=0.1)
    (gradient,) = torch.autograd.grad(total, logits)
    assert total.isfinite()
    assert gradient.isfinite().all()
    assert not gradient[~mask].any()
