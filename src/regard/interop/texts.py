"""Text-to-text models of other programs: vocabularies, the order of their rows in weights, and the built model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.data.text import Field, Normalisation, Vocabulary
from regard.data.text.units import WhitespaceUnits
from regard.data.text.vocabulary import BOS, PAD, SPECIALS, UNKNOWN
from regard.errors import DataError
from regard.interop.contract import UNKNOWN_DATA, Converted
from regard.interop.named_weights import Names, load_named
from regard.interop.options import validated
from regard.tasks import TextToText
from regard.tasks.text_to_text.config import TextToTextConfig

SIDE: Mapping[str, Any] = {"units": "whitespace", "case": "keep", "unicode": "keep"}
"""The section of a side whose texts are symbols between blanks."""
LEAST = -1e4
"""A bias that makes a probability 0 in every floating-point type."""


@dataclass(frozen=True, slots=True)
class Symbols:
    """A vocabulary of ours, with the number of each id in the other program.

    Args:
        vocabulary: the symbols without the specials.
        numbers: (N,) their numbers of `<pad>`, `<s>`, `</s>`, `<unk>` and of the symbols; -1 for one that they do not
            have.
    """

    vocabulary: Vocabulary
    numbers: Tensor

    @classmethod
    def of(
        cls, tokens: Sequence[str], *, padding: str | None, begin: str | None, end: str | None, unknown: str | None
    ) -> Symbols:
        """The vocabulary of the other program's symbols, in their order.

        Args:
            tokens: all symbols, including the specials.
            padding, begin, end, unknown: the specials; None, or a symbol that is not in `tokens`, if they have none.
                One symbol may be several, as in Marian, whose outputs begin with the padding.

        Raises:
            DataError: for symbols that are no texts or repeated, and for a vocabulary without the end symbol.
        """
        if others := [token for token in tokens if not isinstance(token, str)]:
            raise DataError(f"The vocabulary has {others[0]!r}, which is no symbol; expected texts.")
        places = {token: number for number, token in enumerate(tokens)}
        if len(places) < len(tokens):
            repeated = Counter(tokens).most_common(1)[0][0]
            raise DataError(f"The vocabulary has {repeated!r} twice; ids must follow from symbols.")
        specials = (padding, begin, end, unknown)
        if end not in places:
            raise DataError(f"The vocabulary has no end symbol ({end}); no output would ever end.")
        others = [token for token in tokens if token not in specials]
        numbers = [-1 if special is None else places.get(special, -1) for special in specials]
        numbers += [places[token] for token in others]
        return cls(Vocabulary(others), torch.tensor(numbers))

    @property
    def count(self) -> int:
        """The number of symbols of the other program."""
        return len(set(self.numbers[self.numbers >= 0].tolist()))

    @property
    def unpredicted(self) -> list[int]:
        """Our ids that the other program does not have, or has under another id already: a begin symbol that is also
        its end symbol (`decoder_start_token: </s>`) or its padding.
        """
        numbers = self.numbers[: len(SPECIALS)].tolist()
        repeated = {BOS} if numbers[BOS] in numbers[:BOS] + numbers[BOS + 1 :] else set()
        repeated |= {PAD} if numbers[PAD] in numbers[BOS + 1 :] else set()
        return sorted({id for id, number in enumerate(self.numbers.tolist()) if number < 0} | repeated)

    def rows(self, weight: Tensor, name: str = "A weight") -> Tensor:
        """The rows of a weight in our order, (N, …). A missing special has zeros, another missing symbol the row of the
        unknown symbol.

        Raises:
            DataError: for a weight with another number of rows than they have symbols.
        """
        if len(weight) != self.count:
            raise DataError(
                f"{name} is {tuple(weight.shape)}, but the vocabulary has {self.count:,} symbols; do they belong "
                "together?"
            )
        numbers = self.numbers.clone()
        symbols = numbers[len(SPECIALS) :]
        symbols[symbols < 0] = numbers[UNKNOWN]
        rows = weight[numbers.clamp(min=0)].clone()
        rows[numbers < 0] = 0
        return rows

    def biases(self, bias: Tensor | None, name: str = "A bias") -> Tensor:
        """The biases of an output layer in our order, (N,), such that an `unpredicted` id has the probability 0.

        Args:
            bias: theirs; zeros if None.
        """
        biases = self.rows(torch.zeros(self.count) if bias is None else bias, name)
        biases[self.unpredicted] = LEAST
        return biases


def ordered(weights: Mapping[str, Tensor], sides: Mapping[str, Symbols], *, output: str) -> dict[str, Tensor]:
    """The weights, with the rows of symbols in our order.

    Args:
        weights: by the names of the other program.
        sides: the symbols of modules whose weights have a row for each.
        output: the output layer among these modules; it gets a bias if it has none and an id is `unpredicted`.
    """
    weights, symbols = dict(weights), sides[output]
    bias, matrix = f"{output}.bias", weights.get(f"{output}.weight")
    if symbols.unpredicted and matrix is not None:
        weights.setdefault(bias, matrix.new_zeros(len(matrix)))
    for name, tensor in weights.items():
        module = name.rpartition(".")[0]
        if module in sides:
            weights[name] = sides[module].biases(tensor, name) if name == bias else sides[module].rows(tensor, name)
    return weights


def split_field(symbols: Symbols) -> Field:
    """The field of a side whose texts are symbols between blanks."""
    return Field(Normalisation("keep", "keep"), WhitespaceUnits(), symbols.vocabulary)


def text_model(
    source: Field,
    target: Field,
    weights: Mapping[str, Tensor],
    names: Names | Callable[[nn.Module], Names],
    *,
    data: Mapping[str, Any],
    model: Mapping[str, Any],
    decoding: Mapping[str, Any],
    notes: Sequence[str] = (),
    without_bias: Sequence[str] = (),
) -> Converted:
    """The model of a configuration with these weights.

    Args:
        weights, names: as in `load_named`, or the names of a network; rows of symbols are in our order.
        data, model, decoding: sections of the configuration; the rest has its defaults.
        notes: as in `Converted`.
        without_bias: as in `load_named`.

    Raises:
        DataError: for weights that do not fit, or an invalid value of the configuration.
        ConfigError: for a configuration that contradicts itself.
    """
    values = {"data": {"train": UNKNOWN_DATA, **data}, "model": dict(model), "decoding": dict(decoding)}
    config = validated(TextToTextConfig, values, "the converted configuration")
    converted = TextToText.build(config, source, target)
    table = names(converted.module) if callable(names) else names
    load_named(converted.module, weights, table, without_bias=without_bias)
    converted.module.float()
    return Converted(converted, tuple(notes))
