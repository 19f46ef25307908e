"""Checks of pictures and their texts before training."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from regard.data.finding import NUM_EXAMPLES, Finding, Findings, Severity, by_severity
from regard.data.pairs import shorten
from regard.data.pictures.tables import Picture, Pictures
from regard.errors import DataError, counted
from regard.image import Fitting, Strokes
from regard.image.read import MAX_PIXELS

if TYPE_CHECKING:
    from regard.image import Rendering

HASH_BYTES = 16
QUANTILES = (0.0, 0.5, 0.95, 1.0)
"""Reported quantiles of heights and widths."""


@dataclass(slots=True)
class _Split:
    """Statistics of a split from one pass; pictures are listed by their places and messages."""

    name: str
    count: int = 0
    sizes: list[tuple[int, int]] = field(default_factory=list)
    num_texts: list[int] = field(default_factory=list)
    digests: list[bytes] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    texts: Counter[str] = field(default_factory=Counter)
    unreadable: list[str] = field(default_factory=list)
    small: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)
    repeated_texts: list[str] = field(default_factory=list)
    reported: list[str] = field(default_factory=list)


def check_pictures(
    train: Pictures,
    dev: Pictures | None = None,
    *,
    normalise: Callable[[str], str] = str.strip,
    fitting: Fitting | None = None,
    rendering: Rendering | None = None,
    decode: bool = True,
    max_pixels: int = MAX_PIXELS,
) -> Findings:
    """Checks every picture and every text once.

    Reports pictures that are missing, unreadable or too small, identical pictures of a split (the same bytes or
    strokes), empty and repeated texts, texts that both splits have, and the sizes of pictures.

    Args:
        normalise: applied to texts before they are compared, as a field's normalisation.
        fitting: the fitting of pictures; None: no picture is too small.
        rendering: the rendering of strokes; None: `Rendering()`.
        decode: whether to decode pictures, which finds damage but takes some milliseconds each, or only read headers.
        max_pixels: files with more pixels count as unreadable, as in `regard.image.read_image`.
    """
    splits = [
        _survey(name, pictures, normalise, fitting, rendering, decode, max_pixels)
        for name, pictures in (("train", train), ("dev", dev))
        if pictures is not None
    ]
    findings = [finding for split in splits for finding in _of_split(split)]
    if dev is not None and (known := sum(text in splits[0].texts for text in splits[1].texts)):
        text = f"of dev's {len(splits[1].texts):,} distinct texts is|are also in the training"
        findings.append(Finding("info", counted(known, text), known))
    return Findings(by_severity(findings))


def _survey(
    name: str,
    pictures: Pictures,
    normalise: Callable[[str], str],
    fitting: Fitting | None,
    rendering: Rendering | None,
    decode: bool,
    max_pixels: int,
) -> _Split:
    split = _Split(name)
    colour = fitting.colour if fitting else "grey"
    for index in range(len(pictures)):
        split.count += 1
        try:
            picture = pictures.read(index)
        except DataError as error:
            split.unreadable.append(str(error))
            continue
        texts = [normalise(text) for text in picture.texts]
        split.num_texts.append(len(texts))
        split.texts.update(set(texts))
        if any(not text.strip() for text in texts):
            split.empty.append(picture.place)
        if len(set(texts)) < len(texts):
            split.repeated_texts.append(picture.place)
        try:
            if decode and not isinstance(picture.image, Strokes):
                pixels = picture.pixels(colour=colour, max_pixels=max_pixels, report=split.reported.append)
                size = pixels.shape[:2]
            else:
                size = picture.size(rendering)
                if size[0] * size[1] > max_pixels and not isinstance(picture.image, Strokes):
                    shown = f"{size[1]:,} × {size[0]:,} pixels are more than max_pixels={max_pixels:,}"
                    raise DataError(f"{picture.place}: {picture.image}: {shown}")
            split.digests.append(_digest(picture))
        except DataError as error:
            split.unreadable.append(str(error))
            continue
        split.places.append(picture.place)
        split.sizes.append((size[0], size[1]))
        if fitting is not None:
            try:
                fitting.frame(*size)
            except DataError:
                split.small.append(f"{picture.place} has {size[0]} × {size[1]}")
    return split


def _digest(picture: Picture) -> bytes:
    """A hash of the bytes of the picture's file, or of its strokes."""
    digest = hashlib.blake2b(digest_size=HASH_BYTES)
    if isinstance(picture.image, Strokes):
        for line in picture.image.lines:
            digest.update(len(line).to_bytes(8, "little"))
            digest.update(np.ascontiguousarray(line).tobytes())
        return digest.digest()
    try:
        with picture.image.open("rb") as file:
            return hashlib.file_digest(file, lambda: digest).digest()
    except OSError as error:
        raise DataError(f"{picture.place}: {picture.image}: cannot be read: {error.strerror}.") from None


def _of_split(split: _Split) -> Iterator[Finding]:
    name = split.name
    if not split.count:
        yield Finding("error", f"{name} has no pictures", 0)
        return
    yield from _finding("error", "of {name}'s pictures cannot be read", split, split.unreadable)
    if not split.sizes:
        return
    sides = np.quantile(np.array(split.sizes), QUANTILES, axis=0).astype(int)
    ranges = (
        f"{side} {least:,} to {most:,} pixels, median {middle:,}, 95 % up to {high:,}"
        for side, (least, middle, high, most) in zip(("height", "width"), sides.T.tolist())
    )
    yield Finding("info", f"{name} has {counted(split.count, 'picture|pictures')}; {'; '.join(ranges)}", split.count)
    if sum(split.num_texts):
        least, most = min(split.num_texts), max(split.num_texts)
        each = f"{least:,}" if least == most else f"{least:,} to {most:,}"
        distinct = counted(len(split.texts), "distinct text|texts")
        yield Finding("info", f"{name}'s pictures have {each} text{'s' * (most > 1)} each, {distinct}", split.count)
        commonest, times = split.texts.most_common(1)[0]
        if split.count >= 10 and times == split.count:
            yield Finding("error", f"all {times:,} pictures of {name} have the text {shorten(commonest)}", times)
    is_all = len(split.empty) == split.count
    severity: Severity = "error" if is_all else "warning"
    yield from _finding(severity, "of {name}'s pictures has|have an empty text", split, split.empty)
    yield from _finding("info", "of {name}'s pictures has|have a text twice", split, split.repeated_texts)
    is_all = len(split.small) == len(split.sizes)
    text = "of {name}'s pictures is|are too small for the network"
    yield from _finding("error" if is_all else "warning", text, split, split.small)
    text = "of {name}'s files has|have several pictures, of which the first is read"
    yield from _finding("info", text, split, split.reported)
    first: dict[bytes, int] = {}
    repeated = []
    for index, digest in enumerate(split.digests):
        earlier = first.setdefault(digest, index)
        if earlier != index:
            repeated.append(f"{split.places[index]} is {split.places[earlier]}")
    yield from _finding("warning", "of {name}'s pictures is|are the same as an earlier one", split, repeated)


def _finding(severity: Severity, text: str, split: _Split, examples: Sequence[str]) -> Iterator[Finding]:
    """A finding with examples, unless there are none."""
    if examples:
        shown = tuple(" ".join(example.split()) for example in examples[:NUM_EXAMPLES])
        yield Finding(severity, counted(len(examples), text.format(name=split.name)), len(examples), shown)
