"""Command lines: random verbs, flags and values, and streams that are closed, full or of another encoding."""

from __future__ import annotations

import errno
import io
from pathlib import Path
from random import Random
from typing import Any

from hostile import models, text
from hostile.trial import Trial, command

FLAGS = (
    "--model",
    "-m",
    "--output",
    "-o",
    "--input",
    "-i",
    "--format",
    "--scores",
    "--alignments",
    "--strict",
    "--num-best",
    "--beam",
    "--length-penalty",
    "--alpha",
    "--max-length",
    "--batch-tokens",
    "--device",
    "--set",
    "--preset",
    "--seed",
    "--precision",
    "--json",
    "--worst",
    "--separate",
    "--heads",
    "--data",
    "--count",
    "--min-length",
    "--num-symbols",
    "--help",
    "--version",
    "--debug",
    "--",
    "-",
    "--nonsense",
    "-x",
)
VERBS = (
    "predict",
    "evaluate",
    "plot",
    "info",
    "explain",
    "list",
    "train",
    "data",
    "data check",
    "data synthetic",
    "nonsense",
)


class Stream(io.TextIOWrapper):
    """A stream that fails as a disk or a terminal does."""

    def __init__(self, error: int | None = None, encoding: str = "utf-8") -> None:
        super().__init__(io.BytesIO(), encoding=encoding, write_through=True)
        self.error = error

    def write(self, words: str) -> int:
        if self.error is not None:
            kind = BrokenPipeError if self.error == errno.EPIPE else OSError
            raise kind(self.error, "No space left on device" if self.error == errno.ENOSPC else "Broken pipe")
        return super().write(words)


def _closed() -> io.TextIOWrapper:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    stream.close()
    return stream


class Missing:
    """Stands for `sys.stdout = None`, as Python has it where the stream was closed."""


STREAMS = {
    "full": lambda: Stream(errno.ENOSPC),
    "broken": lambda: Stream(errno.EPIPE),
    "ascii": lambda: Stream(encoding="ascii"),
    "cp1252": lambda: Stream(encoding="cp1252"),
    "closed": _closed,
    "none": lambda: None,
}


def draw(random: Random, folder: Path) -> Trial:
    (folder / "pairs.tsv").write_text(models.pairs(6), encoding="utf-8")
    (folder / "x").write_text("what is there\n", encoding="utf-8")
    if random.random() < 0.4:
        return _streams(random)
    arguments = random.choice(VERBS).split()
    for _ in range(random.randrange(5)):
        way = random.randrange(3)
        if way == 0:
            arguments.append(random.choice(FLAGS))
        elif way == 1:
            arguments += [random.choice(FLAGS), _value(random)]
        else:
            arguments.append(_value(random))
    if random.random() < 0.6 and arguments[0] in ("predict", "evaluate", "plot"):
        arguments += ["--model", str(models.saved())]
    if random.random() < 0.5 and arguments[0] == "plot":
        arguments += ["-o", "x.html"]
    if "--count" in arguments:
        arguments = [argument for argument in arguments if not argument.lstrip("-").isdigit() or len(argument) < 4]
    if arguments[0] == "train":
        arguments += ["--set", "training.max_steps=1"]
    if random.random() < 0.05:
        arguments = [text.argument(random) for _ in range(random.randrange(3))]
    stdin = random.choice((b"", b"abc\n", b"\xff\n", b"\x00", None))
    targets = {arguments[n + 1] for n, word in enumerate(arguments[:-1]) if word in ("-o", "--output")}
    return Trial(f"{arguments} stdin {stdin!r}", lambda: command(*arguments, stdin=stdin) and None, replaced=targets)


def _value(random: Random) -> str:
    way = random.randrange(4)
    if way == 0:
        return text.argument(random)
    if way == 1:
        return text.number(random).replace("\x00", "")
    return random.choice(
        (
            "abc",
            "x",
            "pairs.tsv",
            "model",
            "g2p",
            "text-to-text",
            "data.train=pairs.tsv",
            "reverse",
            str(models.saved()),
        )
    )


def _streams(random: Random) -> Trial:
    """A harmless command on a stream that is not there, full, or of another encoding."""
    model = str(models.saved())
    arguments = random.choice(
        (
            ["predict", "--model", model, "abc"],
            ["predict", "--model", model],
            ["info", model],
            ["explain", model],
            ["list", "recipes"],
            ["list"],
            ["--help"],
            ["--version"],
            ["predict", "--help"],
            ["data", "check", "pairs.tsv"],
            ["evaluate", "pairs.tsv", "--model", model, "--worst", "3"],
            ["predict", "--model", "nothing", "abc"],
            ["data", "synthetic", "reverse", "new.tsv", "--count", "3"],
            ["plot", "--model", model, "abc", "-o", "p.html"],
            ["predict", "--model", model, "ᵀ\u0301日本", "--format", "jsonl"],
            ["predict", "--model", model, "ᵀ"],
        )
    )
    name, which = random.choice(sorted(STREAMS)), random.choice(("stdout", "stderr", "both", "stdin"))
    stdin: bytes | None = None if which == "stdin" else b"abc\n\xff\n" if random.random() < 0.2 else b"abc\ndef\n"
    streams: dict[str, Any] = (
        {} if which == "stdin" else dict.fromkeys(("stdout", "stderr") if which == "both" else (which,), STREAMS[name])
    )
    return Trial(f"{arguments} with {name} {which}", lambda: command(*arguments, stdin=stdin, **streams) and None)
