"""The models of a server: loaded, replaced when their folders change, and closed after their last request."""

from __future__ import annotations

import asyncio
import gc
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.config.schema import task_named
from regard.config.spelling import suggestion
from regard.errors import DataError, RegardError
from regard.runs.card import NAME
from regard.runs.contract import AbstractModel, check_known
from regard.runs.run import validations
from regard.runs.store import CARD, CONFIGURATION, WEIGHTS, find, shipped
from regard.serve.batching import Batcher
from regard.serve.limits import Limits
from regard.serve.metrics import Metrics
from regard.serve.requests import SERVERS, Refusal, check_setting, without_folders
from regard.training import Outcome

Loader = Callable[[str], AbstractModel[Any]]
Signature = tuple[int, ...] | None


@dataclass(frozen=True, eq=False)
class Served:
    """A loaded model with its thread, until another one replaces it."""

    name: str
    model: AbstractModel[Any]
    jobs: Batcher

    @property
    def version(self) -> str:
        """The first digits of the digest of the weights."""
        return self.model.digest[:16]


class Models:
    """Models by name.

    Args:
        sources: by name, a run folder or the name of a shipped model.
        load: makes a model of a source.
        say: called with a sentence about each model that is replaced, or cannot be.
    """

    def __init__(
        self,
        sources: Mapping[str, str],
        load: Loader,
        *,
        limits: Limits | None = None,
        say: Callable[[str], object] = print,
    ) -> None:
        self.sources, self.limits, self.metrics = dict(sources), limits or Limits(), Metrics()
        self._load, self._say = load, say
        self._served: dict[str, Served] = {}
        self._signatures: dict[str, Signature] = {}
        self._loading = asyncio.Lock()

    @property
    def loaded(self) -> Mapping[str, Served]:
        """The models that are loaded, by name."""
        return self._served

    def load(self, name: str) -> Served:
        """Loads a model, which takes the place of the one that was loaded before.

        Requests that the former one has accepted are answered by it.

        Raises:
            RegardError: for a model that cannot be read; the former one stays.
        """
        self._signatures[name] = _signature(self.sources[name])
        try:
            model = self._load(self.sources[name])
        except Exception:
            self.metrics.loads.labels(name, "failed").inc()
            raise
        jobs = Batcher(
            wait=self.limits.wait,
            most_items=self.limits.batch,
            most_jobs=self.limits.queue,
            observe=self.metrics.observer(name),
            name=name,
        )
        former, self._served[name] = self._served.get(name), Served(name, model, jobs)
        self.metrics.waiting.labels(name).set_function(jobs.__len__)
        self.metrics.loads.labels(name, "done").inc()
        if former is not None:
            former.jobs.close()
        return self._served[name]

    async def get(self, name: str | None) -> Served:
        """The model of a name, or the first, loaded if it is not yet.

        Raises:
            Refusal: if there is no model of this name, or it cannot be read.
        """
        name = next(iter(self.sources)) if name is None else name
        if (served := self._served.get(name)) is not None:
            return served
        if name not in self.sources:
            raise Refusal(404, f"There is no model {name!r:.60}; {suggestion(name, self.sources)}", "model")
        async with self._loading:
            if name not in self._served:
                try:
                    await asyncio.to_thread(self.load, name)
                except RegardError as error:
                    raise Refusal(
                        503, f"The model {name} cannot be loaded: {without_folders(error)}", "model"
                    ) from None
        return self._served[name]

    async def reload(self, *, changed_only: bool = False) -> None:
        """Loads the loaded models again; one that cannot be read stays as it was.

        Args:
            changed_only: only those whose files have changed.
        """
        async with self._loading:
            for name, served in list(self._served.items()):
                if changed_only and _signature(self.sources[name]) == self._signatures[name]:
                    continue
                try:
                    new = await asyncio.to_thread(self.load, name)
                except Exception as error:
                    self._say(f"{name} stays as it was (version {served.version}): {error}")
                else:
                    self._say(f"{name} was loaded again: version {served.version}, now {new.version}.")
                    await asyncio.to_thread(served.jobs.join, self.limits.seconds)
                    del served
                    gc.unfreeze()  # of what was loaded before, too
                    gc.collect()

    def close(self) -> None:
        """Ends the threads, after the requests that they have accepted."""
        for served in self._served.values():
            served.jobs.close()
        for served in self._served.values():
            served.jobs.join(self.limits.seconds)


def sources_of(arguments: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """The models that arguments name, by the names under which they are served, and the names of those that are named
    themselves.

    An argument is a run folder, a shipped model's name, or a folder of run folders. Of two models of one name the
    second gets a number.

    Raises:
        RegardError: for an argument that is none of these.
    """
    found: list[tuple[str, bool]] = []
    for argument in arguments:
        folder = Path(argument)
        inside = sorted(folder.iterdir()) if folder.is_dir() else []
        runs = [str(path) for path in inside if path.is_dir() and _has_model(path)]
        if _has_model(folder) or argument in shipped() or not runs:
            find(argument)
            runs = [argument]
        found += [(run, runs == [argument]) for run in runs]
    sources: dict[str, str] = {}
    named: list[str] = []
    for source, is_named in found:
        name = first = Path(source).resolve().name if Path(source).exists() else source
        number = 1
        while name in sources:
            number += 1
            name = f"{first}-{number}"
        sources[name] = source
        named += [name] * is_named
    return sources, named


def told_by(folder: Path) -> dict[str, Any]:
    """What the files of a folder tell without the model: task and card, metrics and validations of its training."""
    cards = (path for path in (folder / NAME, folder / CARD) if path.is_file())
    text = next((path.read_text(encoding="utf-8", errors="replace") for path in cards), "")
    task = task_named(folder / CONFIGURATION) if (folder / CONFIGURATION).is_file() else None
    told: dict[str, Any] = {"task": task, "card": re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL)}
    with suppress(DataError, LookupError, TypeError):  # of damaged files, without which a model is served
        outcome = Outcome.read(folder)
        told |= {"metrics": {} if outcome is None else outcome.metrics, "validations": validations(folder)}
    return told


def _has_model(folder: Path) -> bool:
    return any((path / WEIGHTS).exists() for path in (folder, folder / "best"))


def _signature(source: str) -> Signature:
    """What changes when the weights of a model are written; None if there are none."""
    try:
        facts = (find(source) / WEIGHTS).stat()
    except (RegardError, OSError):
        return None
    return facts.st_mtime_ns, facts.st_size, facts.st_ino


def with_settings(model: AbstractModel[Any], values: Mapping[str, Any]) -> AbstractModel[Any]:
    """The model with other settings of its search, which a request may choose.

    Raises:
        Refusal: for a setting that is not for clients, or too large.
        ConfigError: for a setting that the model does not have, or a wrong value.
    """
    if not values:
        return model
    for name, value in values.items():
        check_setting(name, value)
    own = (name for name in type(model.config.decoding).model_fields if not name.startswith(SERVERS))
    check_known(values, own, model.config.task)
    return model.with_decoding(**values)
