"""Draws captioned images into a file of the kind that its suffix names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from regard.errors import RegardError
from regard.viz.captioned_image import CaptionedImage
from regard.viz.files import suffix_of
from regard.viz.plot import PICTURES

Highest = float | Literal["word", "largest"]


def plot_captioned_image(
    captions: CaptionedImage | Sequence[CaptionedImage],
    path: str | Path,
    *,
    title: str | None = None,
    smooth: bool = True,
    highest: Highest = "word",
    end_symbol: bool = True,
) -> Path:
    """Draws for each word of a caption where in the image the network looked: the word's map over the dimmed image.

    PNG and SVG show a caption: the image, then a panel for each word with the word and its largest weight above it.
    PDF has as many pages as it needs, and any number of captions. HTML is one file that sends no requests, with any
    number of captions: pointing at a word lights the image where it was looked at, pointing at the image lights the
    words that looked there; the same by the keyboard and by touch.

    Maps are drawn smoothly between the centres of cells, where they have the cell's weight, or as cells. A map that is
    the choice of a single cell, as of hard attention, is always drawn as this cell, with an outline.

    Args:
        captions: one, or for .html and .pdf also several.
        path: ends in .png, .svg, .pdf or .html; missing folders are created.
        title: the text above everything; for a picture the caption's `text` if None.
        smooth: False draws cells as rectangles. The page begins so and has a choice.
        highest: the weight of the strongest colour: "word", the largest of each map, so that every word shows where it
            looked; "largest", that of all maps, so that words can be compared; or a number, so that files can be.
        end_symbol: False leaves out the map of the end symbol.

    Raises:
        RegardError: for another suffix, no caption, or several captions in a .png or .svg.
        UnsupportedError: for a caption too long for one picture.

    Source: Xu et al. 2015 (arXiv 1502.03044), figures 2 to 4.

    >>> import tempfile
    >>> image = np.full((32, 64, 1), 255, np.uint8)
    >>> caption = CaptionedImage(image, ["x", "y"], np.eye(2, 8), grid=(2, 4), cell_size=16)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [plot_captioned_image(caption, folder + name).name for name in ("/xy.png", "/xy.html")]
    ['xy.png', 'xy.html']
    """
    target = Path(path)
    suffix = suffix_of(target, (*PICTURES, ".html"))
    items = [captions] if isinstance(captions, CaptionedImage) else list(captions)
    if not items:
        raise RegardError("captions is empty: there is nothing to draw.")
    for index, item in enumerate(items):
        if not isinstance(item, CaptionedImage):
            raise RegardError(f"captions[{index}] must be a CaptionedImage; got {type(item).__name__}.")
    if len(items) > 1 and suffix in (".png", ".svg"):
        raise RegardError(
            f"{target}: a {suffix[1:]} shows one caption; got {len(items)}. Write .html or .pdf for several."
        )
    named = highest in ("word", "largest") if isinstance(highest, str) else False
    if not named and not (isinstance(highest, int | float) and 0 < highest < float("inf")):
        raise RegardError(f"highest must be 'word', 'largest' or a weight above 0; got {highest!r}.")
    if not end_symbol:
        items = [item.without_end() for item in items]
    target.parent.mkdir(parents=True, exist_ok=True)
    if suffix == ".html":
        from regard.viz.caption_page import caption_page

        text = caption_page(items, title=title, smooth=smooth, highest=highest)
        target.write_text(text, encoding="utf-8")
        return target
    from regard.viz.caption_picture import draw_captions
    from regard.viz.picture import DPI

    figures = draw_captions(items, title=title, smooth=smooth, highest=highest, paged=suffix == ".pdf")
    if suffix != ".pdf":
        next(figures).savefig(target, dpi=DPI)
        return target
    from matplotlib.backends.backend_pdf import PdfPages

    with PdfPages(target) as pages:
        for figure in figures:
            pages.savefig(figure, dpi=DPI)
    return target


def scales(items: Sequence[CaptionedImage], highest: Highest) -> list[np.ndarray[tuple[int], np.dtype[np.float64]]]:
    """The weight of the strongest colour for each word of each caption."""
    peaks = [np.where(item.largest > 0, item.largest, np.nan) for item in items]
    if highest == "word":
        return [np.where(np.isnan(peak), 1.0, peak) for peak in peaks]
    most: float
    if highest == "largest":
        most = max((float(np.nanmax(peak)) for peak in peaks if np.isfinite(peak).any()), default=1.0)
    else:
        most = float(highest)
    return [np.full(len(peak), most) for peak in peaks]
