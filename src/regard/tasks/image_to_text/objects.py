"""Pictures with their texts of Python in a file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from regard.data.objects import WrittenData, record_of, table_of, text_at, write_records
from regard.data.pictures.tables import IMAGE, STROKES, TEXT
from regard.errors import ConfigError, DataError
from regard.tasks.image_to_text.config import PictureDataConfig


def write_pictures(config: PictureDataConfig, data: Any, folder: Path, name: str) -> WrittenData:
    """Writes pictures with their texts as JSONL.

    Args:
        data: a table with the columns of picture and text, or a list of such pairs or of dicts. A picture is the path
            of its file, or strokes as lists of numbers; a text may be a list of several.
    """
    table, fields = table_of(data, name), (config.image_field or IMAGE, config.text_field or TEXT)
    for key, field in zip(("image_field", "text_field"), fields, strict=True):
        if isinstance(field, int):
            raise ConfigError(f"columns of data of Python have names; got {field}", ("data", key))
    image, text = map(str, fields)
    if table.names is not None and config.image_field is None and image not in table.names and STROKES in table.names:
        image = STROKES
    columns, path = table.columns((image, text), "a picture and its text"), folder / f"{name}.jsonl"

    def records() -> Iterator[tuple[str, Any]]:
        for place, (picture, texts) in table.selected(columns):
            texts = [texts] if isinstance(texts, str) or texts is None else list(texts)
            yield (
                place,
                record_of((image, text), [_picture(picture, place, config), [_text(each, place) for each in texts]]),
            )

    write_records(path, records())
    settings = {"data.format": "jsonl", "data.image_field": image, "data.text_field": text}
    return WrittenData(path, name, range(1, len(table.rows) + 1), settings)


def _text(value: Any, place: str) -> str:
    return text_at(value, place, "the text")


def _picture(value: Any, place: str, config: PictureDataConfig) -> Any:
    """The absolute path of a picture, or strokes."""
    if isinstance(value, list | tuple):
        return value
    if not isinstance(value, str | os.PathLike):
        raise DataError(
            f"{place}: the picture is {value!r:.40}, of type {type(value).__name__}; expected the path of a file."
        )
    return str(((config.image_folder or Path.cwd()) / value).absolute())
