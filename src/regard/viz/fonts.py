"""The fonts for the labels of a picture, and replacements of characters that no installed font draws."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from functools import lru_cache

from matplotlib import font_manager

from regard.viz.labels import is_silent, visible

BASE = "DejaVu Sans"
"""It comes with matplotlib and draws Latin, Greek, Cyrillic, Hebrew, Arabic letters and the phonetic alphabet."""
MISSING = "□"


class Typesetter:
    """The fonts for a set of texts.

    Args:
        texts: everything that is to be drawn. Characters that the base font lacks are drawn with other installed fonts;
            a single warning names those that no font has.

    Attributes:
        families: the fonts, the base font first.
        stand_ins: the labels that replace tokens which cannot be drawn.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self.stand_ins: set[str] = set()
        missing = {ord(character) for text in texts for character in text} - _characters(
            str(font_manager.findfont(BASE))
        )
        self.families = [BASE]
        for name, path in _installed() if missing else ():
            if drawn := missing & _characters(path):
                self.families.append(name)
                missing -= drawn
            if not missing:
                break
        silent = {code for code in missing if is_silent(chr(code))}
        missing -= silent
        self._lost: dict[int, str | None] = dict.fromkeys(missing, MISSING) | dict.fromkeys(silent)
        if missing:
            examples = " ".join(f"U+{code:04X}" for code in sorted(missing)[:5]) + ", …" * (len(missing) > 5)
            warnings.warn(
                f"No installed font draws {len(missing)} of the characters ({examples}); "
                f"they are shown as {MISSING}, tokens with them by a code point or, as #n, by their number. Install a "
                "font for the script, or write .html: browsers have fonts.",
                UserWarning,
                stacklevel=4,
            )

    def drawable(self, text: str) -> str:
        """The text with □ for what cannot be drawn."""
        return text.translate(self._lost)

    def labels(self, tokens: Sequence[str] | None) -> tuple[str, ...] | None:
        """Labels of tokens. A token without a font becomes its code point, or, if it has several characters, # and its
        number, which is not wider than the token."""
        return None if tokens is None else tuple(self._label(visible(token), i) for i, token in enumerate(tokens))

    def _label(self, token: str, number: int) -> str:
        label = self.drawable(token)
        if MISSING not in label or MISSING in token:
            return label
        stand_in = f"U+{ord(token):04X}" if len(token) == 1 else f"#{number}"
        self.stand_ins.add(stand_in)
        return stand_in


@lru_cache(maxsize=1)
def _installed() -> tuple[tuple[str, str], ...]:
    """Family and file of the installed upright fonts, except those that draw a placeholder for every character."""
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
    except (OSError, RuntimeError):  # the file is gone, or FreeType cannot read it
        return frozenset()
