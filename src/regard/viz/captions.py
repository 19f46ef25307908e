"""Captioned images as pictures, or as one HTML page in which words light the image and the image lights words.

The page contains its images, data, style and script and sends no requests.
"""

from __future__ import annotations

import io
import math
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from regard.errors import RegardError, printable
from regard.viz.captioned_image import CaptionedImage
from regard.viz.colours import hexadecimal
from regard.viz.files import DRAWN, suffix_of
from regard.viz.labels import visible
from regard.viz.maps import COVER, DIM, SHADE, UNKNOWN, resized, tints
from regard.viz.page import BYTE_UNIT, as_bytes, embedded, filled

Highest = float | Literal["word", "largest"]
MOST_PIXELS = 1_000_000
"""Images with more pixels are shown smaller."""
PAPER = 200
"""From this median on an image is ink on paper, which is shown light on dark in the dark."""


def plot_captioned_image(
    captions: CaptionedImage | Sequence[CaptionedImage],
    path: str | Path,
    *,
    title: str | None = None,
    smooth: bool = True,
    highest: Highest = "word",
    end_symbol: bool = True,
) -> Path:
    """Draws for each word of a caption its map of attention over the dimmed image.

    PNG and SVG show a caption: the image, then a panel for each word with the word and its largest weight above it.
    PDF has as many pages as it needs, and any number of captions. HTML is one file that sends no requests, with any
    number of captions: pointing at a word lights the part of the image that it attends to, pointing at the image lights
    the words that attend to that part; the same by the keyboard and by touch.

    Maps are drawn smoothly between the centres of cells, where they have the cell's weight, or as cells. A map that is
    the choice of a single cell, as of hard attention, is always drawn as this cell, with an outline.

    Args:
        captions: one, or for .html and .pdf also several.
        path: ends in .png, .svg, .pdf or .html; missing folders are created.
        title: the text above everything; for a picture the caption's `text` if None.
        smooth: False draws cells as rectangles; the page has a switch for it.
        highest: the weight of the strongest colour: "word", the largest of each map; "largest", that of all maps, so
            that words can be compared; or a number, so that files can be.
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
    suffix = suffix_of(target, DRAWN)
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
        target.write_text(_page(items, title=title, smooth=smooth, highest=highest), encoding="utf-8")
        return target
    from matplotlib.backends.backend_pdf import PdfPages

    from regard.viz.caption_picture import draw_captions
    from regard.viz.picture import DPI

    figures = draw_captions(items, title=title, smooth=smooth, highest=highest, paged=suffix == ".pdf")
    if suffix == ".pdf":
        with PdfPages(target) as pages:
            for figure in figures:
                pages.savefig(figure, dpi=DPI)
    else:
        next(figures).savefig(target, dpi=DPI)
    return target


def scales(items: Sequence[CaptionedImage], highest: Highest) -> list[NDArray[np.float64]]:
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


def _page(captions: Sequence[CaptionedImage], *, title: str | None, smooth: bool, highest: Highest) -> str:
    """The text of the HTML page."""
    common = scales(captions, "largest" if highest == "word" else highest)
    largest = max((float(values[0]) for values in common if len(values)), default=1.0)
    data = {
        "unit": BYTE_UNIT,
        "smooth": smooth,
        "words": highest == "word",
        "highest": largest,
        "number": not isinstance(highest, str),
        "paint": {"dim": DIM, "shade": SHADE, "cover": COVER, "unknown": [round(255 * part) for part in UNKNOWN]},
        "colours": hexadecimal(tints(33)),
        "items": [_item(caption) for caption in captions],
    }
    return filled("caption_page.html", title or "Captions", data=embedded(data))


def _item(caption: CaptionedImage) -> dict[str, Any]:
    largest = np.where(caption.largest > 0, caption.largest, 1.0)
    height, width = caption.size
    return {
        "text": printable(caption.text),
        "note": printable(caption.remarks),
        "words": [visible(token) for token in caption.tokens],
        "size": [height, width],
        "cell": list(caption.cell_size),  # type: ignore[arg-type]
        "shift": caption.shift,
        "grid": list(caption.maps.shape[1:]),
        "image": png_uri(caption.image),
        "paper": bool(np.median(caption.image) >= PAPER),
        "largest": [float(f"{weight:.6g}") if np.isfinite(weight) else None for weight in caption.largest],
        "hard": np.flatnonzero(caption.is_hard).tolist(),
        "sums": caption.sums_to_one,
        "maps": as_bytes(caption.maps / largest[:, None, None]),
    }


def png_uri(image: NDArray[np.uint8]) -> str:
    """A PNG as a data URI, scaled down if it has more than `MOST_PIXELS` pixels."""
    from PIL import Image

    height, width = image.shape[:2]
    factor = math.sqrt(MOST_PIXELS / (height * width))
    if factor < 1:
        smaller = (max(1, round(side * factor)) for side in (height, width))
        image = (resized(image, *smaller) * 255).round().astype(np.uint8)
    stream = io.BytesIO()
    Image.fromarray(image[..., 0] if image.shape[2] == 1 else image).save(stream, "PNG", optimize=True)
    return "data:image/png;base64," + b64encode(stream.getvalue()).decode("ascii")
