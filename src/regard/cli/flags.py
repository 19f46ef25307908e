"""The flags of a command for the settings of a model: one for every key of `decoding` of every task."""

from __future__ import annotations

import inspect
import shutil
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.options import SETTINGS, dashed
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.config.keys import Key

PREFIX = "decoding_"
"""The prefix of the parameters of these flags, which distinguishes them from the command's own parameters."""
HELP, EVERYTHING = ("-h", "--help"), "--help-all"
WIDTH = 100


def with_settings(function: Callable[..., None]) -> Callable[..., None]:
    """A command with the flags, such as `--max-length 20` for `decoding.max_length`, in addition to its own.

    `regard.cli.options.settings` returns their values. `--help` ends with `settings_help` instead of listing them.
    """
    names = list(_keys())

    def command(context: typer.Context, **values: Any) -> None:
        flags = {name: values.pop(f"{PREFIX}{name}") for name in names}
        texts = {name: str(value).lower() if isinstance(value, bool) else value for name, value in flags.items()}
        context.meta[SETTINGS] = {name: value for name, value in texts.items() if value is not None}
        function(context, **values)

    signature = inspect.signature(function, eval_str=True)
    parameters = [*signature.parameters.values(), *(_flag(name, key) for name, key in _keys().items())]
    command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    command.__doc__, command.__name__ = function.__doc__, function.__name__
    return command


def settings_help(words: Sequence[str]) -> str:
    """The settings at the end of a command's help: of the named model's task, or the common ones, or all."""
    task = None if EVERYTHING in words else _task(words)
    shown, command = list(_keys()), next(word for word in words if not word.startswith("-"))
    rest = f"Settings of other tasks: regard {command} {EVERYTHING}"
    if task is not None:
        shown = [name for name in shown if task in _keys_by_task()[name]]
        rest = f"These are the settings of models of {task}. {rest}"
    elif EVERYTHING not in words:
        shown = [name for name in shown if any(key.is_common for key in _keys_by_task()[name].values())]
        rest = f"With --model MODEL {HELP[1]}: all settings of its task. All settings: regard {command} {EVERYTHING}"
    else:
        rest = "Each is a key of `decoding`: regard list keys decoding"
    panels: dict[str, list[tuple[str, str]]] = {}
    for name in shown:
        panels.setdefault(_panel(name, task), []).append((_declaration(name), _meaning(name, task)))
    left = min(30, max(len(flag) for rows in panels.values() for flag, _ in rows) + 4)
    width = max(50, min(shutil.get_terminal_size().columns, WIDTH)) - 4
    lines = [line for title in PANELS if title in panels for line in _section(title, panels[title], left, width)]
    return "\n".join([*lines, rest])


PANELS = (
    "Search", "Beam search", "Sampling and minimum Bayes risk", "What outputs contain", "Several models", "Documents",
    "Forecasts", "Speech", "Speed and memory",
)  # fmt: skip
_OF_TASKS = {"documents": "Documents", "forecasting": "Forecasts", "text_to_speech": "Speech"}


def _panel(name: str, task: str | None) -> str:
    """The heading under which help lists a key."""
    from regard.config.combinations import READ_BY, READ_WITH

    tasks = list(_keys_by_task()[name])
    methods = READ_BY.get(name) or READ_BY.get(READ_WITH.get(name, ("",))[0], ())
    if name.startswith("batch_") or name == "weights":
        return "Speed and memory"
    if name.startswith(("ensemble", "reranker")):
        return "Several models"
    if tasks[0] in _OF_TASKS or task in _OF_TASKS:
        return _OF_TASKS[tasks[0] if task is None else task]
    if methods:
        return "Beam search" if methods == ("beam",) else "Sampling and minimum Bayes risk"
    return "Search" if name in ("method", "num_best", "direction", "joint", "context", "window") else PANELS[3]


def _section(title: str, rows: Sequence[tuple[str, str]], left: int, width: int) -> list[str]:
    """The lines of a panel; the first character prevents that they are filled like a paragraph."""
    lines = ["\b", f"{title}:"]
    for flag, meaning in rows:
        text = textwrap.wrap(meaning, width - left) or [""]
        beside = len(flag) + 4 <= left
        first = f"  {flag:{left - 2}}{text[0]}" if beside else f"  {flag}"
        lines += [first.rstrip(), *(" " * left + line for line in text[beside:])]
    return [*lines, ""]


def _task(words: Sequence[str]) -> str | None:
    """The task of the model that a command names; None without an existing model."""
    named = [after for word, after in zip(words, [*words[1:], ""], strict=True) if word in ("--model", "-m")]
    named += [word.removeprefix("--model=") for word in words if word.startswith("--model=")]
    named += [word for word in words[1:] if not word.startswith("-")]  # commands that take it as an argument
    shipped = Path(str(resources.files("regard") / "pretrained"))
    for name in filter(None, named):
        for folder in (Path(name), Path(name) / "best", shipped / name):
            file = folder / "config.yaml"
            if file.is_file():
                from regard.config.schema import task_named

                return task_named(file)
    return None


@cache
def _keys() -> Mapping[str, Key]:
    """The keys of `decoding` of every task, by name; of several tasks, that of the first."""
    return {name: next(iter(by_task.values())) for name, by_task in _keys_by_task().items()}


@cache
def _keys_by_task() -> Mapping[str, Mapping[str, Key]]:
    """The keys of `decoding` by name, and then by the tasks that have them."""
    from regard.config.keys import keys
    from regard.config.schema import SCHEMAS

    by_name: dict[str, dict[str, Key]] = {}
    for task, schema in SCHEMAS.items():
        for path, key in keys(schema).items():
            section, name = str(path[0]), str(path[-1])
            if len(path) == 2 and section == "decoding" and not name.startswith("validation_"):
                by_name.setdefault(name, {})[task] = key
    return by_name


def _flag(name: str, key: Key) -> inspect.Parameter:
    option = typer.Option(f"--{dashed(name)}", hidden=True)
    annotation: Any = Annotated[str | None, option]
    if _is_switch(key):
        switch = typer.Option(f"--{dashed(name)}/--no-{dashed(name)}", hidden=True, show_default=False)
        annotation = Annotated[bool | None, switch]
    return inspect.Parameter(f"{PREFIX}{name}", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _is_switch(key: Key) -> bool:
    return [member.type for member in key.members] == [bool]


def _declaration(name: str) -> str:
    """A flag with the placeholder of its value."""
    key = _keys()[name]
    kinds = [member.type for member in key.members]
    if _is_switch(key):
        return f"--{dashed(name)} / --no-{dashed(name)}"
    return f"--{dashed(name)} " + (
        "|".join(key.choices) if key.choices else "N" if int in kinds else "X" if float in kinds else "VALUE"
    )


def _meaning(name: str, task: str | None) -> str:
    """The meaning of a key in a task; without a task, also its other meanings."""
    keys = _keys_by_task()[name]
    meaning = (keys[task] if task else _keys()[name]).field.description or ""
    lines = [f"{meaning[:1].upper()}{meaning[1:]}."]
    for other, key in {} if task else keys.items():
        if (text := key.field.description or "") != meaning and not any(text in line for line in lines):
            lines.append(f"In {other}: {text}.")
    return " ".join(lines)


def check_repeated(command: Any, words: Sequence[str]) -> None:
    """Raises ConfigError for a repeated option that has one value only."""
    rest = list(words)
    while (inner := getattr(command, "commands", None)) is not None:
        name = next((word for word in rest if not word.startswith("-")), "")
        if name not in inner:
            return
        command, rest = inner[name], rest[rest.index(name) + 1 :]
    by_name = {name: option for option in command.params for name in (*option.opts, *option.secondary_opts)}
    used: dict[str, list[str]] = {}
    while rest and (word := rest.pop(0)) != "--":
        name = word.partition("=")[0] if word.startswith("--") else word[:2]
        option = by_name.get(name) if word.startswith("-") else None
        if option is None or option.param_type_name != "option":
            continue
        if word == name and not option.is_flag:
            del rest[:1]
        if not option.multiple:
            used.setdefault(option.name, []).append(name)
    for parameter, names in used.items():
        if len(names) > 1:
            key = _keys().get(parameter.removeprefix(PREFIX)) if parameter.startswith(PREFIX) else None
            is_list = key is not None and any(member.items for member in key.members)
            remedy = f"give it once, with a list: {names[0]} '[a, b]'" if is_list else "leave out all but one"
            raise ConfigError(f"{names[0]} is given {len(names)} times; {remedy}.")
