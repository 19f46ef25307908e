"""The labels of documents and their ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from regard.config.spelling import nearest
from regard.data import symbols_file as document
from regard.errors import DataError, RegardError, first_of

if TYPE_CHECKING:
    from regard.data.documents.files import Document

SHOWN = 10


class Labels:
    """Names of labels with ids from 0 in the order of the names.

    Args:
        names: distinct texts.
        several: whether a document may have any number of labels rather than exactly one.

    Raises:
        RegardError: if a name occurs twice.

    >>> labels = Labels(["earn", "acq"])
    >>> labels.names, labels.id("earn"), len(labels)
    (('earn', 'acq'), 0, 2)
    """

    def __init__(self, names: Iterable[str], *, several: bool = False) -> None:
        self.names = tuple(names)
        self.several = several
        self._ids = {name: i for i, name in enumerate(self.names)}
        if len(self._ids) < len(self.names):
            repeated = next(name for i, name in enumerate(self.names) if self._ids[name] != i)
            raise RegardError(f"The names of labels must be distinct; {repeated!r} occurs twice.")

    @classmethod
    def build(cls, documents: Iterable[Document], *, several: bool = False) -> Labels:
        """The labels that occur, in order of code points.

        Raises:
            DataError: if there is none, or if a document that needs one label has none or several.
        """
        names: set[str] = set()
        for item in documents:
            if not several:
                _single(item)
            names.update(item.labels)
        if not names:
            raise DataError("The documents have no labels; name the field of the labels.")
        return cls(sorted(names), several=several)

    def __len__(self) -> int:
        """C, the number of labels."""
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self._ids

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Labels) and (self.names, self.several) == (other.names, other.several)

    def __hash__(self) -> int:
        return hash((self.names, self.several))

    def id(self, name: str, place: str = "") -> int:
        """The id of a label.

        Args:
            place: file and line, for the error.

        Raises:
            DataError: if the label is not among the names; the text suggests the nearest one.
        """
        if name in self._ids:
            return self._ids[name]
        similar = nearest(name, self.names)
        hint = f"Did you mean {similar!r}?" if similar else f"The labels are {first_of(self.names, SHOWN)}."
        raise DataError(f"{place}{': ' * bool(place)}{name!r} is not a label of the training documents. {hint}")

    def ids(self, documents: Sequence[Document]) -> NDArray[np.int64]:
        """(documents,) the id of the label of each document.

        Raises:
            DataError: if a document has none or several, or one that is not among the names.
        """
        return np.array([self.id(_single(item), item.place) for item in documents], dtype=np.int64)

    def indicators(self, documents: Sequence[Document]) -> NDArray[np.bool_]:
        """(documents, C) a mask of the labels of each document.

        Raises:
            DataError: if a document has a label that is not among the names.
        """
        result = np.zeros((len(documents), len(self)), dtype=np.bool_)
        for row, item in enumerate(documents):
            for name in item.labels:
                result[row, self.id(name, item.place)] = True
        return result

    def save(self, path: Path | str) -> None:
        """Writes a JSON document with one name per line."""
        document.write(Path(path), {"several": self.several}, self.names)

    @classmethod
    def load(cls, path: Path | str) -> Labels:
        """Reads a file of `save`.

        Raises:
            DataError: if the file is missing, damaged, of a newer format, or has no labels.
        """
        header, names = document.read(Path(path))
        several = header.get("several")
        if not isinstance(several, bool):
            raise DataError(f"{path}: not labels written by regard: `several` must be true or false; got {several!r}.")
        if len(set(names)) < len(names):
            raise DataError(f"{path}: the names of labels must be distinct.")
        return cls(names, several=several)


def _single(item: Document) -> str:
    if len(item.labels) != 1:
        shown = ", ".join(map(repr, item.labels)) or "none"
        raise DataError(
            f"{item.place}: a document needs one label; this one has {shown}.\n"
            "  If documents may have none or several, give the separator between labels."
        )
    return item.labels[0]
