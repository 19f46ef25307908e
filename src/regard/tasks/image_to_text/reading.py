"""Reads the pictures of a configuration, with their texts and sizes, and learns the symbols of the texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data import Finding, Findings
from regard.data.defects import is_collecting, readable
from regard.data.finding import NUM_EXAMPLES, by_severity, too_few
from regard.data.pictures import Pictures, check_pictures, open_pictures
from regard.data.pictures.tables import JoinedPictures, Part, SelectedPictures, is_divided, picture_format
from regard.data.split import held_out_indices, suggested_fraction
from regard.data.text import Field
from regard.data.text.field import open_pieces
from regard.errors import DataError, counted, first_of
from regard.image import Strokes
from regard.tasks.image_to_text.config import ImageToTextConfig
from regard.tasks.image_to_text.pixels import PictureReader

FEW, FEW_HELD_OUT = 200, 20
MOST_DECODED = 20_000
"""The most pictures that a check decodes; of more it reads only the headers."""


@dataclass(frozen=True, slots=True)
class Split:
    """Pictures with their sizes and texts.

    Args:
        sizes: (pictures, 2), height and width of the encoder's input; 0 for pictures that cannot be read.
        owners: (texts,) the index of each text's picture.
        lengths: (texts,) symbols of each text.
        num_strokes: the number of pictures that are strokes.
    """

    name: str
    pictures: Pictures
    sizes: NDArray[np.int64]
    refused: tuple[str, ...]
    owners: NDArray[np.int64]
    lengths: NDArray[np.int64]
    num_strokes: int = 0

    def text(self, index: int) -> str:
        """The text with this index."""
        owner = int(self.owners[index])
        return texts_of(self.pictures, owner)[index - int(np.searchsorted(self.owners, owner))]

    def texts(self) -> Iterator[str]:
        """All texts, in order."""
        return all_texts(self.pictures)

    def joined(self, other: Split, chosen: Sequence[int]) -> Split:
        """With the pictures of another split at some indices."""
        place = {index: len(self.pictures) + rank for rank, index in enumerate(chosen)}
        texts = np.flatnonzero(np.isin(other.owners, chosen))
        owners = [place[index] for index in other.owners[texts].tolist()]
        return replace(
            self,
            pictures=JoinedPictures(self.pictures, SelectedPictures(other.pictures, chosen)),
            sizes=np.concatenate([self.sizes, other.sizes[np.asarray(chosen, np.intp)]]),
            owners=np.concatenate([self.owners, np.array(owners, np.int64)]),
            lengths=np.concatenate([self.lengths, other.lengths[texts]]),
            num_strokes=self.num_strokes + other.num_strokes * len(chosen) // max(len(other.pictures), 1),
        )


@dataclass(frozen=True, slots=True)
class Material:
    """The training data of a model.

    Args:
        target: the field of the texts, learned from the training texts.
        chosen: values of open keys that follow from the pictures, by dotted key.
    """

    config: ImageToTextConfig
    train: Split
    dev: Split
    target: Field
    reader: PictureReader
    chosen: Mapping[str, Any] = field(default_factory=dict)

    @property
    def used(self) -> NDArray[np.int64]:
        """Indices of the texts that training uses: not empty, not too long, of pictures that can be read."""
        lengths, readable = self.train.lengths, self.train.sizes[self.train.owners].min(1) > 0
        return np.flatnonzero((lengths > 0) & (lengths <= self.config.data.max_length) & readable)


def texts_of(pictures: Pictures, index: int) -> tuple[str, ...]:
    """The texts of a picture; none of a file that cannot be read."""
    try:
        return pictures.texts(index)
    except DataError:
        return ()


def all_texts(pictures: Pictures) -> Iterator[str]:
    """The texts of all pictures, in order."""
    for index in range(len(pictures)):
        yield from texts_of(pictures, index)


def name_of(pictures: Pictures, index: int) -> str:
    """The name of a picture in predictions; a number if its entry cannot be read."""
    try:
        return pictures.read(index).id
    except DataError:
        return f"entry {index + 1}"


def open_table(
    config: ImageToTextConfig, path: Any, *, with_texts: bool = True, part: Part | None = None, **fields: Any
) -> Pictures:
    """The pictures of a table, read like those of the training.

    The format of the training applies to tables with the same suffix, its columns and fields to tables of the same
    format, and its folder of pictures to tables in the same folder.

    Args:
        with_texts, part: as in `open_pictures`.
        fields: `image_field` and `text_field`, in place of those of the training.
    """
    data = config.data
    tables = [Path(each).resolve() for each in (data.train, data.dev) if each is not None]
    table, trained = Path(path).resolve(), tables[0]
    is_trained = table in tables
    has_files = not table.is_dir() and table.suffix.lower() != ".inkml"
    has_suffix = is_trained or (has_files and table.suffix.lower() in {each.suffix.lower() for each in tables})
    in_folder = is_trained or (has_files and table.parent in {each.parent for each in tables})
    kind = picture_format(table, data.format if has_suffix else "auto")
    options: dict[str, Any] = {"format": kind, "with_texts": with_texts, "part": part}
    if is_trained or kind in (picture_format(trained, data.format), "" if trained.suffix else "inkml"):
        options |= {"image_field": data.image_field, "text_field": data.text_field}
    options |= {name: value for name, value in fields.items() if value is not None}
    return open_pictures(path, image_folder=data.image_folder if in_folder else None, **options)


def read_material(config: ImageToTextConfig, reader: PictureReader) -> Material:
    """Opens the tables, learns the symbols of the texts, and reads the size of every picture.

    Raises:
        ConfigError: for settings that contradict each other or the files.
        DataError: for tables that cannot be read, or of which no picture can.
    """
    data, chosen = config.data, dict[str, Any]()
    train = open_table(config, data.train, part="train")
    if data.dev is not None or is_divided(data.train):
        dev = open_table(config, data.dev or data.train, part="dev")
    else:
        fraction = data.dev_fraction
        if fraction is None:
            fraction = chosen["data.dev_fraction"] = suggested_fraction(len(train))
        train, dev = hold_out_pictures(train, fraction)
    if is_collecting():
        decode = len(train) + len(dev) <= MOST_DECODED
        train, dev = (_readable(pictures, reader, decode=decode) for pictures in (train, dev))
    side = data.target
    if number := open_pieces(side, all_texts(train), max_length=data.max_length):
        chosen["data.target.vocabulary_size"] = number
        side = side.model_copy(update={"vocabulary_size": number})
    target = Field.build(side, all_texts(train), name="target", max_length=data.max_length)
    trained = _split("train", train, target, reader)
    material = Material(config, trained, _split("dev", dev, target, reader), target, reader, chosen)
    if not len(material.used):
        reason = f"\n  {trained.refused[0]}" if trained.refused else ""
        raise DataError(f"{data.train}: there is no picture with a text to train on.{reason}")
    return material


def check(material: Material) -> Findings:
    """Checks the pictures and their texts; up to 20,000 pictures are decoded."""
    train, dev = material.train, material.dev
    checked = check_pictures(
        train.pictures,
        dev.pictures,
        normalise=material.target.normalisation,
        fitting=material.reader.fitting,
        rendering=material.reader.rendering,
        decode=len(train.pictures) + len(dev.pictures) <= MOST_DECODED,
        max_pixels=material.reader.max_file_pixels,
    )
    findings = [*checked.findings, *_of_lengths(train, material), *_of_lengths(dev, material), *_of_texts(material)]
    findings += _of_augmentation(material)
    counts = len(train.pictures), len(dev.pictures)
    findings += too_few(*counts, "picture|pictures", least=(FEW, FEW_HELD_OUT))
    return Findings(by_severity(findings))


def _readable(pictures: Pictures, reader: PictureReader, *, decode: bool) -> Pictures:
    """The pictures that can be read; with `decode` damage within files is found, too."""

    def read(index: int) -> None:
        picture = pictures.read(index)
        if isinstance(picture.image, Path) and decode:
            picture.pixels(colour=reader.fitting.colour, max_pixels=reader.max_file_pixels, report=lambda text: None)
        else:
            picture.size(reader.rendering)

    return SelectedPictures(pictures, readable(len(pictures), read))


def hold_out_pictures(pictures: Pictures, fraction: float) -> tuple[Pictures, Pictures]:
    """Training pictures and held-out ones, by a hash of their names; of absolute paths by that of the file's name, so
    that another folder or machine holds out the same ones."""
    names = (name_of(pictures, index) for index in range(len(pictures)))
    names = (PurePath(name).name if PurePath(name).is_absolute() else name for name in names)
    advice = "Give a table of held-out pictures (data.dev), or another fraction."
    train, dev = held_out_indices(names, fraction, what="picture|pictures", advice=advice)
    return SelectedPictures(pictures, train.tolist()), SelectedPictures(pictures, dev.tolist())


def _split(name: str, pictures: Pictures, target: Field, reader: PictureReader) -> Split:
    sizes, refused = np.zeros((len(pictures), 2), np.int64), []
    owners: list[int] = []
    lengths: list[int] = []
    num_strokes = 0
    for index in range(len(pictures)):
        try:
            picture = pictures.read(index)
            sizes[index] = reader.size(picture.image)
            num_strokes += isinstance(picture.image, Strokes)
        except DataError as error:
            refused.append(str(error))
        for text in texts_of(pictures, index):
            owners.append(index)
            lengths.append(len(target.split(text)))
    counted = (np.array(owners, np.int64), np.array(lengths, np.int64), num_strokes)
    return Split(name, pictures, sizes, tuple(refused), *counted)


def _of_lengths(split: Split, material: Material) -> Iterator[Finding]:
    """Findings about the lengths of texts and the fitted sizes of pictures."""
    lengths, most = split.lengths, material.config.data.max_length
    readable = split.sizes[split.sizes.min(1) > 0]
    if len(readable) and len(lengths):
        text = (
            f"{split.name}: {int(readable.prod(1).mean()):,} pixels on average as the encoder reads them; texts of "
            f"{lengths.min():,} to {lengths.max():,} symbols, median {np.median(lengths):,.0f}"
        )
        yield Finding("info", text, len(readable))
    if len(long := np.flatnonzero(lengths > most)):
        places = tuple(_place_of(split.pictures, int(split.owners[i])) for i in long[:NUM_EXAMPLES])
        lost = "left out" if split is material.train else "not in its teacher-forced loss"
        text = counted(len(long), f"text|texts of {split.name} is|are longer than data.max_length={most} and {lost}")
        yield Finding("warning", text, len(long), places)


def _of_augmentation(material: Material) -> Iterator[Finding]:
    """Findings about augmentation of strokes or pictures of which there are none."""
    settings, train = material.config.data.augmentation, material.train
    if settings is None:
        return
    count = int((train.sizes.min(1) > 0).sum())
    for name, other, present in (
        ("strokes", "files", train.num_strokes),
        ("pictures", "strokes", count - train.num_strokes),
    ):
        section = getattr(settings, name)
        if not present and section != type(section)():
            text = f"data.augmentation.{name} has no effect: the {count:,} training pictures are all {other}"
            yield Finding("warning", text, count)


def _place_of(pictures: Pictures, index: int) -> str:
    """File and line of a picture; its number if its entry cannot be read."""
    try:
        return pictures.read(index).place
    except DataError:
        return f"{pictures.path}: entry {index + 1}"


def _of_texts(material: Material) -> Iterator[Finding]:
    """Findings about the symbols of the texts."""
    known, counts = material.target.vocabulary, Counter[str]()
    for text in material.dev.texts():
        counts.update(symbol for symbol in material.target.split(text) if symbol not in known)
    yield Finding("info", f"the vocabulary has {len(known.symbols):,} symbols", len(known.symbols))
    if counts:
        shown = first_of([repr(symbol) for symbol, _ in counts.most_common()], 5)
        text = counted(len(counts), "symbol|symbols of dev's texts is|are not in the training texts: ") + shown
        yield Finding("warning", text, len(counts))
