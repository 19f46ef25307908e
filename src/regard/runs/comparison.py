"""Comparisons of runs on the same data: metrics with intervals and verdicts, settings, training, and outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isnan
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from regard.config import differences
from regard.errors import DataError, Option, RegardError, counted
from regard.metrics.bootstrap import (
    Difference,
    Estimate,
    ItemTerms,
    MetricTerms,
    PairedComparison,
    ShownItem,
    compare,
)
from regard.runs.contract import AbstractModel, task_of
from regard.runs.fingerprints import fingerprint
from regard.runs.store import WEIGHTS, find, load
from regard.training import Outcome
from regard.training.log import read_log

DATA = Option("--data", "data")
FEWEST_GROUPS = 10
"""With fewer independent items even large differences may be called chance."""


WARM_UP = 10.0
"""A first evaluation of fewer seconds is repeated, since it also loads compiled kernels."""


@dataclass(eq=False)
class ComparedSystem:
    """One of what is compared: a run, the outputs of another program, or a baseline.

    Args:
        name: the end of the path by which it is told apart from the others.
        items: its terms, for the common items.
        model: None for others than runs.
        folder: of the saved model.
        seconds: the time of the evaluation.
        path: as the user wrote it; empty if that is the name.
    """

    name: str
    items: ItemTerms
    model: AbstractModel[Any] | None = None
    folder: Path | None = None
    seconds: float | None = None
    path: str = ""

    @cached_property
    def outcome(self) -> Outcome | None:
        """The outcome of a finished training."""
        return None if self.folder is None else Outcome.read(self.folder)

    @cached_property
    def log(self) -> list[dict[str, Any]]:
        """The lines of `metrics.jsonl`; none without it."""
        return [] if self.folder is None else read_log(self.folder)

    def facts(self) -> dict[str, str]:
        """Size, time and length of the training, as texts by name."""
        facts: dict[str, str] = {}
        if self.model is not None and self.folder is not None:
            facts["parameters"] = f"{self.model.num_parameters:,}"
            facts["model file"] = f"{(self.folder / WEIGHTS).stat().st_size / 1e6:,.3g} MB"
        if (outcome := self.outcome) is not None:
            facts["training"] = f"{outcome.seconds / 60:,.3g} min"
            facts["steps"] = f"{outcome.steps:,}"
            facts["epochs"] = f"{outcome.epochs:,}"
            steps = outcome.weights
            span = [f"{step:,}" for step in (*steps[:1], *steps[1:][-1:])]
            facts["saved step"] = " to ".join(span) + (f" (mean of {len(steps)})" if len(steps) > 1 else "")
        if self.seconds is not None:
            facts["evaluation"] = f"{self.seconds:,.1f} s"
        return facts


@dataclass(eq=False)
class RunComparison:
    """Runs and others on the same items.

    Args:
        data: the name of the evaluated data.
        sides: the first is what differences are shown from.
        metrics: the comparison by metric, the headline first; of the sides that have the metric.
        notes: what to know about the data or the metrics.
    """

    data: str
    sides: Sequence[ComparedSystem]
    metrics: Mapping[str, MetricComparison]
    notes: Sequence[str] = ()

    @property
    def num_items(self) -> int:
        """The number of compared items."""
        return len(self.sides[0].items.keys)

    @property
    def headline(self) -> MetricComparison:
        """The metric that the runs were selected by, or the first of the task."""
        return next(iter(self.metrics.values()))

    @cached_property
    def settings(self) -> list[tuple[str, list[Any]]]:
        """The keys whose values differ between runs, each with a value for each side; None of sides without a run."""
        models = [side.model for side in self.sides]
        first = next((model for model in models if model is not None), None)
        if first is None:
            return []
        changed = [[] if model is None else differences(first.config, model.config) for model in models]
        before = {name: value for rows in changed for name, value, _ in rows}
        after = [{name: value for name, _, value in rows} for rows in changed]
        return [
            (name, [None if model is None else own.get(name, value) for model, own in zip(models, after, strict=True)])
            for name, value in before.items()
        ]

    def most_different(self, count: int) -> list[int]:
        """The items on whose headline metric the sides differ most, the largest differences first."""
        values = np.stack([self.sides[i].items.metrics[self.headline.name].each for i in self.headline.places])
        spread = np.nan_to_num(values).max(0) - np.nan_to_num(values).min(0)
        order = np.argsort(-spread, kind="stable")
        return [int(i) for i in order[:count] if spread[i] > 0]

    def shown(self, item: int) -> list[tuple[ComparedSystem, ShownItem, float]]:
        """An item of each side that has the headline metric, with its value."""
        name = self.headline.name
        sides = [self.sides[i] for i in self.headline.places]
        return [(side, side.items.show(item), float(side.items.metrics[name].each[item])) for side in sides]


@dataclass(frozen=True, eq=False)
class MetricComparison:
    """A metric of some of the sides.

    Args:
        name: of the metric.
        terms: of the first side.
        places: the indices of the sides that have it.
        comparison: of these sides, in this order.
    """

    name: str
    terms: MetricTerms
    places: Sequence[int]
    comparison: PairedComparison

    @property
    def order(self) -> list[int]:
        """The places of the sides, the best value first."""
        values = [each.value for each in self.comparison.estimates]
        sign = -1 if self.terms.larger_is_better else 1
        ranks = sorted(range(len(values)), key=lambda i: (np.isnan(values[i]), sign * values[i]))
        return [self.places[i] for i in ranks]

    def between(self, first: int, second: int) -> Difference:
        """The difference of a side from another."""
        return self.comparison.between(self.places.index(first), self.places.index(second))

    def pairs(self) -> Iterator[tuple[int, int, Difference]]:
        """All pairs of sides, with the difference of the second from the first."""
        for (i, j), difference in self.comparison.differences.items():
            yield self.places[i], self.places[j], difference


@dataclass(frozen=True)
class OtherOutputs:
    """Outputs of another program.

    Args:
        name: of the file.
        of: the outputs for the items of a model, one for each.
    """

    name: str
    of: Callable[[Sequence[ShownItem]], Sequence[str]] = field(repr=False)


def compare_runs(
    runs: Sequence[str | Path],
    data: Path | str | None = None,
    *,
    outputs: Sequence[OtherOutputs] = (),
    baselines: bool = False,
    device: str = "auto",
    options: Mapping[str, Any] | None = None,
    seed: int = 0,
    say: Callable[[str], object] = lambda text: None,
) -> RunComparison:
    """Compares runs on data that none of them was trained on.

    Args:
        runs: run folders, or names of shipped models, all of the same task.
        data: a file as `evaluate` takes it; the held-out file of the trainings if None.
        outputs: of other programs, for the inputs of the data.
        baselines: whether the predictions without a model that an evaluation has are compared, too.
        options: further arguments of `evaluate`.
        seed: of the random draws.
        say: called with the progress.

    Raises:
        RegardError: for runs of different tasks, without common data, or if there are fewer than two to compare.
        DataError: for data that a run was trained on.
    """
    if repeated := next((run for i, run in enumerate(runs) if run in runs[:i]), None):
        raise RegardError(f"{repeated} is given twice.")
    models = [(str(run), find(run), load(run, device=device)) for run in runs]
    tasks = {name: model.config.task for name, _, model in models}
    if len({*tasks.values()}) > 1:
        named = ", ".join(f"{name} ({task})" for name, task in tasks.items())
        raise RegardError(f"Only models of the same task can be compared; these are of several: {named}.")
    if outputs and type(models[0][2]).evaluate_outputs is AbstractModel.evaluate_outputs:
        models[0][2].evaluate_outputs(None, ())  # refuses by name
    notes: list[str] = []
    arguments = dict(options or {})
    if data is None:
        data, arguments = _common_held_out([(name, model) for name, _, model in models], notes)
        data = data.relative_to(Path.cwd()) if data.is_relative_to(Path.cwd()) else data
    names = told_apart([*(name for name, _, _ in models), *(other.name for other in outputs)])
    sides, seen, first = [], set[str](), None
    for (path, folder, model), name in zip(models, names):
        say(f"evaluating {path} on {data}")
        evaluation, seconds = _evaluated(model, data, arguments)
        if first is None and seconds < WARM_UP:
            evaluation, seconds = _evaluated(model, data, arguments)
        sides.append(ComparedSystem(name, model.item_terms(evaluation), model, folder, seconds, path))
        first = evaluation if first is None else first
        if baselines and not sides[0].items.baselines:
            option = Option("--baselines", "baselines")
            raise RegardError(f"Evaluations of {model.config.task} have no baselines here; leave out {option}.")
        notes += [f"{name}: {warning}" for warning in evaluation.warnings]
        known = model.seen(evaluation, data)
        if known is not None and known.items:
            seen |= {*known.items}
    model, items = models[0][2], sides[0].items
    for other, name in zip(outputs, names[len(models) :]):
        terms = model.item_terms(
            model.evaluate_outputs(first, other.of([items.show(i) for i in range(len(items.keys))]))
        )
        sides.append(ComparedSystem(name, terms, path=other.name))
    if baselines:
        for name, metrics in items.baselines.items():
            sides.append(ComparedSystem(name, ItemTerms(items.keys, metrics, lambda i: ShownItem(items.show(i).place))))
    if len(sides) < 2:
        raise RegardError("A comparison needs at least two: runs, outputs of other programs, or baselines.")
    notes += _keep_common(sides, seen, str(data))
    return RunComparison(str(data), sides, _compared(sides, notes, seed), notes)


def _evaluated(model: AbstractModel[Any], data: Path | str, arguments: Mapping[str, Any]) -> tuple[Any, float]:
    """An evaluation and its seconds."""
    started = perf_counter()
    evaluation = model.evaluate(data, **{**model.terms_only, **arguments})
    return evaluation, perf_counter() - started


def _common_held_out(models: Sequence[tuple[str, AbstractModel[Any]]], notes: list[str]) -> tuple[Path, dict[str, Any]]:
    """The held-out file of all trainings, with further arguments of `evaluate`."""
    advice = f"Name a file that none of the models was trained on: {Option('--data FILE', 'data=path')}."
    found: list[tuple[str, Path, dict[str, Any], list[str]]] = []
    for name, model in models:
        held_out = model.held_out()
        if held_out is None:
            raise RegardError(f"{name} has no held-out file of its own. {advice}")
        path, arguments = held_out
        files = [path, *arguments.get("references", ())]
        if missing := next((file for file in files if not file.exists()), None):
            raise RegardError(f"{name}: its held-out file {missing} does not exist here. {advice}")
        prints = [fingerprint(file) for file in files]
        if not {*prints} <= {*model.fingerprints.values()}:
            raise RegardError(f"{name}: its held-out file {path} has changed since the training. {advice}")
        found.append((name, path, arguments, prints))
    first, path, arguments, prints = found[0]
    if other := next((each for each in found if each[3] != prints), None):
        raise RegardError(
            f"The trainings have different held-out files: {first} has {path}, {other[0]} has {other[1]}. {advice}"
        )
    if "dev" in models[0][1].fingerprints or "dev.0" in models[0][1].fingerprints:
        notes.append(f"these data chose the saved models, too; a test file ({DATA}) is fairer")
    return path, arguments


def _keep_common(sides: Sequence[ComparedSystem], seen: set[str], data: str) -> list[str]:
    """Reduces all sides to the items that all have and that no model was trained on; returns notes."""
    common = {*sides[0].items.keys}.intersection(*(side.items.keys for side in sides[1:]))
    if not common:
        raise DataError(f"{data}: the models have no item in common; do they forecast the same number of steps?")
    notes = []
    most = max(len(side.items.keys) for side in sides)
    if len(common) < most:
        notes.append(f"{len(common):,} of {counted(most, 'item|items')} are common to all and compared")
    kept = [key for key in sides[0].items.keys if key in common and key not in seen]
    if not kept:
        raise DataError(f"{data}: the models were trained on all of its items; compare them on other data ({DATA}).")
    if left := len(common) - len(kept):
        notes.append(counted(left, "item|items that a model was trained on is|are left out"))
    for side in sides:
        places = {key: i for i, key in enumerate(side.items.keys)}
        side.items = side.items.at([places[key] for key in kept])
    return notes


def _compared(sides: Sequence[ComparedSystem], notes: list[str], seed: int) -> dict[str, MetricComparison]:
    """The metrics that at least two sides have on the same basis, the headline first."""
    names = list(dict.fromkeys(name for side in sides for name in side.items.metrics))
    selected = {_selected(side.model) for side in sides if side.model is not None}
    names.sort(key=lambda name: name not in selected)
    groups, compared = sides[0].items.groups, {}
    for name in names:
        having = [(i, side.items.metrics[name]) for i, side in enumerate(sides) if name in side.items.metrics]
        bases = list(dict.fromkeys(terms.basis for _, terms in having))
        if len(bases) > 1:
            notes.append(f"{name} is not compared, as it is computed in different ways: {' / '.join(bases)}")
        if len(having) > 1 and len(bases) == 1:
            places, terms = zip(*having, strict=True)
            compared[name] = MetricComparison(name, terms[0], places, compare(terms, groups=groups, seed=seed))
    if not compared:
        raise RegardError("There is no metric that can be compared:\n  " + "\n  ".join(notes))
    groups_of = next(iter(compared.values())).comparison.num_groups
    if groups_of < FEWEST_GROUPS:
        notes.append(f"only {counted(groups_of, 'independent item|items')}: large differences may be chance")
    return compared


def _selected(model: AbstractModel[Any]) -> str:
    """The metric by which the saved model was selected."""
    metric = task_of(model.config).metric(model.config.select)
    return model.config.select if metric is None else metric.name


def told_apart(paths: Sequence[str]) -> list[str]:
    """The shortest ends of paths that differ from those of all others.

    >>> told_apart(["runs/small", "runs/large/best", "old/large/best", "g2p-en"])
    ['small', 'runs/large/best', 'old/large/best', 'g2p-en']
    """
    parts = [Path(path).parts or (path,) for path in paths]

    def end(i: int) -> str:
        others = [each for j, each in enumerate(parts) if j != i]
        sizes = range(1, len(parts[i]) + 1)
        size = next((n for n in sizes if not any(each[-n:] == parts[i][-n:] for each in others)), len(parts[i]))
        return str(Path(*parts[i][-size:]))

    return [end(i) for i in range(len(paths))]


def figure_text(value: float, share: bool) -> str:
    """A metric as a text; a share in per cent.

    >>> figure_text(0.4953, True), figure_text(12.34567, False)
    ('49.5 %', '12.35')
    """
    if isnan(value):
        return "–"
    return f"{100 * value:.1f} %" if share else f"{value:.4g}"


def interval_text(each: Estimate, share: bool) -> str:
    """The ends of an interval."""
    low, high = (f"{100 * x:.1f}" if share else f"{x:.4g}" for x in (each.low, each.high))
    return f"{low} to {high}".replace("-", "−")


def change_text(value: float, share: bool) -> str:
    """A difference with its sign; of shares in points."""
    text = f"{100 * value:+.1f}" if share else f"{value:+.3g}"
    return text.replace("-", "−")


def p_text(difference: Difference) -> str:
    """The corrected p-value."""
    p = difference.corrected
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def rows(comparison: RunComparison) -> Iterable[dict[str, Any]]:
    """The figures as rows of a table: each side of each metric, then each pair of sides."""
    empty = dict.fromkeys(("compared_with", "p_value", "corrected_p_value", "verdict"))
    verdicts = {0: "no more than chance", 1: "better", -1: "worse"}
    names = [side.path or side.name for side in comparison.sides]
    for metric in comparison.metrics.values():
        for place, each in zip(metric.places, metric.comparison.estimates):
            run = names[place]
            yield {"metric": metric.name, "run": run, "value": each.value, "low": each.low, "high": each.high, **empty}
        for first, second, each in metric.pairs():
            yield {
                "metric": metric.name,
                "run": names[second],
                "value": each.value,
                "low": each.low,
                "high": each.high,
                "compared_with": names[first],
                "p_value": each.p_value,
                "corrected_p_value": each.corrected,
                "verdict": verdicts[each.verdict],
            }
