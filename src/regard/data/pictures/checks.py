"""Checks of pictures and their texts before a model is trained on them."""

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
"""Of heights and widths: the smallest, the median, what 19 of 20 are not above, the largest."""


@dataclass(slots=True)
class _Split:
    """What one pass over a split gathers; lists of pictures are places with what there is to say of each."""

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
    """Looks at every picture and every text once and says what looks wrong.

    Found are pictures that are missing, unreadable or too small; those that are the same, byte by byte or stroke by
    stroke, within a split and in both; texts that are empty or repeated; and it says how large pictures are.

    Args:
        normalise: applied to texts before they are compared, as a field's normalisation.
        fitting: how pictures are brought into sizes; None: no picture is too small.
        rendering: how strokes become pictures; None: `Rendering()`.
        decode: whether pictures are decoded, which finds damage in them but takes some milliseconds each; otherwise
            their headers are read.
        max_pixels: files with more pixels count as unreadable, as in `regard.image.read_image`.
    """
    splits = [_survey("train", train, normalise, fitting, rendering, decode, max_pixels)]
    if dev is not None:
        splits.append(_survey("dev", dev, normalise, fitting, rendering, decode, max_pixels))
    findings = [finding for split in splits for finding in _of_split(split)]
    findings += _shared(*splits) if len(splits) == 2 else []
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
                read = picture.pixels(colour=colour, max_pixels=max_pixels, report=split.reported.append)
                size = read.shape[:2]
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
    """Of what a picture is: the bytes of its file, or its strokes."""
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
    yield from _found("error", "of {name}'s pictures cannot be read", split, split.unreadable)
    if not split.sizes:
        return
    yield _sizes(split)
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
    yield from _found(severity, "of {name}'s pictures has|have an empty text", split, split.empty)
    yield from _found("info", "of {name}'s pictures has|have a text twice", split, split.repeated_texts)
    is_all = len(split.small) == len(split.sizes)
    text = "of {name}'s pictures is|are too small for the network"
    yield from _found("error" if is_all else "warning", text, split, split.small)
    text = "of {name}'s files has|have several pictures, of which the first is read"
    yield from _found("info", text, split, split.reported)
    first: dict[bytes, int] = {}
    repeated = []
    for index, digest in enumerate(split.digests):
        earlier = first.setdefault(digest, index)
        if earlier != index:
            repeated.append(f"{split.places[index]} is {split.places[earlier]}")
    yield from _found("warning", "of {name}'s pictures is|are the same as an earlier one", split, repeated)


def _sizes(split: _Split) -> Finding:
    sides = np.quantile(np.array(split.sizes), QUANTILES, axis=0).astype(int)
    shown = (
        f"{side} {least:,} to {most:,} pixels, median {middle:,}, 95 % up to {high:,}"
        for side, (least, middle, high, most) in zip(("height", "width"), sides.T.tolist())
    )
    text = f"{split.name} has {counted(split.count, 'picture|pictures')}; {'; '.join(shown)}"
    return Finding("info", text, split.count)


def _shared(train: _Split, dev: _Split) -> Iterator[Finding]:
    known = sum(text in train.texts for text in dev.texts)
    if known:
        text = counted(known, f"of dev's {len(dev.texts):,} distinct texts is|are also in the training")
        yield Finding("info", text, known)


def _found(severity: Severity, text: str, split: _Split, examples: Sequence[str]) -> Iterator[Finding]:
    """A finding with examples, if there are any."""
    if examples:
        shown = tuple(" ".join(example.split()) for example in examples[:NUM_EXAMPLES])
        yield Finding(severity, counted(len(examples), text.format(name=split.name)), len(examples), shown)
