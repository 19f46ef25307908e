"""Captioned images as one HTML file in which words light the image and the image lights words.

It contains its images, data, style and script and sends no requests.
"""

from __future__ import annotations

import io
import math
from base64 import b64encode
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image  # matplotlib needs it

from regard.errors import printable
from regard.viz.captioned_image import CaptionedImage
from regard.viz.captions import Highest, scales
from regard.viz.colours import hexadecimal
from regard.viz.labels import visible
from regard.viz.maps import COVER, DIM, SHADE, UNKNOWN, resized, tints
from regard.viz.page import BYTE_UNIT, as_bytes, filled

MOST_PIXELS = 1_000_000
"""Images with more pixels are shown smaller."""
PAPER = 200
"""From this median on an image is ink on paper, which is shown light on dark in the dark."""


def caption_page(
    captions: Sequence[CaptionedImage], *, title: str | None = None, smooth: bool = True, highest: Highest = "word"
) -> str:
    """The text of the page."""
    heading = printable(title or "Captions")
    most = scales(captions, highest)
    common = {"word": scales(captions, "largest"), "largest": most}.get(str(highest), most)
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
    return filled("caption_page.html", heading, data)


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
        "image": _png(caption.image),
        "paper": bool(np.median(caption.image) >= PAPER),
        "largest": [float(f"{weight:.6g}") if np.isfinite(weight) else None for weight in caption.largest],
        "hard": np.flatnonzero(caption.is_hard).tolist(),
        "sums": caption.sums_to_one,
        "maps": as_bytes(caption.maps / largest[:, None, None]),
    }


def _png(image: NDArray[np.uint8]) -> str:
    """A PNG as a data URI, scaled down if it has more than `MOST_PIXELS` pixels."""
    height, width = image.shape[:2]
    factor = math.sqrt(MOST_PIXELS / (height * width))
    if factor < 1:
        smaller = (max(1, round(side * factor)) for side in (height, width))
        image = (resized(image, *smaller) * 255).round().astype(np.uint8)
    stream = io.BytesIO()
    Image.fromarray(image[..., 0] if image.shape[2] == 1 else image).save(stream, "PNG", optimize=True)
    return "data:image/png;base64," + b64encode(stream.getvalue()).decode("ascii")
