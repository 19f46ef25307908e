"""How well does each position answer the query? Energies (R, H, S)."""

from regard.attention.scores.additive import AdditiveScore
from regard.attention.scores.bilinear import BilinearScore
from regard.attention.scores.concat import ConcatScore
from regard.attention.scores.coverage import CoverageScore
from regard.attention.scores.dot import DotScore, ScaledDotScore
from regard.attention.scores.dynamic import DynamicConvolutionScore
from regard.attention.scores.location import LocationScore
from regard.attention.scores.mixture import MixtureScore
from regard.attention.scores.normalised_dot import NormalisedDotScore
from regard.attention.scores.plane_coverage import PlaneCoverageScore
from regard.attention.scores.pooling import PoolingScore
from regard.attention.scores.relative import RelativeDotScore
from regard.attention.scores.rotary import RotaryDotScore
from regard.attention.scores.tanh_dot import TanhDotScore
from regard.attention.scores.transformer_xl import TransformerXLScore

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
