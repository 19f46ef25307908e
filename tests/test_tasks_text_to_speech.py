"""Speech: what is read and refused, what is trained, and what is said, measured and written."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import numpy as np
import pytest
import torch
import yaml
from torch import Tensor

from regard.attention import RECIPES
from regard.audio import (
    FRONT_ENDS,
    MelForm,
    Standardisation,
    Vocoder,
    read_wave,
    save_vocoder,
    synthetic_speech,
    write_wave,
)
from regard.audio.vocoder import Generator, GeneratorOptions
from regard.cli import run
from regard.config import load as read_config
from regard.data.speech.ljspeech import read_ljspeech
from regard.data.text import Field
from regard.errors import ConfigError, DataError, RegardError, UnsupportedError
from regard.layers import items
from regard.metrics.speech import reading_errors
from regard.runs.contract import TASKS
from regard.runs.fingerprints import fingerprints
from regard.runs.folder import check_data
from regard.runs.material import check_all
from regard.tasks import SpeechModel, explain, load, train
from regard.tasks.text_to_speech import reading
from regard.tasks.text_to_speech.advice import GUIDED_STEPS, LOCATION_RELATIVE, advice, milestone
from regard.tasks.text_to_speech.config import FrontEndName, TextToSpeechConfig
from regard.tasks.text_to_speech.evaluation import (
    log_magnitudes,
    read_joined,
    step_times,
    units_to_read,
    validation_scores,
)
from regard.tasks.text_to_speech.trainee import SpeechTrainee
from regard.training import Milestone
from regard.training.diagnosis import Diagnosis
from task_cases import LOOP, TASK_CASES, recordings

TASK = TASKS["text_to_speech"]
CASE = TASK_CASES["text_to_speech"]
QUICK = {"samples": 0, "validation_sentences": 1, "average_checkpoints": 0}
MATERIALS: dict[tuple[Any, ...], Any] = {}
"""Sentences by folder and what they depend on."""
TACOTRON1 = ["model.architecture=tacotron1", "model.encoder.filters=2", "model.postnet.size=4"]


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recordings")
    recordings(folder)
    return folder


def configuration(folder: Path, *settings: str) -> Any:
    """The configuration of the list of tasks, for data that stand in a folder."""
    path = folder / "speech.yaml"
    values = {"task": "text_to_speech", **CASE.sections, "training": {**LOOP, **CASE.training, **QUICK}}
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    return read_config(path, list(settings))


def made(folder: Path, *settings: str) -> SpeechTrainee:
    """An untrained model with its sentences."""
    config = configuration(folder, *settings).config
    key = (
        folder,
        *(name for name in settings if name.startswith("data.") or "architecture" in name or "postnet" in name),
    )
    if key not in MATERIALS:
        MATERIALS[key] = TASK.read(config)
    material = MATERIALS[key]
    config = TASK.resolve(config, material, TASK.check(config, material)).config
    torch.manual_seed(1)
    return TASK.trainee(TASK.build(config, material, name="voice"), material)


@pytest.fixture(scope="session")
def trained(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run_folder = tmp_path_factory.mktemp("voice") / "run"
    train(configuration(data, "training.max_steps=2"), run_folder)
    return run_folder


@pytest.fixture
def copied(data: Path, tmp_path: Path) -> Path:
    """A copy of the data that a test may change."""
    return Path(shutil.copytree(data, tmp_path / "data"))


def loss_of(trainee: SpeechTrainee, description: Any, *, step: int = 0) -> tuple[Tensor, int, dict[str, float]]:
    loss = trainee.loss(trainee.batch(description), step=step, generator=torch.Generator())
    return loss.total, int(loss.count), {name: float(value) for name, value in loss.metrics.items()}


# what is read


def test_front_ends_of_configurations_are_those_of_the_table() -> None:
    assert set(get_args(FrontEndName)) == set(FRONT_ENDS)


def test_sentences_are_standardised_and_labelled(data: Path) -> None:
    trainee = made(data)
    material = trainee.material
    frames = torch.cat([trainee.model.scale(item.mel) for item in material.train])
    assert frames.mean(0).abs().max() < 1e-4
    assert (frames.std(0) - 1).abs().max() < 1e-2
    first = material.train[0]
    assert first.labels is not None
    assert first.labels.units == tuple("a sea")
    assert trainee.model.durations is not None
    assert set(trainee.model.durations.means) == set("".join(item.text for item in material.train))


def wrong_wave(path: Path) -> None:
    path.write_text("this is a text\n")


def stereo(path: Path) -> None:
    import wave

    samples = (np.sin(np.arange(16000) / 5) * 8000).astype("<i2")
    with wave.open(str(path), "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(samples.tobytes())


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lambda folder: (folder / "wavs/train-1.wav").unlink(), r"train.csv:2: id: 'train-1': .*train-1.wav: no such"),
        (lambda folder: wrong_wave(folder / "wavs/train-1.wav"), r"train.csv:2: .*train-1.wav: "),
        (lambda folder: (folder / "wavs/train-1.wav").write_bytes(b""), r"train.csv:2: .*train-1.wav: .*empty"),
        (lambda folder: (folder / "train.csv").write_text("train-0\n"), r"train.csv:1: expected id\|text\|normalised"),
        (
            lambda folder: (folder / "train.csv").write_text("train-0|a|\n"),
            r"train.csv:1: normalised: the text of .+ is empty",
        ),
        (lambda folder: (folder / "train.csv").write_text(""), r"train.csv: there are no sentences to train on"),
        (lambda folder: (folder / "dev.csv").write_text(""), r"dev.csv: there are no held-out sentences"),
        (
            lambda folder: (folder / "letters.tsv").write_text(
                (folder / "letters.tsv").read_text().replace("0.0300", "0.9000", 1)
            ),
            r"letters.tsv:2: end: .* is before the start, 0.9",
        ),
    ],
)
def test_broken_data_are_refused_by_file_and_line(
    break_it: Callable[[Path], object], message: str, copied: Path
) -> None:
    break_it(copied)
    with pytest.raises((DataError, UnsupportedError), match=f"(?is){message}"):
        TASK.read(configuration(copied).config)


def test_stereo_of_8_kHz_is_read_and_said(copied: Path) -> None:
    stereo(copied / "wavs/train-0.wav")
    config = configuration(copied).config
    material = TASK.read(config)
    assert [("2 channels" in text, "8,000 Hz" in text) for text in material.messages] == [(True, False), (False, True)]
    assert len(material.train[0].mel) == 81
    report = str(TASK.check(config, material))
    assert "train-0.wav: 2 channels are averaged" in report
    assert "train-0.wav: resampled from 8,000 Hz" in report


def test_a_silent_recording_is_an_error_and_an_unlike_one_a_warning(copied: Path) -> None:
    write_wave(copied / "wavs/train-0.wav", torch.zeros(8000), 16000)
    write_wave(copied / "wavs/train-1.wav", synthetic_speech("see a bee" * 5).samples, 16000)
    config = configuration(copied).config
    with pytest.raises(DataError, match=r"train.csv:1: .*train-0.wav: the recording is silent"):
        TASK.read(config)
    report = check_all(TASK, config).report
    assert report.has_errors
    assert "train-0.wav: the recording is silent" in str(report)
    assert "three times as long or as short" in str(report)


def test_labels_that_end_after_their_sound_are_a_warning(copied: Path) -> None:
    config = configuration(copied).config
    assert "end after" not in str(TASK.check(config, TASK.read(config)))
    sound, _ = read_wave(copied / "wavs/train-0.wav")
    write_wave(copied / "wavs/train-0.wav", sound[: len(sound) // 2], 16000)
    report = str(TASK.check(config, TASK.read(config)))
    assert "train: 1 sentence has labels that end after the sound; do they belong to another one? (" in report
    assert "train.csv:1)" in report


def test_long_recordings_and_units_that_only_held_out_sentences_have_are_said(copied: Path) -> None:
    (copied / "dev.csv").write_text("dev-0|x!\n")
    config = configuration(copied, "data.max_seconds=0.6", "data.letters=null").config
    (copied / "letters.tsv").unlink()
    material = TASK.read(config)
    assert 0 < len(material.train) < 9
    report = str(TASK.check(config, material))
    assert "longer than data.max_seconds=0.6" in report
    assert "1 held-out sentence has units that no training sentence has" in report
    with pytest.raises(DataError, match=r"no sentence is as short as data.max_seconds=0.1"):
        TASK.read(configuration(copied, "data.max_seconds=0.1").config)


def test_without_held_out_sentences_a_share_of_the_training_is_held_out(data: Path) -> None:
    config = configuration(data, "data.dev=null", "data.dev_fraction=0.4").config
    material = TASK.read(config)
    names = {item.utterance.id for item in material.train} | {item.utterance.id for item in material.dev}
    assert len(material.train) + len(material.dev) == len(names) == 9
    assert len(material.dev) > 1


def test_case_and_labels_agree(data: Path) -> None:
    material = TASK.read(configuration(data, "data.case=upper").config)
    assert material.train[0].labels.units == tuple("A SEA")
    assert "a" not in material.field.vocabulary.symbols


def test_silence_is_trimmed_and_labels_move(data: Path, copied: Path) -> None:
    sound, rate = read_wave(copied / "wavs/train-0.wav")
    write_wave(copied / "wavs/train-0.wav", torch.cat([torch.zeros(16000), sound]), rate)
    moved = "".join(
        line if not line.startswith("train-0\t") else "\t".join(
            [*line.split("\t")[:2], *(f"{float(time) + 1:.4f}" for time in line.split("\t")[2:4]), line.split("\t")[4]]
        )
        for line in (copied / "letters.tsv").read_text().splitlines(keepends=True)
    )  # fmt: skip
    (copied / "letters.tsv").write_text(moved)
    plain = TASK.read(configuration(data, "data.trim_silence=true").config).train[0]
    late = TASK.read(configuration(copied, "data.trim_silence=true").config).train[0]
    assert late.offset > 0.9
    assert abs(len(plain.mel) - len(late.mel)) <= 4  # a step of 256 samples at either end
    assert np.abs(late.labels.ends - plain.labels.ends).max() < 0.05


def test_labels_of_silence_that_is_cut_at_the_end_end_with_the_sound(copied: Path) -> None:
    sound, rate = read_wave(copied / "wavs/train-0.wav")
    write_wave(copied / "wavs/train-0.wav", torch.cat([sound, torch.zeros(16000)]), rate)
    lines = (copied / "letters.tsv").read_text().splitlines()
    index = max(i for i, line in enumerate(lines) if line.startswith("train-0\t"))
    *first, end, letter = lines[index].split("\t")
    lines[index] = "\t".join([*first, f"{float(end) + 1:.4f}", letter])
    (copied / "letters.tsv").write_text("\n".join(lines) + "\n")
    ends = []
    for setting in ("false", "true"):
        item = TASK.read(configuration(copied, f"data.trim_silence={setting}").config).train[0]
        assert item.labels is not None
        ends.append((item.labels.ends[-1], len(item.mel) * 200 / 16000))
    assert ends[0][0] > ends[1][0] + 0.5
    assert ends[1][0] == ends[1][1]


def phones(folder: Path) -> None:
    """A table of phones, which are the letters without blanks."""
    rows = ["id\tstart\tend\tphone"]
    for line in (folder / "letters.tsv").read_text().splitlines()[1:]:
        name, _, start, end, letter = line.split("\t")
        rows.append(f"{name}\t{start}\t{end}\t{'pau' if letter == ' ' else letter.upper()}")
    (folder / "phones.tsv").write_text("\n".join(rows) + "\n")


def test_phones_are_read_in_place_of_characters(copied: Path) -> None:
    with pytest.raises(ConfigError, match=r"phones.tsv: no such file; units: phones needs it"):
        TASK.read(configuration(copied, "data.units=phones").config)
    phones(copied)
    trainee = made(copied, "data.units=phones")
    assert trainee.material.train[0].text == "A pau S E A"
    speech = trainee.model.predict(["S E A"], sound=False)[0]
    assert speech.tokens == ("S", "E", "A", "</s>")
    assert speech.warnings == () or "did not have" not in speech.warnings[0]
    (wrong,) = trainee.model.predict(["sea"], sound=False)
    assert "training did not have (the model reads phones with blanks between them): 'sea'" in wrong.warnings[0]
    joined = read_joined(trainee.model, ["S E A", "A S", "E"], 3)
    assert joined.num_units.tolist() == [6]  # pauses are not counted
    assert read_joined(trainee.model, ["S @", "A S", "{ E"], 3).num_units.tolist() == [6]  # marks are vowels
    names = [file.name for file in TASK.files(trainee.config)]
    assert names == ["train", "wavs", "phones", "dev", "wavs.dev", "phones.dev"]


def test_a_cache_gives_the_same_bits_without_another_analysis(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = [f"data.cache={tmp_path / 'cache'}", "data.trim_silence=true"]
    first = TASK.read(configuration(data, *settings).config)
    files = sorted((tmp_path / "cache").iterdir())
    assert len(files) == 11
    files[0].write_bytes(b"damaged")
    read, calls = reading.read_wave, []
    monkeypatch.setattr(reading, "read_wave", lambda path, *a, **k: calls.append(path) or read(path, *a, **k))
    second = TASK.read(configuration(data, *settings).config)
    assert len(calls) == 1
    for one, other in zip([*first.train, *first.dev], [*second.train, *second.dev], strict=True):
        assert torch.equal(one.mel, other.mel)
        assert one.offset == other.offset
    TASK.read(configuration(data, *settings, "data.front_end=bshall").config)
    assert len(list((tmp_path / "cache").iterdir())) == 22


def test_a_cache_gives_the_offset_of_a_reading_without_one(copied: Path, tmp_path: Path) -> None:
    sound, rate = read_wave(copied / "wavs/train-0.wav")
    write_wave(copied / "wavs/train-0.wav", torch.cat([torch.zeros(9000), sound]), rate)
    offsets = [
        reading.spectrogram(config.data, FRONT_ENDS["regard"], read_ljspeech(config.data.train)[0], [])[1]
        for setting in ("data.cache=null", *[f"data.cache={tmp_path / 'cache'}"] * 2)
        for config in [configuration(copied, "data.trim_silence=true", setting).config]
    ]
    assert offsets[0] > 0.4
    assert offsets == [offsets[0]] * 3


def test_an_empty_file_of_a_cache_is_made_again_and_a_cache_that_cannot_be_written_is_named(
    data: Path, tmp_path: Path
) -> None:
    setting = f"data.cache={tmp_path / 'cache'}"
    first = TASK.read(configuration(data, setting).config)
    for file in (tmp_path / "cache").iterdir():
        file.write_bytes(b"")
    again = TASK.read(configuration(data, setting).config)
    assert all(torch.equal(one.mel, other.mel) for one, other in zip(first.train, again.train, strict=True))
    (tmp_path / "file").write_text("this is no folder")
    with pytest.raises(ConfigError, match=r"file: spectrograms cannot be kept here: ") as error:
        TASK.read(configuration(data, f"data.cache={tmp_path / 'file'}").config)
    assert error.value.path == ("data", "cache")


def test_several_processes_fill_a_cache_at_once(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = configuration(data, f"data.cache={tmp_path / 'cache'}").config.data
    sentence, save, process = read_ljspeech(settings.train)[0], np.save, [1]

    def spectrogram() -> Tensor:
        return reading.spectrogram(settings, FRONT_ENDS["regard"], sentence, [])[0]

    def while_another_does_the_same(*arguments: Any, **options: Any) -> None:
        if process == [1]:
            process[0] = 2
            spectrogram()
            process[0] = 1
        save(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(np, "save", while_another_does_the_same)
        patch.setattr(os, "getpid", lambda: process[0])
        first = spectrogram()
    assert len(list((tmp_path / "cache").iterdir())) == 1
    assert torch.equal(spectrogram(), first)


def test_a_sound_that_changed_ends_a_run_and_another_sound_in_the_folder_does_not(copied: Path, tmp_path: Path) -> None:
    trainee = made(copied)
    trainee.model.fingerprints = fingerprints(TASK.files(trainee.config))
    trainee.save(tmp_path / "run")

    def continued() -> None:
        check_data(tmp_path / "run", fingerprints(TASK.files(trainee.config)))

    write_wave(copied / "wavs/other.wav", torch.zeros(800), 16000)
    continued()
    write_wave(copied / "wavs/train-0.wav", synthetic_speech("a sea", seed=5).samples, 16000)
    with pytest.raises(DataError, match=r"the data changed since the run began: data\.wavs\."):
        continued()


# what is trained


def test_the_last_step_is_filled_with_silence_that_counts(data: Path) -> None:
    trainee = made(data, "model.decoder.num_frames=3")
    trainee.module.eval()
    short = [i for i, count in enumerate(trainee.frames) if count % 3]
    total, count, _ = loss_of(trainee, short)
    assert count == sum(-(-trainee.frames[i] // 3) * 3 for i in short) > trainee.frames[short].sum()
    assert torch.equal(trainee.silence, trainee.model.scale(torch.full((80,), -11.512925)).float())
    trainee.silence = trainee.silence + 1
    assert float((loss_of(trainee, short)[0] - total).abs().detach()) > 1
    trainee.module.reduction.fill_(1)
    trainee.model.config = trainee.config.model_copy(
        update={"model": trainee.config.model.model_copy(
            update={"decoder": trainee.config.model.decoder.model_copy(update={"num_frames": 1})}
        )}
    )  # fmt: skip
    assert loss_of(trainee, short)[1] == trainee.frames[short].sum()


@pytest.mark.parametrize(
    "settings",
    [
        ["model.decoder.coarse_frames=5", "training.alignment_losses.entropy=0.1"],
        [*TACOTRON1, "model.decoder.num_frames=2"],
    ],
    ids=["tacotron2", "tacotron1"],
)
def test_a_divided_batch_has_the_loss_and_the_gradients_of_the_whole(settings: list[str], data: Path) -> None:
    trainee = made(data, *settings)
    trainee.module.eval()  # in training, batch normalisation has the statistics of each part
    whole = list(range(7))

    def computed(description: Any) -> tuple[float, int]:
        total, count, _ = loss_of(trainee, description)
        total.backward()
        return float(total.detach()), count

    total, count = computed(whole)
    gradients = {name: p.grad.clone() for name, p in trainee.module.named_parameters() if p.grad is not None}
    assert set(gradients) == {name for name, _ in trainee.module.named_parameters()}
    trainee.module.zero_grad()
    parts = [computed(part) for part in trainee.divide(whole, 3)]
    assert sum(number for _, number in parts) == count
    assert sum(value for value, _ in parts) == pytest.approx(total, rel=1e-5)
    for name, parameter in trainee.module.named_parameters():
        scale = float(gradients[name].abs().max()) + 1e-9
        assert float((parameter.grad - gradients[name]).abs().max()) / scale < 1e-3, name


CHANGES = [
    "training.squared_error=0.5",
    "training.absolute_error=0.5",
    "training.stop_weight=0.5",
    "training.stop_positive_weight=1.0",
    "training.alignment_losses.guided_attention=3.0",
    "training.alignment_losses.guided_attention_width=0.4",
    "model.decoder.coarse_frames=6",
    "model.decoder.num_frames=2",
    "model.decoder.reductions=[[0, 2]]",
    "model.decoder.num_fed_frames=2",
    "model.decoder.query=top",
    "model.decoder.prenet_sizes=[6, 6]",
    "model.decoder.prenet_drops=training",
    "model.decoder.size=9",
    "model.encoder.convolutions=2",
    "model.encoder.size=10",
    "model.encoder.embedding_size=7",
    "model.postnet.layers=0",
    "model.postnet.size=7",
    "model.attention.recipe=bahdanau",
]


@pytest.mark.parametrize("setting", CHANGES)
def test_every_setting_changes_the_loss(setting: str, data: Path, losses: Callable[..., float]) -> None:
    assert losses(setting) != pytest.approx(losses(), rel=1e-7)


@pytest.fixture(scope="session")
def losses(data: Path) -> Callable[..., float]:
    """The loss of a batch in evaluation mode, by settings; the sentences are read once."""
    plain = made(data)
    kept: dict[tuple[str, ...], float] = {}

    def loss(*settings: str) -> float:
        if settings not in kept:
            config = configuration(data, *settings).config
            torch.manual_seed(1)
            model = TASK.build(config, plain.material, name="voice")
            model.module.eval()
            kept[settings] = float(loss_of(TASK.trainee(model, plain.material), [0, 1])[0].detach())
        return kept[settings]

    return loss


FEEDING = ["training.scheduled_sampling=0.4", "training.sequence_teacher_forcing=0.7"]


def drawn_loss(trainee: SpeechTrainee, description: Any, *, step: int) -> tuple[float, dict[str, Tensor]]:
    """The loss and the gradients of a batch whose draws belong to its sentences, without dropout."""
    draws = items.ItemDraws(items.sites(trainee.module), trainee.item_ids(description), seed=3, step=step)
    trainee.module.eval()
    trainee.module.zero_grad()
    with items.drawing(draws):
        total, _, _ = loss_of(trainee, description, step=step)
    total.backward()
    return float(total.detach()), {
        name: p.grad.clone() for name, p in trainee.module.named_parameters() if p.grad is not None
    }


@pytest.mark.parametrize(
    "settings",
    [
        ["model.decoder.num_frames=3", "model.decoder.coarse_frames=5", "model.decoder.num_fed_frames=4"],
        [*TACOTRON1, "model.decoder.num_frames=4", "model.decoder.reductions=[[0, 4], [5, 2]]"],
    ],
    ids=["tacotron2", "tacotron1"],
)
def test_which_frames_are_its_own_is_drawn_for_each_sentence(settings: list[str], data: Path) -> None:
    trainee, whole = made(data, *settings, *FEEDING), [0, 1, 5]
    total, gradients = drawn_loss(trainee, whole, step=6)
    alone = [drawn_loss(trainee, [i], step=6) for i in whole]
    assert sum(value for value, _ in alone) == pytest.approx(total, rel=1e-5)
    for name, gradient in gradients.items():
        difference = sum(own[name] for _, own in alone) - gradient
        assert float(difference.abs().max()) < 1e-3 * float(gradient.abs().max() + 1e-6), name
    assert drawn_loss(trainee, whole, step=6)[0] == total
    assert drawn_loss(trainee, whole, step=7)[0] != pytest.approx(total, rel=1e-5)
    forced = drawn_loss(made(data, *settings), whole, step=6)[0]
    assert forced != pytest.approx(total, rel=1e-5)
    # rayhane's: teacher-forced until its start
    late = made(data, *settings, *FEEDING[:1], "training.scheduled_sampling_start=7")
    assert drawn_loss(late, whole, step=6)[0] == pytest.approx(forced, rel=1e-6)
    later = drawn_loss(made(data, *settings), whole, step=7)[0]
    assert drawn_loss(late, whole, step=7)[0] != pytest.approx(later, rel=1e-5)


def test_validations_are_teacher_forced_and_training_takes_its_steps_one_by_one(data: Path) -> None:
    fed, plain = (made(data, *settings, "training.validation_sentences=1") for settings in (FEEDING, []))
    assert fed.validate().metrics == plain.validate().metrics
    assert "one by one: the last context is an input of the cells" in explain(fed.model)


class Killed(BaseException):
    """As if the process had been killed."""


def test_a_killed_run_that_feeds_its_own_frames_equals_an_uninterrupted_one(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = configuration(
        data, *FEEDING, "training.scheduled_sampling_start=1", "training.scheduled_sampling_warmup=6",
        "training.scheduled_sampling_schedule=cosine", "training.max_steps=5", "training.validate_every=3",
        "training.save_every_minutes=0.00000001", "model.decoder.coarse_frames=6", "select=loss",
        "model.decoder.reductions=[[0, 3], [3, 2]]",
    )  # fmt: skip
    train(settings, tmp_path / "whole")
    loss = SpeechTrainee.loss

    def killed(trainee: SpeechTrainee, batch: Any, *, step: int, **rest: Any) -> Any:
        if step == 4:
            raise Killed
        return loss(trainee, batch, step=step, **rest)

    monkeypatch.setattr(SpeechTrainee, "loss", killed)
    with pytest.raises(Killed):
        train(settings, tmp_path / "parts")
    monkeypatch.setattr(SpeechTrainee, "loss", loss)
    train(settings, tmp_path / "parts")
    first, second = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "parts"))
    assert first == second


def test_dropout_zoneout_and_consistency_are_those_of_the_configuration(data: Path, losses: Any) -> None:
    network = made(data, "model.decoder.dropout=0.3", "model.encoder.dropout=0.4").module.tacotron
    assert network.decoder.query_cells.dropout.p == 0.3
    assert {block.dropout.p for block in network.encoder.convolutions} == {0.4}
    assert made(data, "model.decoder.zoneout=0.2").module.tacotron.decoder.query_cells.zoneout.dropout.p == 0.2
    coarse = "model.decoder.coarse_frames=6"
    assert losses(coarse, "training.consistency_weight=0.0") < losses(coarse)
    drafts = [TASK.draft(configuration(data, *TACOTRON1, f"model.encoder.filters={k}").config) for k in (2, 3)]
    assert len({sum(weight.numel() for weight in draft.parameters()) for draft in drafts}) == 2


def test_linear_targets_are_those_of_the_sound(data: Path) -> None:
    trainee = made(data, *TACOTRON1)
    batch, scale = trainee.batch([0, 1]), trainee.model.linear_scale
    assert scale is not None
    for row in range(2):
        sound, _ = read_wave(trainee.material.train[row].utterance.sound)
        linear = scale(FRONT_ENDS["regard"].linear(sound)).float()
        assert torch.equal(batch["linear"][row, : len(linear)], linear)
        rest = batch["linear"][row, len(linear) :]
        assert torch.equal(rest, scale(torch.full((513,), -11.512925)).float().expand_as(rest))
    batch["linear"] += 1
    assert not torch.equal(trainee.loss(batch, step=0, generator=torch.Generator()).total, loss_of(trainee, [0, 1])[0])


def test_the_sound_of_tacotron_1_is_that_of_its_linear_spectrogram(data: Path) -> None:
    model = made(data, *TACOTRON1).model
    speech = model.predict(["a sea"])[0]
    assert speech.linear is not None
    assert speech.linear.shape == (len(speech.mel), 513)
    model.module.tacotron.postnets["linear"].projection.bias.data += 0.5
    louder = model.predict(["a sea"])[0]
    assert torch.equal(louder.mel, speech.mel)
    assert float(louder.samples.std()) > 1.1 * float(speech.samples.std())
    without = made(data, *TACOTRON1, "model.postnet.layers=0").model.predict(["a sea"])[0]
    assert without.linear is None


def test_r_falls_by_steps_and_is_saved_with_the_weights(data: Path, tmp_path: Path) -> None:
    settings = ["model.decoder.num_frames=4", "model.decoder.reductions=[[0, 4], [1, 2], [3, 1]]"]
    outcome = train(configuration(data, *settings, "select=loss", "training.validate_every=4"), tmp_path / "run")
    assert outcome.steps == 4
    model = load(tmp_path / "run", device="cpu")
    assert model.information()["frames in a step"] == 1
    speech = model.predict(["a sea"], sound=False)[0]
    assert speech.stop.shape == (len(speech.mel), 1)
    with pytest.raises(ConfigError, match=r"\[3, 5\]: steps are 0 or more, and r is from 1 to num_frames=4"):
        configuration(data, *settings[:1], "model.decoder.reductions=[[3, 5]]")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["model.encoder.size=7"], "size 7 is divided between two directions"),
        ([*TACOTRON1, "model.postnet.size=5"], "size 5 is divided between two directions"),
        (["model.decoder.prenet_sizes=[]"], "a prenet has at least one layer"),
        (["model.decoder.coarse_frames=3"], "the second decoder makes more frames"),
        (["model.decoder.dropout=0.1", "model.decoder.zoneout=0.1"], "zoneout and dropout"),
        (["model.attention.recipe=bahdano"], "there is no recipe 'bahdano'"),
    ],
)
def test_sizes_that_do_not_fit_are_refused_by_key(settings: list[str], message: str, data: Path) -> None:
    given = configuration(data, *settings)
    with pytest.raises(ConfigError) as error:
        TASK.draft(given.config)
    assert str(given.located(error.value)).startswith(f"{settings[-1]}: {message}")


@pytest.mark.parametrize("settings", [[], TACOTRON1])
def test_without_logits_a_step_of_silence_is_trained_and_ends_a_sentence(settings: list[str], data: Path) -> None:
    trainee = made(data, *settings, "model.decoder.stops=false", "training.alignment_losses.guided_attention=0")
    trainee.module.eval()
    steps = -(-int(trainee.frames[0]) // 3)
    with torch.no_grad():
        total, count, figures = loss_of(trainee, [0])
    assert count == 3 * (steps + 1)
    assert "stop_loss" not in figures
    model = trainee.model
    head, silence = trainee.module.tacotron.decoder.head, trainee.silence
    # the silence behind the end counts
    trainee.silence = silence + 1
    with torch.no_grad():
        assert float((loss_of(trainee, [0])[0] - total).abs()) > 1
        trainee.silence = silence
        parts = [loss_of(trainee, part) for part in ([0, 1, 2], [0], [1], [2])]
    assert parts[0][1] == sum(part[1] for part in parts[1:])
    assert float(parts[0][0]) == pytest.approx(sum(float(part[0]) for part in parts[1:]), rel=1e-5)
    # frames that lie above it in one channel go on, and all below it end
    head.projection.weight.data.zero_()
    for above, reason in ((0.4, "stop"), (0.6, "length")):
        frames = silence.repeat(3).clone()
        frames[100] += above
        head.projection.bias.data.copy_(frames)
        (speech,) = model.predict(["a sea"], sound=False)
        assert speech.stop is None
        assert speech.stop_reason == reason
        assert len(speech.mel) == (3 if reason == "stop" else 36)


NOT_ASKED = {"key_value_predict", "self_attention", "self_pooling"}


@pytest.mark.parametrize("recipe", sorted(set(RECIPES) - NOT_ASKED))
def test_every_recipe_that_a_decoder_can_ask_speaks(recipe: str, data: Path) -> None:
    config = configuration(data, f"model.attention={{recipe: {recipe}}}").config
    model = SpeechModel.build(config, made(data).model.field, made(data).model.scale)
    speech = model.predict(["a sea"], sound=False)[0]
    assert bool(speech.mel.isfinite().all())
    assert speech.alignment is not None
    assert speech.alignment.shape == (len(speech.stop), 6)


@pytest.mark.parametrize("recipe", sorted(NOT_ASKED))
def test_a_recipe_that_takes_no_query_is_refused(recipe: str, data: Path) -> None:
    with pytest.raises(ConfigError, match=f"{recipe} takes no query, so a decoder cannot use it"):
        TASK.draft(configuration(data, f"model.attention={{recipe: {recipe}}}").config)


def test_a_training_starts_from_another_voice(
    trained: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = ["training.max_steps=1", f"training.start_from={trained}", "training.learning_rate=1e-9", "select=loss"]
    settings.append("training.min_learning_rate=1e-9")
    train(configuration(data, *settings), tmp_path / "run")
    first, second = (load(folder, device="cpu").module.tacotron for folder in (trained, tmp_path / "run"))
    weights = [network.decoder.head.projection.weight for network in (first, second)]
    assert torch.allclose(*weights, atol=1e-6)
    voice, other = load(trained, device="cpu"), made(data, "data.front_end=nvidia").model
    assert other.unlike(voice) == ["data.front_end is nvidia here and regard there"]
    assert voice.unlike(voice) == []


def test_the_last_step_counts_more_and_a_model_that_never_stops_is_a_concern(data: Path) -> None:
    trainee = made(data, "training.stop_positive_weight=5.0", "model.decoder.num_frames=1")
    logits = torch.zeros(1, 4, 1, requires_grad=True)
    trainee._stop_loss(logits, torch.tensor([[True, True, True, False]]), 1).backward()
    assert logits.grad.flatten().tolist() == [0.5, 0.5, -2.5, 0.0]
    trainee.module.tacotron.decoder.head.stop.projection.bias.data -= 20
    assert trainee.validate().concern == "No held-out sentence was read to an end: the model never stops."
    trainee.module.tacotron.decoder.head.stop.projection.bias.data += 40
    assert trainee.validate().concern is None


def test_losses_on_alignments_end(data: Path) -> None:
    trainee = made(data, "training.alignment_losses_until=2")
    assert "alignment_guided_attention" in loss_of(trainee, [0], step=1)[2]
    assert "alignment_guided_attention" not in loss_of(trainee, [0], step=2)[2]


def test_attention_that_would_keep_a_constant_speed_is_guided_at_the_beginning(data: Path) -> None:
    guided = "training.alignment_losses.guided_attention=3.0"

    def until(*overrides: str) -> int | None:
        return made(data, *overrides).config.training.alignment_losses_until

    for recipe, steps in GUIDED_STEPS.items():
        chosen = f"model.attention.recipe={recipe}"
        assert until(chosen, guided) == steps
        assert until(chosen, guided, "training.alignment_losses_until=7") == 7
        assert until(chosen, "training.alignment_losses.guided_attention=0") is None
        config = made(data, chosen, guided).config
        assert "alignment_losses_until" not in advice(config)
        short = made(data, chosen, guided, "training.alignment_losses_until=7").config
        assert "the guided loss for longer" in advice(short)
        throughout = config.training.model_copy(update={"alignment_losses_until": None})
        assert f"alignment_losses_until: {steps}" in advice(config.model_copy(update={"training": throughout}))
    assert until("model.attention.recipe=location_sensitive", guided) is None


def test_location_relative_attention_needs_fine_steps(data: Path) -> None:
    for recipe in LOCATION_RELATIVE:
        chosen = f"model.attention.recipe={recipe}"
        fine, coarse = (made(data, chosen, f"model.decoder.num_frames={r}").config for r in (2, 4))
        assert "num_frames" not in advice(fine)
        assert "num_frames: 2" in advice(coarse)


def test_steps_by_which_an_alignment_forms_grow_as_r_falls(data: Path) -> None:
    by = {r: made(data, f"model.decoder.num_frames={r}").config.training.align_by for r in (1, 3, 4)}
    assert by[1] == 3 * by[3] == 3 * by[4]
    assert made(data, "training.align_by=7").config.training.align_by == 7


def test_a_validation_says_whether_an_alignment_has_formed(data: Path) -> None:
    trainee = made(data, "training.align_by=3", "training.validation_sentences=2", "training.samples=1")
    validation = trainee.validate()
    assert validation.alignment is not None
    assert validation.alignment.step == 3
    assert "ms from the labels" in validation.alignment.state
    assert "mean durations" in validation.alignment.state
    assert len(validation.samples) == len(validation.pictures) == 1
    remedies = validation.alignment.advice
    assert "num_frames: 4" in remedies
    assert "data.trim_silence" in remedies
    assert "guided" not in remedies
    assert "phones" in remedies


def test_without_labels_errors_of_reading_and_focus_decide(data: Path) -> None:
    trainee = made(data)
    scores, _ = validation_scores(trainee.model, [replace(item, labels=None) for item in trainee.material.dev])
    state = milestone(trainee.config, scores, 5)
    assert re.search(r"reading errors per 100 units, and the focus rate is 0\.\d\d", state.state)
    assert not state.is_reached
    perfect, read = SimpleNamespace(focus_rate=0.9), reading_errors(np.eye(5))
    for focus, is_reached in ((0.9, True), (0.4, False)):
        perfect.focus_rate = focus
        scores = SimpleNamespace(timing=None, reading=read, alignment=perfect, baselines={})
        assert milestone(trainee.config, scores, 5).is_reached == is_reached


def test_training_says_once_that_no_alignment_formed_and_what_to_try() -> None:
    missing, there = (Milestone(100, reached, "it is flat", "Try phones.") for reached in (False, True))

    def told(*observed: tuple[int, float, Milestone]) -> list[str]:
        diagnosis = Diagnosis()
        return [
            text
            for step, loss, alignment in observed
            for text in diagnosis.observe({"teacher_forced_loss": loss}, step=step, alignment=alignment)
        ]

    warnings = told((50, 2.0, missing), (99, 1.0, missing), (120, 1.0, missing), (150, 0.9, missing))
    assert warnings == [
        "warning: the loss falls, from 2 to 1, but no alignment has formed by step 120; it should have by step 100: "
        "it is flat. Try phones."
    ]
    assert told((50, 2.0, missing), (120, 1.9, missing)) == []  # the loss does not fall
    assert told((50, 2.0, missing), (90, 1.0, there), (120, 1.0, missing)) == []


# what is said


def test_a_sentence_alone_has_the_spectrogram_and_the_sound_of_a_batch(trained: Path) -> None:
    model = load(trained, device="cpu")
    texts = ["a sea", "so it is one", "e"]
    together = model.predict(texts)
    for text, speech in zip(texts, together, strict=True):
        alone = model.predict([text])[0]
        assert torch.allclose(alone.mel, speech.mel, atol=1e-4)
        assert torch.allclose(alone.alignment, speech.alignment, atol=1e-5)
        (sound,) = model.synthesis()([speech.mel], [None])
        assert sound.shape == speech.samples.shape
        assert torch.allclose(sound, speech.samples, atol=1e-5)


def told(model: SpeechModel, **decoding: Any) -> SpeechModel:
    """The model with other values of `decoding`."""
    config = model.config.model_copy(update={"decoding": model.config.decoding.model_copy(update=decoding)})
    return replace(model, config=config)


def test_settings_of_reading_aloud(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load(trained, device="cpu")
    text = ["a sea"]
    plain = model.predict(text)[0]
    assert plain.stop_reason == "length"
    assert len(plain.mel) == 36  # 6 units, 6 frames each
    assert plain.warnings == (f"the model did not stop; it was cut after {plain.seconds:.1f} seconds",)
    assert torch.equal(model.predict(text)[0].samples, plain.samples)
    assert not torch.equal(told(model, seed=1).predict(text)[0].mel, plain.mel)
    assert len(told(model, max_frames_per_unit=2.0).predict(text)[0].mel) == 12
    stopped = told(model, stop_threshold=0.01).predict(text)[0]
    assert (stopped.stop_reason, len(stopped.mel), stopped.warnings) == ("stop", 3, ())
    fewer = told(model, iterations=1).predict(text)[0]
    assert torch.equal(fewer.mel, plain.mel)
    assert not torch.equal(fewer.samples, plain.samples)
    sizes, speak = [], SpeechModel.speak
    monkeypatch.setattr(SpeechModel, "speak", lambda self, part, **k: sizes.append(len(part)) or speak(self, part, **k))
    told(model, batch_sentences=2).predict(text * 5, sound=False)
    assert sizes == [2, 2, 1]


def test_attention_at_the_last_unit_ends_a_sentence(trained: Path) -> None:
    model = told(load(trained, device="cpu"), max_frames_per_unit=60.0)
    assert model.predict(["e"], sound=False)[0].stop_reason == "length"
    assert told(model, attention_stop=2).predict(["e"], sound=False)[0].stop_reason == "stop"


def test_texts_that_cannot_be_read_are_said_and_harm_nobody(trained: Path) -> None:
    model = load(trained, device="cpu")
    empty, unknown, whole = model.predict(["  ", "a 9", "a sea"])
    assert empty.warnings == ("there are no units to read aloud: the text is empty",)
    assert (empty.seconds, empty.stop_reason) == (0, "")
    assert empty.samples is None
    assert "units that the training did not have: '9'" in unknown.warnings[0]
    assert torch.allclose(whole.mel, model.predict(["a sea"])[0].mel, atol=1e-4)
    most = model.field.longest
    assert most is not None
    as_long, longer = model.predict(["a" * most, "a" * (most + 1)], sound=False)
    said = f"{most + 1} units, but training had at most {most}"
    assert (said in as_long.warnings, said in longer.warnings) == (False, True)
    for text in ("", "a 9"):
        with pytest.raises(DataError, match=f"input 1 \\('{text}'"):
            model.predict([text], strict=True)
    with pytest.raises(TypeError, match="predict takes a list of texts"):
        model.predict("a sea")


@pytest.mark.parametrize("name", sorted(FRONT_ENDS))
def test_every_front_end_makes_sound(name: str) -> None:
    config = TextToSpeechConfig(
        data={"train": "none.csv", "front_end": name},
        model=CASE.sections["model"],
        decoding={"max_frames_per_unit": 4.0, "iterations": 2},
    )
    field = Field(*reading.empty_field(config.data).__dict__.values())
    field = Field(field.normalisation, field.units, type(field.vocabulary).build([list("aes ")]))
    front_end = FRONT_ENDS[name]
    sound = synthetic_speech("a sea", front_end.sample_rate)
    mel = front_end.mel(sound.samples)
    model = SpeechModel.build(config, field, Standardisation.fit([mel]))
    speech = model.predict(["a sea"])[0]
    assert speech.sample_rate == front_end.sample_rate
    assert bool(speech.samples.isfinite().all())
    assert float(speech.samples.abs().max()) > 0
    magnitudes = front_end.magnitudes(sound.samples)
    exact = (magnitudes.double() ** front_end.power @ front_end.filters.T).log() / front_end.power
    loud = (exact > -3) & (exact < 1)  # compression cuts what is softer or, of some, louder
    assert loud.float().mean() > 0.1
    assert torch.allclose(
        log_magnitudes(front_end, front_end.magnitudes_to_mel(magnitudes))[loud], exact[loud], atol=1e-4
    )
    middles = step_times(front_end, 3).middles(2)
    assert np.allclose(middles, [front_end.frame_time(1), front_end.frame_time(4)])


# what is measured


@pytest.mark.parametrize(
    ("front_end", "expected"),
    [
        ("regard", "cannot read spectrograms of data.front_end=regard. For them train with data.front_end=regard-22k"),
        ("keithito", "cannot read spectrograms of data.front_end=keithito"),
        ("regard-22k", "or by HiFi-GAN's published vocoders"),
    ],
)
def test_a_plan_says_which_vocoders_can_make_sound(data: Path, front_end: str, expected: str) -> None:
    config = configuration(data, f"data.front_end={front_end}").config
    plan = check_all(TASK, config).plan(TASK, config)
    assert expected in str(plan)


def test_an_evaluation_has_figures_beside_baselines_and_a_table(trained: Path, data: Path, tmp_path: Path) -> None:
    model = load(trained, device="cpu")
    evaluation = model.evaluate(data / "test.csv", joined=3, table=tmp_path / "table.tsv")
    metrics = evaluation.metrics
    for name in (
        "contrast",
        "centre_ms",
        "boundary_ms",
        "diagonal_centre_ms",
        "diagonal_boundary_ms",
        "mean_durations_boundary_ms",
        "mcd_db",
        "resynthesis_mcd_db",
    ):
        assert metrics[name] > 0
    assert metrics["mcd_db"] > metrics["resynthesis_mcd_db"]
    assert {"pitch_cents", "voicing_error", "duration_ratio", "reading_errors", "joined_reading_errors"} <= set(metrics)
    assert metrics["sentences"] == 3
    rows = (tmp_path / "table.tsv").read_text().splitlines()
    assert rows[0].startswith("id\tmcd_db\tresynthesis_mcd_db\tcontrast\tpauses_kept")
    assert [row.split("\t")[0] for row in rows[1:]] == ["test-0", "test-1", "test-2"]
    text = str(evaluation)
    assert text.startswith("mel cepstral distortion")
    assert "mean durations: centres" in text
    assert "3 sentences joined: reading errors" in text
    assert evaluation.joined is not None
    assert evaluation.joined.num_units.tolist() == [15]
    worst = evaluation.worst
    assert [item.errors for item in worst] == sorted((item.errors for item in worst), reverse=True)
    assert model.evaluate(data / "test.csv", joined=0, sound=False).joined is None
    with pytest.raises(DataError, match="was trained on this file"):
        model.evaluate(data / "train.csv")


def test_elsewhere_labels_stand_beside_the_table_or_are_left_out(trained: Path, copied: Path) -> None:
    model = load(trained, device="cpu")
    stereo(copied / "wavs/test-0.wav")
    here = model.evaluate(copied / "test.csv", sound=False)
    assert [note.split(": ")[2].split()[0] for note in here.notes[:2]] == ["2", "resampled"]
    assert here.metrics["labelled_units"] > 0
    (copied / "letters.tsv").unlink()
    without = model.evaluate(copied / "test.csv", sound=False)
    assert "labelled_units" not in without.metrics
    assert without.metrics["mcd_db"] == pytest.approx(here.metrics["mcd_db"])


def test_labels_that_the_configuration_names_are_those_of_held_out_sentences_in_another_folder(
    data: Path, copied: Path, tmp_path: Path
) -> None:
    (copied / "letters.tsv").rename(copied / "times.tsv")
    settings = [f"data.dev={copied / 'dev.csv'}", f"data.letters={copied / 'times.tsv'}"]
    model = made(data, *settings).model
    assert model.evaluate(copied / "dev.csv", sound=False, joined=0).metrics["labelled_units"] > 0


def test_the_recordings_of_tacotron_1_are_made_into_sound_as_its_speech_is(data: Path) -> None:
    costs = [
        made(data, *settings).model.evaluate(data / "test.csv", joined=0).metrics["resynthesis_mcd_db"]
        for settings in (TACOTRON1, ())
    ]
    assert costs[0] < costs[1] - 1  # by the magnitudes themselves, not by those that have the mel spectrogram


def test_sentences_too_few_to_be_joined_are_said(trained: Path, data: Path) -> None:
    evaluation = load(trained, device="cpu").evaluate(data / "test.csv", sound=False, joined=4)
    assert evaluation.joined is None
    assert evaluation.details["notes"] == ["No long sentences are measured: each joins 4 (joined), and the file has 3."]


def test_a_metric_of_labels_needs_labels(copied: Path) -> None:
    (copied / "letters.tsv").unlink()
    config = configuration(copied, "select=boundary_ms").config
    with pytest.raises(ConfigError, match="boundary_ms compares with labels, and the held-out sentences have none"):
        TASK.check(config, TASK.read(config))


def test_a_metric_of_labels_needs_them_for_the_sentences_that_validations_read(copied: Path) -> None:
    rows = [row for row in (copied / "letters.tsv").read_text().splitlines(keepends=True) if "dev-0\t" not in row]
    (copied / "letters.tsv").write_text("".join(rows))
    for count in (1, 2):
        config = configuration(copied, "select=boundary_ms", f"training.validation_sentences={count}").config
        if count == 2:
            TASK.check(config, TASK.read(config))
            continue
        with pytest.raises(ConfigError, match=r"for the first training\.validation_sentences=1, or select another"):
            TASK.check(config, TASK.read(config))


def test_marks_blanks_and_pauses_are_not_heard() -> None:
    assert units_to_read(["a", "é", "7", ",", " ", "'", "pau", "</s>"]).tolist() == [True] * 3 + [False] * 5


# what is written


def test_predict_writes_sounds_spectrograms_and_alignments(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "out"
    command = ["predict", "-m", str(trained), "a sea", "", "so, it is"]
    assert run([*command, "--files", str(folder)]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert rows[0] == ["a sea", "0.45", "length", str(folder / "0001_a_sea.wav")]
    assert rows[1] == ["", "0.00", ""]
    assert sorted(path.name for path in folder.iterdir()) == [
        f"{stem}.{suffix}" for stem in ("0001_a_sea", "0003_so__it_is") for suffix in CASE_SUFFIXES
    ]
    samples, rate = read_wave(folder / "0001_a_sea.wav")
    assert rate == 16000
    assert len(samples) == 35 * 200
    assert np.load(folder / "0001_a_sea.mel.npy").shape == (80, 36)
    assert np.load(folder / "0001_a_sea.alignment.npy").shape == (12, 6)
    assert run([*command, "--files", str(folder)]) == 2
    assert "0001_a_sea.wav: the file exists; choose another name or add --overwrite" in capsys.readouterr().err
    assert run([*command, "--files", str(folder), "--overwrite", "--format", "jsonl"]) == 0
    first = json.loads(capsys.readouterr().out.splitlines()[0])
    assert first["files"][0] == str(folder / "0001_a_sea.wav")
    assert "alignment" not in first
    assert run(["predict", "-m", str(trained), "a", "--files", str(trained / "config.yaml")]) == 2
    assert "expected a folder; this is a file" in capsys.readouterr().err


def test_files_that_may_not_be_replaced_are_refused_before_anything_is_written(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "0002_see.wav").write_text("of somebody else")
    assert run(["predict", "-m", str(trained), "a sea", "see", "--files", str(tmp_path)]) == 2
    assert "0002_see.wav: the file exists" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["0002_see.wav"]


def test_scores_of_speech_are_there_without_files(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["predict", "-m", str(trained), "a sea", "--scores"]) == 0
    assert 0 < float(capsys.readouterr().out.rstrip("\n").split("\t")[-1]) <= 1


def test_the_table_of_sentences_is_read_as_training_reads_it(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(SpeechModel, "_griffin_lim", lambda *_: pytest.fail("a sound was made"))
    (tmp_path / "dev.csv").write_text("a1|A sea.|a sea\na2|see\n")
    assert run(["predict", "-m", str(trained), "-i", str(tmp_path / "dev.csv"), "--format", "jsonl"]) == 0
    printed = capsys.readouterr()
    assert [json.loads(line)["text"] for line in printed.out.splitlines()] == ["a sea", "see"]
    assert "dev.csv: a table id|text|normalised" in printed.err
    (tmp_path / "plain.txt").write_text("a sea | see\nsea\n")  # not every line has columns
    assert run(["predict", "-m", str(trained), "-i", str(tmp_path / "plain.txt"), "--format", "jsonl"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[0])["text"] == "a sea | see"
    assert run(["plot", "-m", str(trained), str(tmp_path / "dev.csv"), "-o", str(tmp_path / "p.png")]) == 0


CASE_SUFFIXES = ("alignment.npy", "mel.npy", "wav")


def test_without_files_and_in_pictures_no_sound_is_made(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(SpeechModel, "_griffin_lim", lambda *_: pytest.fail("a sound was made"))
    assert run(["predict", "-m", str(trained), "a sea"]) == 0
    assert capsys.readouterr().out == "a sea\t0.45\tlength\n"
    assert run(["plot", "-m", str(trained), "a sea", "--output", str(tmp_path / "p.png")]) == 0


def test_flags_of_speech_are_refused_elsewhere(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for verb, *flags in (
        ("predict", "--files", str(tmp_path)),
        ("predict", "--vocoder", "x"),
        ("evaluate", "--table", str(tmp_path / "t")),
        ("evaluate", "--joined", "2"),
    ):
        assert run([verb, "-m", "g2p-en", "attention", *flags]) == 2
        assert f"{flags[0]} is not for models of text_to_text" in capsys.readouterr().err


def small_vocoder(folder: Path, **form: Any) -> Path:
    options = GeneratorOptions(
        channels=16, upsample_rates=(16, 16), upsample_kernel_sizes=(32, 32), kernel_sizes=(3,), dilations=((1,),)
    )
    torch.manual_seed(0)
    save_vocoder(Vocoder(Generator(options), MelForm(**form)), folder)
    return folder


def test_a_vocoder_makes_the_sounds_of_models_whose_spectrograms_have_its_form(
    trained: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("transformers", "4.57", reason="needs the extra vocoder")
    folder = small_vocoder(tmp_path / "vocoder")
    model = made(data, "data.front_end=regard-22k").model
    texts = ["a sea", "see"]
    said = model.predict(texts, vocoder=folder)
    plain = model.predict(texts)
    for ours, theirs in zip(said, plain, strict=True):
        assert torch.equal(ours.mel, theirs.mel)
        assert len(ours.samples) == 256 * len(ours.mel)
        assert float((ours.samples[: len(theirs.samples)] - theirs.samples).abs().max()) > 0
    assert torch.allclose(said[1].samples, model.predict(["see"], vocoder=folder)[0].samples, atol=1e-5)
    assert model.evaluate(data / "test.csv", vocoder=folder, joined=0).metrics["resynthesis_mcd_db"] > 0
    assert run(["predict", "-m", str(trained), "a", "--vocoder", str(folder), "--files", str(tmp_path / "out")]) == 2
    error = " ".join(capsys.readouterr().err.split())
    assert "this vocoder is for other spectrograms than the model's (data.front_end: regard)" in error
    assert "sample_rate: 22050 here, 16000 there" in error
    assert run(["predict", "-m", str(trained), "a", "--vocoder", str(folder)]) == 2
    assert "--vocoder is for sound files: add --files FOLDER" in capsys.readouterr().err


def test_pictures_are_numbered_and_a_page_has_all_sentences(trained: Path, tmp_path: Path) -> None:
    model = load(trained, device="cpu")
    spoken = model.predict(["a sea", "see"])
    pictures = model.plot(spoken, tmp_path / "p.png")
    assert [path.name for path in pictures] == ["p-1.png", "p-2.png"]
    assert all(path.read_bytes()[:4] == b"\x89PNG" for path in pictures)
    (page,) = model.plot(spoken, tmp_path / "p.html", title="two")
    text = page.read_text()
    assert len(re.findall(r'"sound": ?"', text)) == 2
    assert "the model did not stop" in text


@pytest.fixture
def saved(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "saved"))


@pytest.mark.parametrize("name", ["scale.json", "durations.json", "source.json"])
def test_damaged_files_of_a_model_are_refused(name: str, saved: Path) -> None:
    config = read_config(saved / "config.yaml").config
    assert SpeechModel.restore(config, saved, name="voice").durations is not None
    (saved / name).write_text("{}")
    with pytest.raises(RegardError, match=name):
        SpeechModel.restore(config, saved, name="voice")
    with pytest.raises(DataError, match=name):
        load(saved)


def test_frames_that_nothing_trains_are_refused(data: Path) -> None:
    with pytest.raises(ConfigError, match="nothing else trains the frames"):
        configuration(data, "training.squared_error=0", "training.absolute_error=0")


def test_compiling_and_reinforcing_are_refused(data: Path) -> None:
    for setting, message in (("training.compile=true", "leave compile out"), ("training.reinforce={}", "REINFORCE")):
        with pytest.raises(ConfigError, match=message):
            TASK.draft(configuration(data, setting).config)
