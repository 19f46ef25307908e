"""Vocabularies of pieces, and rows of weights of symbols that the other program may not have."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.conversion.symbols import LEAST, Symbols
from regard.data import Vocabulary
from regard.data.pieces import SentencePieceUnits
from regard.data.vocabulary import BOS, PAD, SPECIALS, UNKNOWN
from regard.errors import DataError


def of_pieces(units: SentencePieceUnits, symbols: Symbols) -> Symbols:
    """The pieces of a model in its order, with their places in the other program's weights; behind them what that has
    beside them. A piece that it does not have has the place -1."""
    specials, others = symbols.numbers[: len(SPECIALS)], symbols.vocabulary.symbols
    places = dict(zip(others, symbols.numbers[len(SPECIALS) :].tolist(), strict=True))
    pieces = units.inventory or ()
    names = [*pieces, *(name for name in others if name not in set(pieces))]
    numbers = torch.tensor([places.get(name, -1) for name in names], dtype=torch.long)
    return Symbols(Vocabulary(names), torch.cat([specials, numbers]))


def read_rows(symbols: Symbols, weight: Tensor, name: str) -> Tensor:
    """The rows of an embedding in our order, (N, D). Symbols that the other program does not have are read as unknown.

    Args:
        name: of the weight, for messages.

    Raises:
        DataError: for a weight with another number of rows than there are symbols.
    """
    _check(symbols, weight, name)
    unknown = int(symbols.numbers[UNKNOWN])
    numbers = symbols.numbers.clone()
    numbers[len(SPECIALS) :][numbers[len(SPECIALS) :] < 0] = unknown
    rows = weight[numbers.clamp(min=0)].clone()
    rows[numbers < 0] = 0
    return rows


def said_bias(symbols: Symbols, bias: Tensor | None = None) -> Tensor:
    """The bias of an output layer, (N,): what the other program does not have is never predicted.

    Where outputs begin with the padding, as in Marian, the begin symbol has its row, and counts once.

    Args:
        bias: the other program's; None for zeros.
    """
    found = torch.zeros(len(symbols.numbers)) if bias is None else bias[symbols.numbers.clamp(min=0)].clone()
    absent = symbols.numbers < 0
    absent[BOS] |= symbols.numbers[BOS] == symbols.numbers[PAD]
    return found.masked_fill(absent, LEAST)


def _check(symbols: Symbols, weight: Tensor, name: str) -> None:
    """Refuses a weight that is not of this vocabulary."""
    count = len(set(symbols.numbers[symbols.numbers >= 0].tolist()))
    if len(weight) != count:
        raise DataError(
            f"{name} is {tuple(weight.shape)}, but the vocabulary has {count:,} symbols; are they of one model?"
        )
