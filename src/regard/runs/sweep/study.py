"""The trials of a search for settings in a database of Optuna, with draws that follow from the trial's number."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from regard.config.ranges import Range
from regard.errors import DataError
from regard.files import replace_file
from regard.lazy import optional
from regard.runs.sweep.trial import State

NAME = "sweep"
DATABASE = "study.db"
ATTEMPTS = 50
"""How often a trial is drawn until its settings are new and possible."""
LISTED = 10_000
"""The most combinations that are listed to find those which have not been tried."""
MIN_TRIALS = 5
"""The trials from which importances are computed."""


class Study:
    """The trials of a search, in a database of SQLite.

    Args:
        path: the database, which is created if it does not exist.
        ranges: the ranges of the search.
        seed: of all draws, together with the numbers of trials.
        larger_is_better: whether larger values are better.

    Raises:
        UnsupportedError: without Optuna.
        DataError: for a file that is not the database of a search.
    """

    def __init__(self, path: Path, ranges: Sequence[Range], *, seed: int, larger_is_better: bool) -> None:
        self._optuna = optuna()
        self.ranges, self._seed = {each.name: each for each in ranges}, seed
        self._direction = "maximize" if larger_is_better else "minimize"
        self._distributions = {each.name: self._distribution(each) for each in ranges}
        with _quiet():
            if not path.exists():
                replace_file(path, lambda partial: self._open(partial).engine.dispose())
            try:
                self._storage = self._open(path)
                self._study = self._optuna.load_study(study_name=NAME, storage=self._storage)
            except Exception as error:  # SQLAlchemy's and Optuna's have no common base
                raise DataError(f"{path}: not the database of a sweep ({str(error).splitlines()[0]:.200}).") from None
        self._id = self._storage.get_study_id_from_name(NAME)

    @property
    def trials(self) -> list[Any]:
        """All trials as `optuna.trial.FrozenTrial`, in order."""
        return list(self._study.get_trials(deepcopy=False))

    def state(self, trial: Any) -> State:
        """The state of a trial."""
        states: dict[str, State] = {"COMPLETE": "finished", "PRUNED": "stopped", "FAIL": "failed"}
        return states.get(trial.state.name, "running")

    def values(self, trial: Any) -> dict[Range, Any]:
        """The settings of a trial by range; none for the first one, the configuration as it is."""
        return {
            each: self._value(each, trial.params[name]) for name, each in self.ranges.items() if name in trial.params
        }

    def begin(self, values: Mapping[Range, Any]) -> Any:
        """Adds a running trial with these settings, in one transaction."""
        parameters = {each.name: self._parameter(each, value) for each, value in values.items()}
        trial = self._optuna.trial.create_trial(
            state=self._optuna.trial.TrialState.RUNNING,
            params=parameters,
            distributions={name: self._distributions[name] for name in parameters},
        )
        with _quiet():
            self._study.add_trial(trial)
        return self.trials[-1]

    def draws(self, number: int) -> Iterator[dict[Range, Any]]:
        """Settings for a trial, which are drawn from those of the earlier ones: the next if these are not possible.

        The draws follow from the seed, the number and the earlier trials. Where there are only a few combinations,
        those that have not been tried come after `ATTEMPTS` draws.

        Args:
            number: of the trial.
        """
        earlier = [trial for trial in self.trials[:number] if trial.params]
        tried = {self._key(trial.params) for trial in earlier}
        for attempt in range(ATTEMPTS):
            parameters = self._drawn(earlier, (self._seed, number, attempt))
            if self._key(parameters) not in tried:
                tried.add(self._key(parameters))
                yield {each: self._value(each, parameters[name]) for name, each in self.ranges.items()}
        if math.prod(each.size for each in self.ranges.values()) <= LISTED:
            for values in product(*map(_listed, self.ranges.values())):
                settings = dict(zip(self.ranges.values(), values, strict=True))
                if (
                    self._key({each.name: self._parameter(each, value) for each, value in settings.items()})
                    not in tried
                ):
                    yield settings

    def report(self, trial: Any, step: int, value: float) -> list[tuple[float, float]]:
        """Stores the value of a validation; returns `validations`."""
        self._storage.set_trial_intermediate_value(self._trial_id(trial), step, value)
        return self.validations(trial)

    def validations(self, trial: Any) -> list[tuple[float, float]]:
        """The validations of a trial in order: the share of its steps that had been made (`total`), and the value."""
        current = trial if trial.state.is_finished() else self._storage.get_trial(self._trial_id(trial))
        values, total = current.intermediate_values, current.user_attrs.get("total", 1)
        return [(step / total, values[step]) for step in sorted(values)]

    def note(self, trial: Any, facts: Mapping[str, Any]) -> None:
        """Stores plain values about a trial, in its `user_attrs`."""
        for name, fact in facts.items():
            self._storage.set_trial_user_attr(self._trial_id(trial), name, fact)

    def end(self, trial: Any, state: State, value: float | None = None) -> None:
        """Ends a trial.

        Args:
            value: of a finished trial.
        """
        names = {"finished": "COMPLETE", "stopped": "PRUNED", "failed": "FAIL"}
        with _quiet():
            self._study.tell(trial.number, value, state=self._optuna.trial.TrialState[names[state]])

    def importances(self, values: Mapping[int, float]) -> dict[str, float]:
        """The importance of each key for the best trials, the largest first, with the sum 1 (PED-ANOVA; Watanabe 2023).

        Args:
            values: by number of the trial; those of trials without settings are left out.

        Returns:
            Importances by dotted key; none for fewer than `MIN_TRIALS` trials, or if all values are equal.
        """
        trials = [trial for trial in self.trials if trial.params and math.isfinite(values.get(trial.number, math.nan))]
        if len(trials) < MIN_TRIALS or len({values[trial.number] for trial in trials}) == 1:
            return {}
        create, state = self._optuna.trial.create_trial, self._optuna.trial.TrialState.COMPLETE
        with _quiet():
            study = self._optuna.create_study(direction=self._direction)
            for trial in trials:
                study.add_trial(
                    create(
                        state=state,
                        value=values[trial.number],
                        params=trial.params,
                        distributions={name: self._distributions[name] for name in trial.params},
                    )
                )
            share = min(max(0.1, MIN_TRIALS / len(trials)), 0.5)
            evaluator = self._optuna.importance.PedAnovaImportanceEvaluator(target_quantile=share)
            found = self._optuna.importance.get_param_importances(study, evaluator=evaluator)
        return {} if any(map(math.isnan, found.values())) else dict(found)

    def close(self) -> None:
        """Closes the database."""
        self._storage.remove_session()
        self._storage.engine.dispose()

    def _open(self, path: Path) -> Any:
        """The storage in a file, with the study."""
        from sqlalchemy.engine import URL

        address = URL.create("sqlite", database=str(path.absolute())).render_as_string()
        storage = self._optuna.storages.RDBStorage(address)
        self._optuna.create_study(storage=storage, study_name=NAME, direction=self._direction, load_if_exists=True)
        return storage

    def _drawn(self, earlier: Sequence[Any], seed: Sequence[int]) -> dict[str, Any]:
        """The parameters of a new trial."""
        number = int(np.random.SeedSequence(seed).generate_state(1)[0])
        with _quiet():
            sampler = self._optuna.samplers.TPESampler(seed=number, multivariate=True)
            study = self._optuna.create_study(direction=self._direction, sampler=sampler)
            study.add_trials(earlier)
            parameters = study.ask(self._distributions).params
        for name, each in self.ranges.items():
            if not each.choices:
                parameters[name] = each.rounded(parameters[name])
        return parameters

    def _distribution(self, each: Range) -> Any:
        distributions = self._optuna.distributions
        if each.choices:
            return distributions.CategoricalDistribution(each.labels)
        if each.whole:
            step = int(each.step or 1)
            high: float = int(each.low) + int(each.size - 1) * step
            return distributions.IntDistribution(int(each.low), high, log=each.log, step=step)
        high = each.high if each.step is None else each.rounded(each.low + (each.size - 1) * each.step)
        return distributions.FloatDistribution(each.low, high, log=each.log, step=each.step)

    def _parameter(self, each: Range, value: Any) -> Any:
        return each.labels[each.choices.index(value)] if each.choices else value

    def _value(self, each: Range, parameter: Any) -> Any:
        return each.choices[each.labels.index(parameter)] if each.choices else parameter

    def _key(self, parameters: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(parameters[name] for name in self.ranges)

    def _trial_id(self, trial: Any) -> int:
        number: int = self._storage.get_trial_id_from_study_id_trial_number(self._id, trial.number)
        return number


def optuna() -> Any:
    """The package Optuna.

    Raises:
        UnsupportedError: if it is not installed.
    """
    return optional("optuna", "A sweep needs", extra="sweep")


def _listed(each: Range) -> Iterator[Any]:
    """All values of a finite range."""
    if each.choices:
        return iter(each.choices)
    step = 1 if each.step is None else each.step
    numbers = (each.low + number * step for number in range(int(each.size)))
    return (int(number) if each.whole else each.rounded(number) for number in numbers)


@contextmanager
def _quiet() -> Iterator[None]:
    """Inside the block Optuna prints nothing and does not warn of what is new in it."""
    package = optuna()
    before = package.logging.get_verbosity()
    package.logging.set_verbosity(package.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        package.logging.set_verbosity(before)
