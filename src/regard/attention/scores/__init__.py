"""Scores: the energies (R, H, S) of positions, which say how well each answers the query."""

from regard.attention.scores.additive import AdditiveScore, ConcatScore, PoolingScore
from regard.attention.scores.coverage import CoverageScore, PlaneCoverageScore
from regard.attention.scores.dot import BilinearScore, DotScore, NormalisedDotScore, ScaledDotScore, TanhDotScore
from regard.attention.scores.location import DynamicConvolutionScore, LocationScore
from regard.attention.scores.mixture import MixtureScore
from regard.attention.scores.relative import RelativeDotScore, RotaryDotScore, TransformerXLScore

__all__ = [
    "AdditiveScore",
    "BilinearScore",
    "ConcatScore",
    "CoverageScore",
    "DotScore",
    "DynamicConvolutionScore",
    "LocationScore",
    "MixtureScore",
    "NormalisedDotScore",
    "PlaneCoverageScore",
    "PoolingScore",
    "RelativeDotScore",
    "RotaryDotScore",
    "ScaledDotScore",
    "TanhDotScore",
    "TransformerXLScore",
]
