"""Options that several commands share."""

from __future__ import annotations

import gc
import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from regard.errors import ConfigError, RegardError

if TYPE_CHECKING:
    from regard.runs.calibration import Stated
    from regard.runs.contract import AbstractModel

SETTINGS = "regard.settings"
SMALL_WORK = 2000
"""The most source symbols times hypotheses that are decoded without loading compiled kernels: about a tenth of the work
for which loading them saves time."""
Model = Annotated[
    str, typer.Option("--model", "-m", metavar="MODEL", help="A run folder, or a name from `regard list models`.")
]
Vocoder = Annotated[
    Path | None,
    typer.Option(
        "--vocoder",
        metavar="FOLDER",
        help="Of speech: what makes the sounds (`regard data vocoder`); default: Griffin-Lim.",
    ),
]
Normaliser = Annotated[
    str | None,
    typer.Option(
        "--normaliser",
        metavar="MODULE:FUNCTION",
        help="Of speech: the function of data.normaliser, which is not stored with the model.",
    ),
]
Device = Annotated[str, typer.Option("--device", metavar="DEVICE", help="auto, cpu, cuda or cuda:1.")]
SourceField = Annotated[
    str | None,
    typer.Option(
        "--source-field", metavar="N,N", help="Columns (from 0) or JSONL fields of the input; default: as in training."
    ),
]
TargetField = Annotated[
    str | None,
    typer.Option("--target-field", metavar="N", help="Column or field of the output; default: as in training."),
]
Source = Annotated[
    Path | None, typer.Option("--source", metavar="FILE", help="Instead of pairs: inputs, one per line.")
]
Target = Annotated[
    Path | None, typer.Option("--target", metavar="FILE", help="The outputs of these inputs, one per line.")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the output file.")]
BeginAnew = Annotated[
    bool, typer.Option("--overwrite", help="Begin anew: replace the run in the folder, after all checks.")
]
TrainingDevice = Annotated[
    str | None, typer.Option("--device", metavar="DEVICE", help="Same as --set training.device=…")
]
Seed = Annotated[int | None, typer.Option("--seed", metavar="N", help="Same as --set seed=…")]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="The output file; default: stdout.")
]

On = Annotated[
    Literal["ray"] | None,
    typer.Option("--on", metavar="ray", help="Work on a Ray cluster: that of RAY_ADDRESS, or one on this machine."),
]
NumWorkers = Annotated[
    int | None,
    typer.Option(
        "--workers", metavar="N", min=1, help="With --on ray: how many work at a time; default: all GPUs or CPUs."
    ),
]


def check_on(
    on: str | None, workers: int | None, device: str = "auto", refused: Mapping[str, object] = MappingProxyType({})
) -> None:
    """Checks the options of work on a cluster.

    Args:
        refused: options that do not combine with it, with their values.

    Raises:
        RegardError: for one of them, or for `--workers` without a cluster.
        UnsupportedError: without Ray.
    """
    if on is None:
        if workers is not None:
            raise RegardError("--workers is for work on a cluster: add --on ray.")
        return
    from regard.runs.cluster import ray
    from regard.training.processes import num_started

    if num_started() > 1:
        raise RegardError("--on ray is for one process, which Ray's workers serve; leave out torchrun.")
    if flags := [flag for flag, value in refused.items() if value]:
        raise RegardError(f"--on ray does not combine with {flags[0]}, which is of this process.")
    ray(device)


def settings(context: typer.Context) -> Mapping[str, str]:
    """The flags of `regard.cli.flags` on the command line, as texts by key of `decoding`."""
    values: dict[str, str] = context.meta[SETTINGS]
    return values


def dashed(name: str) -> str:
    """The name of the flag of a key."""
    return name.replace("_", "-")


def load(
    model: str,
    device: str,
    settings: Mapping[str, str] = MappingProxyType({}),
    *,
    normaliser: str | None = None,
) -> AbstractModel[Any]:
    """The model of a run folder, or the shipped model of a name.

    Args:
        settings: values for keys of `decoding`, in YAML.
        normaliser: `package.module:function`, for a model of speech that names a function.

    Raises:
        ConfigError: for a setting that the model's task does not have, or a wrong value.
    """
    from regard import tasks
    from regard.training.allocator import keep_memory

    loaded: AbstractModel[Any] = tasks.load(model, device=device)
    if normaliser is not None:
        from regard.data.text.normaliser import imported

        loaded.use_normaliser(imported(normaliser))
    if settings:
        loaded.config = _with_settings(loaded.config, settings)
    if loaded.device.type == "cpu":
        keep_memory()
    gc.freeze()  # otherwise garbage collection visits all objects of torch, an eighth of the time of a long prediction
    return loaded


def _with_settings(config: Any, settings: Mapping[str, str]) -> Any:
    """The configuration with other values of `decoding`."""
    from regard.config.conditions import unread
    from regard.config.document import parse_value
    from regard.config.keys import keys
    from regard.config.search import changed

    section, values = config.decoding, {}
    by_name = keys(type(section))
    for name, text in settings.items():
        if name not in type(section).model_fields:
            raise ConfigError(_not_for(f"--{dashed(name)}", config.task, map(dashed, type(section).model_fields)))
        origin = f"--{dashed(name)} {text}"
        values[name] = parse_value(text, by_name[name,], origin=origin, folder=Path.cwd()).values
    result = config.model_copy(update={"decoding": changed(section, "decoding", values)})
    for path, what in unread(result, lambda path: path[0] == "decoding" and path[-1] in values):
        raise ConfigError(f"--{dashed(str(path[-1]))}: {what}", path)
    return result


def accepted(model: AbstractModel[Any], method: str, flags: Mapping[str, Any]) -> dict[str, Any]:
    """The keyword arguments of a method from the flags on the command line.

    Args:
        flags: by flag, the parameter and its value, None without the flag.

    Raises:
        ConfigError: for a flag that the method has no keyword-only parameter for.
    """
    parameters = inspect.signature(getattr(model, method)).parameters.values()
    names = {each.name for each in parameters if each.kind is inspect.Parameter.KEYWORD_ONLY}
    for flag, (name, value) in flags.items():
        if value is not None and name not in names:
            others = (other.removeprefix("--") for other, (name, _) in flags.items() if name in names)
            raise ConfigError(_not_for(flag, model.config.task, others))
    return {name: value for name, value in flags.values() if value is not None}


def stated(model: AbstractModel[Any], *, shown: bool, at_least: float | None) -> Stated:
    """What outputs state about their confidence; says once if the model is not calibrated.

    Raises:
        ConfigError: for models without confidences.
    """
    from regard.cli.standard import say
    from regard.runs.calibration import Stated

    result = Stated(shown, at_least or 0.0)
    if result != Stated():
        flag = "--confidence" if shown else "--at-least"
        if model.no_confidence:
            raise ConfigError(f"{flag} is not for models of {model.config.task}: {model.no_confidence}.")
        if not model.is_calibrated:
            say(
                f"warning: {model.name} is not calibrated: `regard evaluate -m MODEL FILE --calibrate`, with data that "
                "the training did not have, makes its confidences agree with how often outputs are right."
            )
    return result


def _not_for(flag: str, task: str, others: Iterable[str]) -> str:
    names = ", ".join(f"--{name}" for name in others if not name.startswith("validation-"))
    return f"{flag} is not for models of {task}{f'; they have {names}' if names else ''}."


@contextmanager
def kernels_for(model: AbstractModel[Any], inputs: Sequence[Any]) -> Iterator[None]:
    """Inside the block, compiled kernels are not loaded for a few texts, since loading takes most of a second.

    Weights of 8 bits need the kernels.

    Args:
        inputs: all inputs of this process.
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
    """The recipe, part or preset with the most similar name, or the command that lists them."""
    from regard import tasks
    from regard.config.spelling import did_you_mean, nearest

    similar = nearest(name, [known for _, known, _ in tasks.catalogue()])
    return did_you_mean(similar).capitalize() if similar else "`regard list` lists recipes, parts and presets."
