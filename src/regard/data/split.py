"""Held-out pairs, chosen by a hash of the source, so that all pairs of a source are on the same side."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from regard.data.pairs import Pairs, Selection
from regard.errors import DataError, counted

SALT = "dev:"
CHOICE_SALT = "some:"
LARGEST_SHARE, MOST_PAIRS = 0.1, 2_000
"""The default of what is held out: 2,000 pairs tell models apart, and few files can spare more than a tenth."""


def share(text: str, *, salt: str = "") -> float:
    """A number from 0 to 1 (excluded) that depends only on the text: the first 53 bits of SHA-256(salt + text).

    >>> round(share("HELLO"), 4)
    0.2156
    """
    digest = hashlib.sha256((salt + text).encode("utf-8", "surrogatepass")).digest()
    return (int.from_bytes(digest[:8], "big") >> 11) / (1 << 53)


def suggested_fraction(num_pairs: int) -> float:
    """A tenth, or the fraction that makes about 2,000 pairs if that is less.

    >>> suggested_fraction(3_600), suggested_fraction(104_000)
    (0.1, 0.019)
    """
    return float(f"{min(LARGEST_SHARE, MOST_PAIRS / max(num_pairs, 1)):.2g}")


def are_held_out(texts: Iterable[str], fraction: float) -> NDArray[np.bool_]:
    """(texts,) whether the salted `share` of each text is below the fraction."""
    return np.fromiter((share(text, salt=SALT) for text in texts), dtype=np.float64) < fraction


def held_out_indices(
    texts: Iterable[str], fraction: float, *, what: str, advice: str, setting: str = "data.dev_fraction="
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The indices of the texts that are trained on, and of those that are held out (`are_held_out`).

    Args:
        what: the texts are, one and several, as of `counted`.
        advice: what to do if one of the parts would be empty.

    Raises:
        DataError: if one of the parts would be empty.
    """
    is_dev = are_held_out(texts, fraction)
    if is_dev.all() or not is_dev.any():
        which = "all" if is_dev.all() else "none"
        raise DataError(f"Of {counted(len(is_dev), what)}, {setting}{fraction:g} holds out {which}.\n  {advice}")
    return np.flatnonzero(~is_dev), np.flatnonzero(is_dev)


def chosen_evenly(texts: Iterable[str], most: int) -> NDArray[np.int64]:
    """The indices, in order, of at most so many texts: those whose salted `share` is smallest.

    What is chosen depends on the texts and not on their order or a seed, and a larger number only adds to it. Of equal
    texts the first comes first.

    >>> chosen_evenly(["a", "b", "c", "d"], 2).tolist()
    [1, 2]
    """
    shares = np.fromiter((share(text, salt=CHOICE_SALT) for text in texts), dtype=np.float64)
    return np.sort(np.argsort(shares, kind="stable")[:most])


def hold_out(pairs: Pairs, fraction: float, *, normalise: Callable[[str], str] = str) -> tuple[Pairs, Pairs]:
    """Training pairs and held-out pairs: a source is held out when its `share` is below the fraction.

    Whether a source is held out depends only on its text, not on the other pairs, their order or a seed. The share is
    salted, so that data that were split by plain SHA-256 before (`regard.data.text.cmudict`) can be split again.

    Args:
        fraction: the share of the distinct sources that is held out, approximately.
        normalise: sources are equal if this maps them to the same text (the source field's `normalisation`).

    Raises:
        DataError: if one of the parts would be empty.
    """
    advice = "Give a file of held-out pairs (data.dev), or another fraction."
    sources = (normalise(pair.source) for pair in pairs)
    train, dev = held_out_indices(sources, fraction, what="pair|pairs", advice=advice)
    return Selection(pairs, train), Selection(pairs, dev)
