"""Pairs of texts: read, checked, cut into symbols, numbered, put into batches, and scored. Nothing here needs torch."""

from regard.data.bucketing import padding, plan
from regard.data.field import Encoding, Field
from regard.data.lines import Lines
from regard.data.normalisation import Normalisation
from regard.data.pieces import SentencePieceUnits
from regard.data.readers import Pair, Pairs, Parallel, open_pairs
from regard.data.units import ByteUnits, CharacterUnits, Units, WhitespaceUnits, WordUnits
from regard.data.vocabulary import BOS, EOS, PAD, UNKNOWN, Vocabulary

__all__ = [
    "BOS",
    "EOS",
    "PAD",
    "UNKNOWN",
    "ByteUnits",
    "CharacterUnits",
    "Encoding",
    "Field",
    "Lines",
    "Normalisation",
    "Pair",
    "Pairs",
    "Parallel",
    "SentencePieceUnits",
    "Units",
    "Vocabulary",
    "WhitespaceUnits",
    "WordUnits",
    "open_pairs",
    "padding",
    "plan",
]
