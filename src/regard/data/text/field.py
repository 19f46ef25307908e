"""One side of pairs of texts: normalisation, units and vocabulary, which map texts to ids and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
from numpy.typing import NDArray

from regard.data import symbols_file as document
from regard.data.pairs import PART
from regard.data.text.columns import ColumnNormalisation, ColumnUnits
from regard.data.text.normalisation import LetterCase, Normalisation, UnicodeForm
from regard.data.text.normaliser import Normaliser
from regard.data.text.pieces import SentencePieceUnits, suggested_pieces
from regard.data.text.symbol_table import SymbolTable
from regard.data.text.units import (
    ByteUnits,
    CharacterUnits,
    LetterUnits,
    SeparatorUnits,
    Units,
    WhitespaceUnits,
    WordUnits,
)
from regard.data.text.vocabulary import BOS, EOS, PAD, Vocabulary
from regard.errors import ConfigError, DataError, UnsupportedError

if TYPE_CHECKING:
    from regard.config.texts import SideConfig


@dataclass(frozen=True, slots=True, eq=False)
class Words:
    """The words of a text of S symbols.

    Args:
        texts: the words in order.
        index: (S,) int64, the word of each symbol, from 0; -1 for symbols outside words, such as blanks.
    """

    texts: tuple[str, ...]
    index: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.texts)


PLAIN_UNITS: dict[str, type[Units]] = {
    "character": CharacterUnits,
    "letter": LetterUnits,
    "word": WordUnits,
    "whitespace": WhitespaceUnits,
    "byte": ByteUnits,
}
RUNS = (CharacterUnits, WordUnits, ByteUnits, WhitespaceUnits, SentencePieceUnits)
"""Units for which the words of a text are its runs of characters between blanks."""
SEPARATOR, SENTENCEPIECE = "separator", "sentencepiece"
COMPOSED_FORMS = ("NFC", "NFKC")
"""The Unicode forms of texts whose letters are joined to characters."""
REPLACEMENTS = ".replacements.tsv"
"""The end of the name of the file of a saved field's replacements."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """A text as ids.

    Args:
        ids: (len(tokens),) int64, without `<s>` and `</s>`.
        unknown: the symbols that are not in the vocabulary, in order.
        refusal: the reason why the text has no symbols because it could not be read; else empty.
    """

    ids: NDArray[np.int64]
    tokens: list[str]
    unknown: list[str]
    refusal: str = ""


@dataclass(frozen=True)
class Field:
    """Normalisation, units and vocabulary of one side; saved with the model.

    Args:
        longest: the most symbols of a training text; None if that is not known.
    """

    normalisation: Normalisation | ColumnNormalisation | Normaliser
    units: Units
    vocabulary: Vocabulary
    longest: int | None = None

    def extended(self, other: Field) -> Field:
        """The other field with the symbols of this one before its own.

        This field itself if its symbols are a fixed inventory, such as learned pieces; the other one if their units
        differ in type.
        """
        if type(self.units) is not type(other.units):
            return other
        longest = None if self.longest is None or other.longest is None else max(self.longest, other.longest)
        if self.units.inventory is not None:
            return replace(self, longest=longest)
        return replace(other, vocabulary=self.vocabulary.extended(other.vocabulary), longest=longest)

    @classmethod
    def build(
        cls,
        config: SideConfig,
        texts: Iterable[str],
        *,
        name: str = "source",
        num_columns: int = 1,
        max_length: int | None = None,
    ) -> Field:
        """Learns the symbols of a side from its training texts, in one pass.

        If the number of sentencepiece's pieces is not set, the texts are read twice and kept in memory; `open_pieces`
        determines that number beforehand without keeping the texts.

        Args:
            config: units, normalisation and limits of the vocabulary.
            texts: raw texts; several columns are separated by tabs.
            name: the side's key under `data` in the configuration, for error messages.
            num_columns: columns of every text; `config.units` lists the units of each, or names one for all.
            max_length: the most symbols of a text; pieces are not learned from texts that exceed it.

        Raises:
            ConfigError: for an option that has no effect with the chosen units.
            DataError: if no symbol is left.
        """
        options: dict[str, Any] = {"name": name, "num_columns": num_columns, "max_length": max_length}
        reader = cls.reader(config, texts, **options)
        if reader.units.inventory is not None:
            return reader
        table, remaining = SymbolTable(reader.units), iter(texts)
        while part := list(islice(remaining, PART)):
            table.add(reader.normalisation.of_all(part))
        return reader.with_counts(table.counts, config, name=name)

    @classmethod
    def reader(
        cls,
        config: SideConfig,
        texts: Iterable[str],
        *,
        name: str = "source",
        num_columns: int = 1,
        max_length: int | None = None,
    ) -> Field:
        """Normalisation and units of a side, with the vocabulary of the units, or an empty one if they have none.

        Arguments and errors are those of `build`; texts are only read if sentencepiece learns its pieces from them.
        """
        names = _names(config, name, num_columns)
        _check_unused(config, names, name)
        normalisation = normalisation_of(config, num_columns)
        units: Units
        if num_columns > 1:
            units = ColumnUnits(tuple(_plain(unit, config.separator) for unit in names))
        elif names != (SENTENCEPIECE,):
            units = _plain(names[0], config.separator)
        elif config.sentencepiece_model is not None:
            units = SentencePieceUnits.read(config.sentencepiece_model)
        else:
            try:
                normalised = map(normalisation, texts)
                units = SentencePieceUnits.train(normalised, num_pieces=config.vocabulary_size, max_length=max_length)
            except ConfigError as error:
                raise ConfigError(str(error), ("data", name, *error.path)) from None
        return cls(normalisation, units, Vocabulary(units.inventory or ()))

    def with_counts(self, counts: Mapping[str, int], config: SideConfig, *, name: str = "source") -> Field:
        """The field with the vocabulary of the symbols of its training texts.

        Args:
            counts: the number of occurrences of each symbol.
            name: as in `build`.

        Raises:
            DataError: if no symbol is left.
        """
        if self.units.inventory is not None:
            return self
        vocabulary = Vocabulary.of_counts(counts, min_count=config.min_count, max_symbols=config.vocabulary_size)
        if isinstance(self.units, ColumnUnits) and self.units.certain:
            vocabulary = Vocabulary(dict.fromkeys((*self.units.certain, *vocabulary.symbols)))
        if not vocabulary.symbols:
            raise DataError(
                f"No symbol of the {name} texts occurs {config.min_count} times; lower data.{name}.min_count."
            )
        return replace(self, vocabulary=vocabulary)

    @property
    def num_columns(self) -> int:
        """The number of columns of a text."""
        return len(self.units.columns) if isinstance(self.units, ColumnUnits) else 1

    def split(self, text: str) -> list[str]:
        """The symbols of a raw text."""
        return self.units.split(self.normalisation(text))

    def encode(self, text: str) -> Encoding:
        """The ids of a raw text, with a list of the symbols that are not in the vocabulary."""
        refusal = self.refusal(text)
        tokens = [] if refusal or not text.strip() else self.split(text)
        return Encoding(self.vocabulary.ids(tokens), tokens, self.vocabulary.unknown(tokens), refusal)

    def refusal(self, text: str) -> str:
        """The reason why a text cannot be read; empty if it can be read, or is blank."""
        if not text.isascii() and (half := next((c for c in text if "\ud800" <= c <= "\udfff"), None)):
            return f"{half!a} is half a surrogate pair, not text; the input was not UTF-8"
        return self.units.refusal(text) if isinstance(self.units, ColumnUnits) and text.strip() else ""

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """The symbols of ids, without `<pad>`, `<s>` and `</s>` but with `<unk>`."""
        return self.vocabulary.tokens(i for i in map(int, ids) if i not in (PAD, BOS, EOS))

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids; special symbols as in `tokens`."""
        return self.units.join(self.tokens(ids))

    def words(self, tokens: Sequence[str], text: str | None = None) -> Words:
        """The words of symbols: runs of characters between blanks, or the symbols themselves.

        Units `whitespace` and `separator` are words. Units `word` are words without a text; with it a punctuation mark
        belongs to its run of characters, as in files of word alignments.

        Args:
            tokens: symbols, without the end symbol.
            text: the raw text that they were split from; None for the output of a model.
        """
        normalised = None if text is None else self.normalisation(text)
        numbers = self.units.words(tokens, normalised)
        count, index = max(numbers, default=-1) + 1, np.array(numbers, dtype=np.int64)
        if normalised is not None and isinstance(self.units, RUNS) and len(runs := normalised.split()) == count:
            return Words(tuple(runs), index)
        symbols: list[list[str]] = [[] for _ in range(count)]
        for token, number in zip(tokens, numbers, strict=True):
            if number >= 0:
                symbols[number].append(token)
        return Words(tuple(self.units.join(each).strip() for each in symbols), index)

    def save(self, folder: Path | str, name: str) -> None:
        """Writes `name.json`, for sentencepiece `name.model`, and for replacements `name.replacements.tsv`."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        each = self.normalisation.each if isinstance(self.normalisation, ColumnNormalisation) else self.normalisation
        if isinstance(each, Normaliser):
            stored = {**asdict(each.plain), **each.saved()}
            if each.replacements is not None:
                each.replacements.save(folder / f"{name}{REPLACEMENTS}")
        else:
            stored = asdict(each)
        header: dict[str, Any] = {"normalisation": stored, **described(self.units)}
        if self.longest is not None:
            header["longest"] = self.longest
        if isinstance(self.units, SentencePieceUnits):
            (folder / f"{name}.model").write_bytes(self.units.model)
        document.write(folder / f"{name}.json", header, self.vocabulary.symbols)

    @classmethod
    def load(cls, folder: Path | str, name: str) -> Field:
        """Reads the files of `save`.

        Raises:
            DataError: if a file is missing, damaged or of a newer format.
        """
        path = Path(folder) / f"{name}.json"
        header, symbols = document.read(path)
        stored: Any = header.get("normalisation")
        columns = header.get("columns")
        for key, values in (("case", get_args(LetterCase)), ("unicode", get_args(UnicodeForm))):
            if not isinstance(stored, dict) or stored.get(key) not in values:
                raise DataError(f"{path}: `normalisation` needs a `{key}`, one of {', '.join(values)}; got {stored!r}.")
        each = Normalisation(stored["case"], stored["unicode"])
        normalisation: Normalisation | ColumnNormalisation | Normaliser = ColumnNormalisation(each)
        if columns is None:
            try:
                normalisation = Normaliser.load(each, stored, path.with_suffix(REPLACEMENTS))
            except DataError as error:
                raise DataError(f"{path}: {error}") from None
        units: Units
        if columns is None:
            units = _read(header, path, learned=path.with_suffix(".model"))
        elif isinstance(columns, list) and len(columns) > 1 and all(isinstance(column, dict) for column in columns):
            units = ColumnUnits(tuple(_read(column, path) for column in columns))
        else:
            raise DataError(f"{path}: `columns` must list the units of two columns or more; got {columns!r}.")
        if not _has(units, symbols):
            names = " and ".join(str(column.get("units")) for column in columns or (header,))
            raise DataError(
                f"{path}: the symbols are not those of the {names} units; the files are from different models."
            )
        longest = header.get("longest")
        if longest is not None and (type(longest) is not int or longest < 1):
            raise DataError(f"{path}: `longest` must be a number of symbols; got {longest!r}.")
        return cls(normalisation, units, Vocabulary(symbols), longest)


def _has(units: Units, symbols: tuple[str, ...]) -> bool:
    """Whether symbols are those of the units; a converted model may have further, unused symbols after its pieces."""
    inventory = units.inventory
    if inventory is None or not isinstance(units, SentencePieceUnits):
        return inventory in (None, symbols)
    return symbols[: len(inventory)] == inventory


def learns_pieces(config: SideConfig) -> bool:
    """Whether sentencepiece learns the pieces of this side."""
    return config.units in (SENTENCEPIECE, (SENTENCEPIECE,)) and config.sentencepiece_model is None


def open_pieces(
    config: SideConfig, texts: Iterable[str], *, max_length: int | None = None, every: int = 1
) -> int | None:
    """The number of pieces by the texts; None, without reading them, if it is configured or no pieces are learned.

    Args:
        texts: raw texts, read once.
        max_length: as in `Field.build`.
        every: how many texts there are for each of these.
    """
    if not learns_pieces(config) or config.vocabulary_size is not None:
        return None
    return suggested_pieces(map(Normalisation(config.case, config.unicode), texts), max_length=max_length, every=every)


def _plain(name: str, separator: str | None) -> Units:
    """Units without learned pieces."""
    return SeparatorUnits(separator or "") if name == SEPARATOR else PLAIN_UNITS[name]()


def normalisation_of(config: SideConfig, num_columns: int = 1) -> Normalisation | ColumnNormalisation:
    """The normalisation of a side."""
    each = Normalisation(config.case, config.unicode)
    return ColumnNormalisation(each) if num_columns > 1 else each


def described(units: Units) -> dict[str, Any]:
    """The description of units in a saved field."""
    if isinstance(units, ColumnUnits):
        return {"columns": [described(column) for column in units.columns]}
    if isinstance(units, SeparatorUnits):
        return {"units": SEPARATOR, "separator": units.separator}
    if isinstance(units, SentencePieceUnits):
        return {"units": SENTENCEPIECE}
    for name, kind in PLAIN_UNITS.items():
        if type(units) is kind:
            return {"units": name}
    raise UnsupportedError(f"Units of type {type(units).__name__} cannot be saved; only those of regard can.")


def _read(header: dict[str, Any], path: Path, *, learned: Path | None = None) -> Units:
    """The units of a description; `learned` is the file of sentencepiece's model."""
    name, separator = header.get("units"), header.get("separator")
    if name == SENTENCEPIECE and learned is not None:
        return SentencePieceUnits.read(learned)
    if name == SEPARATOR:
        if not isinstance(separator, str) or not separator:
            raise DataError(f"{path}: `separator` must be a non-empty text; got {separator!r}.")
        return SeparatorUnits(separator)
    if isinstance(name, str) and name in PLAIN_UNITS:
        return PLAIN_UNITS[name]()
    choices = ", ".join((*PLAIN_UNITS, SEPARATOR, SENTENCEPIECE))
    raise DataError(f"{path}: `units` must be one of {choices}; got {name!r}.")


def _names(config: SideConfig, name: str, num_columns: int) -> tuple[str, ...]:
    """The name of each column's units."""
    names = (config.units,) * num_columns if isinstance(config.units, str) else config.units
    if len(names) != num_columns:
        columns = f"{num_columns} columns" if num_columns > 1 else "one column"
        hint = "; data.source_field lists the columns" if name == "source" else ""
        raise ConfigError(
            f"data.{name}.units lists {len(names)} units ({', '.join(names)}), but the {name} has {columns}{hint}.",
            ("data", name, "units"),
        )
    if num_columns > 1 and SENTENCEPIECE in names:
        raise ConfigError(
            f"data.{name}.units: sentencepiece needs texts of one column, not {num_columns}; choose other units.",
            ("data", name, "units"),
        )
    return names


def _check_unused(config: SideConfig, names: tuple[str, ...], name: str) -> None:
    if "letter" in names and config.unicode not in COMPOSED_FORMS:
        raise ConfigError(
            f"units: letter joins letters to composed characters, and data.{name}.unicode={config.unicode} does not "
            f"compose texts; leave it out, or choose NFC or NFKC.",
            ("data", name, "units"),
        )
    if SEPARATOR in names and not config.separator:
        raise ConfigError(
            f"units: separator needs the text to split at; set data.{name}.separator, for example to ';'.",
            ("data", name, "units"),
        )
    has_inventory = all(unit in ("byte", SENTENCEPIECE) for unit in names)
    unused = {
        "separator": config.separator is not None and SEPARATOR not in names,
        "sentencepiece_model": config.sentencepiece_model is not None and SENTENCEPIECE not in names,
        "min_count": config.min_count > 1 and has_inventory,
        "vocabulary_size": config.vocabulary_size is not None
        and (set(names) == {"byte"} or config.sentencepiece_model is not None),
    }
    for key, is_unused in unused.items():
        if is_unused:
            units = ", ".join(dict.fromkeys(names)) + " and a model file" * (config.sentencepiece_model is not None)
            raise ConfigError(
                f"data.{name}.{key}={getattr(config, key)} has no effect with units: {units}; leave it out.",
                ("data", name, key),
            )
