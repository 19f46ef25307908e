"""The interface of tasks, which run folders, the training loop and the command line use."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Protocol, Self, TypeVar

import numpy as np
import torch
from torch import nn

from regard.config import Config
from regard.config.conditions import unread
from regard.config.schema import SCHEMAS
from regard.config.search import changed
from regard.config.spelling import suggestion
from regard.data import Finding, Findings
from regard.data.finding import by_severity
from regard.data.input_rows import InputRow, InputTable
from regard.data.objects import WrittenData, table_of, text_at
from regard.data.text import Vocabulary
from regard.errors import ConfigError, DataError, UnsupportedError, counted
from regard.lazy import OnDemand
from regard.runs.calibration import OUTPUT, Calibration, Stated
from regard.runs.fingerprints import DataFile, fingerprint, training_files
from regard.runs.plan import Plan
from regard.runs.trained_items import DataItem, SeenItems, TrainedItems, shared_items

if TYPE_CHECKING:
    from regard.decoding import SearchTree
    from regard.metrics.bootstrap import ItemTerms
    from regard.runs.predictions import ScoredPair
    from regard.runs.report import ReportFacts
    from regard.runs.trainee import AbstractTrainee


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric of validations that may select the saved model.

    Args:
        name: as it is logged.
        aliases: other names that `select` may have.
        larger_is_better: whether the largest value is the best, not the smallest.
        package, extra: the package without which it cannot be computed, and the extra that has it.
    """

    name: str
    aliases: tuple[str, ...] = ()
    larger_is_better: bool = False
    package: str | None = None
    extra: str | None = None


class AnyPrediction(Protocol):
    """The result of `predict` for an input."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """The reasons for which the input was changed or refused; empty for most inputs."""


class AnyScored(Protocol):
    """An item of an evaluation with its prediction; `str` shows both, in one or more lines.

    Items whose outputs are right or wrong also have `is_right`, and those of models with confidences `confidence`, the
    probability, from 0 to 1, that the output is right (docs/confidence.md).
    """

    @property
    def place(self) -> str:
        """The place of the item, such as `test.tsv:3`."""

    @property
    def prediction(self) -> AnyPrediction:
        """Its prediction."""

    def record(self) -> dict[str, Any]:
        """The item as a JSON object, with further figures of the task after these, None for those it does not have.

        place, input; references: a list of what is right, each a text or a list of labels; output: like one of them;
        errors: the wrong symbols, labels or tokens; length: of how many; score: by which the model ranks outputs;
        confidence: as above.
        """


class AnyEvaluation(Protocol):
    """A comparison of predictions with a file; `str` shows the metrics."""

    @property
    def metrics(self) -> Mapping[str, float]:
        """The metrics by name."""

    @property
    def scored(self) -> Sequence[AnyScored]:
        """The items, in the order of the file."""

    @property
    def worst(self) -> Sequence[AnyScored]:
        """The items with errors, the worst first."""

    @property
    def details(self) -> Mapping[str, Any]:
        """Further entries of `regard evaluate --json`, such as the signatures of metrics or a confusion matrix."""

    @property
    def warnings(self) -> Sequence[str]:
        """Warnings about parts of the file that the model cannot answer, such as unknown labels, with counts."""


ConfigT = TypeVar("ConfigT", bound=Config)
STATED = Stated()
"""Outputs without confidences."""
MOST_WEIGHTS = 500_000
"""The most weights of a prediction that a page draws by layer and head."""


@dataclass(eq=False, repr=False)
class AbstractModel(ABC, Generic[ConfigT]):
    """A trained model with everything that prediction needs.

    `regard.load` returns one from a run folder. Several threads may call it at once.

    The command line passes a flag to `predict`, `evaluate` or `plot` as a keyword-only parameter of its name, and
    refuses it for a model whose method has none. Flags of the search are keys of the configuration's `decoding`.

    Args:
        module: the network; set to evaluation mode.
        name: shown in messages.
        card: a text about the model, its data and its limits.
        fingerprints: SHA-256 of the training and held-out files, by name; metrics on training files are refused.
    """

    config: ConfigT
    module: nn.Module
    _: KW_ONLY
    name: str = "model"
    card: str = ""
    fingerprints: dict[str, str] = field(default_factory=dict)
    trained_items: TrainedItems | None = field(init=False, default=None)
    """The items that it was trained on; None if they were not recorded."""
    folder: Path | None = field(init=False, default=None)
    """The folder that it was loaded from; None if it was not."""
    digest: str = field(init=False, default="")
    """The SHA-256 of the weights that it was loaded with; empty if it was not loaded."""
    calibration: Calibration | None = field(init=False, default=None)
    """The temperatures of confidences; None for a model that is not calibrated, whose temperatures are 1."""
    no_confidence: ClassVar[str] = ""
    """Why predictions have no confidence; empty for models whose predictions have one."""
    assets: ClassVar[tuple[str, ...]]
    """The names of the files that `save_assets` may write; their checksums are saved with the weights."""
    input_kind: ClassVar[Literal["text", "file"]] = "text"
    """The kind of an argument of `regard predict` and `regard plot`: a text, or a file that `read` reads."""
    formats: ClassVar[tuple[str, ...]] = ("tsv", "text", "jsonl", "csv")
    """The formats of `regard predict`; the first is the default."""
    column_names: ClassVar[tuple[str, ...]] = ("prediction", "score")
    """The names of the columns of `rows` in a header."""
    output_column: ClassVar[int] = 0
    """The column of `rows` that has the output."""
    file_formats: ClassVar[tuple[str, ...]] = ()
    """The suffixes of the files that `write` may write for a prediction; none for most."""
    sounds: ClassVar[tuple[str, ...]] = ()
    """Those of `file_formats` that are a prediction by themselves, so that an output file may be one."""
    folder_suffixes: ClassVar[tuple[str, ...]] = ()
    """Of models whose inputs are files: the suffixes of inputs in a folder; none if `inputs` reads folders."""
    most_inputs: ClassVar[int] = 0
    """Of models whose inputs are files: the number of predictions between two outputs; 0: all."""
    terms_only: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    """The arguments of `evaluate` that leave out what `item_terms` does not need."""
    shown_sections: ClassVar[tuple[str, ...]] = ("model", "decoding")
    """The sections of the configuration that `information` shows."""
    line_end: ClassVar[str] = " "
    """The replacement of line ends within an output that is printed in one line."""
    longest_text: ClassVar[int] = 20_000
    """The most characters of an input that a server accepts, of models whose inputs are texts."""

    def __post_init__(self) -> None:
        self.module.eval()

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(self.module.parameters()).device

    @property
    def num_parameters(self) -> int:
        """The number of weights; tied ones are counted once."""
        return sum(parameter.numel() for parameter in self.module.parameters())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.num_parameters:,} parameters, on {self.device})"

    @abstractmethod
    def save_assets(self, folder: Path) -> None:
        """Writes the files of the model other than weights and configuration, such as vocabularies; no code."""

    @abstractmethod
    def description(self) -> dict[str, Any]:
        """The entries of `information` that depend on the task, such as vocabularies."""

    def temperature(self, unit: str = OUTPUT) -> float:
        """The temperature of the confidences of a unit; 1 for a model that is not calibrated."""
        return 1.0 if self.calibration is None else self.calibration.temperatures.get(unit, 1.0)

    def calibrate(self, evaluation: Any) -> Calibration:
        """The temperatures with which confidences agree best with what is right in an evaluation of held-out data.

        Raises:
            UnsupportedError: for models without confidences.
        """
        raise UnsupportedError(self.no_confidence)

    def with_decoding(self, **values: Any) -> Self:
        """The model with other settings of its predictions, keys of `decoding`; both have the same weights.

        Raises:
            ConfigError: for a key that the task does not have, a wrong value, or a key that has no effect.

        >>> import regard
        >>> regard.load("g2p-en").with_decoding(num_best=2).predict(["read"])[0].alternatives[0].text
        'R EH D'
        """
        section = self.config.decoding
        check_known(values, type(section).model_fields, self.config.task)
        variant = copy(self)
        variant.config = self.config.model_copy(update={"decoding": changed(section, "decoding", values)})
        for path, what in unread(variant.config, lambda path: path[0] == "decoding" and path[-1] in values):
            raise ConfigError(f"{path[-1]}: {what}", path)
        return variant

    def information(self) -> dict[str, Any]:
        """Facts about the model: sizes, vocabularies, configuration."""
        named = {"name": self.name, "task": self.config.task, "parameters": self.num_parameters}
        sections = {section: getattr(self.config, section).model_dump(mode="json") for section in self.shown_sections}
        return {**named, **self.description(), **sections}

    def vocabularies(self) -> Mapping[str, tuple[str, Vocabulary]]:
        """The vocabularies by name, each with the prefix of the names of weights that have a row for each symbol."""
        return {}

    def named_rows(self) -> Mapping[str, Sequence[str]]:
        """By weight, the names of its rows, other than symbols of vocabularies: labels."""
        return {}

    def unlike(self, other: Any) -> Sequence[str]:
        """Lines about differences from another model from whose weights this one starts."""
        return ()

    @property
    def input_fields(self) -> tuple[str | int, ...]:
        """The fields of an input in tables like those of the training: names, or columns counted from 0."""
        return (0,)

    def input_table(self, name: str, head: Sequence[str], *, is_table: bool = False) -> InputTable | None:
        """The table of a file in the form of the training files, for `regard predict` and `regard plot` of texts.

        None: the file has another form. It is then read by its suffix, with `input_fields` as its columns or fields, or
        has one input per line.

        Args:
            name: the file's name; `stdin` for the standard input.
            head: its first lines, or all if there are only a few.
            is_table: whether the file must have the form of the training files; else name and lines decide.

        Raises:
            DataError: for a file of another form that must have this one.
        """
        return None

    def folder_inputs(self, folder: Path) -> Iterable[InputRow]:
        """The inputs of a folder, for models of texts that are trained on folders.

        Raises:
            DataError: for other models.
        """
        raise DataError(f"{folder} is a folder; models of {self.config.task} read a file in it.")

    def read(self, argument: str) -> Any:
        """The input of an argument of the command line, for models whose inputs are files."""
        return argument

    def inputs(self, argument: str) -> Iterable[tuple[str, Any]]:
        """The inputs of an argument of the command line, with their names: one, or those of a table."""
        return [(argument, self.read(argument))]

    def from_json(self, value: Any) -> Any:
        """The input of `predict` that a value of JSON is, as a server gets it; a text names no file.

        Raises:
            DataError: for a value of another form than that of `input_schema`.
        """
        count = len(self.input_fields)
        if isinstance(value, str):
            return value
        if count == 1:
            raise DataError(f"expected a text; got {shown_json(value)}.")
        if not isinstance(value, list) or len(value) != count or not all(isinstance(text, str) for text in value):
            raise DataError(f"expected a list of {count} texts; got {shown_json(value)}.")
        return "\t".join(value)

    def input_schema(self) -> dict[str, Any]:
        """The JSON Schema of the values that `from_json` takes."""
        text, count = {"type": "string", "maxLength": self.longest_text}, len(self.input_fields)
        return text if count == 1 else {"type": "array", "items": text, "minItems": count, "maxItems": count}

    def listed(self, inputs: Any) -> Any:
        """The inputs of `predict` as a list of the task's inputs, from columns of a table or an array, too.

        Of models whose inputs have several columns, an input may be a tuple or a row of a table.

        Raises:
            DataError: for a table with other columns.
        """
        count = len(self.input_fields)
        if hasattr(inputs, "itertuples") or hasattr(inputs, "iter_rows"):
            table = table_of(inputs, "inputs")
            columns = table.columns(self.input_fields, f"{counted(count, 'column|columns')} of an input")
            rows = table.selected(columns)
            return ["\t".join(text_at(value, place, "the input") for value in row) for place, row in rows]
        if hasattr(inputs, "tolist") and getattr(inputs, "ndim", 0) == 1:
            inputs = inputs.tolist()
        if count > 1 and isinstance(inputs, list | tuple):
            return ["\t".join(each) if isinstance(each, tuple | list) else each for each in inputs]
        return inputs

    def adapt(self, data: Any, folder: Path | str, **options: Any) -> Any:
        """The run of a short training on further data, which keeps what the model knows (`regard.tasks.adapt`).

        Args:
            data: a file, or data of Python as `regard.train` takes them.
            folder: the run folder.
            **options: as of `regard.tasks.adapt`.
        """
        return OPERATIONS["adapt"](self, data, folder, **options)

    def save(self, folder: Path | str, *, overwrite: bool = False) -> None:
        """Writes the model into a folder, from which `regard.load` reads it.

        Args:
            overwrite: replaces a saved model in the folder.

        Raises:
            RegardError: for a folder with files, unless `overwrite`, and in any case for one with other files.
        """
        OPERATIONS["save"](self, Path(folder), overwrite=overwrite)

    @abstractmethod
    def predict(self, inputs: Sequence[Any], *, alignment: bool = True, strict: bool = False) -> Sequence[Any]:
        """The `AnyPrediction` of every input, in order; predictions are independent of each other.

        Args:
            inputs: texts, or results of `read`.
            alignment: whether predictions have their alignments.
            strict: raises an error for an input that cannot be handled, instead of a warning.
        """

    @abstractmethod
    def evaluate(self, data: Any) -> AnyEvaluation:
        """Compares predictions with a file, or with data of Python as `regard.train` takes them.

        Raises:
            DataError: for a file without items, or one that the model was trained on.
        """

    def report_facts(self, evaluation: Any) -> ReportFacts:
        """What reports of an evaluation show beyond the records of its items."""
        from regard.runs.report import ReportFacts

        return ReportFacts()

    def evaluated_items(self, evaluation: Any, path: Path | str) -> Iterable[DataItem]:
        """The items of an evaluation, in the form of the recorded training items; none for tasks without items."""
        return ()

    def seen(self, evaluation: Any, path: Path | str) -> SeenItems | None:
        """The items of an evaluation that the model was trained on; None if they are not known."""
        if self.trained_items is None:
            return None
        seen = self.trained_items.seen(self.evaluated_items(evaluation, path))
        return seen if seen.count else None

    def held_out(self) -> tuple[Path, dict[str, Any]] | None:
        """The arguments of `evaluate` for the held-out data of the training: the path, and those with names.

        None if there is no such file, for example because a part of the training file was held out.
        """
        dev = getattr(self.config.data, "dev", None)
        return (dev, {}) if isinstance(dev, Path) else None

    def item_terms(self, evaluation: Any) -> ItemTerms:
        """What each item of an evaluation adds to its metrics, from which intervals and comparisons follow."""
        raise NotImplementedError

    def prediction_of(self, read: Any) -> Any:
        """The prediction of an item, with its alignment.

        Args:
            read: that of a `ShownItem`, an input of `predict` for most tasks.
        """
        silent = {"sound": False} if self.file_formats else {}
        return self.predict([read], alignment=True, **silent)[0]

    def evaluate_outputs(self, evaluation: Any, outputs: Sequence[str]) -> Any:
        """The evaluation of other outputs for the items of an evaluation, as those of another program.

        Args:
            outputs: a text for each item of `item_terms`.

        Raises:
            DataError: for an output of another form.
            UnsupportedError: for tasks whose outputs are not texts.
        """
        raise UnsupportedError(f"Outputs of other programs cannot be compared with models of {self.config.task}.")

    def use_normaliser(self, function: Callable[[str], str]) -> None:
        """Takes the function by which the texts of the training were normalised, for models that name one.

        Raises:
            UnsupportedError: for models of other tasks.
            ConfigError: for a model that names none.
        """
        raise UnsupportedError(f"normaliser: models of {self.config.task} have no function that normalises texts.")

    def pairs(self, *arguments: Any, **options: Any) -> Sequence[Any]:
        """The pairs of a file, for models that align them, as `TextToText.pairs`.

        Raises:
            UnsupportedError: for other models.
        """
        raise UnsupportedError(f"Models of {self.config.task} do not align given pairs.")

    def align(self, *arguments: Any, **options: Any) -> Sequence[Any]:
        """The `AlignedPair` of each pair, in order, for models that align them, as `TextToText.align`.

        Raises:
            UnsupportedError: for other models.
        """
        raise UnsupportedError(f"Models of {self.config.task} do not align given pairs.")

    def search_tree(self, *arguments: Any, **options: Any) -> SearchTree:
        """The tree of the search for the output of one input, for models that search, as `TextToText.search_tree`.

        Raises:
            UnsupportedError: for other models.
        """
        raise UnsupportedError(f"Models of {self.config.task} do not search for their outputs, so there is no tree.")

    def score_pairs(self, pairs: Sequence[tuple[Any, Any]]) -> Sequence[ScoredPair]:
        """The log-probability of each output, given its input, in order.

        Args:
            pairs: inputs of `predict` with outputs, which are texts or lists of labels.

        Raises:
            DataError: for an output of another form.
            UnsupportedError: for models whose outputs have no probability.
        """
        raise UnsupportedError(f"Models of {self.config.task} do not give a probability to outputs.")

    def sound(self, prediction: Any) -> bytes | None:
        """The content of a WAV file, for models with `sounds`; None for a prediction without one."""
        return None

    def views(self, prediction: Any) -> Mapping[str, Mapping[str, Any]]:
        """The alignments of a prediction by layer and head, for models of texts: by view, objects as of
        `regard.viz.alignment_record`. The view `symbols` has all symbols; `words` has words, where symbols are parts of
        them. None without alignments."""
        return {}

    def details(self, prediction: Any) -> dict[str, Any]:
        """What a page draws of a prediction beyond its record: arrays by name; of texts their `views`, best first.

        Empty for predictions without alignments, and for alignments of more than `MOST_WEIGHTS` weights.
        """
        every = (prediction, *getattr(prediction, "alternatives", ()))
        if sum(each.numel() for one in every for each in getattr(one, "alignments", {}).values()) > MOST_WEIGHTS:
            return {}
        views = [self.views(each) for each in every]
        return {"views": views} if any(views) else {}

    def nearest(self, *arguments: Any, **options: Any) -> Sequence[Any]:
        """The training items with the nearest decoder states, for models of texts, as `TextToText.nearest`.

        Raises:
            UnsupportedError: for other models.
        """
        raise UnsupportedError(f"Models of {self.config.task} have no states to compare with those of training items.")

    def rows(self, prediction: Any, *, scores: bool = False) -> Sequence[Sequence[str]]:
        """The rows of a prediction, usually one: columns that follow those of the input."""
        raise NotImplementedError

    @property
    def is_calibrated(self) -> bool:
        """Whether confidences have temperatures that were fitted to held-out data."""
        return self.calibration is not None

    def row_confidences(self, prediction: Any) -> Sequence[float]:
        """The confidence of each of `rows`."""
        return [each.confidence for each in (prediction, *getattr(prediction, "alternatives", ()))]

    def stated_rows(self, prediction: Any, stated: Stated, *, scores: bool = False) -> Sequence[Sequence[str]]:
        """As `rows`, with the confidence in a last column; outputs that `stated` withholds are empty."""
        rows = [list(row) for row in self.rows(prediction, scores=scores)]
        if stated == Stated():
            return rows
        for row, confidence in zip(rows, self.row_confidences(prediction), strict=True):
            if stated.withholds(confidence):
                row[self.output_column] = ""
            if stated.shown:
                row.append(f"{confidence:.4f}")
        return rows

    def stated_record(self, prediction: Any, stated: Stated) -> dict[str, Any]:
        """As `record`, with the confidence; an output that `stated` withholds is marked as `abstained`."""
        record = self.record(prediction)
        if stated.shown:
            record["confidence"], *others = self.row_confidences(prediction)
            for alternative, confidence in zip(record.get("alternatives", ()), others, strict=False):
                alternative["confidence"] = confidence
        if stated.at_least:
            record["abstained"] = stated.withholds(prediction.confidence)
        return record

    def heading(self, format: str, *, scores: bool = False, stated: Stated = STATED) -> Sequence[str]:
        """The lines before those of `lines`, for models whose inputs are files."""
        return ()

    def has_failed(self, prediction: Any) -> bool:
        """Whether there is no output, because the input could not be read."""
        return False

    def formatted(
        self, prediction: Any, kept: Any, format: str, *, scores: bool = False, stated: Stated = STATED
    ) -> str:
        """A prediction in one of `formats` other than tsv, text and jsonl, without the last line end.

        Args:
            kept: the columns of the input (`InputRow.kept`); None if there are none.
            scores: whether scores or probabilities are printed.
            stated: as in `stated_rows`.
        """
        raise NotImplementedError

    def is_number(self, column: str) -> bool:
        """Whether a column of outputs has numbers, for tables with types."""
        return column in ("score", "confidence")

    def record(self, prediction: Any) -> dict[str, Any]:
        """A prediction as a JSON object; it has alignments if the prediction has them."""
        record: dict[str, Any] = prediction.record()
        return record

    def write(self, prediction: Any, stem: Path) -> Sequence[Path]:
        """Writes a prediction into files, for models with `file_formats`; each appears whole.

        Args:
            stem: the path of each file without its suffix.

        Returns:
            The files; none for an empty prediction.
        """
        raise NotImplementedError

    def lines(
        self,
        predictions: Sequence[Any],
        format: str,
        *,
        scores: bool = False,
        alignments: bool = False,
        stated: Stated = STATED,
    ) -> Iterable[str]:
        """The output of `regard predict`, for models whose inputs are files."""
        raise NotImplementedError

    def can_plot(self, prediction: Any) -> bool:
        """Whether there is something to draw: an alignment for most models."""
        return prediction.alignment is not None

    @abstractmethod
    def plot(self, predictions: Sequence[Any], path: Path, *, title: str = "") -> Sequence[Path]:
        """Draws predictions into a file and returns the files that were written.

        Args:
            predictions: those that `can_plot` accepts.
            path: ends in .png, .svg, .pdf or .html.
        """

    def check_trained(self, *paths: Path | str) -> None:
        """Raises DataError for files that the model was trained on."""
        trained = training_files(self.fingerprints)
        if path := next((path for path in paths if fingerprint(path) in trained), None):
            raise DataError(f"{path}: {self.name} was trained on this file; metrics need data that it has not seen.")


def shown_json(value: Any) -> str:
    """A value of JSON in a message.

    >>> shown_json(3), shown_json(["a"]), shown_json(None)
    ('the number 3', 'a list', 'null')
    """
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    kinds: dict[type, str] = {dict: "an object", list: "a list", str: f"the text {value!r:.60}"}
    return kinds.get(type(value), f"the number {value!r:.60}")


def check_known(values: Iterable[str], known: Iterable[str], task: str) -> None:
    """Refuses names that are not among the settings of the predictions of a task.

    Raises:
        ConfigError: for the first one, with a similar name or all of them.
    """
    known = list(known)
    for name in values:
        if name not in known:
            what = suggestion(name, known) if known else "they have none."
            raise ConfigError(f"{name} is not a setting of models of {task}; {what}", ("decoding", name))


def check_texts(inputs: object) -> None:
    """Raises TypeError for an argument that is not a list of texts."""
    if isinstance(inputs, str) or not isinstance(inputs, Sequence):
        raise TypeError(f"predict takes a list of texts, as in predict([text]); got {type(inputs).__name__}.")
    if others := [text for text in inputs if not isinstance(text, str)]:
        raise TypeError(f"predict takes texts; got {others[0]!r:.60}, a {type(others[0]).__name__}.")


def check_strict(inputs: Iterable[object], warnings: Iterable[Sequence[str]]) -> None:
    """Refuses the first input with warnings, with its number.

    Raises:
        DataError: with the warnings.
    """
    for number, (given, reasons) in enumerate(zip(inputs, warnings, strict=True), start=1):
        if reasons:
            raise DataError(f"input {number} ({given!r:.60}): {'; '.join(reasons)}")


class AbstractTask(ABC, Generic[ConfigT]):
    """A task: reads and checks its data, builds its model and its trainee. It has no state."""

    summary: ClassVar[str]
    """A description of the task, in one line."""
    metrics: ClassVar[tuple[Metric, ...]]
    """The metrics of validations, for `select`."""

    def metric(self, name: str) -> Metric | None:
        """The metric of this name or alias; None if there is none."""
        return next((metric for metric in self.metrics if name in (metric.name, *metric.aliases)), None)

    @abstractmethod
    def draft(self, config: ConfigT) -> nn.Module:
        """The module of a configuration, before the data are read.

        Raises:
            ConfigError: for a setting that the model does not allow; its path names the key.
        """

    def files(self, config: ConfigT) -> Sequence[DataFile]:
        """The files that the configuration names, whose fingerprints are saved."""
        data: Any = config.data
        named = (("train", data.train), ("dev", data.dev))
        return [DataFile(f"data.{name}", name, path) for name, path in named if path is not None]

    @abstractmethod
    def write_data(self, config: ConfigT, data: Any, folder: Path, name: str) -> WrittenData:
        """Writes data of Python into a file that `data.train` may name.

        Args:
            data: a table, a list of items, or what else the task documents.
            folder: an existing folder.
            name: `train`, `dev` or `data`; the file is named after it, and items in messages are.

        Raises:
            DataError: for an item that the file cannot hold, columns other than those of the configuration, or
                objects of other kinds.
        """

    @abstractmethod
    def read(self, config: ConfigT) -> Any:
        """The material: the data, and objects that are learned from them, such as vocabularies."""

    @abstractmethod
    def check(self, config: ConfigT, material: Any) -> Findings:
        """Checks the data."""

    def items(self, material: Any) -> tuple[Iterable[DataItem], Iterable[DataItem]]:
        """The training items and the held-out items; none for tasks whose data are not items."""
        return (), ()

    def trained_items(self, material: Any) -> TrainedItems:
        """The record of the training items."""
        return TrainedItems.of(self.items(material)[0])

    def shared_items(self, material: Any, *, refused: bool) -> Iterable[Finding]:
        """Findings about held-out items that are trained on (`regard.runs.trained_items.shared_items`)."""
        return shared_items(*self.items(material), refused=refused)

    def continued(self, config: ConfigT, material: Any, base: Any) -> Any:
        """The material of a training that starts from a model, with the model's symbols and labels."""
        return material

    def adapted(self, config: ConfigT) -> Mapping[str, Any]:
        """The keys of a model's configuration that are others where the model is adapted to a new file.

        Returns:
            the values by dotted key; an ellipsis for a key that is left out. Without those of all tasks.
        """
        return {}

    def learned(self, config: ConfigT, folder: Path) -> Mapping[str, Any]:
        """The keys with which data are read so that nothing that the model of a folder has learned is learned again."""
        return {}

    def new_part(self, material: Any, base: Any, name: str) -> Any:
        """The material of a new file without what a model was trained on.

        Args:
            name: the file, for messages.

        Raises:
            DataError: if nothing is left.
        """
        known: TrainedItems | None = base.trained_items
        seen = None if known is None else known.seen(self.items(material)[0])
        if seen is not None and seen.count and len(seen.items) == seen.count:
            raise DataError(
                f"{name}: there is nothing new in it: {base.name} was trained on all of its "
                f"{counted(seen.count, 'item|items')}."
            )
        return material

    def sizes(self, material: Any) -> tuple[int, int]:
        """The numbers of training items and of held-out items: of sentences, tokens, rows or the like."""
        return len(material.train), len(material.dev)

    def joined(self, material: Any, former: Any, *, train: float, dev: float, seed: int) -> Any:
        """The material with some of the training items and held-out items of another one; nothing is learned anew.

        Args:
            train, dev: the shares of the former items.
            seed: of the choice.
        """
        parts = {
            name: [*getattr(material, name), *(others[i] for i in drawn(len(others), share, seed))]
            for name, others, share in (("train", former.train, train), ("dev", former.dev, dev))
        }
        return replace(material, **parts)

    def known_to(self, material: Any, model: Any) -> Any:
        """The material with held-out items as a model reads them: with its symbols, labels and scales."""
        return material

    def checked(self, config: ConfigT, material: Any) -> Findings:
        """The findings of `check` and about trained held-out items, which are an error if a file has many of them."""
        report = self.check(config, material)
        refused = getattr(config.data, "dev", None) is not None and not config.training.allow_trained_dev
        shared = self.shared_items(material, refused=refused)
        return replace(report, findings=by_severity((*report.findings, *shared)))

    @abstractmethod
    def resolve(self, config: ConfigT, material: Any, report: Any) -> Plan[ConfigT]:
        """The plan, with the settings that follow from the data."""

    @abstractmethod
    def build(self, config: ConfigT, material: Any, *, name: str) -> AbstractModel[ConfigT]:
        """An untrained model, with weights from torch's global generator."""

    @abstractmethod
    def trainee(self, model: Any, material: Any) -> AbstractTrainee:
        """The model with its data, for the training loop."""

    @abstractmethod
    def restore(self, config: ConfigT, folder: Path, *, name: str) -> AbstractModel[ConfigT]:
        """The model from the files of `save_assets`, without its weights."""


def drawn(count: int, share: float, seed: int) -> list[int]:
    """The indices of a share of `count` items, in order.

    >>> drawn(5, 0.4, seed=1), drawn(2, 1.0, seed=1)
    ([0, 4], [0, 1])
    """
    order: list[int] = np.random.default_rng(seed).permutation(count)[: round(share * count)].tolist()
    return sorted(order)


OPERATIONS: OnDemand[Any] = OnDemand({"adapt": "regard.runs.adaptation:adapt", "save": "regard.runs.store:save_whole"})
"""Functions of models that need modules which import this one."""

TASKS: OnDemand[AbstractTask[Any]] = OnDemand({name: f"regard.tasks.{name}.task:TASK" for name in SCHEMAS})
"""The tasks by name."""


def task_of(config: Config) -> AbstractTask[Any]:
    """The task of a configuration."""
    return TASKS[config.task]
