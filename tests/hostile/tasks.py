"""Command lines over all tasks: every verb on a small trained model, with files that fit and files that do not."""

from __future__ import annotations

import csv
import io
import json
from functools import cache
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import typer
import yaml

from hostile import models, text
from hostile.trial import Trial, command, inside
from regard.cli.application import application
from regard.cli.unfinished import Unfinished
from task_cases import LOOP, TASK_CASES

VERBS = {"predict": 40, "evaluate": 20, "plot": 15, "data check": 10, "train": 10, "info": 2, "explain": 3}
OUTPUTS = (
    "out",
    "out.tsv",
    "out.csv",
    "out.jsonl",
    "out.json",
    "out.txt",
    "out.parquet",
    "out.html",
    "out.png",
    "out.wav",
)
MARKS = {".parquet": b"PAR1", ".png": b"\x89PNG", ".wav": b"RIFF", ".html": b"<!", ".svg": b"<?xml", ".pdf": b"%PDF"}
"""How files of a suffix begin."""


@cache
def project(task: str) -> Path:
    """A folder with the data of a task, `run.yaml` and the trained `run`."""
    case, folder = TASK_CASES[task], models.root() / task
    folder.mkdir()
    case.write(folder)
    training = {**LOOP, "max_steps": 2, "validate_every": 2, "samples": 0, **case.training}
    sections = {"task": task, "seed": 1, **case.sections, "training": training}
    (folder / "run.yaml").write_text(yaml.safe_dump(sections), encoding="utf-8")
    with inside(folder):
        command("train", "run.yaml", "--output", "run")
    return folder


@cache
def flags(verb: str) -> tuple[tuple[str, str], ...]:
    """The options of a verb, each with the name of its type; a switch is `flag`."""
    found = typer.main.get_command(application(verb.split()))
    context = None
    for word in verb.split():
        context = typer.Context(found, info_name=word, parent=context)
        found = found.get_command(context, word)  # type: ignore[attr-defined]
    context = typer.Context(found, info_name=verb, parent=context)
    return tuple(
        (name, "flag" if getattr(one, "is_flag", False) else str(one.metavar or "text"))
        for one in found.get_params(context)
        for name in (*one.opts, *one.secondary_opts)
        if name.startswith("--") and name != "--help" and one.param_type_name == "option"
    )


@cache
def _fitting(verb: str, task: str) -> tuple[tuple[str, str], ...]:
    """The options of a verb without those that are settings of other tasks only."""
    from regard.config.keys import keys
    from regard.config.schema import SCHEMAS

    of_task = {
        other: {str(path[1]) for path in keys(schema) if path[0] == "decoding" and len(path) > 1}
        for other, schema in SCHEMAS.items()
    }
    others = set().union(*of_task.values()) - of_task[task]
    return tuple(
        (name, kind) for name, kind in flags(verb) if name[2:].removeprefix("no-").replace("-", "_") not in others
    )


def draw(random: Random, folder: Path) -> Trial:
    task = random.choice(sorted(TASK_CASES))
    _copy(task, folder)
    way = random.random()
    return (_training if way < 0.2 else _saved_otherwise if way < 0.3 else _stopped if way < 0.34 else _command)(
        random, task, folder
    )


def _copy(task: str, folder: Path) -> None:
    """The project of a task, whose run and recordings are links."""
    home = project(task)
    for path in home.iterdir():
        if path.is_file() and path.suffix not in (".wav",):
            (folder / path.name).write_bytes(path.read_bytes())
    for name in ("wavs", "run"):
        if (home / name).exists():
            (folder / name).symlink_to(home / name)


def _training(random: Random, task: str, folder: Path) -> Trial:
    """A training with other data or another configuration, and what its model predicts; then the same command again."""
    file, about, wrong = folder / "run.yaml", "", False
    settings = ["--set", "training.max_steps=1"]
    way = random.randrange(4)
    names = [path.name for path in folder.iterdir() if path.suffix in (".csv", ".tsv", ".txt") and path.is_file()]
    name = random.choice(sorted(names))
    if way == 0:
        (folder / name).write_bytes(changed := text.mistaken(random, (folder / name).read_bytes()))
        about = f"{name} is {changed[:120]!r}"
        if random.random() < 0.3:
            settings += ["--set", "data.on_error=skip"]
    else:
        values = yaml.safe_load(file.read_text(encoding="utf-8"))
        for _ in range(random.choice((1, 1, 2, 3))):
            path, value = _setting(random, task, values)
            if way == 1:
                path, wrong = (*path[:-1], text.mistyped(random, path[-1])), True
            elif way == 2:
                value = random.choice(
                    (
                        str(value),
                        None,
                        True,
                        -1,
                        0,
                        10**9,
                        [value],
                        {"a": value},
                        "yes",
                        "0.1.2",
                        1e-30,
                        text.string(random),
                    )
                )
            about += f" {'.'.join(path)}: {value!r}"
            section = values
            for part in path[:-1]:
                section = section.setdefault(part, {})
            section[path[-1]] = value
        file.write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")

    def act() -> str | None:
        command("train", "run.yaml", "--output", "new", *settings)
        if wrong:
            return "a mistyped key was accepted"
        for argument in TASK_CASES[task].inputs:
            command("predict", "--model", "new", argument)
        command("train", "run.yaml", "--output", "new", *settings)
        return None if (folder / "new/model.safetensors").exists() else "there is no model"

    return Trial(f"{task}: train with {about} {settings}", act, replaced={"new/"}, records={"new/"})


def _setting(random: Random, task: str, values: dict[str, Any]) -> tuple[tuple[str, ...], Any]:
    """A key of a configuration with another value than it has."""
    from key_effects import other_values
    from regard.config.keys import keys
    from regard.config.schema import SCHEMAS

    known = [key for key in keys(SCHEMAS[task], values).values() if key.section is None and key.path[0] != "task"]
    while True:
        key = random.choice(known)
        if key.path[:2] not in (("data", "train"), ("training", "max_steps")) and (
            others := list(other_values(key, key.field.get_default(call_default_factory=True)))
        ):
            return key.path, random.choice(others)


def _saved_otherwise(random: Random, task: str, folder: Path) -> Trial:
    """Held-out items in a file that an editor has saved with a byte order mark or other line ends."""
    name = TASK_CASES[task].held_out
    before = (folder / name).read_bytes()
    after = text.same(random, before, ends=task == "language_modelling")
    evaluates = random.random() < 0.5
    arguments = (
        ("evaluate", "--model", "run", name, "--json") if evaluates else ("predict", "--model", "run", "--input", name)
    )

    def act() -> str | None:
        first = command(*arguments)
        (folder / name).write_bytes(after)
        second = command(*arguments)
        plain = second.replace("\ufeff", "").replace("\r", "")
        return None if plain.rstrip("\n") == first.rstrip("\n") else f"{second[:500]!r} and not {first[:500]!r}"

    return Trial(f"{task}: {arguments} of {after[:80]!r}", act, replaced={name})


def _stopped(random: Random, task: str, folder: Path) -> Trial:
    """A prediction that was killed somewhere, as its journal says, and that is continued."""
    name, kept = TASK_CASES[task].held_out, random.random()
    arguments = ("predict", "--model", "run", "--input", name, "--output", "out.jsonl")
    partial, journal = folder / "out.jsonl.partial", folder / "out.jsonl.partial.jsonl"

    def act() -> str | None:
        contents: list[bytes] = []
        published = Unfinished._publish

        def publish(self: Unfinished, convert: Any) -> None:
            contents.extend((partial.read_bytes(), journal.read_bytes()))
            published(self, convert)

        with patch("regard.cli.inputs.CHUNK_ROWS", 1), patch("regard.cli.unfinished.RECORD_EVERY", 0.0):
            with patch.object(Unfinished, "_publish", publish):
                command(*arguments)
            whole = (folder / "out.jsonl").read_bytes()
            (folder / "out.jsonl").rename(folder / "whole")
            header = contents[1].index(b"\n") + 1
            partial.write_bytes(contents[0])
            journal.write_bytes(contents[1][: header + int(kept * (len(contents[1]) - header + 1))])
            command(*arguments, "--resume")
        again = (folder / "out.jsonl").read_bytes()
        return None if again == whole else f"{again[-300:]!r} and not {whole[-300:]!r}"

    return Trial(f"{task}: {arguments} continued after {kept:.2f} of its journal", act, replaced={"out.jsonl"})


def _command(random: Random, task: str, folder: Path) -> Trial:
    """A verb with files and options that fit or do not."""
    (folder / "odd.txt").write_bytes(text.encoded("\n".join(text.string(random) for _ in range(4))))
    files = sorted(path.name for path in folder.iterdir() if path.is_file())
    verb = random.choices(list(VERBS), list(VERBS.values()))[0]
    arguments, replaced = [*verb.split()], set[str]()
    if verb in ("predict", "evaluate", "plot"):
        arguments += ["--model", "run"]
    if verb in ("info", "explain"):
        arguments.append("run")
    if verb == "train":
        arguments += ["run.yaml", "--output", "new", "--set", "training.max_steps=1"]
    damaged = _damaged(random, folder, files) if random.random() < 0.3 else None
    if verb == "predict":
        if random.random() < 0.5:
            arguments += ["--input", damaged or random.choice([TASK_CASES[task].held_out, *files])]
        else:
            arguments += [*TASK_CASES[task].inputs[: random.randint(1, 3)]]
            if random.random() < 0.3:
                arguments.append(damaged or text.string(random).replace("\x00", "") or "x")
    elif verb in ("evaluate", "data check"):
        arguments.append(damaged or (TASK_CASES[task].held_out if random.random() < 0.7 else random.choice(files)))
        if verb == "data check" and random.random() < 0.8:
            arguments = ["data", "check", "--config", "run.yaml"]
    elif verb == "plot":
        arguments += [
            damaged or random.choice(TASK_CASES[task].inputs),
            "--output",
            f"p{random.choice(('.png', '.html', '.svg', '.x'))}",
        ]
        replaced.add(arguments[-1])
    for _ in range(random.choice((0, 0, 1, 1, 2, 3))):
        name, kind = random.choice(_fitting(verb, task) if random.random() < 0.85 else flags(verb))
        if name in ("--model", "--profile", "--device", "--output"):
            continue
        arguments.append(name)
        if kind != "flag":
            arguments.append(_value(random, kind, files))
        if name == "--files":
            replaced.add("sounds/")
    if verb in ("predict", "evaluate") and random.random() < 0.4:
        arguments += ["--output", f"out{random.choice(OUTPUTS)}"]
        replaced.add(arguments[-1])
        if random.random() < 0.3:
            (folder / arguments[-1]).write_text("what is there", encoding="utf-8")
            arguments.append("--overwrite")
    return Trial(
        f"{task}: regard {' '.join(arguments)!r}",
        lambda: _check(task, verb, arguments, folder),
        replaced=replaced | {"new/"},
        # what inputs have an output is written, though the status says that others have none
        records={"new/"} | (replaced if verb == "predict" else set()),
    )


def _damaged(random: Random, folder: Path, files: list[str]) -> str:
    """A file with some bytes changed, or as people and spreadsheets change it."""
    name = random.choice(files)
    change = text.damaged if random.random() < 0.4 else text.mistaken
    (folder / f"damaged-{name}").write_bytes(change(random, (folder / name).read_bytes()))
    return f"damaged-{name}"


def _value(random: Random, kind: str, files: list[str]) -> str:
    if "|" in kind and random.random() < 0.8:
        return random.choice(kind.strip("[]").split("|"))
    if kind in ("N", "integer") and random.random() < 0.8:
        return random.choice(("1", "2", "3", "5", "0", "-1"))
    if kind in ("X", "float") and random.random() < 0.8:
        return random.choice(("0", "0.5", "1", "1.5", "-1", "nan"))
    if kind == "FOLDER":
        return "sounds"
    if kind == "FILE":
        return random.choice(files)
    return random.choice(
        ("1", "2", "0.7", "average", "a", "0,1", "null", "[a, b]", random.choice(files), "tsv", "jsonl", "csv")
    )


def _check(task: str, verb: str, arguments: list[str], folder: Path) -> str | None:
    printed = command(*arguments, stdin=b"")
    if "--output" in arguments and "--" not in arguments and verb in ("predict", "evaluate", "plot"):
        path = folder / arguments[arguments.index("--output") + 1]
        if verb == "plot" and any(folder.glob(f"{path.stem}-*{path.suffix}")):
            return None
        if not path.exists():
            return None if "--help" in arguments or "--version" in arguments else f"{path.name} was not written"
        # a row of an input that has too many columns is written as it is, and refused
        if complaint := _as_its_suffix(path, ragged=any("damaged" in each for each in arguments)):
            return complaint
    elif verb == "predict" and "--stream" not in arguments and "--profile" not in arguments:
        again = command(*arguments, stdin=b"")
        if again != printed and not (task == "text_to_speech" and "--files" in arguments):
            return f"the same command again prints {again[:300]!r}, not {printed[:300]!r}"
    return None


def _as_its_suffix(path: Path, *, ragged: bool) -> str | None:
    """Whether a file is what its name promises.

    Args:
        ragged: whether rows of CSV may have different numbers of columns.
    """
    content = path.read_bytes()
    if not content.startswith(MARKS.get(path.suffix, b"")):
        return f"{path.name} begins with {content[:20]!r}"
    if path.suffix == ".jsonl":
        for line in content.decode().removesuffix("\n").split("\n"):
            json.loads(line)
    if path.suffix == ".json":
        json.loads(content)
    if path.suffix == ".csv":
        widths = {len(row) for row in csv.reader(io.StringIO(content.decode(), newline=""))}
        if len(widths) > 1 and not ragged:
            return f"{path.name} has rows of {sorted(widths)} columns"
        if b"\t" in content and b"," not in content:
            return f"{path.name} is a TSV"
    return None
