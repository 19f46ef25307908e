"""Handwriting in InkML files, as in CROHME."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from regard.errors import DataError
from regard.image.strokes import Line, Strokes, Symbol

MAX_BYTES = 64 << 20
"""The size of the largest file."""
TRUTH = ("truth", "normalizedLabel", "label")
"""Types of annotations of the text, in the order of preference."""
ENCODINGS = {"utf-8", "utf8", "us-ascii", "ascii", "iso-8859-1", "latin-1", "latin1", "windows-1252"}
"""Encodings in which markup is ASCII, so that declarations of entities are detected."""


def read_inkml(path: str | os.PathLike[str], *, truth: str | None = None) -> Strokes:
    """The strokes of an InkML file, with its text and symbols if it has them.

    Traces are points of the channels X and Y; others, such as time or pressure, are left out. The text is the
    annotation of type `truth`, without surrounding dollar signs. A group of traces with a text is a symbol. Entities
    are not expanded: a file that declares entities is an error.

    Args:
        truth: the type of the text's annotation; None: `truth`, or else `normalizedLabel` or `label`.

    Raises:
        DataError: for a file that is missing, not InkML, or larger than 64 MiB, and for a malformed trace. The text
            names the file and the trace.

    Source: Ink Markup Language (InkML), W3C Recommendation 2011; the groups as in CROHME's files.
    """
    file = Path(path)
    ink = _parsed(file)
    channels = [channel.get("name", "") for channel in _named(ink, "channel")] or ["X", "Y"]
    if not {"X", "Y"} <= set(channels):
        raise DataError(f"{file}: traceFormat: expected channels X and Y; got {', '.join(channels) or 'none'}.")
    columns = channels.index("X"), channels.index("Y")
    lines: list[Line] = []
    number_of: dict[str, int] = {}
    for trace in _named(ink, "trace"):
        name = _id(trace) or str(len(lines))
        lines.append(_line(trace.text or "", columns, f"{file}: trace {name}"))
        number_of.setdefault(name, len(lines) - 1)
    if not lines:
        raise DataError(f"{file}: the file has no traces.")
    texts = {note.get("type", ""): (note.text or "").strip() for note in ink if _tag(note) == "annotation"}
    text = next((texts[kind] for kind in ((truth,) if truth else TRUTH) if kind in texts), None)
    if text is not None and len(text) > 1 and text[0] == text[-1] == "$":
        text = text[1:-1].strip()
    return Strokes(tuple(lines), text, tuple(_symbols(ink, number_of, file)), str(file))


def _parsed(path: Path) -> ElementTree.Element:
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise DataError(f"{path}: {size:,} bytes are more than the limit for handwriting, {MAX_BYTES:,}.")
        content = path.read_bytes()
    except FileNotFoundError:
        raise DataError(f"{path}: no such file.") from None
    except OSError as error:
        raise DataError(f"{path}: the file cannot be read: {error.strerror}.") from None
    if not content.strip():
        raise DataError(f"{path}: the file is empty.")
    if content.startswith(b"\x1f\x8b"):
        raise DataError(f"{path} is compressed; unpack it first (gunzip).")
    declared = re.match(rb"""(?:\xef\xbb\xbf)?\s*<\?xml[^>]*?encoding\s*=\s*["']([\w.:-]+)""", content)
    encoding = declared[1].decode("ascii", "replace").lower() if declared else "utf-8"
    if encoding not in ENCODINGS or b"\x00" in content:
        named = f"the encoding {encoding}" if encoding not in ENCODINGS else "UTF-16 or binary data"
        raise DataError(f"{path}: {named} cannot be read; convert the file to UTF-8 first.")
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        shown = f"byte 0x{content[error.start]:02X} at {error.start + 1:,} of the file"
        raise DataError(f"{path}: not {encoding.upper()}: {shown}.") from None
    if re.search(r"<!(DOCTYPE|ENTITY)", text, re.IGNORECASE):
        raise DataError(f"{path}: declarations of document types and entities are not allowed; remove them.")
    try:
        # as UTF-8, regardless of the declaration
        root = ElementTree.fromstring(text.encode(), ElementTree.XMLParser(encoding="utf-8"))
    except ElementTree.ParseError as error:
        line, column = error.position
        raise DataError(f"{path}:{line}: not XML at column {column + 1}: {str(error).partition(':')[0]}.") from None
    if _tag(root) != "ink":
        raise DataError(f"{path}: expected the element ink; got {_tag(root)[:40]!r}.")
    return root


def _line(text: str, columns: tuple[int, int], where: str) -> Line:
    points = [point.split() for point in text.replace("\n", " ").split(",") if point.strip()]
    if not points:
        raise DataError(f"{where}: expected points; got none.")
    for number, point in enumerate(points, 1):
        if len(point) <= max(columns):
            shown = " ".join(point)[:40]
            raise DataError(f"{where}: point {number}: expected at least {max(columns) + 1} numbers; got {shown!r}.")
    chosen = [[point[column] for column in columns] for point in points]
    try:
        line = np.array(chosen, dtype=np.float64)
    except ValueError:
        number, shown = next((i, " ".join(pair)) for i, pair in enumerate(chosen, 1) if not _are_numbers(pair))
        hint = "\n  Differences of points (' and \") are not supported." * any(mark in shown for mark in "'\"!*?")
        raise DataError(f"{where}: point {number}: expected numbers; got {shown[:40]!r}.{hint}") from None
    with np.errstate(over="ignore"):
        return line.astype(np.float32)


def _are_numbers(texts: list[str]) -> bool:
    try:
        np.array(texts, dtype=np.float64)
    except ValueError:
        return False
    return True


def _symbols(ink: ElementTree.Element, number_of: dict[str, int], path: Path) -> Iterator[Symbol]:
    """The groups with a text and traces of their own, without groups of groups."""
    for group in _named(ink, "traceGroup"):
        label = next((note.text for note in group if _tag(note) == "annotation" and note.text), None)
        views = [view.get("traceDataRef", "").lstrip("#") for view in group if _tag(view) == "traceView"]
        names = views + [_id(trace) for trace in group if _tag(trace) == "trace"]
        if not label or not names:
            continue
        for name in names:
            if name not in number_of:
                raise DataError(f"{path}: the group of {label.strip()!r} has trace {name!r}, which does not exist.")
        yield Symbol(label.strip(), tuple(sorted({number_of[name] for name in names})))


def _named(ink: ElementTree.Element, tag: str) -> Iterator[ElementTree.Element]:
    """Elements of this name at any depth and in any namespace, in order."""
    return (element for element in ink.iter() if _tag(element) == tag)


def _tag(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _id(element: ElementTree.Element) -> str:
    return element.get("{http://www.w3.org/XML/1998/namespace}id") or element.get("id") or ""
