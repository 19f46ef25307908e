"""Pages inside a notebook."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from html import escape
from pathlib import Path

from regard.errors import printable


class EmbeddedPage:
    """A page that a notebook shows as the result of a cell.

    Args:
        html: what `embedded_page` returns.
    """

    def __init__(self, html: str) -> None:
        self._html = html

    def _repr_html_(self) -> str:
        return self._html


HEIGHT = 320
"""The height of a page in pixels until it has been drawn."""
FIT = (
    "const f=this,b=f.contentDocument.documentElement;"
    "new ResizeObserver(()=>{f.style.height=Math.ceil(b.offsetHeight)+2+'px'}).observe(b)"
)
"""Gives a frame the height of its page, also when its width changes."""


def embedded_page(draw: Callable[[Path], object], title: str) -> str:
    """A page as a frame for a notebook, apart from the notebook's own style; it sends no requests.

    Args:
        draw: writes the page into a file that ends in .html.
        title: the text for those who cannot see the frame.

    >>> embedded_page(lambda path: path.write_text("<p>x</p>"), "an x")[:45]
    '<iframe title="an x" srcdoc="&lt;p&gt;x&lt;/p'
    """
    with tempfile.TemporaryDirectory(prefix="regard-") as folder:
        path = Path(folder) / "page.html"
        draw(path)
        page = path.read_text(encoding="utf-8")
    style = f"width:100%;height:{HEIGHT}px;border:0"
    return (
        f'<iframe title="{escape(printable(title))}" srcdoc="{escape(page)}" style="{style}" onload="{FIT}"></iframe>'
    )


def shown_text(text: str, *notes: str) -> str:
    """A text with notes below it, for predictions of which nothing is drawn."""
    lines = "".join(f"<div><small>{escape(printable(note))}</small></div>" for note in notes)
    return f'<pre style="white-space:pre-wrap;margin:0">{escape(printable(text))}</pre>{lines}'
