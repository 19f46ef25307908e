"""Held-out items, chosen by a hash of their text, so that equal texts are in the same part."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from itertools import chain, islice

import numpy as np
from numpy.typing import NDArray

from regard.data.growing_array import BLOCK, GrowingArray
from regard.data.pairs import Pairs, Selection
from regard.errors import DataError, counted

SALT = "dev:"
CHOICE_SALT = "some:"
LARGEST_SHARE, MOST_PAIRS = 0.1, 2_000
"""Limits of the default held-out part: 2,000 pairs suffice to compare models, and files spare at most a tenth."""


def share(text: str, *, salt: str = "") -> float:
    """A number from 0 to 1 (excluded) that depends only on the text: the first 53 bits of SHA-256(salt + text).

    >>> round(share("HELLO"), 4)
    0.2156
    """
    return float(_shares([text], salt)[0])


def suggested_fraction(num_pairs: int) -> float:
    """A tenth, or the fraction for about 2,000 pairs if that is less.

    >>> suggested_fraction(3_600), suggested_fraction(104_000)
    (0.1, 0.019)
    """
    return float(f"{min(LARGEST_SHARE, MOST_PAIRS / max(num_pairs, 1)):.2g}")


def are_held_out(texts: Iterable[str], fraction: float) -> NDArray[np.bool_]:
    """(texts,) whether the salted `share` of each text is below the fraction."""
    return _shares(texts, SALT) < fraction


def held_out_indices(
    texts: Iterable[str], fraction: float, *, what: str, advice: str, setting: str = "data.dev_fraction="
) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
    """The indices of the training texts and of the held-out texts (`are_held_out`).

    Args:
        what: the noun for the texts, singular and plural, as for `counted`.
        advice: the last line of the error.

    Raises:
        DataError: if one of the parts would be empty.
    """
    parts = GrowingArray(), GrowingArray()
    count, texts = 0, iter(texts)
    while len(is_dev := are_held_out(islice(texts, BLOCK), fraction)):
        for part, chosen in zip(parts, (~is_dev, is_dev), strict=True):
            part.add(count + np.flatnonzero(chosen))
        count += len(is_dev)
    if not all(map(len, parts)):
        which = "none" if len(parts[0]) else "all"
        raise DataError(f"Of {counted(count, what)}, {setting}{fraction:g} holds out {which}.\n  {advice}")
    train, dev = (part.array() for part in parts)
    return train, dev


def chosen_evenly(texts: Iterable[str], most: int) -> NDArray[np.int64]:
    """The indices, in order, of the `most` texts with the smallest salted `share`.

    The choice does not depend on a seed or the order of the texts, and a larger number only adds to it. Of equal texts
    the first is chosen first.

    >>> chosen_evenly(["a", "b", "c", "d"], 2).tolist()
    [1, 2]
    """
    return np.sort(np.argsort(_shares(texts, CHOICE_SALT), kind="stable")[:most])


def hold_out(pairs: Pairs, fraction: float, *, normalise: Callable[[str], str] = str) -> tuple[Pairs, Pairs]:
    """Training pairs and held-out pairs: a source is held out if its `share` is below the fraction.

    The choice depends only on the source, not on other pairs, their order or a seed. The share is salted, so that data
    that were split by plain SHA-256 before (`regard.data.text.cmudict`) can be split again.

    Args:
        fraction: the approximate share of the distinct sources that is held out.
        normalise: sources are equal if this maps them to the same text (the source field's `normalisation`).

    Raises:
        DataError: if one of the parts would be empty.
    """
    advice = "Give a file of held-out pairs (data.dev), or another fraction."
    of_all = getattr(normalise, "of_all", lambda texts: map(normalise, texts))
    sources = chain.from_iterable(of_all(sources) for sources, _ in pairs.parts())
    train, dev = held_out_indices(sources, fraction, what="pair|pairs", advice=advice)
    return Selection(pairs, train), Selection(pairs, dev)


def _shares(texts: Iterable[str], salt: str) -> NDArray[np.float64]:
    """(texts,) the `share` of each."""
    firsts = [hashlib.sha256((salt + text).encode("utf-8", "surrogatepass")).digest()[:8] for text in texts]
    shares: NDArray[np.float64] = (np.frombuffer(b"".join(firsts), ">u8") >> 11) / (1 << 53)
    return shares
