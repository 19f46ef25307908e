"""How well does each position answer the query? Energies (R, H, S)."""

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
