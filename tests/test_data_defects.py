"""One check names every defect of the data of every task, and training may go on without the items that have them."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regard
from regard.audio import read_wave, synthetic_speech, write_wave
from regard.config import from_preset
from regard.data import collecting
from regard.data.pictures import write_synthetic_pictures
from regard.data.speech import read_ljspeech
from regard.data.text import open_pairs
from regard.errors import DataError
from regard.runs.contract import task_of
from regard.runs.material import check_all, read_and_check

INK = (
    '<ink xmlns="http://www.w3.org/2003/InkML"><annotation type="truth">{}</annotation>'
    '<trace id="0">1 2, 3 4, {} 6</trace></ink>'
)


def pairs(folder: Path) -> tuple[str, str, list[str]]:
    rows = [f"{i:03}\t{i * 7 % 1000:03}".encode() for i in range(100)]
    rows[4], rows[7], rows[9], rows[20] = b"one", b"a\tb\tc", b"two", b"caf\xe9\tx"
    (folder / "pairs.tsv").write_bytes(b"\n".join(rows) + b"\n")
    found = ["pairs.tsv:5: 1 tab", "pairs.tsv:10: 1 tab", "pairs.tsv:8: 3 tab", "pairs.tsv:21: not UTF-8"]
    return "text-to-text", "pairs.tsv", found


def json_pairs(folder: Path) -> tuple[str, str, list[str]]:
    rows = [f'["{i:03}", "{i * 7 % 1000:03}"]' for i in range(100)]
    rows[0], rows[2], rows[5], rows[6] = "no JSON", '["a", 1]', '["a"]', '["a", "\\ud800"]'
    (folder / "pairs.jsonl").write_text("\n".join(rows))
    return "text-to-text", "pairs.jsonl", [f"pairs.jsonl:{line}: " for line in (1, 3, 6, 7)]


def parallel(folder: Path) -> tuple[str, str, list[str]]:
    source, target = ([f"{i * step % 1000:03}".encode() for i in range(100)] for step in (1, 7))
    source[5], target[8] = b"\xff", b"\xfe"
    (folder / "a.de").write_bytes(b"\n".join(source))
    (folder / "a.en").write_bytes(b"\n".join(target))
    return "text-to-text", f"{{source: {folder}/a.de, target: {folder}/a.en}}", ["a.de:6: not UTF", "a.en:9: not UTF"]


def labelled(folder: Path) -> tuple[str, str, list[str]]:
    sentences = [[f"t{i} A".encode(), f"u{i} B".encode()] for i in range(60)]
    sentences[3][1], sentences[5][0] = b"only", b"\xff A"
    (folder / "labels.txt").write_bytes(b"\n\n".join(b"\n".join(lines) for lines in sentences))
    return "labelling", "labels.txt", ["labels.txt:11: ", "labels.txt:16: not UTF-8"]


def documents(folder: Path) -> tuple[str, str, list[str]]:
    rows = [f"some text of {i},{'ab'[i % 2]}".encode() for i in range(200)]
    rows[1], rows[2], rows[4] = b"a,b,c", b"x\xe9,a", b"text,"
    (folder / "documents.csv").write_bytes(b"text,label\n" + b"\n".join(rows))
    found = ["documents.csv:3: 3 fields", "documents.csv:4: not UTF-8: byte 0xE9", "documents.csv:6: field 'label'"]
    return "documents", "documents.csv", found


def running_text(folder: Path) -> tuple[str, str, list[str]]:
    lines = [f"line {i} of some text".encode() for i in range(300)]
    lines[6], lines[9] = b"caf\xe9", b"\xff"
    (folder / "text.txt").write_bytes(b"\n".join(lines))
    return "language-model", "text.txt", ["text.txt:7: not UTF-8", "text.txt:10: not UTF-8"]


def series(folder: Path) -> tuple[str, str, list[str]]:
    rows = [f"2024-01-{1 + i // 24:02} {i % 24:02}:00,{i % 24},{i % 5}" for i in range(600)]
    rows[10] = rows[10].replace(",10,", ",ten,")
    rows[20] = rows[20].replace(",20,0", ",inf,much")
    rows[30], rows[40], rows[50] = "soon,1,2", rows[39], "1,2"
    rows[60] = rows[60].replace("12:00", "12:30")
    (folder / "series.csv").write_text("time,x,y\n" + "\n".join(rows))
    found = ["12: column 'x': 'ten'", "22: column 'x': 'inf'", "22: column 'y': 'much'", "32: column 'time': 'soon'"]
    found += ["42: the time", "52: 2 columns", "62: the time 2024-01-03 12:30 is not a whole"]
    return "forecasting", "series.csv", [f"series.csv:{place}" for place in found]


def pictures(folder: Path) -> tuple[str, str, list[str]]:
    rows = write_synthetic_pictures(folder / "drawn", count=40).read_text().splitlines()
    rows[3], rows[5], rows[7] = "one", "a\tb\tc", "gone.png\ta text"
    file = folder / "drawn" / rows[9].split("\t")[0]
    file.write_bytes(file.read_bytes()[:60])
    (folder / "drawn" / "some.tsv").write_text("\n".join(rows))
    found = ["some.tsv:4: 1 tab", "some.tsv:6: 3 tab", "some.tsv:8: ", "some.tsv:10: "]
    return "captioning", "drawn/some.tsv", found


def ink(folder: Path) -> tuple[str, str, list[str]]:
    (folder / "ink").mkdir()
    texts = [INK.format("ab"[i % 2], i) for i in range(40)]
    texts[3], texts[5], texts[7] = texts[3][:60], texts[5].replace("truth", "other"), texts[7].replace("3 4", "3 x")
    for number, text in enumerate(texts):
        (folder / "ink" / f"{number:02}.inkml").write_text(text)
    return "formulas", "ink", ["03.inkml:1: not XML", "05.inkml: the file has no text", "07.inkml: trace 0"]


def wave_of_floats(samples: Any) -> bytes:
    data = np.asarray(samples, "<f4").tobytes()
    form = struct.pack("<IHHIIHH", 16, 3, 1, 16000, 64000, 4, 32)
    chunks = b"WAVEfmt " + form + b"data" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", len(chunks)) + chunks


def recordings(folder: Path) -> tuple[str, str, list[str]]:
    (folder / "wavs").mkdir()
    rows, labels = [], ["id\tindex\tstart\tend\tletter"]
    for number in range(20):
        speech = synthetic_speech("so it", seed=number)
        write_wave(folder / "wavs" / f"s{number:02}.wav", speech.samples, speech.sample_rate)
        rows.append(f"s{number:02}|So It|so it")
        for index, (start, end) in enumerate(speech.intervals):
            labels.append(f"s{number:02}\t{index}\t{start:.4f}\t{end:.4f}\t{'so it'[index]}")
    wavs, tone = folder / "wavs", np.sin(np.arange(8000) / 5)
    (wavs / "s01.wav").write_bytes(wave_of_floats(np.where(np.arange(8000) == 9, np.nan, tone)))
    (wavs / "s02.wav").write_bytes(wave_of_floats(0 * tone))
    (wavs / "s03.wav").write_bytes((wavs / "s03.wav").read_bytes()[:300])
    (wavs / "s04.wav").write_bytes(b"RIFF no sound of any kind")
    rows[5], rows[6], rows[7], rows[8] = "s05", "s06|a|b|c", "s00|a|so it", "s08|So It|"
    rows[9], rows[10], rows[11], rows[12] = "gone|a|b", "s10.wav|a|so it", "sub/s11|a|b", "|a|b"
    rows[13], labels[14 * 5 + 3] = "s13|a|other", "s14\t2\tlate\t0.5\t "
    (folder / "metadata.csv").write_text("\n".join(rows))
    (folder / "letters.tsv").write_text("\n".join(labels) + "\n")
    found = [f"metadata.csv:{line}: " for line in (2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13)]
    return "speech", "metadata.csv", [*found, "letters.tsv: s13: unit 0", "letters.tsv:74: start: expected seconds"]


def coco(folder: Path) -> tuple[str, str, list[str]]:
    write_synthetic_pictures(folder / "drawn", count=40)
    images = [f'{{"id": {i}, "file_name": "pictures/{i:06}.png"}}' for i in range(40)]
    captions = [f'{{"image_id": {i}, "caption": "text {i % 3}"}}' for i in range(40)]
    captions[5] = captions[6] = captions[4]
    images[5], images[6], captions[7], captions[8] = '{"id": 4, "file_name": "b.png"}', "3", "{}", '{"image_id": 8}'
    text = f'{{"images": [{", ".join(images)}], "annotations": [{", ".join(captions)}]}}'
    (folder / "drawn" / "coco.json").write_text(text)
    found = ["images[5]: id: 4 is also", "images[6]: id: ", "annotations[7]: image_id", "annotations[8]: caption"]
    return "captioning", "drawn/coco.json", [f"coco.json: {place}" for place in found]


FILES = (pairs, json_pairs, parallel, labelled, documents, running_text, series, pictures, ink, coco, recordings)


@pytest.mark.parametrize("make", FILES, ids=lambda make: make.__name__)
def test_one_check_names_every_defect_and_training_may_go_on_without_them(tmp_path: Path, make: Any) -> None:
    preset, train, found = make(tmp_path)
    path = train if train.startswith("{") else tmp_path / train
    settings = [f"data.train={path}", *(["data.dev_fraction=0.2"] if preset != "forecasting" else [])]
    config = from_preset(preset, settings).config
    task = task_of(config)
    data = check_all(task, config)
    report = str(data.report)
    assert [place for place in found if place not in report] == []
    assert data.report.has_errors
    assert f"error: {data.num_left_out} defects of " in report
    try:
        stopped = str(read_and_check(task, config).report)  # pictures are looked at by the check
    except DataError as error:
        stopped = str(error)
    assert sum(place in stopped for place in found) == 1 or "cannot be read" in stopped
    config = from_preset(preset, [*settings, "data.on_error=skip"]).config
    skipping = check_all(task, config)
    assert not skipping.report.has_errors
    assert [place for place in found if place not in str(skipping.report)] == []
    plan = str(skipping.plan(task, config))
    assert f"left out: {len(found)} items with defects (data.on_error=skip)" in plan


def test_a_report_groups_defects_by_kind_with_their_number_and_the_first_places(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("here\tda\n" + "one\n" * 9 + "a\tb\tc\n")
    with collecting() as defects:
        assert len(open_pairs(tmp_path / "a.tsv")) == 1
    many, one = defects.findings(left_out=True)[1:]
    lines = str(many).splitlines()
    assert lines[0] == "warning: 9 items have the same kind of defect:"
    assert [line.split(":")[1] for line in lines[1:4]] == ["2", "3", "4"]
    assert lines[4].strip() == "… and 6 more"
    assert "separated by tabs?" in lines[5]  # what may help is said once
    assert one.count == 1
    assert str(one).startswith(f"warning: {tmp_path}/a.tsv:11: 3 tab-separated columns")


def test_outside_of_a_check_the_first_defect_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("a\tb\none\n")
    pairs = open_pairs(tmp_path / "a.tsv")
    assert len(pairs) == 2
    with pytest.raises(DataError, match=r"a.tsv:2: 1 tab"):
        pairs[1]


def test_files_of_different_lengths_are_no_pairs_even_if_defects_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a\n\xff\n")
    (tmp_path / "b").write_text("a\n")
    overrides = [f"data.train={{source: {tmp_path}/a, target: {tmp_path}/b}}", "data.on_error=skip"]
    config = from_preset("text-to-text", overrides).config
    data = check_all(task_of(config), config)
    assert "a:2: not UTF-8" in str(data.report)
    assert "same number of lines" in str(data.report)
    assert data.report.has_errors
    assert data.material is None


def test_a_training_without_the_items_that_cannot_be_read_says_how_many_they_were(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labelled(tmp_path)
    small = ["model.encoder.size=8", "model.encoder.embedding_size=8", "model.character_size=0", "model.attention=null"]
    settings = [f"data.train={tmp_path}/labels.txt", "training.max_steps=2", *small]
    with pytest.raises(DataError, match=r"labels.txt:16: not UTF-8"):
        regard.train(from_preset("labelling", settings), tmp_path / "run")
    regard.train(from_preset("labelling", [*settings, "data.on_error=skip"]), tmp_path / "run")
    shown = capsys.readouterr().err
    assert "left out: 2 items with defects" in shown
    assert "58 sentences" not in shown


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["s{i:02}|p{speaker}|so it"] * 12, r"names? 3 speakers \('p225' 4 times.*grep '\|p225\|' metadata.csv"),
        (["id|text|normalized text", *["s{i:02}|So It|so it"] * 12], "1: the first line names the columns"),
        (["s{i:02}|a|b|c"] * 12, "1: expected id.text.normalised; got 4 columns.*no quoting"),
        (["s{i:02},So It,so it"] * 12, "separated by [|], not by commas"),
        (["s{i:02}.wav|So It|so it"] * 12, "An id has no suffix: s00"),
        (["deep{i:02}|So It|so it"] * 12, "There is .*wavs/p1/deep00.wav; move it into .*wavs itself"),
        (["p1/deep{i:02}|So It|so it"] * 12, "Move the recordings into .*wavs itself"),
    ],
    ids=["speakers", "header", "four columns", "commas", "suffixes", "sub-folders", "paths"],
)
def test_tables_of_sentences_of_other_forms_are_refused_with_the_reason(
    tmp_path: Path, lines: list[str], message: str
) -> None:
    (tmp_path / "wavs" / "p1").mkdir(parents=True)
    for number in range(12):
        for name in (f"s{number:02}", f"p1/deep{number:02}"):
            write_wave(tmp_path / "wavs" / f"{name}.wav", synthetic_speech("so it").samples, 16000)
    rows = [line.format(i=number, speaker=225 + number % 3) for number, line in enumerate(lines)]
    (tmp_path / "metadata.csv").write_bytes(b"\xef\xbb\xbf" + "\n".join(rows).encode())
    config = from_preset("speech", [f"data.train={tmp_path}/metadata.csv"]).config
    report = check_all(task_of(config), config).report
    assert report.has_errors
    assert re.search(f"(?s){message}", str(report))


def test_one_speaker_or_short_texts_are_no_table_of_speakers(tmp_path: Path) -> None:
    (tmp_path / "wavs").mkdir()
    for number in range(6):
        write_wave(tmp_path / "wavs" / f"s{number}.wav", synthetic_speech("so it").samples, 16000)
    for middle in (["p225"] * 6, ["yes", "no", "stop", "go", "left", "right"]):
        (tmp_path / "metadata.csv").write_text("\n".join(f"s{i}|{word}|so it" for i, word in enumerate(middle)))
        assert len(read_ljspeech(tmp_path / "metadata.csv")) == 6


def test_sounds_that_are_too_loud_cut_off_or_shifted_are_named(tmp_path: Path) -> None:
    recordings(tmp_path)
    speech = synthetic_speech("so it").samples.numpy()
    peak = np.abs(speech).max()
    sounds = {"s00": 3.2 * speech / peak, "s15": 40000 * speech / peak, "s16": np.clip(9 * speech / peak, -1, 1)}
    sounds["s17"] = 0.3 * speech + 0.2
    for name, samples in sounds.items():
        (tmp_path / "wavs" / f"{name}.wav").write_bytes(wave_of_floats(samples))
    told: list[str] = []
    read, _ = read_wave(tmp_path / "wavs/s00.wav", report=told.append)
    np.testing.assert_allclose(read.numpy(), speech / peak, atol=1e-6)
    assert "its peak is 3.20" in told[0]
    config = from_preset("speech", [f"data.train={tmp_path}/metadata.csv", "data.on_error=skip"]).config
    report = str(check_all(task_of(config), config).report)
    assert "warning: 2 sounds are changed alike when they are read:" in report
    assert "s00.wav: its peak is 3.20" in report
    assert "s15.wav: its peak is 40000.00" in report
    assert "s16.wav: doubtful: peaks are cut off" in report
    assert "s17.wav: doubtful: a constant offset of 0.200" in report
    assert report.count("doubtful") == 2


def test_links_of_training_pairs_are_checked_with_them(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("".join(f"{i:03}\t{i * 7 % 1000:03}\n" for i in range(100)))
    (tmp_path / "a.links").write_text("".join("0-0\n" if i not in (4, 8) else "0:0\n" for i in range(98)))
    settings = [f"data.train={tmp_path}/a.tsv", f"data.alignments={tmp_path}/a.links", "data.dev_fraction=0.1"]
    settings += ["training.alignment_losses.supervision=1.0"]
    config = from_preset("text-to-text", settings).config
    data = check_all(task_of(config), config)
    assert data.report.has_errors
    assert "a.links:5: " in str(data.report)
    assert "needs a line" in str(data.report)
