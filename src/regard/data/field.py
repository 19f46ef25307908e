"""One side of the pairs: how its text becomes ids and ids become text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from regard.data import document
from regard.data.normalisation import Case, Form, Normalisation
from regard.data.pieces import NUM_PIECES, SentencePieceUnits
from regard.data.units import ByteUnits, CharacterUnits, Units, WhitespaceUnits, WordUnits
from regard.data.vocabulary import BOS, EOS, PAD, Vocabulary
from regard.errors import ConfigError, DataError, UnsupportedError

PLAIN_UNITS: dict[str, type[Units]] = {
    "character": CharacterUnits,
    "word": WordUnits,
    "whitespace": WhitespaceUnits,
    "byte": ByteUnits,
}


class SideOptions(Protocol):
    """The options of one side, as `regard.config.schema.SideConfig` has them."""

    @property
    def units(self) -> str: ...
    @property
    def case(self) -> Case: ...
    @property
    def unicode(self) -> Form: ...
    @property
    def min_count(self) -> int: ...
    @property
    def vocabulary_size(self) -> int | None: ...
    @property
    def sentencepiece_model(self) -> Path | None: ...


@dataclass(frozen=True, slots=True)
class Encoding:
    """A text as ids.

    Args:
        ids: (len(tokens),) int64, without `<s>` and `</s>`.
        tokens: the symbols.
        unknown: those of them that the vocabulary lacks, in order.
    """

    ids: NDArray[np.int64]
    tokens: list[str]
    unknown: list[str]


@dataclass(frozen=True)
class Field:
    """Normalisation, units and vocabulary of one side; it is saved with the model.

    Args:
        normalisation: applied to every text, in training and prediction alike.
        units: cuts texts into symbols.
        vocabulary: ids of symbols.
    """

    normalisation: Normalisation
    units: Units
    vocabulary: Vocabulary

    @classmethod
    def build(cls, config: SideOptions, texts: Iterable[str], *, name: str = "source") -> Field:
        """Learns the symbols of a side from its training texts, in one pass.

        Args:
            config: units, normalisation and limits of the vocabulary.
            texts: raw texts.
            name: the side's key under `data` in the configuration, for error messages.

        Raises:
            ConfigError: for an option that the chosen units cannot honour.
            DataError: when no symbol is left.
        """
        _refuse_unused(config, name)
        normalisation = Normalisation(config.case, config.unicode)
        normalised = map(normalisation, texts)
        units: Units
        if config.units != "sentencepiece":
            units = PLAIN_UNITS[config.units]()
        elif config.sentencepiece_model is not None:
            units = SentencePieceUnits.read(config.sentencepiece_model)
        else:
            try:
                units = SentencePieceUnits.train(normalised, num_pieces=config.vocabulary_size or NUM_PIECES)
            except ConfigError as error:
                raise ConfigError(str(error), ("data", name, *error.path)) from None
        if units.inventory is not None:
            return cls(normalisation, units, Vocabulary(units.inventory))
        vocabulary = Vocabulary.build(
            map(units.split, normalised), min_count=config.min_count, max_symbols=config.vocabulary_size
        )
        if not vocabulary.symbols:
            raise DataError(f"No symbol of the {name} texts occurs {config.min_count} times (data.{name}.min_count).")
        return cls(normalisation, units, vocabulary)

    def split(self, text: str) -> list[str]:
        """The symbols of a raw text."""
        return self.units.split(self.normalisation(text))

    def encode(self, text: str) -> Encoding:
        """Ids of a raw text; what the vocabulary lacks is reported, not refused."""
        tokens = self.split(text)
        return Encoding(self.vocabulary.ids(tokens), tokens, self.vocabulary.unknown(tokens))

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """The symbols of ids, without `<pad>`, `<s>` and `</s>`; an unknown symbol stays visible as `<unk>`."""
        return self.vocabulary.tokens(i for i in map(int, ids) if i not in (PAD, BOS, EOS))

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids; specials as in `tokens`."""
        return self.units.join(self.tokens(ids))

    def save(self, folder: Path | str, name: str) -> None:
        """Writes `name.json` and, for sentencepiece, `name.model`."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        header: dict[str, Any] = {"normalisation": asdict(self.normalisation), "units": _name_of(self.units)}
        if isinstance(self.units, SentencePieceUnits):
            (folder / f"{name}.model").write_bytes(self.units.model)
        document.write(folder / f"{name}.json", header, self.vocabulary.symbols)

    @classmethod
    def load(cls, folder: Path | str, name: str) -> Field:
        """Reads what `save` wrote.

        Raises:
            DataError: when a file is missing, damaged or of a newer format.
        """
        path = Path(folder) / f"{name}.json"
        header, symbols = document.read(path)
        stored, units_name = header.get("normalisation"), header.get("units")
        if not isinstance(stored, dict) or stored.get("case") not in get_args(Case):
            raise DataError(f"{path}: `normalisation` needs a case of {', '.join(get_args(Case))}; found {stored!r}.")
        if stored.get("unicode") not in get_args(Form):
            raise DataError(f"{path}: `normalisation` needs a form of {', '.join(get_args(Form))}; found {stored!r}.")
        units: Units
        if units_name == "sentencepiece":
            units = SentencePieceUnits.read(path.with_suffix(".model"))
        elif units_name in PLAIN_UNITS:
            units = PLAIN_UNITS[units_name]()
        else:
            known = ", ".join((*PLAIN_UNITS, "sentencepiece"))
            raise DataError(f"{path}: `units` must be one of {known}; found {units_name!r}.")
        if units.inventory not in (None, symbols):
            raise DataError(
                f"{path}: its symbols are not those of its {units_name} units; the files do not belong together."
            )
        return cls(Normalisation(stored["case"], stored["unicode"]), units, Vocabulary(symbols))


def _name_of(units: Units) -> str:
    if isinstance(units, SentencePieceUnits):
        return "sentencepiece"
    for name, kind in PLAIN_UNITS.items():
        if type(units) is kind:
            return name
    raise UnsupportedError(f"Units of type {type(units).__name__} cannot be saved; built-in ones can.")


def _refuse_unused(config: SideOptions, name: str) -> None:
    has_inventory = config.units in ("byte", "sentencepiece")
    unused = {
        "sentencepiece_model": config.sentencepiece_model is not None and config.units != "sentencepiece",
        "min_count": config.min_count > 1 and has_inventory,
        "vocabulary_size": config.vocabulary_size is not None
        and (config.units == "byte" or config.sentencepiece_model is not None),
    }
    for key, is_unused in unused.items():
        if is_unused:
            units = config.units + " and a given model" * (config.sentencepiece_model is not None)
            raise ConfigError(
                f"data.{name}.{key}={getattr(config, key)} has no effect with units: {units}; leave it out.",
                ("data", name, key),
            )
