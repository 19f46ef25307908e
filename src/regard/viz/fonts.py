"""Which fonts a picture needs for its labels, and which characters no font on this machine can draw."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from functools import lru_cache

from matplotlib import font_manager

from regard.viz.labels import is_silent, visible

BASE = "DejaVu Sans"
"""Comes with matplotlib; draws Latin, Greek, Cyrillic, Hebrew, Arabic letters and the phonetic alphabet."""
MISSING = "□"


class Typesetter:
    """Fonts for a set of texts, found once.

    Args:
        texts: everything that is to be drawn. Characters beyond the base font are looked for in the fonts that
            matplotlib finds on this machine. One warning names those that are in none.

    Attributes:
        families: the fonts, the base font first.
        stand_ins: the labels that stand for tokens which cannot be drawn.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self.stand_ins: set[str] = set()
        wanted = {ord(character) for text in texts for character in text} - _characters(_file(BASE))
        self.families = [BASE]
        for name, path in _installed() if wanted else ():
            if found := wanted & _characters(path):
                self.families.append(name)
                wanted -= found
            if not wanted:
                break
        silent = {code for code in wanted if is_silent(chr(code))}
        wanted -= silent
        self._lost: dict[int, str | None] = dict.fromkeys(wanted, MISSING) | dict.fromkeys(silent)
        if wanted:
            some = " ".join(f"U+{code:04X}" for code in sorted(wanted)[:5])
            warnings.warn(
                f"No installed font draws {len(wanted)} of the characters ({some}{', …' if len(wanted) > 5 else ''}); "
                f"they are shown as {MISSING}, tokens with them by a code point or, as #n, by their number. Install a "
                "font for the script, or write .html: browsers have fonts.",
                UserWarning,
                stacklevel=4,
            )

    def drawable(self, text: str) -> str:
        """The text with □ for what cannot be drawn."""
        return text.translate(self._lost)

    def labels(self, tokens: Sequence[str] | None) -> tuple[str, ...] | None:
        """Labels of tokens that can be drawn and read: where there is no font, the code point of a single character, or
        # and the number of a longer token, which is no wider than the label would have been."""
        return None if tokens is None else tuple(self._label(visible(token), i) for i, token in enumerate(tokens))

    def _label(self, token: str, number: int) -> str:
        label = self.drawable(token)
        if MISSING not in label or MISSING in token:
            return label
        stand_in = f"U+{ord(token):04X}" if len(token) == 1 else f"#{number}"
        self.stand_ins.add(stand_in)
        return stand_in


def _file(family: str) -> str:
    return str(font_manager.findfont(family))


@lru_cache(maxsize=1)
def _installed() -> tuple[tuple[str, str], ...]:
    """Family and file of the installed upright fonts; none of those that draw a place-holder for everything."""
    upright = (
        entry
        for entry in font_manager.fontManager.ttflist
        if entry.style == "normal" and entry.weight in (400, "normal", "regular") and "Last Resort" not in entry.name
    )
    return tuple(sorted({entry.name: entry.fname for entry in upright}.items()))


@lru_cache(maxsize=64)
def _characters(path: str) -> frozenset[int]:
    try:
        return frozenset(font_manager.get_font(path).get_charmap())
    except (OSError, RuntimeError):  # a file that is gone, or no font that FreeType reads
        return frozenset()
