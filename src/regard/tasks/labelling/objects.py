"""Labelled sentences of Python in a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.data.objects import WrittenData, table_of, text_at, write_lines
from regard.data.table_rows import TAB
from regard.errors import DataError
from regard.tasks.labelling.columns import Columns
from regard.tasks.labelling.config import LabellingData

FIELDS = ("tokens", "labels")
"""The names of the columns of tables."""
FORM: Mapping[str, Any] = {"data.format": "tsv", "data.token_column": 0, "data.label_column": 1}


def write_sentences(config: LabellingData, data: Any, folder: Path, name: str) -> WrittenData:
    """Writes sentences with a token and its label per line.

    Args:
        data: a table with the columns `tokens` and `labels`, which have lists, or a list of such pairs or dicts; or a
            list of sentences, each a list of pairs of a token and its label. A label may be None: the token has none.
    """
    sentences = [_checked(place, pairs) for place, pairs in _sentences(data, name)]
    lines, starts, number = list[tuple[str, str]](), list[int](), 1
    for index, pairs in enumerate(sentences):
        starts.append(number)
        place = f"{name}[{index}]"
        lines += [(place, f"{token}{TAB}{label}") for token, label in pairs] + [(place, "")]
        number += len(pairs) + 1
    path = folder / f"{name}.tsv"
    write_lines(path, lines)
    texts = [line for _, line in lines]
    columns = Columns.of(texts, path, format="tsv", token_column=0, label_column=1)
    read = list(columns.read(texts, str(path), labelled=False))
    written = [tuple(token for token, _ in pairs) for pairs in sentences]
    if [each.tokens for each in read] != written:
        other = next(
            (i for i, tokens in enumerate(written) if i >= len(read) or read[i].tokens != tokens), len(written) - 1
        )
        raise DataError(
            f"{name}[{other}]: in a file with a token per line this sentence would be another: {written[other]!r:.90}. "
            "Its tokens are like comments or signs of documents."
        )
    return WrittenData(path, name, starts, FORM)


def _sentences(data: Any, name: str) -> Iterator[tuple[str, list[tuple[Any, Any]]]]:
    """The place of every sentence, and its pairs of tokens and labels."""
    items = data if isinstance(data, list | tuple) else ()
    if items and all(map(_may_be_pairs, items)) and not all(map(_may_be_sides, items)):
        for number, item in enumerate(items):
            yield f"{name}[{number}]", [tuple(pair) for pair in item]
        return
    table = table_of(data, name)
    columns = table.columns((0, 1) if table.names is None else FIELDS, "the tokens and the labels of a sentence")
    for place, sides in table.selected(columns):
        for side, values in zip(FIELDS, sides, strict=True):
            if isinstance(values, str) or not isinstance(values, Sequence):
                raise DataError(f"{place}: expected a list of {side}; got {values!r:.60}.")
        tokens, labels = sides
        if len(tokens) != len(labels):
            raise DataError(f"{place}: {len(tokens)} tokens and {len(labels)} labels; every token has one.")
        yield place, list(zip(tokens, labels, strict=True))


def _may_be_pairs(item: Any) -> bool:
    """Whether a sentence may be a list of pairs of a token and its label."""
    return isinstance(item, list | tuple) and all(
        isinstance(pair, list | tuple) and len(pair) == 2 and isinstance(pair[0], str) and _is_label(pair[1])
        for pair in item
    )


def _may_be_sides(item: Any) -> bool:
    """Whether a sentence may be a list of tokens and a list of labels."""
    return len(item) == 2 and all(isinstance(side, list) for side in item)


def _is_label(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _checked(place: str, pairs: Sequence[tuple[Any, Any]]) -> list[tuple[str, str]]:
    """The pairs, without line ends and tabs in them."""
    if not pairs:
        raise DataError(f"{place}: the sentence has no tokens.")
    checked = []
    for number, (token, label) in enumerate(pairs, start=1):
        texts = text_at(token, place, f"token {number}"), "" if label is None else text_at(label, place, "a label")
        if wrong := next((text for text in texts if text.strip(" ") != text or set(text) & set("\t\r\n")), None):
            raise DataError(f"{place}: {wrong!r:.60} has a tab, a line end or blanks around it; remove them.")
        if not texts[0]:
            raise DataError(f"{place}: token {number} is empty.")
        checked.append(texts)
    return checked
