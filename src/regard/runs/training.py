"""A training, from the configuration to the run folder."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch.nn import Module
from torch.nn.modules.module import register_module_parameter_registration_hook

from regard.config import Config, Configuration, from_preset, from_values, load, presets
from regard.config.spelling import suggestion
from regard.errors import OVERWRITE_OPTION, ConfigError, DataError, RegardError
from regard.runs.before_after import BeforeAfter, lacks_figures
from regard.runs.card import RunCard, lacks_card, write_card
from regard.runs.contract import AbstractTask, Metric, task_of
from regard.runs.fingerprints import check_same, fingerprints
from regard.runs.folder import Decision, check_data, inspect, take
from regard.runs.given import FOLDER, given_data, is_named
from regard.runs.material import read_and_check
from regard.runs.run import TrainingRun
from regard.runs.store import WEIGHTS, load_fingerprints
from regard.runs.store import load as load_model
from regard.runs.trained_items import ITEMS, TrainedItems
from regard.runs.warm_start import WarmStart, add_records_of_teachers, teachers_of
from regard.training import Outcome, processes, read_state
from regard.training import train as run_loop
from regard.training.device import choose
from regard.training.lock import Lock, check_free
from regard.training.manifest import is_run
from regard.training.precision import check_precision, check_ready
from regard.training.progress import quiet as silenced
from regard.training.progress import say
from regard.training.report import Callback

SEARCHES = (
    "these are ranges for a search, which `regard sweep` runs; leave the section out to train with the other keys"
)
AnyConfiguration = Configuration | Config | Mapping[str, Any] | Path | str


def train(
    configuration: AnyConfiguration,
    folder: Path | str | None = None,
    *,
    train: Any = None,
    dev: Any = None,
    settings: Mapping[str, Any] | None = None,
    callback: Callback | None = None,
    quiet: bool = False,
    overwrite: bool = False,
) -> TrainingRun:
    """Trains a model in a run folder, or continues the run in it.

    The folder gets `config.yaml`, the best model with its vocabularies, `metrics.jsonl`, `pictures/`, the
    checkpoints from which a killed run resumes, and `run.json`, the list of the files that the run wrote. Other files
    are never replaced or deleted.

    Args:
        configuration: the name of a preset, the path of a YAML file, nested dicts with its keys, or what
            `regard.config.load` and `from_preset` return.
        folder: the run folder; `runs/` and the configuration's name if None. A run of the same configuration and data
            is continued, or reported as finished; so is one that only ends later (with `training.epochs`, `max_steps`
            or `early_stopping` raised).
        train, dev: the training and the held-out data, in place of `data.train` and `data.dev`: paths, for several text
            files a list of paths or of `{"file": path, "weight": number}`, or objects of Python such as tables of
            pandas and lists of pairs (`docs/python.md` has those of each task), which are written into `data/` of the
            folder.
        settings: further keys, by dotted key or in nested sections, as `{"training.epochs": 10}`.
        callback: called with a `StepInfo` after every step and every validation. If it returns True, the training stops
            as by Ctrl-C: it is saved, and the same call continues it.
        quiet: prints nothing.
        overwrite: replaces the run in the folder after all checks of the new one. The old run is moved to `.replaced/`
            until the new one has a model.

    Raises:
        ConfigError: for a folder with a run of another configuration (the text has the keys that differ), or a setting
            that does not fit the model.
        DataError: for data that cannot be trained on, or that changed since the run began; for damaged files.
        RegardError: for a folder that another process is training in, or that cannot be written to.
    """
    data = {name: value for name, value in (("train", train), ("dev", dev)) if value is not None}
    objects = {name: value for name, value in data.items() if not is_named(value)}
    named = {f"data.{name}": FOLDER if name in objects else value for name, value in data.items()}
    chosen = configured(configuration, {**(settings or {}), **named})
    folder = Path(folder) if folder is not None else default_folder(chosen)
    if chosen.config.sweep is not None:
        raise chosen.located(ConfigError(SEARCHES, ("sweep",)))
    try:
        with (
            silenced(quiet),
            processes.joined(choose(chosen.config.training.device)),
            processes.silence(),
            given_data(chosen.config, folder, objects, overwrite=overwrite) as given,
        ):
            if objects:
                chosen = configured(configuration, {**(settings or {}), **named, **given.settings})
            return TrainingRun.of(_train(chosen, folder, given.names, callback, overwrite=overwrite), folder)
    except ConfigError as error:
        raise chosen.located(error) from None


def configured(argument: AnyConfiguration, settings: Mapping[str, Any]) -> Configuration:
    """The configuration that `train` is given, with further keys."""
    if isinstance(argument, str) and (argument in presets() or not (Path(argument).suffix or Path(argument).exists())):
        return from_preset(argument, settings)
    if isinstance(argument, Mapping):
        return from_values(argument, settings)
    if isinstance(argument, str | Path):
        return load(argument, settings)
    if not isinstance(argument, Configuration | Config):
        raise ConfigError(
            "configuration: expected the name of a preset, a YAML file, nested dicts, or a result of "
            f"regard.config.load; got {argument!r:.60}."
        )
    whole = argument if isinstance(argument, Configuration) else Configuration(argument)
    if not settings:
        return whole
    values = whole.config.model_dump(exclude_unset=True)
    if whole.config.sweep is not None:
        values["sweep"] = whole.config.sweep.model_dump(exclude_unset=True)
    return replace(from_values({"task": whole.config.task, **values}, settings), name=whole.name, origin=whole.origin)


def default_folder(configuration: Configuration) -> Path:
    """`runs/` and the configuration's name; of a `config.yaml` its own folder if that is a run folder."""
    file = Path(configuration.origin or "")
    if file.name != "config.yaml":
        return Path("runs") / configuration.name
    if is_run(file.parent):
        return file.parent
    return Path("runs") / (file.absolute().parent.name or configuration.name)


def _train(
    configuration: Configuration, folder: Path, given: Sequence[str], callback: Callback | None, *, overwrite: bool
) -> Outcome:
    config = configuration.config
    inspection = partial(inspect, config, folder, overwrite=overwrite, given=given)
    task, metric = task_of(config), selected(config)
    for file in task.files(config):
        if file.path.exists() and not (file.path.is_file() or file.path.is_dir()):
            raise ConfigError(
                f"{file.path} is a pipe or a device; a training reads its data again when it continues, so write them "
                "into a file first.",
                tuple(file.key.split(".")),
            )
    with within_memory(config.training.device):
        draft = task.draft(config)  # reports mistakes before the data is read
    check_precision(config.training.precision, choose(config.training.device), draft)
    check_ready(config.training)
    processes.first(partial(check_free, folder))
    try:
        decision = processes.first(inspection)
    except ConfigError:
        fingerprints(task.files(config))  # a missing file is reported rather than a configuration that differs
        raise
    finished = decision.finished
    files = task.files(config)
    if finished is not None and not processes.first(lambda: lacks_figures(config, folder) or lacks_card(folder, files)):
        return _revisit(finished, decision, folder, metric.name)
    if decision.begins:
        configuration.check_unread()
    for problem in configuration.unread:
        say(f"warning: {problem}")
    config = decision.config
    start = WarmStart.of(config, None if decision.begins else folder)
    teachers = teachers_of(config)
    config = config if start is None else start.config(config)
    torch.manual_seed(config.seed)
    data = read_and_check(task, config, None if start is None else start.base)
    if data.report.has_errors:
        raise DataError(f"{data.report}\nA model cannot be trained on these data; see the errors above.")
    say(data.report)
    if data.adapted is not None:
        say(data.adapted.note(task, data.material))
    trained_items = _trained_items(task, data.material, None if decision.begins else folder)
    plan = data.plan(task, config)
    plan = plan if start is None else start.plan(plan, trained_items)
    say(plan)
    config = plan.config
    with within_memory(config.training.device):
        model = task.build(config, data.material, name=folder.name)
    model.fingerprints = fingerprints(task.files(config))
    if data.adapted is not None:
        model.fingerprints |= data.adapted.fingerprints
    model.trained_items = trained_items
    add_records_of_teachers(model, teachers, lambda: task.items(data.material)[1])
    check_same(model.fingerprints)
    if not decision.begins:
        before = processes.first(partial(load_fingerprints, folder))
        model.fingerprints |= {name: before[name] for name in before if name.startswith("start_from")}
        processes.first(partial(check_data, folder, model.fingerprints))
    if start is not None and (decision.begins or processes.first(partial(read_state, folder)) is None):
        say(start.begin(model))
    trainee = task.trainee(model, data.material)
    check_ready(config.training, trainee)
    with processes.held(partial(Lock, folder)) as lock:
        if processes.first(inspection) != decision:
            raise RegardError(f"{folder}: another process has changed the run in the meantime; repeat the command.")
        processes.first(partial(take, replace(decision, config=config), model, folder, given))
        outcome = run_loop(
            trainee,
            config.training,
            folder,
            seed=config.seed,
            select=metric.name,
            larger_is_better=metric.larger_is_better,
            lock=lock,
            callback=callback,
        )
        figures = None
        if finished is not None:  # it was stopped before its figures or its card were written
            processes.wait_until_same(folder / WEIGHTS)
            trainee = task.trainee(load_model(folder, device=model.device), data.material)
            trainee.concluded = trainee.calibration_items()
        if outcome.stop_reason != "interrupted":
            if data.adapted is not None:
                processes.wait_until_same(folder / WEIGHTS)
                figures = BeforeAfter.measure(task, load_model(folder, device=model.device), data.adapted)
                processes.first(partial(figures.save, folder))
            terms = trainee.held_out_terms() if processes.size() == 1 or trainee.concluded is not None else None
            warnings = () if trainee.concluded is None else trainee.concluded.warnings
            findings, files = data.report.findings, task.files(config)
            card = RunCard(trainee.model, outcome, folder, terms, findings, files, warnings)
            processes.first(partial(write_card, card))
    say(summary(outcome, folder, select=metric.name, inputs=trainee.examples))
    if figures is not None:
        say(figures)
    if outcome.stop_reason == "interrupted" and overwrite:
        say(f"To continue this run, leave out {OVERWRITE_OPTION}, which would begin anew.")
    return outcome


def _trained_items(task: AbstractTask[Any], material: Any, folder: Path | None) -> TrainedItems | None:
    """The training items; of a continued run those of its folder, with the items of the model that it started from."""

    def stored() -> TrainedItems | None:
        return TrainedItems.load(folder / ITEMS) if folder is not None and (folder / ITEMS).is_file() else None

    if (found := processes.first(stored)) is not None:
        return found
    items = task.trained_items(material)
    return items if len(items.hashes) else None


def _revisit(outcome: Outcome, decision: Decision, folder: Path, select: str) -> Outcome:
    """Reports that a run is finished, and which limit to raise to continue it."""
    say(f"{folder}: {outcome.ended}")
    if decision.extended:
        keys = ", ".join(key for key, *_ in decision.extended)
        say(f"  Raising {keys} does not change that; raise training.{outcome.stop_reason} to continue.")
    say(summary(outcome, folder, select=select))
    if (figures := BeforeAfter.load(folder)) is not None:
        say(figures)
    return outcome


def selected(config: Config) -> Metric:
    """The metric that `select` names.

    Raises:
        ConfigError: if there is no such metric, or if its package is not installed.
    """
    task = task_of(config)
    metric = task.metric(config.select)
    if metric is None:
        names = [name for each in task.metrics for name in (each.name, *each.aliases)]
        raise ConfigError(f"there is no metric {config.select!r}; {suggestion(config.select, names)}", ("select",))
    if metric.package is not None and find_spec(metric.package) is None:
        raise ConfigError(
            f"{metric.name} needs the {metric.package} package: pip install 'regard[{metric.extra}]'", ("select",)
        )
    return metric


MAX_SHOWN = 40
"""The most characters of an input that is shown in a command."""


def summary(outcome: Outcome, folder: Path, *, select: str, inputs: Iterable[str] = ()) -> str:
    """The last messages of a training.

    Args:
        select: the metric that selected the best model, which comes first.
        inputs: held-out inputs, one of which is the example in a command.
    """
    if not outcome.weights:
        return f"{folder}: there is no model yet; the first validation saves one."
    steps = outcome.weights
    saved = f"the model of step {steps[0]:,}"
    if len(steps) > 1:
        saved = f"the mean of {len(steps)} models, of steps {steps[0]:,} to {steps[-1]:,},"
    names = sorted(outcome.metrics, key=lambda name: name != select)
    figures = ", ".join(f"{name} {outcome.metrics[name]:.4g}" for name in names)
    model, argument = shlex.quote(str(folder)), _argument(inputs)
    predict = (
        f"regard predict --model {model} {argument}" if argument else f"regard predict --model {model} --input FILE"
    )
    return (
        f"{folder}: {saved} is saved. On the held-out data: {figures}.\n"
        f"  {predict}\n"
        f"  regard evaluate --model {model} FILE"
    )


def _argument(inputs: Iterable[str]) -> str:
    """A short input as a shell reads it, if possible one that needs no quotes; empty without one."""
    short = [text for text in inputs if 0 < len(text) <= MAX_SHOWN and text.isprintable() and text[0] != "-"]
    quoted = [shlex.quote(text) for text in short]
    plain = [argument for text, argument in zip(short, quoted) if text == argument]
    return [*plain, *quoted, ""][0]


COPIES = 4
"""The copies of every weight in a training: the weight, its gradient and the two means of the optimiser."""
SIGNS = ("allocate memory", "bad_alloc", "overflow", "invalid storage size", "too large")
"""Parts of torch's messages about tensors that cannot be allocated."""


@contextmanager
def within_memory(device: str) -> Iterator[None]:
    """Raises ConfigError when a module that is built inside the block has more weights than the memory holds.

    Args:
        device: `training.device`; on the CPU a training needs `COPIES` times the weights.
    """
    limit = _physical_memory()
    copies = COPIES if choose(device).type == "cpu" else 1
    sizes: dict[int, int] = {}

    def count(module: Module, name: str, parameter: Any) -> None:
        sizes[id(parameter)] = 0 if parameter is None else parameter.numel() * parameter.element_size()
        if (needed := copies * sum(sizes.values())) > limit:
            raise _refusal(f"needs more than {needed / 2**30:,.0f} GiB", limit)

    handle = register_module_parameter_registration_hook(count)
    try:
        yield
    except (MemoryError, OverflowError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and not any(sign in str(error).lower() for sign in SIGNS):
            raise
        raise _refusal("needs a tensor larger than the rest", limit) from None
    finally:
        handle.remove()


def _physical_memory() -> float:
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):  # not on this system
        return float("inf")


def _refusal(what: str, limit: float) -> ConfigError:
    has = f"; this machine has {limit / 2**30:,.0f} GiB" if limit < float("inf") else ""
    return ConfigError(f"a training of this model {what} of memory{has}: lower its sizes or layers", ("model",))
