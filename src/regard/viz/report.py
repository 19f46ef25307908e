"""Reports: one HTML page of tables, curves, items that can be searched and sorted, and pages that open on a click.

It contains its data, style and script and sends no requests.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from regard.errors import printable
from regard.viz.page import embedded, filled

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 420, 280, 52, 40, 10, 12
"""The size of a curve, and the room for its axes, in units of its viewBox."""
COLOURS = 6
"""The colours of lines (`--line0`, …) in report_page.html."""


@dataclass(frozen=True, slots=True)
class Table:
    """A small table.

    Args:
        columns: their names.
        rows: a cell for each column: texts, numbers, or None for an empty one.
        bars: columns, by name, whose numbers from 0 to 1 are shown as shares with bars.
        note: a sentence below the title.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    bars: Sequence[str] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Curve:
    """Lines over common axes.

    Args:
        x, y: the names of the axes.
        lines: points by name.
        diagonal: whether there is a line of equal x and y, with both axes from 0 to 1.
        dots: whether points are drawn as dots.
        note: a sentence below the title.
    """

    title: str
    x: str
    y: str
    lines: Mapping[str, Sequence[tuple[float, float]]]
    diagonal: bool = False
    dots: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True)
class ItemTable:
    """A long table that can be searched, sorted and paged through; cells as in `Table`."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Pages:
    """Whole HTML pages by title, each of which opens on a click."""

    title: str
    pages: Mapping[str, str] = field(default_factory=dict)
    note: str = ""


Section = Table | Curve | ItemTable | Pages


def report_page(title: str, sections: Sequence[Section], *, subtitle: str = "") -> str:
    """The text of the page; sections without content are left out."""
    shown = [section for section in sections if _has_content(section)]
    data = {
        "items": [_plain(each) for each in shown if isinstance(each, ItemTable)],
        "pages": [page for each in shown if isinstance(each, Pages) for page in each.pages.values()],
    }
    parts, items, pages = [], 0, 0
    for number, section in enumerate(shown):
        note = f"<p>{_text(section.note)}</p>" if section.note else ""
        if isinstance(section, Table):
            body = _table(section)
        elif isinstance(section, Curve):
            body = _curve(section)
        elif isinstance(section, ItemTable):
            body, items = f'<div class="items" data-number="{items}"></div>', items + 1
        else:
            body, pages = _pages(section, pages), pages + len(section.pages)
        parts.append(f'<section id="s{number}"><h2>{_text(section.title)}</h2>{note}{body}</section>')
    links = "".join(f'<a href="#s{number}">{_text(each.title)}</a>' for number, each in enumerate(shown))
    return filled(
        "report_page.html",
        title,
        subtitle=f"<p>{_text(subtitle)}</p>" if subtitle else "",
        links=links,
        sections="\n".join(parts),
        data=embedded(data),
    )


def number(value: Any) -> str:
    """A cell as text: numbers with four digits, whole ones with commas, nothing for None and NaN.

    >>> number(0.123456), number(12345), number(None), number("a")
    ('0.1235', '12,345', '', 'a')
    """
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    if isinstance(value, bool | str):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"
    return " ".join(map(number, value)) if isinstance(value, Sequence) else str(value)


def _has_content(section: Section) -> bool:
    if isinstance(section, Curve):
        return any(len(points) for points in section.lines.values())
    return bool(section.pages if isinstance(section, Pages) else section.rows)


def _text(value: object) -> str:
    return html.escape(printable(str(value)))


def _plain(section: ItemTable) -> dict[str, Any]:
    """The rows as JSON: numbers stay numbers, so that they are sorted as such."""

    def cell(value: Any) -> Any:
        if isinstance(value, bool | int):
            return value
        if isinstance(value, float):
            return round(value, 6) if math.isfinite(value) else None
        return None if value is None else printable(number(value))

    return {
        "title": section.title,
        "columns": list(section.columns),
        "rows": [[cell(value) for value in row] for row in section.rows],
    }


def _table(section: Table) -> str:
    numeric = [all(isinstance(row[i], int | float | None) for row in section.rows) for i in range(len(section.columns))]
    head = "".join(
        f'<th scope="col"{" class=n" * is_numeric}>{_text(name)}</th>'
        for name, is_numeric in zip(section.columns, numeric, strict=True)
    )
    bars = {section.columns.index(name) for name in section.bars}
    rows = []
    for row in section.rows:
        cells = []
        for column, value in enumerate(row):
            if column in bars and isinstance(value, float | int) and math.isfinite(value):
                share = min(max(float(value), 0.0), 1.0)
                cells.append(f'<td class="n bar"><i style="width:{share:.1%}"></i><span>{value:.1%}</span></td>')
            else:
                kind = ' class="n"' if isinstance(value, int | float) else ' dir="auto"'
                cells.append(f"<td{kind}>{_text(number(value))}</td>")
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{_text(section.title)}">'
        f"<table class=small><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _pages(section: Pages, first: int) -> str:
    return "".join(
        f'<details class="page" data-number="{first + index}"><summary dir="auto">{_text(name)}</summary></details>'
        for index, name in enumerate(section.pages)
    )


def _curve(section: Curve) -> str:
    """An SVG picture with its axes, and a legend if there are several lines."""
    lines = {name: [(float(x), float(y)) for x, y in points] for name, points in section.lines.items()}
    finite = [point for points in lines.values() for point in points if all(map(math.isfinite, point))]
    if section.diagonal:
        across, up = (0.0, 1.0), (0.0, 1.0)
    else:
        across, up = _range([x for x, _ in finite]), _range([*(y for _, y in finite), 0.0])

    def place(x: float, y: float) -> tuple[float, float]:
        right = LEFT + (x - across[0]) / (across[1] - across[0]) * (WIDTH - LEFT - RIGHT)
        down = HEIGHT - BOTTOM - (y - up[0]) / (up[1] - up[0]) * (HEIGHT - BOTTOM - TOP)
        return round(right, 1), round(down, 1)

    parts = []
    for value in _ticks(*up):
        x, y = place(across[0], value)
        parts.append(f'<line class="grid" x1="{x}" y1="{y}" x2="{WIDTH - RIGHT}" y2="{y}"/>')
        parts.append(f'<text x="{x - 6}" y="{y + 4}" text-anchor="end">{number(value)}</text>')
    for value in _ticks(*across):
        x, _ = place(value, up[0])
        parts.append(f'<text x="{x}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{number(value)}</text>')
    if section.diagonal:
        (x1, y1), (x2, y2) = place(0, 0), place(1, 1)
        parts.append(f'<line class="equal" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>')
    for index, (name, points) in enumerate(lines.items()):
        places = [place(*point) for point in points if all(map(math.isfinite, point))]
        path = " ".join(f"{x},{y}" for x, y in places)
        parts.append(f'<polyline class="l{index % COLOURS}" points="{path}"/>')
        if section.dots:
            for (x, y), point in zip(places, points, strict=False):
                tip = f"{name}: {number(point[0])}, {number(point[1])}"
                parts.append(
                    f'<circle class="l{index % COLOURS}" cx="{x}" cy="{y}" r="4"><title>{_text(tip)}</title></circle>'
                )
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - 6}" text-anchor="middle">{_text(section.x)}</text>')
    turned = f'transform="rotate(-90 12 {HEIGHT / 2})"'
    parts.append(f'<text x="12" y="{HEIGHT / 2}" text-anchor="middle" {turned}>{_text(section.y)}</text>')
    label = _text(f"{section.title}: {section.y} by {section.x}")
    legend = "".join(
        f'<span><i class="l{index % COLOURS}"></i>{_text(name)}</span>' for index, name in enumerate(lines)
    )
    return f'<svg role="img" aria-label="{label}" viewBox="0 0 {WIDTH} {HEIGHT}">{"".join(parts)}</svg>' + (
        f'<div class="legend">{legend}</div>' if len(lines) > 1 else ""
    )


def _range(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    return (low, high) if high > low else (low, low + 1.0)


def _ticks(low: float, high: float) -> list[float]:
    """About five round numbers of a range.

    >>> _ticks(0.0, 1.0)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    rough = (high - low) / 5
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next((each * unit for each in (1, 2, 5, 10) if each * unit >= rough * 0.999), 10 * unit)
    first = math.ceil(low / step - 1e-9)
    return [round(index * step, 10) for index in range(first, math.floor(high / step + 1e-9) + 1)]
