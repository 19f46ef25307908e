"""Pairs of texts, and running text: reading, checks, symbols and their ids, batches, scores. Nothing needs torch."""

from regard.data import cmudict, synthetic
from regard.data.bucketing import bucket, padding
from regard.data.checks import Report, check
from regard.data.columns import ColumnNormalisation, ColumnUnits
from regard.data.field import Encoding, Field
from regard.data.finding import Finding
from regard.data.likelihood import Likelihood
from regard.data.lines import Lines
from regard.data.normalisation import Normalisation
from regard.data.pairs import Pair, Pairs, Selection
from regard.data.pieces import SentencePieceUnits
from regard.data.readers import ParallelText, open_pairs
from regard.data.references import Item, group
from regard.data.running_text import Part, RunningText, TextBatch, Windows
from regard.data.scoring import (
    character_error_rate,
    edit_distance,
    sequence_accuracy,
    sequence_error_rate,
    symbol_error_rate,
    symbol_errors,
)
from regard.data.split import hold_out, share
from regard.data.translation import CorpusScore, corpus_score
from regard.data.units import ByteUnits, CharacterUnits, SeparatorUnits, Units, WhitespaceUnits, WordUnits
from regard.data.vocabulary import BOS, EOS, PAD, UNKNOWN, Vocabulary

__all__ = [
    "BOS",
    "EOS",
    "PAD",
    "UNKNOWN",
    "ByteUnits",
    "CharacterUnits",
    "ColumnNormalisation",
    "ColumnUnits",
    "CorpusScore",
    "Encoding",
    "Field",
    "Finding",
    "Item",
    "Likelihood",
    "Lines",
    "Normalisation",
    "Pair",
    "Pairs",
    "ParallelText",
    "Part",
    "Report",
    "RunningText",
    "Selection",
    "SentencePieceUnits",
    "SeparatorUnits",
    "TextBatch",
    "Units",
    "Vocabulary",
    "WhitespaceUnits",
    "Windows",
    "WordUnits",
    "bucket",
    "character_error_rate",
    "check",
    "cmudict",
    "corpus_score",
    "edit_distance",
    "group",
    "hold_out",
    "open_pairs",
    "padding",
    "sequence_accuracy",
    "sequence_error_rate",
    "share",
    "symbol_error_rate",
    "symbol_errors",
    "synthetic",
]
