"""Data of natural sizes for every preset, drawn: words, sentences, documents, series, pictures, strokes and sound."""

from __future__ import annotations

import json
import wave
from collections.abc import Callable
from pathlib import Path

import numpy as np

LETTERS = "abcdefghijklmnopqrstuvwxyz"
RATE = 16_000


def draw() -> np.random.Generator:
    """The same numbers for every file."""
    return np.random.default_rng(1)


def vocabulary(count: int, shortest: int = 2, longest: int = 10) -> list[str]:
    """Different words; the first ones are drawn most often by `sentence`."""
    random, words = draw(), dict[str, None]()
    while len(words) < count:
        words["".join(random.choice(list(LETTERS), random.integers(shortest, longest + 1)))] = None
    return list(words)


def sentence(random: np.random.Generator, words: list[str], shortest: int, longest: int) -> list[str]:
    """Words by Zipf's law."""
    ranks = random.zipf(1.3, random.integers(shortest, longest + 1))
    return [words[(rank - 1) % len(words)] for rank in ranks.tolist()]


def write_lines(path: Path, lines: list[str]) -> Path:
    """A text file."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def spellings(folder: Path) -> Path:
    """8,000 words, each with a symbol for every letter."""
    words = vocabulary(8_000, 3, 14)
    return write_lines(folder / "spellings.tsv", [f"{word}\t{' '.join(word.upper())}" for word in words])


def inflections(folder: Path) -> Path:
    """8,000 lemmas with a form and tags."""
    words = vocabulary(8_000, 3, 14)
    tags = ["V;PST;3;SG", "V;PRS;1;PL", "N;GEN;PL", "N;NOM;SG"]
    rows = [f"{word}\t{word}{'et' if i % 2 else 'a'}\t{tags[i % 4]}" for i, word in enumerate(words)]
    return write_lines(folder / "inflections.tsv", rows)


def sentences(folder: Path) -> Path:
    """20,000 sentences of 4 to 24 words in two languages that share their order."""
    random, words, others = draw(), vocabulary(12_000), vocabulary(24_000)[12_000:]
    translated = dict(zip(words, others, strict=True))
    rows = []
    for _ in range(20_000):
        source = sentence(random, words, 4, 24)
        rows.append(f"{' '.join(source)}\t{' '.join(translated[word] for word in source)}")
    return write_lines(folder / "sentences.tsv", rows)


def documents(folder: Path) -> Path:
    """1,500 texts of 3 to 20 sentences with one of four labels."""
    random, words = draw(), vocabulary(8_000)
    rows = ["text,label"]
    for i in range(1_500):
        parts = [f"{' '.join(sentence(random, words, 5, 25)).capitalize()}." for _ in range(random.integers(3, 21))]
        rows.append(f"{' '.join(parts)},{'abcd'[i % 4]}")
    return write_lines(folder / "documents.csv", rows)


def labels(folder: Path) -> Path:
    """4,000 sentences whose words have labels."""
    random, words = draw(), vocabulary(8_000)
    rows = []
    for _ in range(4_000):
        rows += [f"{word}\t{'B-X' if len(word) > 8 else 'O'}" for word in sentence(random, words, 5, 30)] + [""]
    return write_lines(folder / "labels.tsv", rows)


def running_text(folder: Path) -> Path:
    """A million characters."""
    random, words = draw(), vocabulary(8_000)
    return write_lines(folder / "text.txt", [" ".join(sentence(random, words, 6, 14)) for _ in range(18_000)])


def series(folder: Path) -> Path:
    """8,000 hours of three targets."""
    random, hours = draw(), np.arange(8_000)
    times = np.datetime64("2024-01-01T00:00") + hours.astype("timedelta64[h]")
    values = np.sin(hours[:, None] / np.array([24.0, 12.0, 168.0])) + 0.1 * random.standard_normal((len(hours), 3))
    rows = [f"{time},{a:.4f},{b:.4f},{c:.4f}" for time, (a, b, c) in zip(times, values, strict=True)]
    return write_lines(folder / "series.csv", ["time,a,b,c", *rows])


def photographs(folder: Path) -> Path:
    """200 pictures of 160 × 200 pixels with captions."""
    from PIL import Image

    random, words, rows = draw(), vocabulary(300), []
    for i in range(200):
        pixels = np.repeat(np.repeat(random.integers(0, 256, (10, 10, 3), dtype=np.uint8), 16, 0), 20, 1)
        Image.fromarray(pixels).save(folder / f"photograph-{i}.png")
        rows.append(f"photograph-{i}.png\t{' '.join(sentence(random, words, 6, 14))}")
    return write_lines(folder / "photographs.tsv", rows)


def formulas(folder: Path) -> Path:
    """300 formulas of 5 to 30 symbols, as strokes."""
    random, rows = draw(), []
    symbols = ["x", "y", "2", "+", "=", "\\frac", "{", "}", "\\alpha", "^"]
    for _ in range(300):
        count = int(random.integers(5, 31))
        strokes = []
        for place in range(count):
            walk = np.cumsum(random.normal(0, 3, (12, 2)), 0) + np.array([place * 22, 30])
            strokes.append([[round(float(x), 1), round(float(y), 1)] for x, y in walk])
        text = " ".join(random.choice(symbols, count).tolist())
        rows.append(json.dumps({"strokes": strokes, "text": text}))
    return write_lines(folder / "formulas.jsonl", rows)


def speech(folder: Path) -> Path:
    """80 sentences with 2 to 8 seconds of tones and noise."""
    random, words, rows = draw(), vocabulary(400), []
    (folder / "wavs").mkdir()
    for i in range(80):
        text = " ".join(sentence(random, words, 5, 16))
        time = np.arange(int(len(text) * 0.07 * RATE)) / RATE
        tones = np.sin(2 * np.pi * (120 + 40 * np.sin(3 * time)) * time) * (0.5 + 0.5 * np.sin(20 * time))
        sound = 0.3 * tones + 0.02 * random.standard_normal(len(time))
        with wave.open(str(folder / "wavs" / f"{i}.wav"), "wb") as file:
            file.setparams((1, 2, RATE, 0, "NONE", ""))
            file.writeframes((sound * 32_767).astype("<i2").tobytes())
        rows.append(f"{i}|{text}|{text}")
    return write_lines(folder / "speech.csv", rows)


def constant(folder: Path, count: int, source: int, target: int, num_words: int = 40) -> Path:
    """Pairs of texts of one length in words."""
    random = draw()
    rows = [
        "\t".join(" ".join(map(str, random.integers(0, num_words, n))) for n in (source, target)) for _ in range(count)
    ]
    return write_lines(folder / f"constant-{source}-{target}.tsv", rows)


DATA: dict[str, Callable[[Path], Path]] = {
    "autoencoder": spellings,
    "captioning": photographs,
    "copying": sentences,
    "documents": documents,
    "forecasting": series,
    "formulas": formulas,
    "g2p": spellings,
    "g2p-transformer": spellings,
    "inflection": inflections,
    "inflection-transformer": inflections,
    "labelling": labels,
    "language-model": running_text,
    "no-attention": spellings,
    "speech": speech,
    "speech-22k": speech,
    "text-to-text": spellings,
    "translation-rnn": sentences,
    "translation-transformer": sentences,
    "transliteration": spellings,
}
"""By preset, what writes its data."""


def path_of(preset: str, folder: Path) -> Path:
    """The data of a preset, made if they are not there."""
    make = DATA[preset]
    marker = folder / f".{make.__name__}"
    if not marker.exists():
        marker.write_text(str(make(folder)), encoding="utf-8")
    return Path(marker.read_text(encoding="utf-8"))
