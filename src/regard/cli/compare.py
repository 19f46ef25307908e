"""`regard compare`"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli import options
from regard.cli.standard import check_output, format_of_output, results, say
from regard.errors import RegardError, counted

if TYPE_CHECKING:
    from regard.runs.comparison import MetricComparison, OtherOutputs, RunComparison

WIDTH = 80
"""The most columns of a line of a table; names and outputs are cut."""
FORMATS = {".html": "html", ".csv": "csv", ".txt": "text"}
LONGEST_NAME, LONGEST_FILE = 28, 40
NO_BREAK = "\N{NO-BREAK SPACE}"


def compare(
    runs: Annotated[list[str], typer.Argument(metavar="RUN", help="Run folders, or names of shipped models.")],
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="FILE", help="As of `regard evaluate`; default: the runs' held-out file."),
    ] = None,
    target: Annotated[
        list[Path] | None,
        typer.Option("--target", metavar="FILE", help="References of the inputs in --data, one per line."),
    ] = None,
    outputs: Annotated[
        list[Path] | None,
        typer.Option("--outputs", metavar="FILE", help="Outputs of another program for these inputs; may be repeated."),
    ] = None,
    baselines: Annotated[
        bool, typer.Option("--baselines", help="Also compare predictions without a model, where the task has them.")
    ] = False,
    items: Annotated[
        int, typer.Option("--items", min=0, metavar="N", help="Show N items on which the runs differ most.")
    ] = 3,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="A page (.html), the figures (.csv) or this text (.txt)."),
    ] = None,
    overwrite: options.Overwrite = False,
    device: options.Device = "auto",
) -> None:
    """Compare runs on the same data.

    Metrics have 95 % intervals. Of each pair of runs a test says which is better, or that their difference is no more
    than chance, corrected for the number of pairs. Also shown: settings that differ, time and size, and items on which
    the runs differ. A page (.html) has the curves of the trainings, all items side by side and a sheet of alignments,
    too.

    Outputs of other programs are one per line, or a .tsv, .csv or .jsonl of inputs and outputs.
    """
    kind = format_of_output(output, FORMATS, "text")
    read = [data, *(target or ()), *(outputs or ())]
    check_output(output, overwrite=overwrite, inputs=read)
    if target and data is None:
        raise RegardError("--target has the references of the inputs in --data: add --data FILE.")
    from regard.runs.comparison import compare_runs
    from regard.tasks import load

    flags = {"--target": ("references", target)}
    arguments = options.accepted(load(runs[0], device=device), "evaluate", flags) if target else {}
    others = [_outputs(path) for path in outputs or ()]
    comparison = compare_runs(
        runs, data, outputs=others, baselines=baselines, device=device, options=arguments, say=say
    )
    if kind == "html":
        from regard.runs.comparison_page import comparison_page

        text = comparison_page(comparison, items=items)
    elif kind == "csv":
        text = _csv(comparison)
    else:
        text = "\n".join(_text(comparison, items)) + "\n"
    with results(output) as stream:
        stream.write(text)
    if kind != "text":
        say("\n".join(_verdicts(comparison)))


def _text(comparison: RunComparison, items: int) -> Iterator[str]:
    from regard.runs.comparison import figure_text

    names = [side.name for side in comparison.sides]
    groups = comparison.headline.comparison.num_groups
    yield f"{_name(comparison.data, LONGEST_FILE)}: {counted(comparison.num_items, 'item|items')}" + (
        f" in {groups:,} independent groups" if groups < comparison.num_items else ""
    )
    yield ""
    yield from _verdicts(comparison)
    if comparison.notes:
        yield ""
    for note in comparison.notes:
        yield from wrap(note, WIDTH, subsequent_indent="  ")
    for metric in comparison.metrics.values():
        yield ""
        yield from _metric(comparison, metric)
    if comparison.settings:
        yield ""
        yield from _table("settings that differ", names, [(key, map(_value, row)) for key, row in comparison.settings])
    facts = [side.facts() for side in comparison.sides]
    keys = list(dict.fromkeys(key for each in facts for key in each))
    yield ""
    yield from _table("time and size", names, [(key, [each.get(key, "") for each in facts]) for key in keys])
    chosen = comparison.most_different(items)
    if chosen:
        yield "\nitems on which they differ most"
    for item in chosen:
        shown = comparison.shown(item)
        first = shown[0][1]
        yield ""
        yield _cut(f"{first.place}  {first.source}".rstrip())
        if first.reference:
            yield _cut(f"  {'reference':{_width(names)}}  {first.reference}")
        for side, each, value in shown:
            known = bool(each.output) and value in (0.0, 1.0)
            figure = "" if known else figure_text(value, comparison.headline.terms.is_share)
            parts = [f"  {_name(side.name):{_width(names)}}", each.output, figure and f"({figure})"]
            yield _cut("  ".join(part for part in parts if part))


def _verdicts(comparison: RunComparison) -> Iterator[str]:
    """The verdict by the headline metric of each pair, or with many of the best one and each other one."""
    from regard.runs.comparison import figure_text, p_text

    metric, share = comparison.headline, comparison.headline.terms.is_share
    best = metric.order[0]
    pairs = [(i, j, d) for i, j, d in metric.pairs() if len(metric.places) <= 3 or best in (i, j)]
    for i, j, difference in pairs:
        values = {k: metric.comparison.estimates[metric.places.index(k)].value for k in (i, j)}
        better, worse = (i, j) if difference.verdict < 0 else (j, i)
        first, second = comparison.sides[better].name, comparison.sides[worse].name
        figures = [figure_text(values[k], share).replace(" ", NO_BREAK) for k in (better, worse)]
        if difference.verdict:
            text = f"{first} is better than {second}: {metric.name} {figures[0]} instead of {figures[1]}"
        else:
            text = f"{second} and {first} differ by no more than chance: {metric.name} {figures[1]} and {figures[0]}"
        for line in wrap(f"{text} ({p_text(difference)})", WIDTH, subsequent_indent="  "):
            yield line.replace(NO_BREAK, " ")


def _metric(comparison: RunComparison, metric: MetricComparison) -> Iterator[str]:
    """The values of a metric, and their differences from the first."""
    from regard.runs.comparison import change_text, figure_text, interval_text, p_text

    share, names = metric.terms.is_share, [side.name for side in comparison.sides]
    width = max(len(interval_text(each, share)) for each in metric.comparison.estimates)
    yield f"{metric.name} ({'larger' if metric.terms.larger_is_better else 'smaller'} is better)"
    for place, each in zip(metric.places, metric.comparison.estimates):
        value, interval = figure_text(each.value, share), interval_text(each, share)
        line = f"  {_name(names[place]):{_width(names)}}  {value:>7}  {interval:{width}}"
        if place != metric.places[0]:
            difference = metric.between(metric.places[0], place)
            verdict = {0: "chance", 1: "better", -1: "worse"}[difference.verdict]
            line = f"{line}  {change_text(difference.value, share):>6}  {verdict}, {p_text(difference)}"
        yield _cut(line.rstrip())


def _table(title: str, names: Sequence[str], rows: Sequence[tuple[str, Any]]) -> Iterator[str]:
    """A row for each key, a column for each side; of many sides or long values a line for each value."""
    cells = [(key, list(values)) for key, values in rows]
    left = max(len(title), *(len(key) + 2 for key, _ in cells))
    widths = [max(len(_name(name)), *(len(str(values[i])) for _, values in cells), 1) for i, name in enumerate(names)]
    if left + sum(width + 2 for width in widths) <= WIDTH:
        yield f"{title:{left}}  " + "  ".join(f"{_name(name):>{w}}" for name, w in zip(names, widths))
        for key, values in cells:
            line = f"{'  ' + key:{left}}  " + "  ".join(f"{value!s:>{w}}" for value, w in zip(values, widths))
            yield line.rstrip()
        return
    yield title
    for key, values in cells:
        yield f"  {key}"
        for name, value in zip(names, values):
            if value not in ("", None):
                yield _cut(f"    {_name(name):{_width(names)}}  {value}")


def _width(names: Sequence[str]) -> int:
    return max(len("reference"), *(len(_name(name)) for name in names))


def _name(name: str, most: int = LONGEST_NAME) -> str:
    from regard.config.place import cut_start

    return cut_start(name, most)


def _cut(line: str) -> str:
    from regard.config.place import cut

    return cut(line.replace("\n", " "), WIDTH)


def _value(value: Any) -> str:
    return "" if value is None else str(value)


def _csv(comparison: RunComparison) -> str:
    from regard.data.csv_fields import csv_line
    from regard.runs.comparison import rows

    table = list(rows(comparison))
    columns = ["metric", "run", "compared_with", "value", "low", "high", "p_value", "corrected_p_value", "verdict"]
    lines = [columns, *([_cell(row[name]) for name in columns] for row in table)]
    return "".join(f"{csv_line(line, ',')}\n" for line in lines)


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _outputs(path: Path) -> OtherOutputs:
    """The outputs of a file: a line for each item, or a table of inputs and outputs."""
    from regard.data.output_rows import read_outputs
    from regard.runs.comparison import OtherOutputs

    read = read_outputs(path)
    return OtherOutputs(str(path), lambda items: read([(item.place, item.source) for item in items]))
