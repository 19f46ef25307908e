"""Tables of pictures with texts: TSV, CSV, JSONL, captions in the formats of COCO and Karpathy, and folders."""

from __future__ import annotations

import json
import operator
import re
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from regard.config.spelling import suggestion
from regard.data.defects import item_or_defect, readable
from regard.data.lines import Lines
from regard.data.pairs import shorten
from regard.data.table_rows import TAB, AbstractRows, CsvRows, SeparatedRows
from regard.data.text.jsonl import has_half_pair, parse
from regard.data.text_file import TABLES, open_text, reason, suffix_of
from regard.errors import ConfigError, DataError, counted
from regard.image import Strokes, image_size, read_image, read_inkml
from regard.image.read import MAX_PIXELS, Colour, Report

if TYPE_CHECKING:
    from regard.image import Rendering

PictureFormat = Literal["auto", "tsv", "csv", "jsonl", "coco", "inkml", "folder"]
Part = Literal["train", "dev", "test"]
SUFFIXES: dict[str, PictureFormat] = {**TABLES, ".json": "coco"}
IMAGES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp")
"""The suffixes of pictures in a folder."""
PARTS: dict[Part, tuple[str, ...]] = {"train": ("train", "restval"), "dev": ("val", "dev"), "test": ("test",)}
"""The names of parts in a file that divides its pictures."""
NUMBERED = re.compile(rf"({'|'.join(rf'.*{re.escape(suffix)}' for suffix in IMAGES)})#\d+", re.IGNORECASE)
"""The name of a picture with the number of its caption, as in Flickr8k."""
IMAGE_HEADINGS = {"image", "image_name", "images", "file", "file_name", "filename", "path", "picture"}
TEXT_HEADINGS = {"caption", "captions", "comment", "formula", "label", "latex", "sentence", "text", "transcription"}
"""Names of columns in lower case."""
DIVIDED_BYTES = 1 << 16
"""Bytes of a JSON file in which the format of Karpathy is recognised."""
IMAGE, STROKES, TEXT, TOKENS = "image", "strokes", "text", "tokens"
"""Default fields of JSONL; `tokens` is a list that is joined by blanks."""


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """A picture and its texts.

    Args:
        image: the file of a picture, or strokes.
        texts: one or several references; empty if texts are not read.
        place: file and line in the table, such as `captions.tsv:3`.
        id: the name of its prediction: the path in the table, or the field `id` of a record.
    """

    image: Path | Strokes
    texts: tuple[str, ...]
    place: str
    id: str

    def size(self, rendering: Rendering | None = None) -> tuple[int, int]:
        """Height and width in pixels, from the header of a file or the extent of strokes.

        Args:
            rendering: the rendering of strokes; None: `Rendering()`.

        Raises:
            DataError: for a file that is missing or not a picture; the text begins with the place.
        """
        file = self.image
        if isinstance(file, Path):
            return self._located(lambda: image_size(file))
        placement = _rendering(rendering).place(file)
        return placement.height, placement.width

    def pixels(
        self,
        *,
        colour: Colour = "grey",
        rendering: Rendering | None = None,
        max_pixels: int = MAX_PIXELS,
        report: Report | None = None,
    ) -> NDArray[np.uint8]:
        """The picture, (H, W, C) uint8, read from its file or drawn.

        Args:
            colour, max_pixels, report: as in `regard.image.read_image`; strokes are drawn in grey.
            rendering: the rendering of strokes; None: `Rendering()`.

        Raises:
            DataError: as `read_image`; the text begins with the place.
        """
        file = self.image
        if isinstance(file, Path):
            return self._located(lambda: read_image(file, colour=colour, max_pixels=max_pixels, report=report))
        return _rendering(rendering).draw(file)

    def _located(self, read: Callable[[], Any]) -> Any:
        try:
            return read()
        except DataError as error:
            raise DataError(f"{self.place}: {error}") from None


class Pictures(Sequence[Picture]):
    """A sequence of pictures, read by index without decoding; slices are sequences too.

    Args:
        path: the file or folder of the table.
        num_blank: the number of skipped blank lines.
    """

    def __init__(self, path: Path, *, num_blank: int = 0) -> None:
        self.path = path
        self.num_blank = num_blank

    @abstractmethod
    def read(self, index: int) -> Picture:
        """The picture at an index from 0 to `len(self) - 1`."""

    def texts(self, index: int) -> tuple[str, ...]:
        """The texts of a picture, without its strokes."""
        return self.read(index).texts

    def __iter__(self) -> Iterator[Picture]:
        return map(self.read, range(len(self)))

    @overload
    def __getitem__(self, index: int) -> Picture: ...
    @overload
    def __getitem__(self, index: slice) -> Pictures: ...
    def __getitem__(self, index: int | slice) -> Picture | Pictures:
        if isinstance(index, slice):
            return SelectedPictures(self, range(len(self))[index])
        number = operator.index(index)
        if not -len(self) <= number < len(self):
            raise IndexError(f"{self.path} has {len(self)} pictures; got the index {number}.")
        return self.read(number % len(self))


class SelectedPictures(Pictures):
    """The pictures of a sequence at some indices."""

    def __init__(self, pictures: Pictures, indices: Sequence[int]) -> None:
        super().__init__(pictures.path)
        self.pictures = pictures
        self.indices = indices

    def __len__(self) -> int:
        return len(self.indices)

    def read(self, index: int) -> Picture:
        return self.pictures.read(self.indices[index])

    def texts(self, index: int) -> tuple[str, ...]:
        return self.pictures.texts(self.indices[index])


class JoinedPictures(Pictures):
    """The pictures of two sequences, one after the other."""

    def __init__(self, first: Pictures, second: Pictures) -> None:
        super().__init__(first.path)
        self.first = first
        self.second = second

    def __len__(self) -> int:
        return len(self.first) + len(self.second)

    def read(self, index: int) -> Picture:
        rest = index - len(self.first)
        return self.second.read(rest) if rest >= 0 else self.first.read(index)

    def texts(self, index: int) -> tuple[str, ...]:
        rest = index - len(self.first)
        return self.second.texts(rest) if rest >= 0 else self.first.texts(index)


class ListedPictures(Pictures):
    """Pictures in files, listed in memory; InkML is parsed when it is read."""

    def __init__(self, path: Path, rows: Sequence[Picture], *, num_blank: int = 0) -> None:
        super().__init__(path, num_blank=num_blank)
        self.rows = tuple(rows)

    def __len__(self) -> int:
        return len(self.rows)

    def read(self, index: int) -> Picture:
        row = self.rows[index]
        file = row.image
        if isinstance(file, Path) and file.suffix.lower() == ".inkml":
            return replace(row, image=row._located(lambda: read_inkml(file)))
        return row

    def texts(self, index: int) -> tuple[str, ...]:
        return self.rows[index].texts


class WrittenPictures(Pictures):
    """Records of strokes, one per line of a file, parsed when they are read."""

    def __init__(self, lines: Lines, fields: _Fields, texts: Sequence[tuple[str, ...]]) -> None:
        super().__init__(lines.path, num_blank=lines.num_skipped)
        self.lines = lines
        self.fields = fields
        self.all_texts = tuple(texts)

    def __len__(self) -> int:
        return len(self.lines)

    def read(self, index: int) -> Picture:
        place = f"{self.path}:{self.lines.number(index)}"
        record = parse(self.lines[index], place)
        value, texts = self.fields.image_of(record, place), self.all_texts[index]
        try:
            strokes = Strokes.of(value, text=texts[0] if texts else None, place=place)
        except DataError as error:
            message = str(error).removeprefix(f"{place}: ")
            raise DataError(f"{place}: field {self.fields.image!r}: {message}") from None
        return Picture(strokes, texts, place, _id(record) or str(self.lines.number(index)))

    def texts(self, index: int) -> tuple[str, ...]:
        return self.all_texts[index]


class InkPictures(Pictures):
    """The InkML files of a folder in the order of their names, parsed when they are read."""

    def __init__(self, path: Path, files: Sequence[Path], *, annotation: str | None, with_texts: bool) -> None:
        super().__init__(path)
        self.files = tuple(files)
        self.annotation = annotation
        self.with_texts = with_texts

    def __len__(self) -> int:
        return len(self.files)

    def read(self, index: int) -> Picture:
        file = self.files[index]
        strokes = read_inkml(file, truth=self.annotation)
        if self.with_texts and strokes.text is None:
            kind = self.annotation or "truth, normalizedLabel or label"
            raise DataError(f"{file}: the file has no text, an annotation of type {kind}.")
        texts = (strokes.text or "",) if self.with_texts else ()
        folder = file.parent if file == self.path else self.path
        name = file.relative_to(folder).with_suffix("").as_posix()
        return Picture(strokes, texts, str(file), name)


@dataclass(frozen=True, slots=True)
class _Fields:
    """The names of the fields of JSONL."""

    image: str
    text: str | None

    def image_of(self, record: Any, place: str) -> Any:
        return _field(record, self.image, "image_field", place)

    def texts_of(self, record: Any, place: str) -> tuple[str, ...]:
        if self.text is None:
            return ()
        return _texts(_field(record, self.text, "text_field", place), self.text, place)


def open_pictures(
    path: Path | str,
    *,
    image_field: str | int | None = None,
    text_field: str | int | None = None,
    format: PictureFormat = "auto",
    image_folder: Path | str | None = None,
    with_texts: bool = True,
    part: Part | None = None,
) -> Pictures:
    """Opens a table of pictures and their texts without decoding pictures or checking that their files exist.

    - `tsv`: the path of a picture, a tab, a text. Rows with the same path, also Flickr8k's `name.jpg#0`, `name.jpg#1`,
      are one picture with several texts.
    - `csv`: likewise; a first line such as `image,caption` names the columns.
    - `jsonl`: a JSON object on each line, with the field `image` (a path) or `strokes` (a list of lists of numbers,
      `Strokes.of`), and `text`: a text, or a list of texts, or of lists of tokens, which are joined by blanks. A list
      of texts in a field `tokens` is one text.
    - `coco`: an object with `images` (`id`, `file_name`) and `annotations` (`image_id`, `caption`); or Karpathy's
      format, with `images` that have `filename`, `sentences` (`raw` or `tokens`) and `split`.
    - `folder`: pictures at any depth, each with its text in a file of the same name that ends in `.txt` or `.gt.txt`.
    - `inkml`: a folder of files `.inkml`, at any depth, or one such file. The text is the annotation `truth`. Other
      tables can list such files like pictures, with their own texts.

    Args:
        image_field: a field of JSONL; a column of TSV, counted from 0, or its name in the first line. None: `image`, or
            `strokes` if the first record has it instead; the first column of TSV.
        text_field: likewise for the text: `text`, or `tokens` if the first record has it instead; the second column of
            TSV. For InkML the type of an annotation.
        format: `auto`: by the suffix; a folder is InkML if it has such files.
        image_folder: the folder of relative paths of pictures; None: that of the table.
        with_texts: False: texts are not read and may be missing, as for predictions.
        part: only the pictures of train, dev or test, in a file that divides them (`split`).

    Raises:
        ConfigError: for options that contradict the file.
        DataError: for a file that cannot be read or has no pictures, and for a malformed line; the text names file,
            line, field and value. Strokes and InkML are checked when they are read.
    """
    file = Path(path)
    kind = picture_format(file, format)
    folder = file.parent if image_folder is None else Path(image_folder)
    if kind == "inkml":
        _check_unused("InkML", image_field=image_field, image_folder=image_folder)
        return _open_inkml(file, text_field, with_texts)
    if kind == "folder":
        _check_unused("a folder", image_field=image_field, text_field=text_field, image_folder=image_folder)
        return ListedPictures(file, _of_folder(file, with_texts))
    pictures: Pictures
    if kind == "coco":
        _check_unused("captions of COCO", image_field=image_field, text_field=text_field)
        pictures = ListedPictures(file, _coco(file, folder, with_texts, part))
    elif kind == "jsonl":
        pictures = _open_jsonl(file, folder, image_field, text_field, with_texts)
    else:
        rows = CsvRows(file) if kind == "csv" else SeparatedRows(file, TAB)
        pictures = _open_rows(rows, folder, image_field, text_field, with_texts)
    if not len(pictures):
        raise DataError(f"{file}: the file has no pictures.")
    return pictures


def _check_unused(kind: str, **options: object) -> None:
    for name, value in options.items():
        if value is not None:
            shown = value if isinstance(value, Path) else repr(value)
            raise ConfigError(f"data.{name}={shown} has no effect on {kind}; leave it out.", ("data", name))


def picture_format(path: Path | str, format: PictureFormat = "auto") -> PictureFormat:
    """The format of a table; `auto` chooses by the suffix."""
    if format != "auto":
        return format
    path = Path(path)
    if path.suffix.lower() == ".inkml":
        return "inkml"
    if path.is_dir():
        return "inkml" if next(_files(path, (".inkml",)), None) is not None else "folder"
    if suffix_of(path) not in SUFFIXES and path.is_file() and _is_csv(path):
        return "csv"
    return SUFFIXES.get(suffix_of(path), "tsv")


def _is_csv(path: Path) -> bool:
    """Whether the first line has names of columns between commas or bars, as Flickr's `captions.txt`."""
    with open_text(path) as file:
        first = file.read(200).split(b"\n")[0].decode("utf-8", "replace")
    return TAB not in first and len(names := re.split("[,|]", first)) > 1 and _image_column(names) is not None


def _files(folder: Path, suffixes: Sequence[str]) -> Iterator[Path]:
    """Files with these suffixes at any depth, except for hidden ones."""
    for file in folder.rglob("*"):
        if file.suffix.lower() in suffixes and not any(p.startswith(".") for p in file.relative_to(folder).parts):
            yield file


def _of_folder(folder: Path, with_texts: bool) -> list[Picture]:
    """The pictures of a folder in natural order, with the texts beside them."""
    pictures = []
    for file in sorted(_files(folder, IMAGES), key=natural):
        name = file.relative_to(folder).as_posix()
        with item_or_defect:
            pictures.append(Picture(file, _beside(file) if with_texts else (), str(file), name))
    if not pictures:
        kinds = " ".join(IMAGES)
        raise DataError(f"{folder}: the folder has no pictures ({kinds}) and no InkML that can be read.")
    return pictures


def natural(file: Path) -> list[tuple[int, str]]:
    """A key for the natural order, in which 9.png comes before 10.png."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", str(file))]


def _beside(file: Path) -> tuple[str, ...]:
    """The text of a picture, in a file of the same name."""
    for suffix in (".txt", ".gt.txt"):
        text = file.with_suffix(suffix)
        if text.is_file():
            lines = list(Lines(text, skip_blank=True))
            if len(lines) > 1:
                raise DataError(f"{text}: {len(lines)} lines; the text of a picture is one line.")
            return tuple(lines) or ("",)
    raise DataError(f"{file}: there is no {file.with_suffix('.txt').name} with its text.")


def _open_rows(
    rows: AbstractRows, folder: Path, image_field: str | int | None, text_field: str | int | None, with_texts: bool
) -> Pictures:
    path, first = rows.lines.path, [name.strip() for name in rows[0]] if len(rows) else []
    place = f"{path}:{rows.number(0)}" if len(rows) else str(path)
    image, text = image_field, text_field
    named = isinstance(image, str) or isinstance(text, str)
    if not named and (column := _image_column(first)) is not None:  # the first line is a header
        named, image = True, column if image is None else image
        if text is None and with_texts:
            text = next((i for i, word in enumerate(first) if word.lower() in TEXT_HEADINGS), None)
    names = first if named else []
    columns = [_column(0 if image is None else image, "image_field", names, place)]
    if with_texts:
        columns.append(_column(1 if text is None else text, "text_field", names, place))
    by_name: dict[str, tuple[str, list[str]]] = {}
    for index in range(int(named), len(rows)):
        place = f"{path}:{rows.number(index)}"
        with item_or_defect:
            fields = rows[index]
            if len(fields) <= max(columns) or len(fields) != len(first):
                row = f"{counted(len(fields), f'{rows.kind} column|columns')} in {shorten(TAB.join(fields))}"
                if len(fields) > max(columns):
                    raise DataError(
                        f"{place}: {row}; the first line has {len(first)}, and every line needs the same number."
                    )
                raise DataError(f"{place}: {row}; expected the path of a picture, a tab and a text.")
            file = NUMBERED.sub(r"\1", fields[columns[0]])
            _check_name(file, "image_field", place)
            by_name.setdefault(file, (place, []))[1].extend(fields[column].strip() for column in columns[1:])
    pictures = [Picture(folder / file, tuple(texts), begin, file) for file, (begin, texts) in by_name.items()]
    return ListedPictures(path, pictures, num_blank=rows.num_blank)


def _image_column(names: Sequence[str]) -> int | None:
    """The column of pictures in a header; None if a first line is not a header."""
    words = [name.strip().lower() for name in names]
    if len(words) < 2 or not any(word in TEXT_HEADINGS for word in words):
        return None
    return next((i for i, word in enumerate(words) if word in IMAGE_HEADINGS), None)


def _column(field: str | int, key: str, names: Sequence[str], place: str) -> int:
    if isinstance(field, str):
        if field not in names:
            hint = suggestion(field, names, f"it has {', '.join(map(repr, names))}.")
            raise DataError(f"{place}: no column {field!r} (data.{key}) in the first line; {hint}")
        return names.index(field)
    if field < 0:
        raise ConfigError(f"Columns are counted from 0; got data.{key}={field}.", ("data", key))
    return field


def _open_jsonl(
    path: Path, folder: Path, image_field: str | int | None, text_field: str | int | None, with_texts: bool
) -> Pictures:
    for key, field in (("image_field", image_field), ("text_field", text_field)):
        if isinstance(field, int):
            raise ConfigError(f"Fields of JSONL have names, for example data.{key}=name; got {field}.", ("data", key))
    lines = Lines(path, skip_blank=True)
    if not len(lines):
        return ListedPictures(path, [])
    first: Any = None
    for index in range(len(lines)):
        with item_or_defect:
            first = parse(lines[index], f"{path}:{lines.number(index)}")
            break
    first = first if isinstance(first, dict) else {}
    image = str(image_field or (STROKES if STROKES in first and IMAGE not in first else IMAGE))
    text = str(text_field or (TOKENS if TOKENS in first and TEXT not in first else TEXT)) if with_texts else None
    fields = _Fields(image, text)
    written = isinstance(first.get(image), list)
    rows: dict[str, tuple[str, str, list[str]]] = {}
    all_texts: list[tuple[str, ...]] = [()] * len(lines)

    def read(index: int) -> None:
        place = f"{path}:{lines.number(index)}"
        record = parse(lines[index], place)
        value, texts = fields.image_of(record, place), fields.texts_of(record, place)
        if isinstance(value, list) != written:
            kinds = ("strokes", "a path") if written else ("a path", "strokes")
            raise DataError(f"{place}: field {image!r}: the first line has {kinds[0]}, this one {kinds[1]}.")
        if written:
            all_texts[index] = texts
            return
        if not isinstance(value, str):
            raise DataError(f"{place}: field {image!r}: expected the path of a picture; got {_shown(value)}.")
        _check_name(value, "image_field", place)
        rows.setdefault(value, (place, _id(record) or value, []))[2].extend(texts)

    indices = readable(len(lines), read)
    if written:
        strokes = WrittenPictures(lines, fields, all_texts)
        return strokes if len(indices) == len(lines) else SelectedPictures(strokes, indices)
    pictures = [Picture(folder / name, tuple(texts), place, id) for name, (place, id, texts) in rows.items()]
    return ListedPictures(path, pictures, num_blank=lines.num_skipped)


def _coco(path: Path, folder: Path, with_texts: bool, part: Part | None) -> list[Picture]:
    """The pictures of a file in the order of `images`, without those that lack captions if texts are read."""
    with open_text(path) as file:
        content = file.read()
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        if isinstance(error, json.JSONDecodeError):
            hint = "\n  Is it JSONL, one object per line? Then set data.format=jsonl." * (error.msg == "Extra data")
            raise DataError(f"{path}:{error.lineno}: not JSON at column {error.colno}: {error.msg}.{hint}") from None
        raise DataError(f"{path}: not JSON in UTF-8: {error}.") from None
    images = value.get("images") if isinstance(value, dict) else None
    if isinstance(images, list) and images and isinstance(images[0], dict) and "sentences" in images[0]:
        return _karpathy(path, folder, images, with_texts, part)
    lists: dict[str, list[Any]] = {}
    for key in ("images", "annotations"):
        entries = value.get(key) if isinstance(value, dict) else None
        if key == "annotations" and not with_texts and entries is None:
            entries = []
        if not isinstance(entries, list):
            kind = f"an object with {', '.join(map(repr, value))}" if isinstance(value, dict) else type(value).__name__
            raise DataError(f"{path}: expected captions in COCO's format, with a list {key!r}; got {shorten(kind)}.")
        lists[key] = entries
    rows: dict[str | int, tuple[str, str, list[str]]] = {}
    for number, image in enumerate(lists["images"]):
        place = f"{path}: images[{number}]"
        with item_or_defect:
            id, name = _key(image, "id", place), _text(image, "file_name", place)
            if id in rows:
                raise DataError(f"{place}: id: {id!r} is also that of {rows[id][0].removeprefix(f'{path}: ')}.")
            rows[id] = (place, name, [])
    for number, annotation in enumerate(lists["annotations"] if with_texts else []):
        place = f"{path}: annotations[{number}]"
        with item_or_defect:
            id = _key(annotation, "image_id", place)
            if id not in rows:
                raise DataError(f"{place}: image_id: there is no image {id!r}.")
            rows[id][2].append(_text(annotation, "caption", place))
    if with_texts and rows and not any(texts for *_, texts in rows.values()):
        raise DataError(f"{path}: no image has a caption.")
    return [
        Picture(folder / name, tuple(texts), place, name)
        for place, name, texts in rows.values()
        if texts or not with_texts
    ]


def is_divided(path: Path | str) -> bool:
    """Whether a file divides its pictures into train, dev and test, as in Karpathy's format."""
    path = Path(path)
    if picture_format(path) != "coco" or not path.is_file():
        return False
    with open_text(path) as file:
        return b'"sentences"' in file.read(DIVIDED_BYTES)


def _karpathy(path: Path, folder: Path, images: list[Any], with_texts: bool, part: Part | None) -> list[Picture]:
    """The pictures of a part in Karpathy's format, in which `split` is train, restval, val or test."""
    pictures = []
    for number, image in enumerate(images):
        place = f"{path}: images[{number}]"
        with item_or_defect:
            name = _text(image if isinstance(image, dict) else {}, "filename", place)
            split = str(image.get("split", ""))
            if part is not None and split not in PARTS[part]:
                if not any(split in splits for splits in PARTS.values()):
                    known = ", ".join(name for splits in PARTS.values() for name in splits)
                    raise DataError(f"{place}: split: expected one of {known}; got {split!r}.")
                continue
            if "filepath" in image:
                name = f"{_text(image, 'filepath', place)}/{name}"
            texts: tuple[str, ...] = ()
            if with_texts:
                sentences = _field(image, "sentences", "text_field", place)
                raw = [each.get("raw", each.get("tokens")) if isinstance(each, dict) else each for each in sentences]
                texts = _texts(raw, "sentences", place)
            pictures.append(Picture(folder / name, texts, place, name))
    return pictures


def _open_inkml(path: Path, text_field: str | int | None, with_texts: bool) -> Pictures:
    if isinstance(text_field, int):
        raise ConfigError(
            f"Annotations of InkML have types, for example data.text_field=truth; got {text_field}.",
            ("data", "text_field"),
        )
    files = [path]
    if path.is_dir():
        files = sorted(_files(path, (".inkml",)), key=natural)
        if not files:
            raise DataError(f"{path}: the folder has no .inkml files.")
    elif not path.is_file():
        raise DataError(f"{path}: {reason(path, FileNotFoundError())}")
    return InkPictures(path, files, annotation=text_field, with_texts=with_texts)


def _field(record: Any, field: str, key: str, place: str) -> Any:
    if not isinstance(record, dict):
        raise DataError(f"{place}: expected a JSON object; got {_shown(record)}.")
    if field in record:
        return record[field]
    hint = suggestion(field, record, f"it has {', '.join(map(repr, record)) or 'none'}.")
    raise DataError(f"{place}: no field {field!r} (data.{key}); {hint}")


def _texts(value: Any, field: str, place: str) -> tuple[str, ...]:
    """The texts of a field: a text, a list of texts, or a list of lists of tokens; a list `tokens` is one text."""
    if isinstance(value, list) and field == TOKENS and all(isinstance(token, str) for token in value):
        value = [value]
    texts = []
    for each in value if isinstance(value, list) else [value]:
        joined = " ".join(each) if isinstance(each, list) and all(isinstance(token, str) for token in each) else each
        if not isinstance(joined, str):
            raise DataError(f"{place}: field {field!r}: expected a text or a list of texts; got {_shown(value)}.")
        if has_half_pair(joined):
            raise DataError(f"{place}: field {field!r}: half a surrogate pair, not text: {joined!a}.")
        texts.append(joined)
    if not texts:
        raise DataError(f"{place}: field {field!r}: expected a text or a list of texts; got an empty list.")
    return tuple(texts)


def _id(record: Any) -> str:
    value = record.get("id")
    return str(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else ""


def _key(record: Any, field: str, place: str) -> str | int:
    value = record.get(field) if isinstance(record, dict) else None
    if not isinstance(value, (str, int)) or isinstance(value, bool):
        raise DataError(f"{place}: {field}: expected a number or a text; got {_shown(value)}.")
    return value


def _text(record: dict[str, Any], field: str, place: str) -> str:
    value = record.get(field)
    if not isinstance(value, str) or (field == "file_name" and not value.strip()):
        raise DataError(f"{place}: {field}: expected a text; got {_shown(value)}.")
    return value


def _check_name(name: str, key: str, place: str) -> None:
    if not name.strip():
        raise DataError(f"{place}: data.{key}: expected the path of a picture; got {name!r}.")
    if "\x00" in name:
        raise DataError(f"{place}: data.{key}: {name!r} is not a path: it has a zero byte.")


def _shown(value: Any) -> str:
    return "nothing" if value is None else shorten(json.dumps(value, ensure_ascii=False))


def _rendering(rendering: Rendering | None) -> Rendering:
    if rendering is None:
        from regard.image import Rendering  # torch, which tables of pictures do not need

        return Rendering()
    return rendering
