"""Draws an alignment as PNG, SVG, PDF or HTML."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Unpack

from regard.errors import RegardError
from regard.viz.aligned import ReadingOptions, largest_weight, read
from regard.viz.files import DRAWN, check_highest, suffix_of, write
from regard.viz.page import page


def plot_alignment(
    alignment: Any,
    path: str | Path,
    source_tokens: Sequence[str] | None = None,
    target_tokens: Sequence[str] | None = None,
    *,
    title: str | None = None,
    highest: float | Literal["largest"] = 1.0,
    data: Literal["json", "npz"] | None = None,
    **options: Unpack[ReadingOptions],
) -> tuple[Path, ...]:
    """Draws an alignment: source across with its labels on top, target downwards, darker is more weight.

    PNG, SVG and PDF show everything on one page: layers and heads or several predictions are a grid; more than 24 heads
    are small multiples below the picture of the prediction, or of the mean of the heads. HTML is one file that sends no
    requests: it shows the weight under the pointer or the arrow keys as a number, and has a choice of predictions,
    layers, heads and their means. Weights are not normalised: the whole file has one scale of colours, from 0 to
    `highest`.

    Args:
        alignment: an array or tensor (T, S), (H, T, S) or (L, H, T, S); or a `Prediction` or a result of
            `load_alignment`, which have their own tokens; or a list of those.
        path: ends in .png, .svg, .pdf or .html; missing folders are created.
        source_tokens, target_tokens: S and T labels; numbers if None. If there is one label less than positions, the
            last position is the end symbol.
        title: the text above the picture.
        highest: the weight of the darkest colour; the colour bar has an arrow if there are weights above it. "largest"
            is the largest weight of the file, for alignments that are soft everywhere; then the colours of two files
            cannot be compared.
        data: if given, `save_alignment` also writes arrays and tokens next to the picture, as `x.json` or `x.npz`.
        **options: those of `ReadingOptions`.

    Returns:
        The paths of the written files.

    Raises:
        ShapeError: for shapes, tokens, lengths or masks that do not fit together.
        RegardError: for an unknown suffix, or nothing to show.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     files = plot_alignment([[0.9, 0.1], [0.2, 0.8]], folder + "/a.html", "ab", "AB", data="json")
    >>> [file.name for file in files]
    ['a.html', 'a.json']
    """
    target = Path(path)
    suffix = suffix_of(target, DRAWN)
    largest = highest == "largest"
    check_highest(highest)
    if data not in (None, "json", "npz"):
        raise RegardError(f"data must be 'json', 'npz' or None; got {data!r}.")
    items = read(alignment, source_tokens, target_tokens, **options)
    scale = largest_weight(items) if highest == "largest" else highest
    target.parent.mkdir(parents=True, exist_ok=True)
    if suffix == ".html":
        target.write_text(page(items, title=title, highest=scale, largest=largest), encoding="utf-8")
    else:
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        from regard.viz.picture import draw

        figure = draw(items, title=title, highest=scale, largest=largest)
        # the box of bbox_inches="tight", without drawing everything a second time
        renderer = FigureCanvasAgg(figure).get_renderer()  # type: ignore[no-untyped-call]
        box = figure.get_tightbbox(renderer)
        figure.savefig(target, bbox_inches=box.padded(0.12))
    if data is None:
        return (target,)
    arrays = target.with_suffix(f".{data}")
    write(items, arrays)
    return target, arrays
