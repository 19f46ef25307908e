"""A comparison of runs as one HTML page."""

from __future__ import annotations

import html
from base64 import b64encode
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from regard.config.place import without_folder
from regard.errors import counted, printable
from regard.runs.comparison import (
    ComparedSystem,
    MetricComparison,
    RunComparison,
    change_text,
    figure_text,
    interval_text,
    p_text,
)
from regard.viz.page import filled
from regard.viz.report import Curve, ItemTable, Pages, Section, Table, report_page

NO_BREAK = "\N{NO-BREAK SPACE}"
MOST_ITEMS = 5_000
"""The most items in the table of all items; those that differ most come first."""


def comparison_page(comparison: RunComparison, *, items: int = 3) -> str:
    """The text of the page.

    Args:
        items: the number of items whose alignments are drawn.
    """
    names = [side.name for side in comparison.sides]
    paths = [{"path": side.path} if side.path not in ("", side.name) else {} for side in comparison.sides]
    facts = [{**path, **side.facts()} for path, side in zip(paths, comparison.sides)]
    keys = list(dict.fromkeys(key for each in facts for key in each))
    settings = [[key, *("" if value is None else str(value) for value in row)] for key, row in comparison.settings]
    sections: list[Section] = [_verdicts(comparison)]
    sections += [_metric(comparison, metric) for metric in comparison.metrics.values()]
    sections += [
        Table("What to know", ["about the data and the metrics"], [[note] for note in comparison.notes]),
        Table("Settings that differ", ["key", *names], settings),
        Table("Time and size", ["", *names], [[key, *(each.get(key, "") for each in facts)] for key in keys]),
        *_curves(comparison),
        _items(comparison),
        _alignments(comparison, items),
    ]
    title = " and ".join(names) if len(names) == 2 else f"{len(names)} compared"
    return report_page(title, sections, subtitle=f"{comparison.data}: {counted(comparison.num_items, 'item|items')}")


def _verdicts(comparison: RunComparison) -> Table:
    metric = comparison.headline
    rows = []
    for i, j, difference in metric.pairs():
        first, second = comparison.sides[i].name, comparison.sides[j].name
        better = {0: "no more than chance", 1: f"{second} is better", -1: f"{first} is better"}[difference.verdict]
        rows.append([first, second, better, p_text(difference).replace(" ", NO_BREAK)])
    note = (
        f"By {metric.name}. p is the probability of at least this difference between equally good models, corrected "
        "for the number of pairs."
    )
    return Table("Which is better", ["first", "second", "verdict", ""], rows, note=note)


def _metric(comparison: RunComparison, metric: MetricComparison) -> Table:
    share, rows = metric.terms.is_share, list[list[str]]()
    for place, each in zip(metric.places, metric.comparison.estimates):
        row = [comparison.sides[place].name, figure_text(each.value, share), interval_text(each, share)]
        if place != metric.places[0]:
            difference = metric.between(metric.places[0], place)
            verdict = {0: "chance", 1: "better", -1: "worse"}[difference.verdict]
            row += [change_text(difference.value, share), interval_text(difference, share), verdict, p_text(difference)]
        rows.append([row[0], *(text.replace(" ", NO_BREAK) for text in row[1:]), *[""] * (7 - len(row))])
    note = f"{'Larger' if metric.terms.larger_is_better else 'Smaller'} is better. Differences are from the first."
    return Table(metric.name, ["", "value", "95 %", "difference", "95 %", "verdict", ""], rows, note=note)


def _curves(comparison: RunComparison) -> Iterator[Curve]:
    """The selected metric of validations, and the loss of the training."""
    name = comparison.headline.name
    for kind, figure, title in (("validation", name, f"{name} of validations"), ("train", "loss", "training loss")):
        lines = {side.name: _line(side, kind, figure) for side in comparison.sides}
        yield Curve(title, "step", figure, {name: line for name, line in lines.items() if line})


def _line(side: ComparedSystem, kind: str, name: str) -> Sequence[tuple[float, float]]:
    entries = [entry for entry in side.log if entry.get("kind") == kind and entry.get(name) is not None]
    return [(float(entry["step"]), float(entry[name])) for entry in entries]


def _items(comparison: RunComparison) -> ItemTable:
    """All items, each with the outputs of all sides, or with their values of the headline metric."""
    chosen = comparison.most_different(comparison.num_items)
    rest = [i for i in range(comparison.num_items) if i not in {*chosen}]
    sides = [comparison.sides[place] for place in comparison.headline.places]
    items = [(item, comparison.shown(item)) for item in [*chosen, *rest][:MOST_ITEMS]]
    has_outputs = any(each.output for _, shown in items for _, each, _ in shown)
    has_values = not has_outputs or any(value not in (0.0, 1.0) for _, shown in items for _, _, value in shown)
    has_inputs = any(shown[0][1].source for _, shown in items)
    columns = ["place", *["input"] * has_inputs, *["reference"] * has_outputs]
    for side in sides:
        columns += [side.name] * has_outputs + [f"{side.name}: {comparison.headline.name}"] * has_values
    rows = []
    for _, shown in items:
        first = shown[0][1]
        row: list[Any] = [
            without_folder(first.place, comparison.data),
            *[first.source] * has_inputs,
            *[first.reference] * has_outputs,
        ]
        for _, each, value in shown:
            row += [each.output] * has_outputs + [value] * has_values
        rows.append(row)
    return ItemTable("Items", columns, rows, note="Those on which the runs differ most come first.")


def _alignments(comparison: RunComparison, count: int) -> Pages:
    """A sheet of pictures: a row for each item, a column for each run with something to draw."""
    sides = [side for side in comparison.sides if side.model is not None]
    chosen = comparison.most_different(count)
    rows = []
    with TemporaryDirectory() as folder:
        for item in chosen:
            pictures = [_picture(side, item, Path(folder)) for side in sides]
            if any(pictures):
                shown = comparison.sides[0].items.show(item)
                cells = "".join(
                    f"<figure><figcaption>{html.escape(printable(side.name))}</figcaption>"
                    + (
                        f'<img alt="{html.escape(printable(side.name))}" src="{picture}">'
                        if picture
                        else "<p>no picture</p>"
                    )
                    + "</figure>"
                    for side, picture in zip(sides, pictures)
                )
                place = without_folder(shown.place, comparison.data)
                text = html.escape(printable(f"{place}  {shown.source}".strip()))
                rows.append(f"<h2>{text}</h2><div>{cells}</div>")
    if not rows:
        return Pages("Alignments")
    sheet = filled("sheet_page.html", "Alignments", rows="\n".join(rows))
    return Pages("Alignments", {f"A sheet of {counted(len(rows), 'item|items')}": sheet})


def _picture(side: ComparedSystem, item: int, folder: Path) -> str | None:
    """What a model attends to in an item, as a PNG in a data URI; None if there is nothing to draw."""
    assert side.model is not None
    read = side.items.show(item).read
    prediction = None if read is None else side.model.prediction_of(read)
    if prediction is None or not side.model.can_plot(prediction):
        return None
    (path, *_) = side.model.plot([prediction], folder / "picture.png")
    return f"data:image/png;base64,{b64encode(path.read_bytes()).decode('ascii')}"
