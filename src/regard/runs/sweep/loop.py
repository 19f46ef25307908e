"""The loop of a search for settings: trainings in run folders, until the configuration or a signal ends it."""

from __future__ import annotations

import math
import shlex
import shutil
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from filecmp import cmp
from functools import partial
from pathlib import Path
from typing import Any, Literal

from regard.config import Config, Configuration, from_values, load
from regard.config.ranges import check_ranges, chosen, ranges, refusal
from regard.config.validation import value_at
from regard.errors import ConfigError, Option, RegardError, UnsupportedError, counted
from regard.files import clean, create_folder, replace_file, replace_text
from regard.runs.cluster import Cluster, connected, ray
from regard.runs.contract import Metric, task_of
from regard.runs.folder import CONFIG
from regard.runs.run import TrainingRun
from regard.runs.sweep.halving import Halving
from regard.runs.sweep.record import BEST, PICTURE, TABLE, TRIALS, Record, check_folder, open_folder
from regard.runs.sweep.study import DATABASE, Study, optuna
from regard.runs.sweep.table import comma_separated, described, ranked, records, text
from regard.runs.sweep.trial import State, Trial, attempted
from regard.runs.training import AnyConfiguration, configured, selected, within_memory
from regard.training import processes
from regard.training.checkpoint import Checkpoints
from regard.training.lock import Lock, check_free
from regard.training.loop import Interruption
from regard.training.manifest import Manifest
from regard.training.progress import Display
from regard.training.report import StepInfo
from regard.viz.importances import plot_importances

EXAMPLE = Option(
    "--set 'sweep.ranges.training.learning_rate={low: 1e-4, high: 1e-2, log: true}'",
    "settings={'sweep.ranges.training.learning_rate': {'low': 1e-4, 'high': 1e-2, 'log': True}}",
)


@dataclass(frozen=True)
class Sweep:
    """A search for settings, ended or interrupted.

    Args:
        folder: the folder of the search.
        metric: the metric by which trials are compared.
        larger_is_better: whether larger values of it are better.
        trials: in order; the first one has the configuration as it is.
        importances: of the keys for the best trials, the largest first; none if there are too few trials.
        signal: the number of the signal that interrupted the search, if any.
    """

    folder: Path
    metric: str
    larger_is_better: bool
    trials: tuple[Trial, ...]
    importances: Mapping[str, float] = field(default_factory=dict)
    signal: int | None = None

    @property
    def best(self) -> Trial | None:
        """The best finished trial, whose model is in `best/`; None if there is none."""
        finished = [each for each in self.trials if each.state == "finished"]
        return ranked(finished, larger_is_better=self.larger_is_better)[0] if finished else None

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The trials as dicts; `pandas.DataFrame(sweep.rows)` is a table of them."""
        return records(self.trials, self.metric)

    def __str__(self) -> str:
        return text(self.trials, self.metric, larger_is_better=self.larger_is_better, importances=self.importances)


def sweep(
    configuration: AnyConfiguration,
    folder: Path | str | None = None,
    *,
    settings: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    on: Literal["ray"] | None = None,
    num_workers: int | None = None,
) -> Sweep:
    """Searches for settings, or continues the search in a folder.

    The first training has the configuration as it is, the others drawn values of the keys in `sweep.ranges`, all with
    the configuration's seed. The folder gets a run folder for each, `best/` with the best model, `trials.csv`,
    `importances.png`, and `study.db`, the database of Optuna. A search that was killed at any moment continues to the
    same results.

    Args:
        configuration: as in `train`, with a section `sweep`.
        folder: the folder; `sweeps/` and the configuration's name if None.
        settings: further keys, as in `train`.
        overwrite: removes the search in the folder and begins anew.
        on: "ray" makes several trainings at a time on a Ray cluster whose machines share the file system. Their draws
            and their halving depend on which of them are faster.
        num_workers: how many at a time; None: one for each GPU of the cluster, or each CPU if it has none.

    Raises:
        ConfigError: for ranges that do not fit the configuration; for a folder with another search (the text has the
            keys that differ) or with other files.
        DataError: for data that cannot be trained on, or that have changed since the search began.
        UnsupportedError: without Optuna or Ray, or in several processes.
        RegardError: if no training could be finished.
    """
    given = _with_places(configured(configuration, settings or {}))
    folder = Path(folder) if folder is not None else Path("sweeps") / given.name
    config = given.config
    if config.sweep is None:
        raise ConfigError(
            f"{given.origin or 'the configuration'} has no ranges: add a section sweep, or, for example, {EXAMPLE}."
        )
    optuna()
    if on is not None:
        ray(config.training.device)
    if processes.num_started() > 1:
        raise UnsupportedError("A sweep runs in one process; `torchrun` is for `regard train`.")
    try:
        metric = selected(config)
        given.check_unread()
        check_ranges(given, _check)
        check_free(folder)
        record = Record.of(config)
        check_folder(folder, record, overwrite=overwrite)
        with Lock(folder):
            clean(folder)
            open_folder(folder, record, overwrite=overwrite)
            study = Study(folder / DATABASE, ranges(given), seed=config.seed, larger_is_better=metric.larger_is_better)
            together = nullcontext() if on is None else connected(num_workers, config.training.device)
            with closing(study), together as cluster:
                return _Search(given, folder, metric, study).run(cluster)
    except ConfigError as error:
        raise given.located(error) from None


def _with_places(configuration: Configuration) -> Configuration:
    """The configuration as it would be read from a file, if it was made in Python."""
    config = configuration.config
    if configuration.document is not None or config.sweep is None:
        return configuration
    values = {**config.model_dump(exclude_unset=True), "sweep": config.sweep.model_dump(exclude_unset=True)}
    return from_values({"task": config.task, **values})


def _check(configuration: Configuration) -> None:
    """Raises ConfigError for a configuration that no training would begin with."""
    configuration.check_unread()
    config: Config = configuration.config
    with within_memory(config.training.device):
        task_of(config).draft(config)


class _Search:
    """A search in its folder."""

    def __init__(self, given: Configuration, folder: Path, metric: Metric, study: Study) -> None:
        assert given.config.sweep is not None
        self.given, self.folder, self.metric, self.study = given, folder, metric, study
        self.plan = given.config.sweep
        self.halving = Halving(self.plan.halving, self.plan.halving_from, metric.larger_is_better)
        self.display = Display()
        self.ranges, self.as_it_is = ranges(given), chosen(given).config
        self.ended: dict[int, Trial] = {}

    def run(self, cluster: Cluster | None = None) -> Sweep:
        """Makes the trainings that are missing, and reports."""
        signal = self._train_in_turn() if cluster is None else self._train_together(cluster)
        result = self._result(signal)
        if signal is None and result.best is None:
            reasons = dict.fromkeys(f"  {each.reason}" for each in result.trials if each.reason)
            raise RegardError(
                f"{self.folder}: no training could be finished, so there is no best one. The reasons:\n"
                + "\n".join(reasons)
            )
        self._write(result)
        if signal is None and result.best is not None:
            self._advise(result.best, result)
        return result

    def _train_in_turn(self) -> int | None:
        """Makes one training after the other; returns the number of a signal that interrupted them."""
        signal = None
        while signal is None and (trial := self._next()) is not None:
            signal = self._train(trial)
            self._write_table()
        return signal

    def _train_together(self, cluster: Cluster) -> int | None:
        """Makes several trainings at a time on a cluster; returns the number of a signal that interrupted them."""
        from regard.runs.sweep.remote import STOPPING, RemoteTrainings, TrainingEnd, Validated

        running: dict[int, Any] = {}
        stopped: set[int] = set()
        has_more, end = True, math.inf
        with Interruption() as interruption, closing(RemoteTrainings(cluster, self.metric.name)) as trainings:
            while time.monotonic() < end:
                if interruption.stop.is_set() and end == math.inf:
                    trainings.close()
                    has_more, end = False, time.monotonic() + STOPPING
                while has_more and len(running) < trainings.most:
                    trial = self._next(running)
                    has_more = trial is not None
                    if has_more and not self._announced(trial):
                        running[trial.number] = trial
                        configuration = chosen(self.given, self.study.values(trial))
                        trainings.begin(trial.number, configuration, self._run_folder(trial.number))
                if not running:
                    break
                event = trainings.next(seconds=1.0)
                if isinstance(event, Validated):
                    trial = running.get(event.number)  # None: its process has ended since
                    if trial is not None and self._stops(trial, event.facts, event.value):
                        stopped.add(event.number)
                    trainings.answer(event.number, stops=event.number in stopped or interruption.stop.is_set())
                elif isinstance(event, TrainingEnd):
                    trial = running.pop(event.number)
                    if isinstance(event.result, str) and interruption.stop.is_set():
                        continue
                    if self._conclude(trial, event.result, has_stopped=event.number in stopped):
                        self._write_table()
                    else:  # its process was told to end: it continues in another one, unless all are
                        has_more = end == math.inf
        if interruption.signal is not None:
            self.display.say(f"{self.folder}: interrupted. The same command continues it.")
        return interruption.signal

    def _next(self, running: Collection[int] = ()) -> Any:
        """A trial that was interrupted, or a new one; None at the end.

        Args:
            running: the numbers of trials whose trainings are running.
        """
        trials = self.study.trials
        for trial in trials:
            if self.study.state(trial) == "running" and trial.number not in running:
                return trial
        if not trials:
            return self.study.begin({})
        spent = sum(each.user_attrs.get("seconds", 0.0) for each in trials)
        if len(trials) > self.plan.trials or (self.plan.seconds is not None and spent >= self.plan.seconds):
            return None
        return self._drawn(len(trials))

    def _drawn(self, number: int) -> Any:
        """A new trial whose settings are possible together; None if all of them have been tried."""
        error = None
        for settings in self.study.draws(number):
            refused = refusal(self.given, settings, _check)
            if refused is None and chosen(self.given, settings).config != self.as_it_is:
                return self.study.begin(settings)
            error = error or refused
        if number == 1 and error is not None:
            raise ConfigError(str(error))
        self.display.say("All combinations of the ranges have been tried.")
        return None

    def _train(self, trial: Any) -> int | None:
        """Trains, and returns the number of a signal that interrupted it."""
        number = trial.number
        has_stopped = self._announced(trial)
        if has_stopped:
            return None
        bar = Display() if number else None  # the first training prints its own, with the report on the data

        def observe(info: StepInfo) -> bool:
            nonlocal has_stopped
            if info.kind == "train" and bar is not None:
                bar.advance(info.step, info.total, info.metrics, {}, remaining=info.remaining)
            elif info.kind == "validation":
                facts = {"steps": info.step, "total": info.total, "seconds": info.seconds}
                has_stopped = self._stops(trial, facts, float(info.metrics[self.metric.name])) or has_stopped
            return has_stopped

        configuration = chosen(self.given, self.study.values(trial))
        with bar or nullcontext():
            result = attempted(number, configuration, self._run_folder(number), callback=observe, quiet=bar is not None)
        signal = None if isinstance(result, str) else result.signal
        if not self._conclude(trial, result, has_stopped=has_stopped):
            self.display.say(f"{self.folder}: interrupted in trial {number}. The same command continues it.")
            return signal or 0
        return signal

    def _announced(self, trial: Any) -> bool:
        """Prints that a training begins; returns whether it has stopped, which was decided just before a kill."""
        settings = described({each.name: value for each, value in self.study.values(trial).items()})
        self.display.say(f"trial {trial.number} of {self.plan.trials}: {settings or 'the configuration as it is'}")
        if has_stopped := self._is_behind(trial, self.study.validations(trial)):
            self._conclude(trial, None, has_stopped=True)
        return has_stopped

    def _stops(self, trial: Any, facts: Mapping[str, float], value: float) -> bool:
        """Stores a validation, and returns whether the training stops at it.

        Args:
            facts: `steps` made, `total` steps and `seconds`.
        """
        self.study.note(trial, facts)
        return self._is_behind(trial, self.study.report(trial, int(facts["steps"]), value))

    def _is_behind(self, trial: Any, validations: Sequence[tuple[float, float]]) -> bool:
        """Whether successive halving stops a training; the first one, with the configuration as it is, never stops."""
        others = (self.study.validations(each) for each in self.study.trials if each.number != trial.number)
        return trial.number > 0 and self.halving.stops(validations, others)

    def _conclude(self, trial: Any, result: TrainingRun | str | None, *, has_stopped: bool) -> bool:
        """Ends a trial; returns False for one that was interrupted.

        Args:
            result: of its training: the run, or the reason of a failure; None if halving had stopped it.
        """
        if isinstance(result, TrainingRun) and result.stop_reason == "interrupted" and not has_stopped:
            return False
        if isinstance(result, str):
            self._end(trial, "failed", reason=result)
            return True
        if self.given.config.training.keep_checkpoints == "latest":  # the default; a trial has no use for it
            Checkpoints(self._run_folder(trial.number)).remove()
        if result is None or has_stopped:
            self._end(trial, "stopped")
        elif math.isnan(value := result.metrics[self.metric.name]):
            self._end(trial, "failed", reason=f"{self.metric.name} is not a number")
        else:
            self.study.note(trial, {"steps": result.steps, "seconds": result.seconds})
            self._end(trial, "finished", value)
        return True

    def _end(self, trial: Any, state: State, value: float | None = None, *, reason: str | None = None) -> None:
        """Ends a trial, and prints its result."""
        if reason is not None:
            self.study.note(trial, {"reason": reason})
        self.study.end(trial, state, value)
        ended = self._trial(self.study.trials[trial.number])
        figure = "" if ended.value is None else f"{self.metric.name} {ended.value:.4g} "
        steps = f"after {counted(ended.steps, 'step|steps')}"
        texts = {
            "finished": f"{figure}{steps}",
            "stopped": f"{figure}{steps}, stopped at validation {ended.validations}",
            "failed": f"failed: {reason}",
        }
        self.display.say(f"  trial {trial.number}: {texts[state]}")

    def _trial(self, trial: Any) -> Trial:
        """A trial that has ended."""
        if trial.number not in self.ended:
            self.ended[trial.number] = self._read(trial)
        return self.ended[trial.number]

    def _read(self, trial: Any) -> Trial:
        state, facts, values = self.study.state(trial), trial.user_attrs, self.study.validations(trial)
        value = trial.value if state == "finished" else None
        if state == "stopped":
            value = self.halving.best(value for _, value in values)
        folder = self._run_folder(trial.number)
        settings = {each.name: value for each, value in self.study.values(trial).items()}
        return Trial(
            trial.number,
            state,
            value,
            facts.get("steps", 0),
            len(values),
            settings or self._as_configured(folder),
            facts.get("seconds", 0.0),
            facts.get("reason"),
            folder,
        )

    def _as_configured(self, folder: Path) -> dict[str, Any]:
        """The settings of the first trial: those of the configuration, or what follows from the data."""
        values, own = self.as_it_is.model_dump(), self.as_it_is.model_dump(exclude_unset=True)
        if (folder / CONFIG).is_file():
            values = load(folder / CONFIG).config.model_dump()
        settings = {}
        for each in self.ranges:
            was_given = value_at(each.path, own)
            settings[each.name] = was_given if isinstance(was_given, dict) else value_at(each.path, values)
        return settings

    def _run_folder(self, number: int) -> Path:
        return self.folder / TRIALS / f"{number:03}"

    def _trials(self) -> tuple[Trial, ...]:
        """The trials that have ended."""
        return tuple(self._trial(each) for each in self.study.trials if self.study.state(each) != "running")

    def _result(self, signal: int | None) -> Sweep:
        """The search so far."""
        trials = self._trials()
        values = {each.number: each.value for each in trials if each.value is not None}
        importances = self.study.importances(values)
        return Sweep(self.folder, self.metric.name, self.metric.larger_is_better, trials, importances, signal)

    def _write_table(self) -> None:
        replace_text(self.folder / TABLE, comma_separated(self._trials(), self.metric.name))

    def _write(self, result: Sweep) -> None:
        """Writes the table, the picture and the best model."""
        self._write_table()
        if (best := result.best) is None:
            return
        target, manifest = self.folder / BEST, Manifest(best.folder)
        files = {path.relative_to(best.folder): path for path in manifest.files()}
        if not all(
            (target / name).is_file() and cmp(path, target / name, shallow=False) for name, path in files.items()
        ):
            create_folder(target, partial(_copy, files))
        replace_file(self.folder / PICTURE, partial(_draw, result))

    def _advise(self, best: Trial, result: Sweep) -> None:
        """Prints what the search has found, and how to measure it."""
        first, folder = result.trials[0], shlex.quote(str(self.folder / BEST))
        compared = f", as configured {first.value:.4g}" if first.value is not None and best.number else ""
        lines = [f"{self.folder}: the best is trial {best.number}: {result.metric} {best.value:.4g}{compared}."]
        if result.importances:
            shares = ", ".join(f"{name} {share:.0%}" for name, share in result.importances.items())
            lines.append(f"  What mattered, in {PICTURE}: {shares}")
        lines.append("  It was chosen by these held-out data; measure it with others:")
        lines.append(f"  regard evaluate --model {folder} FILE")
        self.display.say("\n".join(lines))


def _copy(files: Mapping[Path, Path], target: Path) -> None:
    for name, path in files.items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target / name)


def _draw(result: Sweep, path: Path) -> None:
    shown = [each for each in result.trials if each.value is not None]
    keys = list(dict.fromkeys([*result.importances, *(key for each in shown for key in each.settings)]))
    plot_importances(
        path,
        {key: [each.settings[key] for each in shown] for key in keys},
        [each.value or 0.0 for each in shown],
        importances=result.importances,
        metric=result.metric,
        larger_is_better=result.larger_is_better,
        stopped=[each.state == "stopped" for each in shown],
        first=0 if shown[0].number == 0 else None,
    )
