"""Vocabularies of other programs, and the order of their rows in weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.data.text import Vocabulary
from regard.data.text.vocabulary import BOS, PAD, SPECIALS
from regard.errors import DataError

LEAST = -1e4
"""A bias that leaves nothing of a probability in any type of number."""


@dataclass(frozen=True, slots=True)
class Symbols:
    """A vocabulary as we have it, with the number that each of its ids has in the other program.

    Args:
        vocabulary: of the symbols without the specials.
        numbers: (N,) of `<pad>`, `<s>`, `</s>`, `<unk>` and the symbols, their numbers there; -1 for a special that the
            other program does not have.
    """

    vocabulary: Vocabulary
    numbers: Tensor

    @classmethod
    def of(
        cls, tokens: Sequence[str], *, padding: str | None, begin: str | None, end: str | None, unknown: str | None
    ) -> Symbols:
        """The vocabulary of the other program's symbols, in their order.

        Args:
            tokens: all symbols, the specials among them.
            padding, begin, end, unknown: which of them are the specials; None, or a symbol that is not there: none is.
                One symbol may be several, as in Marian, whose outputs begin with the padding.
        """
        if others := [token for token in tokens if not isinstance(token, str)]:
            raise DataError(f"The vocabulary has {others[0]!r}, which is no symbol; expected texts.")
        places = {token: number for number, token in enumerate(tokens)}
        if len(places) < len(tokens):
            repeated = Counter(tokens).most_common(1)[0][0]
            raise DataError(f"The vocabulary has {repeated!r} twice, so that ids do not follow from symbols.")
        specials = (padding, begin, end, unknown)
        if end not in places:
            raise DataError(f"The vocabulary has no end symbol ({end}), so that no output would ever end.")
        others = [token for token in tokens if token not in specials]
        numbers = [-1 if special is None else places.get(special, -1) for special in specials]
        numbers += [places[token] for token in others]
        return cls(Vocabulary(others), torch.tensor(numbers))

    @property
    def missing(self) -> list[str]:
        """The names of the specials that the other program does not have."""
        return [name for name, number in zip(SPECIALS, self.numbers.tolist()) if number < 0]

    @property
    def silent(self) -> list[int]:
        """Our ids that the other program does not have, or has under another id already: a begin symbol that is its end
        symbol, too, as with `decoder_start_token: </s>`."""
        numbers = self.numbers[: len(SPECIALS)].tolist()
        missing = {id for id, number in enumerate(numbers) if number < 0}
        repeated = {BOS} if numbers[BOS] in numbers[:BOS] + numbers[BOS + 1 :] else set()
        return sorted(missing | repeated | ({PAD} if numbers[PAD] in numbers[BOS + 1 :] else set()))

    def biases(self, bias: Tensor) -> Tensor:
        """The biases of an output layer in our order, (N,): a `silent` id keeps nothing of its probability."""
        biases = self.rows(bias)
        biases[self.silent] = LEAST
        return biases

    def rows(self, weight: Tensor) -> Tensor:
        """The rows of a weight or a bias in our order, (N, …); of a special that they do not have, zeros.

        Raises:
            DataError: for a weight with fewer rows than symbols.
        """
        count = int(self.numbers.max()) + 1
        if len(weight) < count:
            raise DataError(
                f"A weight has {len(weight):,} rows, but the vocabulary {count:,} symbols; are they of one model?"
            )
        rows = weight[self.numbers.clamp(min=0)].clone()
        rows[self.numbers < 0] = 0
        return rows


def ordered(weights: Mapping[str, Tensor], sides: Mapping[str, Symbols], *, output: str) -> dict[str, Tensor]:
    """The weights, the rows of symbols in our order.

    Args:
        weights: by the names of the other program.
        sides: the symbols of modules whose weights have a row for each.
        output: which of them is the output layer; it gets a bias if an id has to be silent and it has none.
    """
    weights, symbols = dict(weights), sides[output]
    bias, matrix = f"{output}.bias", weights.get(f"{output}.weight")
    if symbols.silent and matrix is not None:
        weights.setdefault(bias, matrix.new_zeros(len(matrix)))
    for name, tensor in weights.items():
        module = name.rpartition(".")[0]
        if module not in sides:
            continue
        if len(tensor) != (count := int(sides[module].numbers.max()) + 1):
            raise DataError(f"{name} has {len(tensor):,} rows, but the vocabulary {count:,} symbols.")
        weights[name] = sides[module].biases(tensor) if name == bias else sides[module].rows(tensor)
    return weights
