"""What is asked of a model: odd texts, odd sizes, odd options, from Python and from the command line."""

from __future__ import annotations

import json
import math
from pathlib import Path
from random import Random
from typing import Any

from hostile import models, text
from hostile.trial import Trial, command
from regard.decoding import Prediction, Search

OPTIONS = ("beam", "num_best", "alpha", "min_length", "max_length", "batch_tokens")


def draw(random: Random, folder: Path) -> Trial:
    return _called(random) if random.random() < 0.5 else _commanded(random, folder)


def _called(random: Random) -> Trial:
    inputs = [text.string(random) if random.random() < 0.6 else text.word(random) for _ in range(random.randrange(5))]
    options: dict[str, Any] = {name: _number(random, name) for name in OPTIONS if random.random() < 0.25}
    if random.random() < 0.2:
        options["length_penalty"] = random.choice(("none", "average", "gnmt", "wu", "", None, 3))
    if random.random() < 0.1:
        options["strict"] = True
    if random.random() < 0.15:
        given = {
            "num_best": _number(random, "num_best"),
            "temperature": random.choice((0.0, -1.0, 1e-39, 1.0, math.nan)),
            "top_k": random.choice((None, 0, 1, 10**6)),
            "seed": _number(random, "seed"),
            "top_p": random.choice((None, 0.0, 1e-9, 1.0, 2.0, math.nan)),
        }
        given = {name: value for name, value in given.items() if random.random() < 0.5}
        return Trial(f"predict({inputs!r:.300}, search=Search({given}))", lambda: _sampled(inputs, given))
    strange: Any = inputs
    if random.random() < 0.05:
        strange = random.choice(("abc", b"abc", [b"abc"], [None], [3], None, 3, {"a": 1}, ("ab", "c"), [["a"]]))
    return Trial(f"predict({strange!r:.300}, {options})", lambda: _check(strange, options))


def _sampled(inputs: list[str], given: dict[str, Any]) -> str | None:
    models.model().predict(inputs, search=Search(method="sampling", **given))
    return None


def _number(random: Random, name: str) -> Any:
    if name == "alpha":
        return random.choice((0.0, 0.6, -1.0, 1e308, math.inf, math.nan, "0.6", 3))
    if name == "max_length" and random.random() < 0.9:  # an untrained model goes on as long as it may
        return random.choice((0, -1, 1, 2, 3, 5, 300, 1.5, math.nan, "2", True))
    return random.choice((0, -1, -5, 1, 1, 2, 2, 3, 4, 7, 1_000_000, 2**31, 2**63, 1.5, math.nan, "2", True))


def _check(inputs: Any, options: dict[str, Any]) -> str | None:
    """Whether what was asked for is what came."""
    model = models.model()
    told = {name: value for name, value in options.items() if name != "strict"}
    search = model.config.decoding.replace(**told)
    found = model.predict(inputs, search=search, strict=options.get("strict", False))
    if len(found) != len(inputs):
        return f"{len(inputs)} inputs and {len(found)} predictions"
    for name in ("beam", "num_best", "max_length", "batch_tokens"):
        value = options.get(name)
        if value is not None and (isinstance(value, bool | str) or value != value or value < 1 or value % 1):
            return f"{name}={value!r} was accepted"
    for one in found:
        if complaint := _promised(one, options):
            return complaint
    return None


def _promised(one: Prediction, options: dict[str, Any]) -> str | None:
    symbols = [len(each.tokens) - (each.stop_reason == "eos") for each in (one, *one.alternatives)]
    most, least = options.get("max_length"), options.get("min_length")
    if one.warnings and not one.tokens:  # an input that could not be handled
        return None
    if most and max(symbols) > most:
        return f"{max(symbols)} symbols for max_length={most}"
    if least and min(symbols) < min(least, most or models.model().config.decoding.max_length or least):
        return f"{min(symbols)} symbols for min_length={least}"
    if len(symbols) > (options.get("num_best") or 1):
        return f"{len(symbols)} outputs for num_best={options.get('num_best')}"
    if len(one.text.encode("utf-8", "surrogatepass")) and any("\ud800" <= letter <= "\udfff" for letter in one.text):
        return "an output that is no text"
    return None


def _commanded(random: Random, folder: Path) -> Trial:
    """The verb predict, with texts, a file or stdin."""
    arguments = ["predict", "--model", str(models.saved())]
    for option in ("--beam", "--num-best", "--alpha", "--max-length", "--batch-tokens"):
        if random.random() < 0.15:
            arguments += [option, _value(random, option)]
    if random.random() < 0.3:
        arguments += ["--format", random.choice(("jsonl", "jsonl", "tsv", "xml"))]
    for flag in ("--scores", "--alignments", "--strict"):
        if random.random() < 0.15:
            arguments.append(flag)
    if random.random() < 0.1:
        arguments += ["--device", random.choice(("cpu", "cuda", "gpu", "cuda:x", "meta", "", "cuda:-1"))]
    lines = [text.string(random) if random.random() < 0.6 else text.word(random) for _ in range(random.randrange(6))]
    content = text.encoded("\n".join(lines))
    if random.random() < 0.2:
        content = text.damaged(random, content)
    replaced: set[str] = set()
    if random.random() < 0.5:
        target = random.choice(
            ("out.tsv", "out.tsv", "texts.txt", "new/out.tsv", ".", "texts.txt/out.tsv", "/dev/full", "", "x" * 300)
        )
        (folder / "out.tsv").write_text("what is there\n", encoding="utf-8")
        arguments += ["--output", target]
        replaced = {target}
    way, stdin = random.randrange(3), b""
    (folder / "texts.txt").write_bytes(content)
    if way == 0:
        arguments += [
            "--input",
            random.choice(("texts.txt", "texts.txt", "texts.txt", "missing.txt", ".", "out.tsv", "-")),
        ]
    elif way == 1:
        arguments += [*random.choice((["--"], [])), *(line.replace("\x00", "0") for line in lines)]
    else:
        stdin = content
    return Trial(
        f"{arguments[1:]} {stdin[:200]!r} {content[:200]!r}",
        lambda: _commanded_check(arguments, stdin),
        replaced=replaced,
    )


def _value(random: Random, option: str) -> str:
    """A number, or something in the place of one; not a length that is long to wait for."""
    value = random.choice(("1", "2", "3", "5")) if random.random() < 0.5 else text.number(random)
    return "9" if option == "--max-length" and 3 < len(value) < 12 else value


def _commanded_check(arguments: list[str], stdin: bytes) -> str | None:
    printed = command(*arguments, stdin=stdin)
    if "jsonl" in arguments and "--output" not in arguments:
        for line in printed.removesuffix("\n").split("\n"):
            json.loads(line or "null")
    return None
