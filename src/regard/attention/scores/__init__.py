"""How well does each position answer the query? Energies (R, H, S)."""

from regard.attention.scores.additive import AdditiveScore
from regard.attention.scores.bilinear import BilinearScore
from regard.attention.scores.concat import ConcatScore
from regard.attention.scores.dot import DotScore, ScaledDotScore
from regard.attention.scores.location import LocationScore
from regard.attention.scores.mixture import MixtureScore
from regard.attention.scores.pooling import PoolingScore
from regard.attention.scores.relative import RelativeDotScore
from regard.attention.scores.rotary import RotaryDotScore
from regard.attention.scores.transformer_xl import TransformerXLScore

__all__ = [
    "AdditiveScore",
    "BilinearScore",
    "ConcatScore",
    "DotScore",
    "LocationScore",
    "MixtureScore",
    "PoolingScore",
    "RelativeDotScore",
    "RotaryDotScore",
    "ScaledDotScore",
    "TransformerXLScore",
]
