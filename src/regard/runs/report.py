"""Reports of evaluations: every item as a table, and a page that shows what goes wrong."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.config.place import cut, without_folder
from regard.data.csv_fields import csv_line
from regard.data.text import UNKNOWN, Vocabulary
from regard.data.text.pieces import BLANK
from regard.errors import Option, RegardError
from regard.files import replace_file
from regard.lazy import optional
from regard.runs.calibration import reliability_of
from regard.viz.labels import visible
from regard.viz.report import Curve, ItemTable, Pages, Section, Table, report_page

if TYPE_CHECKING:
    from regard.runs.contract import AbstractModel

SUFFIXES = (".html", ".csv", ".jsonl", ".parquet")
MOST_ITEMS, MOST_CONFUSED, MOST_DRAWN = 5_000, 40, 10
"""The most items of a page, the most pairs of its confusions, and the worst items whose alignments it has."""
GROUPS = 4
"""The groups of about equal size of lengths and ranks."""
LEVELS = (0.5, 0.7, 0.8, 0.9, 0.95, 0.99)
"""The levels of `--at-least` for which a page has what is kept."""
LONGEST, LONGEST_TITLE = 400, 160
"""The most characters of a cell of a page, and of the title of an item that opens."""


Group = tuple[float, float, str]
"""The first and the last value of a group, and its name."""


@dataclass(frozen=True)
class ReportFacts:
    """What a task knows of an evaluation beyond the records of its items.

    Args:
        symbols: of an item, the symbols by which errors are grouped: those of the input, or of the reference.
        vocabulary: the symbols of the training, the most frequent first; None without symbols.
        confused: what was right and what came in its place, with counts; an empty text is none of both.
        noun: what is confused, in the plural.
        unit: what `symbols` are, in the plural.
        loss: the name of the negative score over the length, of tasks without errors.
        inputs: of an item, the input of `predict` whose prediction is drawn; None draws nothing.
        pages: of further pages that open on a click, by title; each writes its file.
        sections: further sections of the page.
        rows: the rows of the table in place of the records.
    """

    symbols: Callable[[Any], Sequence[str]] | None = None
    vocabulary: Vocabulary | None = None
    confused: Mapping[tuple[str, str], int] = field(default_factory=Counter)
    noun: str = "symbols"
    unit: str = "symbols"
    loss: str = "negative score over length"
    inputs: Callable[[Any], Any] | None = None
    pages: Mapping[str, Callable[[Path], object]] = field(default_factory=dict)
    sections: Sequence[Section] = ()
    rows: Callable[[], Iterable[Mapping[str, Any]]] | None = None


def check_report(path: Path) -> None:
    """Refuses a report that cannot be written.

    Raises:
        RegardError: for another suffix, or for Parquet without its packages.
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise RegardError(
            f"{Option('--report ', '')}{path}: the suffix decides what is written; use one of {', '.join(SUFFIXES)}."
        )
    if suffix == ".parquet":
        _pandas(path)


def write_report(model: AbstractModel[Any], evaluation: Any, path: Path | str, *, data: str = "") -> Path:
    """Writes an evaluation, every item of it, into a file: a page (.html), or a table (.csv, .jsonl, .parquet).

    Rows have place, input, references, output, errors, length, score, confidence and the figures of the task
    (`AnyScored.record`). Those of forecasts are the forecasts of every origin, a row for each step and target. In a CSV
    file, several references are separated by " | ", and labels by spaces.

    Args:
        data: the name of what was evaluated, for the page.

    Raises:
        RegardError: as in `check_report`.
    """
    path = Path(path)
    check_report(path)
    facts: ReportFacts = model.report_facts(evaluation)
    rows = facts.rows or (lambda: (entry.record() for entry in evaluation.scored))
    suffix = path.suffix.lower()
    if suffix == ".html":
        text = _page(model, evaluation, facts, data)
        replace_file(path, lambda file: file.write_text(text, encoding="utf-8"))
    elif suffix == ".parquet":
        replace_file(path, lambda file: _to_parquet(rows(), file))
    else:
        lines = _csv(rows()) if suffix == ".csv" else (json.dumps(_finite(row), ensure_ascii=False) for row in rows())

        def write(file: Path) -> None:
            with file.open("w", encoding="utf-8", newline="") as stream:
                stream.writelines(f"{line}\n" for line in lines)

        replace_file(path, write)
    return path


def flat(value: Any) -> Any:
    """A value of a record as a cell: lists are joined by spaces, lists of lists by " | ".

    >>> flat([["a", "b"], ["c"]]), flat(["x", "y"]), flat(None)
    ('a b | c', 'x y', None)
    """
    if isinstance(value, list | tuple):
        nested = any(isinstance(each, list | tuple) for each in value)
        return (" | " if nested else " ").join(str(flat(each)) for each in value)
    return value


def cells(row: Mapping[str, Any]) -> dict[str, Any]:
    """The cells of a record."""
    texts = row.get("references", ())
    joined = " | ".join(str(flat(each)) for each in texts)
    return {name: joined if name == "references" else flat(value) for name, value in row.items()}


def _csv(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    columns: list[str] | None = None
    for row in rows:
        values = cells(row)
        if columns is None:
            columns = list(values)
            yield csv_line(columns)
        yield csv_line("" if (value := values.get(name)) is None else str(value) for name in columns)


def _to_parquet(rows: Iterable[Mapping[str, Any]], path: Path) -> None:
    flat_rows = [{name: value for name, value in row.items() if not isinstance(value, dict)} for row in rows]
    _pandas(path).DataFrame(flat_rows).to_parquet(path)


def _pandas(path: Path) -> Any:
    for name in ("pyarrow", "pandas"):
        package = optional(name, f"{path}: Parquet needs", extra="series")
    return package


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _page(model: AbstractModel[Any], evaluation: Any, facts: ReportFacts, data: str) -> str:
    figures = [(name.replace("_", " "), value) for name, value in evaluation.metrics.items() if value == value]
    records = [(entry, entry.record()) for entry in evaluation.scored]
    sections: list[Section] = [Table("Figures", ["figure", "value"], figures)]
    sections += _reliability(model, evaluation)
    sections += facts.sections
    sections += _confusions(facts)
    sections += _groups(records, facts)
    sections.append(Pages("The worst items, with what the model attends to", _drawn(model, evaluation, facts, data)))
    sections.append(_items(evaluation, records, data))
    title, summary = model.name, str(evaluation).split("\n")[0]
    if data:
        title, summary = f"{title}: {Path(data).name}", f"{data}: {summary}"
    return report_page(title, sections, subtitle=summary)


def _reliability(model: AbstractModel[Any], evaluation: Any) -> Iterator[Section]:
    """The reliability curve, and what is kept at levels of confidence."""
    curve = reliability_of(evaluation.scored)
    if curve is None:
        return
    state = "calibrated" if model.is_calibrated else "not calibrated; `regard evaluate --calibrate` does it"
    points = list(zip(curve.confidences.tolist(), curve.accuracies.tolist(), strict=True))
    yield Curve(
        "Reliability",
        "mean confidence",
        "share that is right",
        {"outputs": points},
        diagonal=True,
        dots=True,
        note=f"Calibration error {curve.error:.4f}. The model is {state}. Perfect confidences are on the dashed line.",
    )
    pairs = [(each.confidence, each.is_right) for each in evaluation.scored if each.confidence is not None]
    rows = []
    for level in LEVELS:
        kept = [is_right for confidence, is_right in pairs if confidence >= level]
        share = sum(kept) / len(kept) if kept else None
        rows.append((f"{level:g}", len(kept), len(kept) / len(pairs), share))
    columns = ["at least", "outputs kept", "share kept", "right of these"]
    yield Table("Abstaining", columns, rows, bars=["share kept", "right of these"])


def _confusions(facts: ReportFacts) -> Iterator[Section]:
    pairs = sorted(facts.confused.items(), key=lambda pair: (-pair[1], pair[0]))[:MOST_CONFUSED]
    rows = [(*(visible(text) if text.isspace() else text or "(none)" for text in pair), count) for pair, count in pairs]
    has_pieces = any(BLANK in symbol for pair in facts.confused for symbol in pair)
    note = f"Symbols are pieces of words; {BLANK} begins a word." if has_pieces else ""
    yield Table(f"Confused {facts.noun}", ["right", "output", "times"], rows, note=note)


def _groups(records: Sequence[tuple[Any, Mapping[str, Any]]], facts: ReportFacts) -> Iterator[Section]:
    """Errors by length, by unknown symbols, and by the rank of an item's rarest known symbol."""
    if not any(_is_judged(entry, record) for entry, record in records):
        return
    vocabulary = facts.vocabulary
    texts = None if facts.symbols is None else [list(facts.symbols(entry)) for entry, _ in records]
    lengths = [record["length"] for _, record in records] if texts is None else list(map(len, texts))
    measured = [(length, *each) for length, each in zip(lengths, records, strict=True) if length is not None]
    groups = _quantile_groups([length for length, _, _ in measured]) if measured else []
    if len(groups) > 1:
        yield _grouped("Errors by length", facts.unit if texts is not None else "length", measured, groups, facts.loss)
    if texts is None or vocabulary is None or not len(vocabulary.symbols):
        return
    unknown, rarest = [], []
    first = len(vocabulary) - len(vocabulary.symbols)
    for symbols, (entry, record) in zip(texts, records, strict=True):
        ids = vocabulary.ids(symbols)
        unknown.append((min(int((ids == UNKNOWN).sum()), 2), entry, record))
        if (known := ids[ids != UNKNOWN]).size:
            rarest.append((int(known.max()) - first, entry, record))
    names = {0: "none", 1: "one", 2: "two or more"}
    kinds = [(i, i, name) for i, name in names.items()]
    yield _grouped(f"Errors by unknown {facts.unit}", f"unknown {facts.unit}", unknown, kinds, facts.loss)
    if rarest:
        ranks = _quantile_groups([rank for rank, _, _ in rarest])
        groups = [(low, high, _range(int(low) + 1, int(high) + 1)) for low, high, _ in ranks]
        size = len(vocabulary.symbols)
        note = (
            f"The rank of the rarest of an item's {facts.unit} among the {size:,} of the training, 1 the most frequent."
        )
        yield _grouped("Errors by rarity", "rank", rarest, groups, facts.loss, note=note)


def _is_judged(entry: Any, record: Mapping[str, Any]) -> bool:
    """Whether an item is right or wrong, has errors, or has a score."""
    return any(each is not None for each in (getattr(entry, "is_right", None), record["errors"], record["score"]))


def _quantile_groups(values: Sequence[float]) -> list[Group]:
    """At most `GROUPS` ranges of whole numbers with about equally many values: first, last, name."""
    edges = sorted({int(each) for each in np.quantile(values, np.linspace(0, 1, GROUPS + 1)[1:], method="higher")})
    low, groups = int(min(values)), list[Group]()
    for edge in edges:
        groups.append((low, edge, _range(low, edge)))
        low = edge + 1
    return groups


def _range(low: int, high: int) -> str:
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _grouped(
    title: str,
    column: str,
    measured: Sequence[tuple[float, Any, Mapping[str, Any]]],
    groups: Sequence[Group],
    loss: str,
    note: str = "",
) -> Table:
    """A row for each group of items: their number, the share that is right, and errors over length.

    Where all lengths are 1, as of single labels, errors over length are only the rest of the share.
    """
    judged = any(getattr(entry, "is_right", None) is not None for _, entry, _ in measured)
    counted = any(record["errors"] is not None and (not judged or record["length"] != 1) for _, _, record in measured)
    rows = []
    for low, high, name in groups:
        inside = [(entry, record) for value, entry, record in measured if low <= value <= high]
        if not inside:
            continue
        row: list[Any] = [name, len(inside)]
        if judged:
            row.append(sum(bool(entry.is_right) for entry, _ in inside) / len(inside))
        if counted:
            total = sum(record["length"] or 0 for _, record in inside)
            row.append(sum(record["errors"] or 0 for _, record in inside) / total if total else None)
        if not judged and not counted:
            scores = [-record["score"] / (record["length"] or 1) for _, record in inside if record["score"] is not None]
            row.append(float(np.mean(scores)) if scores else None)
        rows.append(row)
    names = [*["right"] * judged, *["errors over length"] * counted]
    names = names or [loss]
    return Table(title, [column, "items", *names], rows, bars=["right"] * judged, note=note)


def _drawn(model: AbstractModel[Any], evaluation: Any, facts: ReportFacts, data: str) -> dict[str, str]:
    """The pages of the worst items by title."""
    writers = dict(facts.pages)
    if facts.inputs is not None:
        worst = [entry for entry in evaluation.worst[:MOST_DRAWN] if facts.inputs(entry) is not None]
        inputs = [facts.inputs(entry) for entry in worst]
        predictions = model.predict(inputs) if inputs else []
        for entry, prediction in zip(worst, predictions, strict=True):
            if model.can_plot(prediction):
                lines = " · ".join(" ".join(line.split()) for line in str(entry).splitlines())
                title = cut(without_folder(lines, data), LONGEST_TITLE)
                writers[title] = partial(model.plot, [prediction])
    pages = {}
    with TemporaryDirectory() as folder:
        for number, (title, write) in enumerate(writers.items()):
            file = Path(folder) / f"{number}.html"
            write(file)
            if file.is_file():
                pages[title] = file.read_text(encoding="utf-8")
    return pages


def _items(evaluation: Any, records: Sequence[tuple[Any, Mapping[str, Any]]], data: str) -> ItemTable:
    """All items, or the worst ones of many."""
    title, note = "Items", ""
    rows = [cells(record) for _, record in records]
    if len(rows) > MOST_ITEMS:
        note = f"The {MOST_ITEMS:,} worst of {len(rows):,} items; a report in CSV has all."
        rows = [cells(entry.record()) for entry in evaluation.worst[:MOST_ITEMS]]
    rows = [{**row, "place": without_folder(row["place"], data)} for row in rows]
    columns = [name for name in (rows[0] if rows else {}) if any(_is_shown(row.get(name)) for row in rows)]
    texts = [
        {name: cut(cell, LONGEST) if isinstance(cell, str) else cell for name, cell in row.items()} for row in rows
    ]
    return ItemTable(title, columns, [[row.get(name) for name in columns] for row in texts], note=note)


def _is_shown(value: Any) -> bool:
    """Whether a cell has a text or a number."""
    return value not in (None, "") and value == value
