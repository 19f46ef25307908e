"""Pictures and the page of spoken sentences: what is where on the axis of time, and what is refused."""

from __future__ import annotations

import base64
import io
import json
import re
import shutil
import subprocess
import wave
from dataclasses import replace
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest

from regard.data.speech import Intervals
from regard.errors import RegardError, ShapeError
from regard.viz import AlignedSpeech, plot_speech
from regard.viz.speech_picture import draw_speech

RATE, HOP = 16000, 200
READ = [0, 0, 2, 2, 3]
"""The symbol of each of five steps of two frames; the second symbol is skipped."""


def spoken(**changes):
    """Nine frames, so that the last step has one, and a chirp a little longer than them."""
    time = np.arange(2000) / RATE
    usual = {
        "mel": np.arange(9.0)[:, None] + np.arange(4.0),
        "alignment": 0.9 * np.eye(4)[READ] + 0.025,
        "symbols": list("abcd"),
        "reduction": 2,
        "stop": np.linspace(0, 0.9, 10).reshape(5, 2),
        "samples": 0.5 * np.sin(2 * np.pi * (200 + 2000 * time) * time),
        "labels": Intervals.of([(0, 0.025, "a"), (0.025, 0.025, "b"), (0.025, 0.08, "c"), (0.08, 0.11, "d")]),
        "text": "a b",
        "note": "stopped",
    }
    return AlignedSpeech(sample_rate=RATE, hop_length=HOP, **(usual | changes))


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf", ".html"])
def test_a_sentence_is_drawn_into_each_kind_of_file(tmp_path, suffix):
    path = plot_speech(spoken(text="$a_b$ <i>"), tmp_path / "new" / f"a{suffix}")
    assert path.stat().st_size > 5_000
    if suffix == ".png":
        assert (matplotlib.image.imread(path)[..., :3] < 0.5).any()


def test_frames_and_steps_share_the_axis_of_seconds():
    sentence = spoken()
    assert sentence.frame_edges[[0, 1, 9]] == pytest.approx([0, 0.00625, 0.10625])
    assert sentence.step_edges == pytest.approx([0, 0.01875, 0.04375, 0.06875, 0.09375, 0.10625])
    assert sentence.seconds == 0.125
    assert replace(sentence, samples=None).seconds == 0.11
    assert replace(sentence, samples=None, labels=None).seconds == pytest.approx(0.10625)


def test_the_picture_has_the_symbols_as_rows_and_time_across():
    mel, alignment, stop, _ = draw_speech(spoken()).axes
    assert [axes.get_ylabel() for axes in (mel, alignment, stop)] == ["mel filter", "symbol", "stop"]
    assert stop.get_xlabel() == "seconds"
    for axes in (mel, alignment, stop):
        assert axes.get_xlim() == (0.0, 0.125)
    assert [label.get_text() for label in alignment.get_yticklabels()] == list("abcd")
    assert alignment.get_ylim() == (3.5, -0.5), "the first symbol is on top"
    mesh = alignment.collections[0]
    weights = np.asarray(mesh.get_array()).reshape(4, 5)
    assert weights.argmax(axis=0).tolist() == READ
    assert np.asarray(mesh.get_coordinates())[0, :, 0] == pytest.approx(spoken().step_edges)
    levels = np.asarray(mel.collections[0].get_array()).reshape(4, 9)
    assert levels[0, 0] == 0
    assert levels[3, 8] == 1, "filters upwards, frames across"
    assert mel.get_ylim() == (-0.5, 3.5)
    assert stop.patches[0].get_data().values == pytest.approx(np.linspace(0, 0.9, 10)[:9])


@pytest.mark.parametrize("count", [20, 77, 154, 300])
def test_every_symbol_of_a_long_sentence_has_a_label_that_covers_no_other(count):
    symbols = [chr(ord("a") + i % 26) for i in range(count)]
    alignment = np.eye(count)
    sentence = AlignedSpeech(np.zeros((count, 4)), alignment, symbols, sample_rate=16000, hop_length=200)
    figure = draw_speech(sentence)
    figure.draw_without_rendering()
    ticks = figure.axes[1].yaxis.get_major_ticks()
    assert [tick.label1.get_text() for tick in ticks] == symbols
    boxes = [tick.label1.get_window_extent() for tick in ticks]
    assert not any(one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[i + 1 : i + 4])
    assert min(box.x0 for box in boxes) > 0


def test_labels_are_outlined_and_their_boundaries_go_through_the_spectrogram():
    mel, alignment, *_ = draw_speech(spoken()).axes
    outlines = alignment.collections[1].get_paths()
    corners = [
        (path.vertices.min(axis=0).round(6).tolist(), path.vertices.max(axis=0).round(6).tolist()) for path in outlines
    ]
    assert corners == [([0, -0.5], [0.025, 0.5]), ([0.025, 1.5], [0.08, 2.5]), ([0.08, 2.5], [0.11, 3.5])]
    lines = [segment[0][0] for segment in mel.collections[1].get_segments()]
    assert lines == pytest.approx([0, 0.025, 0.08, 0.11])
    mel, alignment, *_ = draw_speech(spoken(labels=None)).axes
    assert (len(mel.collections), len(alignment.collections)) == (1, 1)


def test_without_stop_probabilities_there_is_no_panel_for_them_and_one_for_a_step_is_that_of_its_frames():
    assert "stop" not in [axes.get_ylabel() for axes in draw_speech(spoken(stop=None)).axes]
    assert spoken(stop=[[0.1], [0.2], [0.3], [0.4], [0.5]]).stop == pytest.approx(
        [0.1, 0.1, 0.2, 0.2, 0.3, 0.3, 0.4, 0.4, 0.5]
    )


def data_of(path):
    return json.loads(re.search(r'id="data">(.*?)</script>', path.read_text(encoding="utf-8"), re.DOTALL)[1])


def test_the_page_holds_sound_and_numbers_of_every_sentence(tmp_path):
    path = plot_speech(
        [spoken(), spoken(samples=None, labels=None, stop=None, text="")], tmp_path / "a.html", highest=0.925
    )
    first, second = data_of(path)["items"]
    head, content = first["sound"].split(",")
    assert head == "data:audio/wav;base64"
    with wave.open(io.BytesIO(base64.b64decode(content))) as sound:
        assert (sound.getframerate(), sound.getnframes(), sound.getnchannels()) == (RATE, 2000, 1)
        numbers = np.frombuffer(sound.readframes(2000), "<i2") / 32768
    assert numbers == pytest.approx(spoken().samples, abs=1 / 32768)
    weights = np.frombuffer(base64.b64decode(first["weights"]), np.uint8).reshape(5, 4)
    assert weights.argmax(axis=1).tolist() == READ == first["read"]
    assert weights.max() == 254
    assert np.frombuffer(base64.b64decode(first["mel"]), np.uint8).reshape(9, 4)[-1, -1] == 254
    assert first["found"] == [0, 0, 2, 4], "b is never read: where its weight is largest"
    assert first["steps"] == pytest.approx([0, 18.75, 43.75, 68.75, 93.75, 106.25])
    assert first["labels"] == [[0, 25, 25, 80], [25, 25, 80, 110]]
    assert len(first["stop"]) == 9
    assert (second["sound"], second["labels"], second["stop"]) == (None, None, None)


def test_a_loud_sound_is_scaled_and_not_clipped(tmp_path):
    content = data_of(plot_speech(spoken(samples=[0.0, 2.0, -1.0]), tmp_path / "a.html"))["items"][0]["sound"]
    numbers = np.frombuffer(base64.b64decode(content.split(",")[1])[44:], "<i2")
    assert numbers.tolist() == [0, 32767, -16384]


def test_the_page_asks_nothing_of_anybody_and_text_stays_text(tmp_path):
    evil = "</script><img src=x onerror=alert(1)>"
    path = plot_speech(
        spoken(symbols=[evil, *"bcd"], labels=None, text=evil, note=evil), tmp_path / "a.html", title=evil
    )
    text = re.sub(r'base64,[^"]*', "", path.read_text(encoding="utf-8"))
    text = re.sub(r'"(mel|weights)":"[^"]*"', "", text)
    assert not re.search(r"https?:|@import|url\(|[\"\'(=]//|\bfetch\b|XMLHttpRequest|import\(", text, re.IGNORECASE)
    assert "<img" not in text
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
    assert policy.startswith("default-src 'none'")
    assert "media-src data:" in policy


def test_what_is_not_finite_is_shown_as_unknown(tmp_path):
    alignment = 0.9 * np.eye(4)[READ] + 0.025
    alignment[1, 2] = np.nan
    mel = np.ones((9, 4))
    mel[0, 0] = -np.inf
    sentence = spoken(alignment=alignment, mel=mel)
    assert sentence.read.tolist() == [0, -1, 2, 2, 3]
    item = data_of(plot_speech(sentence, tmp_path / "a.html"))["items"][0]
    assert base64.b64decode(item["weights"])[6] == base64.b64decode(item["mel"])[0] == 255
    plot_speech(sentence, tmp_path / "a.png")


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"mel": np.zeros((11, 4))}, ShapeError, r"(?s)every step of r=2.*\(11, 4\): 6 steps"),
        ({"mel": np.zeros((1, 9, 4))}, ShapeError, r"mel must be \(T, M\).*\(1, 9, 4\)"),
        ({"symbols": "abc"}, ShapeError, "3 symbols"),
        ({"stop": np.zeros((4, 2))}, ShapeError, r"\(5, 2\) or \(5, 1\), or \(T=9,\); got \(4, 2\)"),
        ({"stop": np.full((5, 2), 3.0)}, RegardError, "sigmoid"),
        ({"samples": np.zeros((2, 5))}, ShapeError, "samples must be"),
        ({"samples": [0.0, np.nan]}, RegardError, r"samples\[1\] is nan"),
        ({"labels": Intervals.of([(0, 1, "x")])}, RegardError, "for_units"),
        ({"reduction": 0}, RegardError, "reduction must be a whole number from 1; got 0"),
    ],
)
def test_parts_that_do_not_fit_are_refused(changes, error, words):
    with pytest.raises(error, match=words):
        spoken(**changes)


def test_a_picture_shows_one_sentence_and_weights_have_a_scale(tmp_path):
    with pytest.raises(RegardError, match=r"one sentence; got 2\. Write \.html"):
        plot_speech([spoken()] * 2, tmp_path / "a.png")
    with pytest.raises(RegardError, match="sentences is empty"):
        plot_speech([], tmp_path / "a.html")
    with pytest.raises(RegardError, match="expected one of"):
        plot_speech(spoken(), tmp_path / "a.gif")
    with pytest.raises(RegardError, match="highest must be a weight above 0"):
        plot_speech(spoken(), tmp_path / "a.html", highest=0)
    assert data_of(plot_speech(spoken(), tmp_path / "a.html", highest="largest"))["highest"] == pytest.approx(0.925)
    bar = draw_speech(spoken(), highest=0.5).axes[-1]
    assert bar.get_yticklabels()[-1].get_text() == "0.5"


NODE = shutil.which("node")


def driven(path, *events, scheme="light"):
    """What the page's script tells at first and after each event, its colours and its symbols."""
    plot_speech(spoken(), path)
    command = [NODE, Path(__file__).with_name("speech_page.mjs"), path, json.dumps(events), scheme]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(NODE is None, reason="there is no node to run the page's script")
def test_a_click_on_a_symbol_or_a_time_goes_there_and_keys_move(tmp_path):
    events = [
        ("symbol", 2), ("key", "ArrowRight"), ("key", "ArrowDown"), ("key", "ArrowUp"), ("key", "ArrowLeft"),
        ("key", "Home"), ("point", [38 + 554 / 2, 160]), ("point", [10, 222]), ("symbol", 1), ("key", " "),
        ("plays", 0.07),
    ]  # fmt: skip
    shown = driven(tmp_path / "a.html", *events)
    assert shown["chips"] == ["a", "b", "c", "d"]
    log = shown["log"]
    # the middles of steps 2, 3, 4, 2, 1; the beginning; the middle of the sound; step 4; and that of b's largest weight
    times = [0, 0.05625, 0.08125, 0.1, 0.05625, 0.03125, 0, 0.0625, 0.1, 0.009375, 0.009375, 0.07]
    assert [one["time"] for one in log] == pytest.approx(times)
    assert [one["here"] for one in log] == [0, 2, 2, 3, 2, 0, 0, 2, 3, 0, 0, 2]
    assert log[1]["text"].startswith("0.06 s · step 2 · c (2) with weight 0.9")
    assert all(one["unread"] == [1] for one in log)
    assert [one["paused"] for one in log] == [True] * 10 + [False] * 2


@pytest.mark.skipif(NODE is None, reason="there is no node to run the page's script")
def test_the_page_has_colours_of_its_own_in_the_dark(tmp_path):
    light, dark = (driven(tmp_path / "a.html", scheme=scheme)["colours"] for scheme in ("light", "dark"))
    assert len(light) == len(dark) == 2  # the spectrogram and the weights
    assert all(one != other for one, other in zip(light, dark, strict=True))
