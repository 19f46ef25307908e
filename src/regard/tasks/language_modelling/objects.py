"""Texts of Python in a file."""

from __future__ import annotations

import os
from itertools import accumulate
from pathlib import Path
from typing import Any

from regard.data.objects import WrittenData, table_of, text_at, write_lines
from regard.errors import DataError
from regard.tasks.language_modelling.config import RunningTextConfig

LONGEST_NAME = 200
"""The most characters of the name of a file."""


def write_text(config: RunningTextConfig, data: Any, folder: Path, name: str) -> WrittenData:
    """Writes texts one after the other, each from the beginning of a line.

    Args:
        data: a list of texts, or a column of a table.
    """
    table = table_of(data, name)
    texts = [text_at(value, place, "the text") for place, (value,) in table.selected(table.columns((0,), "a text"))]
    if all(len(text) < LONGEST_NAME and "\n" not in text and os.path.isfile(text) for text in texts):
        raise DataError(f"{name}[0]: {texts[0]!r} is the name of a file; give files as pathlib.Path, one or a list.")
    path = folder / f"{name}.txt"
    texts = [text.removesuffix("\n") for text in texts]
    write_lines(path, ((f"{name}[{number}]", text) for number, text in enumerate(texts)))
    starts = accumulate((text.count("\n") + 1 for text in texts[:-1]), initial=1)
    return WrittenData(path, name, list(starts))
