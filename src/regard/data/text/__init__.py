"""Texts: pairs, running text, units, vocabularies and fields, word alignments, and checks."""

from regard.data.text import cmudict, synthetic
from regard.data.text.checks import Report, check
from regard.data.text.columns import ColumnNormalisation, ColumnUnits
from regard.data.text.extended import ExtendedVocabulary, Extension
from regard.data.text.field import Encoding, Field, Words
from regard.data.text.links import AlignmentErrors, Links, alignment_errors, parse_links, read_links
from regard.data.text.normalisation import Normalisation
from regard.data.text.normaliser import Normaliser
from regard.data.text.pieces import SentencePieceUnits
from regard.data.text.readers import ParallelText, open_pairs
from regard.data.text.references import Item, group
from regard.data.text.replacements import Replacements
from regard.data.text.running_text import RunningText, TextBatch, TextSpan, TextWindows
from regard.data.text.spoken import SpokenAbbreviations, SpokenNumbers
from regard.data.text.units import (
    ByteUnits,
    CharacterUnits,
    LetterUnits,
    SeparatorUnits,
    Units,
    WhitespaceUnits,
    WordUnits,
)
from regard.data.text.vocabulary import BOS, EOS, PAD, UNKNOWN, Vocabulary

__all__ = [
    "BOS",
    "EOS",
    "PAD",
    "UNKNOWN",
    "AlignmentErrors",
    "ByteUnits",
    "CharacterUnits",
    "ColumnNormalisation",
    "ColumnUnits",
    "Encoding",
    "ExtendedVocabulary",
    "Extension",
    "Field",
    "Item",
    "LetterUnits",
    "Links",
    "Normalisation",
    "Normaliser",
    "ParallelText",
    "Replacements",
    "Report",
    "RunningText",
    "SentencePieceUnits",
    "SeparatorUnits",
    "SpokenAbbreviations",
    "SpokenNumbers",
    "TextBatch",
    "TextSpan",
    "TextWindows",
    "Units",
    "Vocabulary",
    "WhitespaceUnits",
    "WordUnits",
    "Words",
    "alignment_errors",
    "check",
    "cmudict",
    "group",
    "open_pairs",
    "parse_links",
    "read_links",
    "synthetic",
]
