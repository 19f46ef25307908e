"""Data files: encodings, ragged columns, binary, empty and endless lines."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

from hostile import models, text
from hostile.trial import Trial, command

UNITS = ("character", "character", "word", "whitespace", "byte", "sentencepiece")


def draw(random: Random, folder: Path) -> Trial:
    way = random.randrange(5)
    suffix = (".tsv", ".tsv", ".jsonl", ".txt", random.choice((".csv", ".json", ".TSV", "", ".tsv.gz", ".ndjson")))[way]
    content = _jsonl(random) if "json" in suffix else _tsv(random)
    if random.random() < 0.25:
        content = text.damaged(random, content)
    name = f"pairs{suffix}"
    (folder / name).write_bytes(content)
    (folder / "dev.tsv").write_text(models.pairs(4, 40), encoding="utf-8")
    options = _options(random)
    about = f"{name}: {content[:200]!r} ({len(content)} bytes) {options}"
    way = random.randrange(8)
    if way == 0:
        evaluated = (
            "evaluate",
            name,
            "--model",
            str(models.saved()),
            *random.choice(((), ("--json",), ("--worst", "3"))),
        )
        return Trial(about + " evaluate", lambda: command(*evaluated) and None)
    if way == 1:
        predicted = ("predict", "--model", str(models.saved()), "--input", name, "--beam", "1")
        return Trial(about + " predict", lambda: command(*predicted) and None)
    if way == 2:
        second = random.choice((name, "dev.tsv", "missing.tsv", "."))
        return Trial(about + f" check with {second}", lambda: command("data", "check", name, second, *options) and None)
    if way in (3, 4):
        return Trial(about + " train", lambda: _train(random, folder, name, options), replaced={"run/"})
    if way == 5:
        lines = content.count(b"\n") + (not content.endswith(b"\n")) if random.random() < 0.7 else random.randrange(8)
        source = text.encoded("\n".join(_cell(random) for _ in range(lines)))
        (folder / "source.txt").write_bytes(source)
        both = "data.train={source: source.txt, target: " + name + "}"
        checked = ("data", "check", "dev.tsv", "--set", both, *options)
        return Trial(f"parallel {source[:200]!r} {about}", lambda: command(*checked) and None)
    return Trial(about + " check", lambda: command("data", "check", name, *options) and None)


def _options(random: Random) -> list[str]:
    """Keys of the configuration as `--set` takes them."""
    settings = [f"data.source.units={random.choice(UNITS)}", f"data.target.units={random.choice(UNITS)}"]
    for share, setting in (
        (0.3, f"data.max_length={random.choice((1, 3, 1000))}"),
        (0.1, f"data.source_field={random.choice(('1', '2', 'source', '-1', 'x'))}"),
        (0.1, f"data.target_field={random.choice(('0', '2', 'target', '-1', 'x'))}"),
        (0.2, f"data.source.unicode={random.choice(('keep', 'NFD', 'NFKC'))}"),
        (0.2, "data.source.case=upper"),
        (0.1, "data.autoencode=true"),
        (0.5, "data.dev=dev.tsv"),
    ):
        if random.random() < share:
            settings.append(setting)
    return [word for setting in settings for word in ("--set", setting)]


def _train(random: Random, folder: Path, name: str, options: list[str]) -> str | None:
    command(
        "train",
        "--preset",
        "text-to-text",
        "--set",
        f"data.train={name}",
        *options,
        "--set",
        "training.max_steps=2",
        "--set",
        "model.encoder={size: 4, embedding_size: 3}",
        "--set",
        "model.decoder={size: 4, embedding_size: 3}",
        "--set",
        "model.attention={recipe: bahdanau, size: 4}",
        "--set",
        "decoding.max_length=4",
        "--device",
        "cpu",
        "--set",
        "training.samples=0",
        "--set",
        "training.validate_every=1",
        "--output",
        "run",
    )
    return None if (folder / "run" / "model.safetensors").exists() else "a training that succeeded left no model"


def _cell(random: Random) -> str:
    """A strange text that a column can hold."""
    cell = text.string(random) if random.random() < 0.3 else text.word(random)
    return "".join(" " if letter in "\t\n\r" or "\ud800" <= letter <= "\udfff" else letter for letter in cell) or "a"


def _tsv(random: Random) -> bytes:
    if random.random() < 0.6:  # a file that is right, and strange
        rows = [f"{_cell(random)}\t{_cell(random)}" for _ in range(random.choice((2, 20, 40)))]
        return text.encoded(random.choice(("\n", "\r\n")).join(rows))
    rows = []
    for _ in range(random.choice((0, 1, 2, 5, 20))):
        way = random.randrange(10)
        if way < 5:
            rows.append(f"{text.word(random)}\t{text.word(random)}")
        elif way == 5:
            rows.append(text.string(random))
        elif way == 6:
            rows.append("\t".join(text.string(random) for _ in range(random.randrange(5))))
        elif way == 7:
            rows.append(f"{text.string(random)}\t{text.string(random)}")
        elif way == 8:
            rows.append(f"{text.word(random) * random.choice((10, 300))}\t{text.word(random)}")
        else:
            rows.append(random.choice(("", " ", "\t", "\t\t", "a\t", "\ta")))
    return text.encoded(random.choice(("\n", "\n", "\n", "\r\n", "\r")).join(rows) + random.choice(("\n", "")))


def _jsonl(random: Random) -> bytes:
    if random.random() < 0.6:
        return "\n".join(json.dumps([_cell(random), _cell(random)]) for _ in range(random.choice((2, 20, 40)))).encode()
    rows = []
    for _ in range(random.choice((0, 1, 2, 5, 20))):
        way = random.randrange(7)
        if way < 3:
            rows.append(json.dumps([text.word(random), text.word(random)]))
        elif way == 3:
            rows.append(json.dumps({"source": text.word(random), "target": text.word(random)}))
        elif way == 4:
            rows.append(json.dumps([text.string(random), text.string(random)], ensure_ascii=random.random() < 0.5))
        elif way == 5:
            rows.append(json.dumps(text.json_value(random)))
        else:
            rows.append(
                random.choice(("[" * 2000, "{", '["a"', '["a", "b"] x', "NaN", '"\\ud800"', '["\\ud800", "b"]', ""))
            )
    return text.encoded("\n".join(rows) + random.choice(("\n", "")))
