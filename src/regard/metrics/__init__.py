"""Measures of alignments, of speech, of attention maps over pictures, and of texts, labels and forecasts.

Each measure of an alignment is a function of a numpy array, a tensor or nested lists. Of (T, S) it returns a number, of
(..., T, S) an array shaped like the leading axes. Padding does not count (`Padding`).

| measure | range | healthy speech or spelling | rows that sum to less than 1 |
|---|---|---|---|
| `focus_rate` | 0 to 1 | near 1 | not normalised |
| `diagonality` | up to 1; 0 is uniform | near 1 | normalised |
| `coverage`, `soft_coverage` | 0 to 1 | near 1 | not normalised |
| `monotonicity` | 0 to 1 | near 1 | do not matter |
| `entropy`, `normalised_entropy` | 0 to log S, 0 to 1 | near 0 | normalised |
| `skips`, `repeats` | whole numbers | 0 | do not matter |

Measures of maps over pictures, (T, S) with a grid or (T, h, w); `map_scores` computes all of them:

| measure | of | range |
|---|---|---|
| `map_divergence` | differences between the maps of words | 0 (identical) to 1 |
| `pointing` | the words whose largest weight is on the object that they name | 0 to 1, with the chance level |
| `ink_share` | the weight on ink instead of paper | 0 to 1, with that of uniform attention |
"""

from typing import TYPE_CHECKING

from regard.lazy import on_demand
from regard.metrics.alignment import (
    AlignmentHealth,
    coverage,
    diagonality,
    entropy,
    focus_rate,
    monotonicity,
    normalised_entropy,
    repeats,
    skips,
    soft_coverage,
    summary,
)
from regard.metrics.alignment_difference import AlignmentDifference, alignment_difference
from regard.metrics.bootstrap import (
    Difference,
    Estimate,
    ItemTerms,
    MetricTerms,
    PairedComparison,
    ShownItem,
    compare,
    estimate,
    ratio_terms,
)
from regard.metrics.calibration import Reliability, calibration_error, reliability
from regard.metrics.captions import CaptionScores, caption_scores, caption_terms, caption_words, each_caption_scores
from regard.metrics.classification import LabelScores, f1_terms, score_labels
from regard.metrics.edit_distance import (
    ExpressionRates,
    edit_distance,
    expression_rates,
    sequence_accuracy,
    sequence_error_rate,
    symbol_error_rate,
    symbol_errors,
)
from regard.metrics.likelihood import Likelihood
from regard.metrics.map_scores import CaptionMaps, MapScores, MeasuredMaps, map_scores
from regard.metrics.maps import InkShare, Pointing, ink_share, map_divergence, pointing
from regard.metrics.monotonic_path import monotonic_path
from regard.metrics.padding import Padding
from regard.metrics.spans import RecognisedScheme, SpanScheme, SpanScores, recognise_scheme, score_spans
from regard.metrics.translation import CorpusScore, corpus_score, corpus_terms

if TYPE_CHECKING:
    from regard.metrics.forecasts import ForecastErrors, ForecastTally, pinball

__all__ = [
    "AlignmentDifference",
    "AlignmentHealth",
    "CaptionMaps",
    "CaptionScores",
    "CorpusScore",
    "Difference",
    "Estimate",
    "ExpressionRates",
    "ForecastErrors",
    "ForecastTally",
    "InkShare",
    "ItemTerms",
    "LabelScores",
    "Likelihood",
    "MapScores",
    "MeasuredMaps",
    "MetricTerms",
    "Padding",
    "PairedComparison",
    "Pointing",
    "RecognisedScheme",
    "Reliability",
    "ShownItem",
    "SpanScheme",
    "SpanScores",
    "alignment_difference",
    "calibration_error",
    "caption_scores",
    "caption_terms",
    "caption_words",
    "compare",
    "corpus_score",
    "corpus_terms",
    "coverage",
    "diagonality",
    "each_caption_scores",
    "edit_distance",
    "entropy",
    "estimate",
    "expression_rates",
    "f1_terms",
    "focus_rate",
    "ink_share",
    "map_divergence",
    "map_scores",
    "monotonic_path",
    "monotonicity",
    "normalised_entropy",
    "pinball",
    "pointing",
    "ratio_terms",
    "recognise_scheme",
    "reliability",
    "repeats",
    "score_labels",
    "score_spans",
    "sequence_accuracy",
    "sequence_error_rate",
    "skips",
    "soft_coverage",
    "summary",
    "symbol_error_rate",
    "symbol_errors",
]

__getattr__ = on_demand(__name__, {"forecasts": ["ForecastErrors", "ForecastTally", "pinball"]})  # needs series
