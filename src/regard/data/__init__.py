"""Pairs of texts and labelled documents: reading, checks, symbols, ids, batches, scores. Nothing here needs torch."""

from regard.data import cmudict, synthetic
from regard.data.bucketing import bucket, padding
from regard.data.checks import Report, check
from regard.data.classification import LabelScores, score_labels
from regard.data.columns import ColumnNormalisation, ColumnUnits
from regard.data.document_field import DocumentField, EncodedDocument, document_findings, pad_documents
from regard.data.documents import Document, Documents, hold_out_documents, read_documents
from regard.data.field import Encoding, Field
from regard.data.finding import Finding
from regard.data.labels import Labels
from regard.data.lines import Lines
from regard.data.normalisation import Normalisation
from regard.data.pairs import Pair, Pairs, Selection
from regard.data.pieces import SentencePieceUnits
from regard.data.readers import ParallelText, open_pairs
from regard.data.references import Item, group
from regard.data.scoring import (
    character_error_rate,
    edit_distance,
    sequence_accuracy,
    sequence_error_rate,
    symbol_error_rate,
    symbol_errors,
)
from regard.data.sentences import Sentences
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
    "Document",
    "DocumentField",
    "Documents",
    "EncodedDocument",
    "Encoding",
    "Field",
    "Finding",
    "Item",
    "LabelScores",
    "Labels",
    "Lines",
    "Normalisation",
    "Pair",
    "Pairs",
    "ParallelText",
    "Report",
    "Selection",
    "SentencePieceUnits",
    "Sentences",
    "SeparatorUnits",
    "Units",
    "Vocabulary",
    "WhitespaceUnits",
    "WordUnits",
    "bucket",
    "character_error_rate",
    "check",
    "cmudict",
    "corpus_score",
    "document_findings",
    "edit_distance",
    "group",
    "hold_out",
    "hold_out_documents",
    "open_pairs",
    "pad_documents",
    "padding",
    "read_documents",
    "score_labels",
    "sequence_accuracy",
    "sequence_error_rate",
    "share",
    "symbol_error_rate",
    "symbol_errors",
    "synthetic",
]
