"""Pairs of texts, running text, labelled documents, pictures with texts: reading, checks, symbols and their ids,
batches, scores; time series: reading, scales, windows, baselines, and errors of forecasts. Nothing here needs torch."""

from regard.data import cmudict, synthetic
from regard.data.baselines import AbstractBaseline, LinearForecast, RepeatLast, Seasonal
from regard.data.bucketing import bucket, padding
from regard.data.calendar import TIME_FEATURES, Step, find_step, time_features
from regard.data.caption_scores import CaptionScores, caption_scores, caption_words, each_caption_scores
from regard.data.checks import Report, check
from regard.data.classification import LabelScores, score_labels
from regard.data.columns import ColumnNormalisation, ColumnUnits
from regard.data.defects import Defects, collecting
from regard.data.document_field import DocumentField, EncodedDocument, document_findings, pad_documents
from regard.data.documents import Document, Documents, hold_out_documents, read_documents
from regard.data.extended import ExtendedVocabulary, Extension
from regard.data.field import Encoding, Field, Words
from regard.data.finding import Finding, Findings
from regard.data.forecast_errors import ForecastErrors, ForecastTally, pinball
from regard.data.forecasts import Forecast, alignment_rows, forecast_rows, forecasts_of, write_rows
from regard.data.intervals import Intervals, read_intervals
from regard.data.joining import join_texts, join_units
from regard.data.labels import Labels
from regard.data.likelihood import Likelihood
from regard.data.lines import Lines
from regard.data.links import AlignmentErrors, Links, alignment_errors, parse_links, read_links
from regard.data.ljspeech import Utterance, read_ljspeech
from regard.data.normalisation import Normalisation
from regard.data.pairs import Pair, Pairs, Selection
from regard.data.picture_checks import check_pictures
from regard.data.pictures import Picture, Pictures, open_pictures
from regard.data.pieces import SentencePieceUnits
from regard.data.readers import ParallelText, open_pairs
from regard.data.references import Item, group
from regard.data.running_text import RunningText, TextBatch, TextSpan, TextWindows
from regard.data.scaling import StandardScale, WindowScale
from regard.data.scoring import (
    ExpressionRates,
    character_error_rate,
    edit_distance,
    expression_rates,
    sequence_accuracy,
    sequence_error_rate,
    symbol_error_rate,
    symbol_errors,
)
from regard.data.sentences import Sentences
from regard.data.series import Series, SeriesTable
from regard.data.series_file import read_series
from regard.data.spans import RecognisedScheme, SpanScheme, SpanScores, recognise_scheme, score_spans
from regard.data.split import hold_out, share
from regard.data.synthetic_pictures import (
    PictureBoxes,
    SyntheticPicture,
    read_boxes,
    synthetic_picture,
    write_synthetic_pictures,
)
from regard.data.time_split import TimeSplit, rolling_splits, split_by_counts, split_by_dates, split_by_fractions
from regard.data.translation import CorpusScore, corpus_score
from regard.data.units import ByteUnits, CharacterUnits, SeparatorUnits, Units, WhitespaceUnits, WordUnits
from regard.data.vocabulary import BOS, EOS, PAD, UNKNOWN, Vocabulary
from regard.data.windows import SeriesBatch, SeriesWindows

__all__ = [
    "BOS",
    "EOS",
    "PAD",
    "TIME_FEATURES",
    "UNKNOWN",
    "AbstractBaseline",
    "AlignmentErrors",
    "ByteUnits",
    "CaptionScores",
    "CharacterUnits",
    "ColumnNormalisation",
    "ColumnUnits",
    "CorpusScore",
    "Defects",
    "Document",
    "DocumentField",
    "Documents",
    "EncodedDocument",
    "Encoding",
    "ExpressionRates",
    "ExtendedVocabulary",
    "Extension",
    "Field",
    "Finding",
    "Findings",
    "Forecast",
    "ForecastErrors",
    "ForecastTally",
    "Intervals",
    "Item",
    "LabelScores",
    "Labels",
    "Likelihood",
    "LinearForecast",
    "Lines",
    "Links",
    "Normalisation",
    "Pair",
    "Pairs",
    "ParallelText",
    "Picture",
    "PictureBoxes",
    "Pictures",
    "RecognisedScheme",
    "RepeatLast",
    "Report",
    "RunningText",
    "Seasonal",
    "Selection",
    "SentencePieceUnits",
    "Sentences",
    "SeparatorUnits",
    "Series",
    "SeriesBatch",
    "SeriesTable",
    "SeriesWindows",
    "SpanScheme",
    "SpanScores",
    "StandardScale",
    "Step",
    "SyntheticPicture",
    "TextBatch",
    "TextSpan",
    "TextWindows",
    "TimeSplit",
    "Units",
    "Utterance",
    "Vocabulary",
    "WhitespaceUnits",
    "WindowScale",
    "WordUnits",
    "Words",
    "alignment_errors",
    "alignment_rows",
    "bucket",
    "caption_scores",
    "caption_words",
    "character_error_rate",
    "check",
    "check_pictures",
    "cmudict",
    "collecting",
    "corpus_score",
    "document_findings",
    "each_caption_scores",
    "edit_distance",
    "expression_rates",
    "find_step",
    "forecast_rows",
    "forecasts_of",
    "group",
    "hold_out",
    "hold_out_documents",
    "join_texts",
    "join_units",
    "open_pairs",
    "open_pictures",
    "pad_documents",
    "padding",
    "parse_links",
    "pinball",
    "read_boxes",
    "read_documents",
    "read_intervals",
    "read_links",
    "read_ljspeech",
    "read_series",
    "recognise_scheme",
    "rolling_splits",
    "score_labels",
    "score_spans",
    "sequence_accuracy",
    "sequence_error_rate",
    "share",
    "split_by_counts",
    "split_by_dates",
    "split_by_fractions",
    "symbol_error_rate",
    "symbol_errors",
    "synthetic",
    "synthetic_picture",
    "time_features",
    "write_rows",
    "write_synthetic_pictures",
]
