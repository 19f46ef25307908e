"""How well does each position answer the query? Energies (R, H, S)."""

from regard.attention.scores.additive import AdditiveScore
from regard.attention.scores.bilinear import BilinearScore
from regard.attention.scores.concat import ConcatScore
from regard.attention.scores.coverage import CoverageScore
from regard.attention.scores.dot import DotScore, ScaledDotScore
from regard.attention.scores.dynamic import DynamicConvolutionScore
from regard.attention.scores.location import LocationScore
from regard.attention.scores.mixture import MixtureScore
from regard.attention.scores.pooling import PoolingScore
from regard.attention.scores.rectified import RectifiedScore
from regard.attention.scores.relative import RelativeDotScore
from regard.attention.scores.rotary import RotaryDotScore
from regard.attention.scores.sigmoid_mixture import SigmoidMixtureScore
from regard.attention.scores.tanh_dot import TanhDotScore
from regard.attention.scores.transformer_xl import TransformerXLScore
from regard.attention.scores.unmoved_location import UnmovedLocationScore

__all__ = [
    "AdditiveScore",
    "BilinearScore",
    "ConcatScore",
    "CoverageScore",
    "DotScore",
    "DynamicConvolutionScore",
    "LocationScore",
    "MixtureScore",
    "PoolingScore",
    "RectifiedScore",
    "RelativeDotScore",
    "RotaryDotScore",
    "ScaledDotScore",
    "SigmoidMixtureScore",
    "TanhDotScore",
    "TransformerXLScore",
    "UnmovedLocationScore",
]
