"""Attention mechanisms: four small parts and one state.

score (how well does each position answer the query?) → window (which positions may be looked at?) → alignment
(energies and what came before become weights) → read (weights and values become a context).
"""

from regard.attention.alignments import ChunkwiseAlignment, ExponentialAlignment, SoftmaxAlignment
from regard.attention.citation import cite
from regard.attention.contract import (
    AbstractAlignment,
    AbstractPart,
    AbstractRead,
    AbstractScore,
    AbstractWindow,
    Attended,
    Memory,
    State,
    Support,
)
from regard.attention.mechanism import Mechanism
from regard.attention.parallel import Parallel
from regard.attention.reads import ProjectedSum, RelativeSum, WeightedSum
from regard.attention.recipes import (
    RECIPES,
    bahdanau,
    gmm,
    location_sensitive,
    luong,
    mocha,
    multi_head,
    self_pooling,
)
from regard.attention.scores import (
    AdditiveScore,
    BilinearScore,
    ConcatScore,
    DotScore,
    LocationScore,
    MixtureScore,
    PoolingScore,
    RelativeDotScore,
    RotaryDotScore,
    ScaledDotScore,
    TransformerXLScore,
)
from regard.attention.windows import (
    ArgmaxWindow,
    BucketBiasWindow,
    CausalWindow,
    FullWindow,
    Intersection,
    LinearBiasWindow,
    SlidingWindow,
)

__all__ = [
    "RECIPES",
    "AbstractAlignment",
    "AbstractPart",
    "AbstractRead",
    "AbstractScore",
    "AbstractWindow",
    "AdditiveScore",
    "ArgmaxWindow",
    "Attended",
    "BilinearScore",
    "BucketBiasWindow",
    "CausalWindow",
    "ChunkwiseAlignment",
    "ConcatScore",
    "DotScore",
    "ExponentialAlignment",
    "FullWindow",
    "Intersection",
    "LinearBiasWindow",
    "LocationScore",
    "Mechanism",
    "Memory",
    "MixtureScore",
    "Parallel",
    "PoolingScore",
    "ProjectedSum",
    "RelativeDotScore",
    "RelativeSum",
    "RotaryDotScore",
    "ScaledDotScore",
    "SlidingWindow",
    "SoftmaxAlignment",
    "State",
    "Support",
    "TransformerXLScore",
    "WeightedSum",
    "bahdanau",
    "cite",
    "gmm",
    "location_sensitive",
    "luong",
    "mocha",
    "multi_head",
    "self_pooling",
]
