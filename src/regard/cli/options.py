"""Options that several verbs share."""

from __future__ import annotations

import gc
import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.config.keys import Key
    from regard.tasks.contract import AbstractModel

SETTINGS = "regard.settings"
SMALL_WORK = 2000
"""The most source symbols times hypotheses that are decoded without loading compiled kernels, about a tenth of the work
from which on loading them saves time."""
Model = Annotated[
    str, typer.Option("--model", "-m", metavar="MODEL", help="A run folder, or a name from `regard list models`.")
]
Vocoder = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER", help="Of speech: what makes the sounds (`regard data vocoder`); default: Griffin-Lim."
    ),
]
Device = Annotated[str, typer.Option(metavar="DEVICE", help="auto, cpu, cuda or cuda:1.")]
SourceField = Annotated[
    str | None,
    typer.Option(metavar="N,N", help="Columns (from 0) or JSONL fields of the input; default: as in training."),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the output file.")]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="The output file; default: stdout.")
]


class SettingsCommand(TyperCommand):
    """A verb with a flag for every key of `decoding` of every task: `--max-length 20` is `decoding.max_length`.

    The flags are made when the verb is used, so that `regard --help` does without the schema. The verb gets them by
    `settings`.
    """

    def get_params(self, ctx: Any) -> list[Any]:
        """The verb's own parameters, and the flags."""
        own = super().get_params(ctx)
        return [*own[:-1], *_flags(), *own[-1:]]  # --help comes last

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Reads the arguments; a list that is divided among several flags is refused, as only the last would count."""
        *_, given = self.make_parser(ctx).parse_args(args=list(args))
        for flag in _flags():
            if given.count(flag) > 1 and flag.name in _lists():
                name = f"--{_dashed(flag.name)}"
                raise ConfigError(
                    f"{name} is given {given.count(flag)} times; give it once, with a list: {name} '[a, b]'."
                )
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Runs the verb, which finds the flags in its context."""
        values = {flag.name: ctx.params.pop(flag.name) for flag in _flags()}
        texts = {name: str(value).lower() if isinstance(value, bool) else value for name, value in values.items()}
        ctx.meta[SETTINGS] = {name: value for name, value in texts.items() if value is not None}
        return super().invoke(ctx)


def settings(context: typer.Context) -> Mapping[str, str]:
    """The flags of `SettingsCommand` that are given: by key of `decoding`, a text, or in YAML what is none."""
    given: dict[str, str] = context.meta[SETTINGS]
    return given


@cache
def _keys() -> Mapping[str, Key]:
    """The keys of `decoding` of every task, by name; of several tasks, that of the first."""
    return {name: next(iter(by_task.values())) for name, by_task in _keys_by_task().items()}


@cache
def _keys_by_task() -> Mapping[str, Mapping[str, Key]]:
    """The keys of `decoding` by name, and then by the tasks that have them."""
    from regard.config.keys import keys
    from regard.config.tasks import SCHEMAS

    found: dict[str, dict[str, Key]] = {}
    for task, schema in SCHEMAS.items():
        for path, key in keys(schema).items():
            section, name = str(path[0]), str(path[-1])
            if len(path) == 2 and section == "decoding" and not name.startswith("validation_"):
                found.setdefault(name, {})[task] = key
    return found


@cache
def _lists() -> frozenset[str]:
    """Names of keys that may hold several values."""
    return frozenset(name for name, key in _keys().items() if "list" in key.expected)


@cache
def _flags() -> list[Any]:
    """The options of a command that typer makes of them."""
    flags = {name: _flag(name, key) for name, key in _keys().items()}

    def verb(**_: str | None) -> None: ...

    verb.__signature__ = inspect.Signature(list(flags.values()))  # type: ignore[attr-defined]
    application = typer.Typer(add_completion=False)
    application.command(add_help_option=False)(verb)
    return list(typer.main.get_command(application).params)


def _flag(name: str, key: Key) -> inspect.Parameter:
    kinds = [member.type for member in key.members]
    metavar = "|".join(key.choices) if key.choices else "N" if int in kinds else "X" if float in kinds else "VALUE"
    meaning = key.field.description or ""
    lines = [f"{meaning[:1].upper()}{meaning[1:]}."]
    for task, other in _keys_by_task()[name].items():
        if (text := other.field.description or "") != meaning and not any(text in line for line in lines):
            lines.append(f"In {task}: {text}.")
    flag = f"--{_dashed(name)}"
    if kinds == [bool]:
        switch = typer.Option(f"{flag}/--no-{_dashed(name)}", help=" ".join(lines), show_default=False)
        return inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[bool | None, switch]
        )
    option = typer.Option(flag, metavar=metavar, help=" ".join(lines))
    annotation = Annotated[str | None, option]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _dashed(name: str) -> str:
    return name.replace("_", "-")


def load(model: str, device: str, settings: Mapping[str, str] = MappingProxyType({})) -> AbstractModel[Any]:
    """The model of a run folder, or the shipped model of a name.

    Args:
        settings: values for keys of `decoding`, in YAML.

    Raises:
        ConfigError: for a setting that the model's task does not have, or a wrong value.
    """
    from regard import tasks
    from regard.training.allocator import keep_memory

    loaded: AbstractModel[Any] = tasks.load(model, device=device)
    if settings:
        loaded.config = _told(loaded.config, settings)
    if loaded.device.type == "cpu":
        keep_memory()
    gc.freeze()  # else garbage collection visits all objects of torch, an eighth of the time of a long prediction
    return loaded


def _told(config: Any, settings: Mapping[str, str]) -> Any:
    """The configuration with other values of `decoding`."""
    from regard.config.changed import changed
    from regard.config.document import parse_value
    from regard.config.keys import keys

    section, values = config.decoding, {}
    by_name = keys(type(section))
    for name, text in settings.items():
        if name not in type(section).model_fields:
            raise ConfigError(_not_for(f"--{_dashed(name)}", config.task, map(_dashed, type(section).model_fields)))
        origin = f"--{_dashed(name)} {text}"
        values[name] = parse_value(text, by_name[name,], origin=origin, folder=Path.cwd()).values
    return config.model_copy(update={"decoding": changed(section, "decoding", values)})


def accepted(model: AbstractModel[Any], method: str, flags: Mapping[str, Any]) -> dict[str, Any]:
    """The flags that are given, by the names of the method's parameters.

    Args:
        flags: by flag, the parameter and its value, None if the flag is not given.

    Raises:
        ConfigError: for a flag that the models of this task do not have.
    """
    kinds = inspect.signature(getattr(model, method)).parameters
    have = [
        flag
        for flag, (name, _) in flags.items()
        if name in kinds and kinds[name].kind is inspect.Parameter.KEYWORD_ONLY
    ]
    for flag, (_, value) in flags.items():
        if value is not None and flag not in have:
            raise ConfigError(_not_for(flag, model.config.task, (each.removeprefix("--") for each in have)))
    return {flags[flag][0]: flags[flag][1] for flag in have if flags[flag][1] is not None}


def _not_for(flag: str, task: str, others: Iterable[str]) -> str:
    names = ", ".join(f"--{name}" for name in others if not name.startswith("validation-"))
    return f"{flag} is not for models of {task}{f'; they have {names}' if names else ''}."


@contextmanager
def kernels_for(model: AbstractModel[Any], inputs: Sequence[Any]) -> Iterator[None]:
    """Inside the block, compiled kernels are not loaded for a few texts only, as loading takes most of a second.

    They are for weights of 8 bits, which nothing else multiplies.

    Args:
        inputs: all inputs that this process handles.
    """
    from regard.ops.eligibility import only_loaded_kernels

    decoding = model.config.decoding
    few = model.input_kind == "text" and sum(map(len, inputs)) * int(getattr(decoding, "width", 1)) <= SMALL_WORK
    with only_loaded_kernels() if few and getattr(decoding, "weights", None) != "int8" else nullcontext():
        yield


def described(name: str) -> str | None:
    """A description of the recipe, part or preset of this name; None if there is none, or if it is a folder."""
    from regard import tasks

    return None if Path(name).exists() else tasks.describe(name)


def hint_of(name: str) -> str:
    """The recipe, part or preset with the most similar name, or where the names are."""
    from regard import tasks
    from regard.config.spelling import did_you_mean, nearest

    similar = nearest(name, [known for _, known, _ in tasks.catalogue()])
    return did_you_mean(similar).capitalize() if similar else "`regard list` has the recipes, parts and presets, too."
