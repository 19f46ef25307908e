"""Windows: which positions may be attended to, and how likely they are beforehand."""

from regard.attention.windows.combined import InEvaluation, Intersection
from regard.attention.windows.prior import BucketBiasWindow, ForwardPriorWindow, LinearBiasWindow
from regard.attention.windows.sliding import ArgmaxWindow, CausalWindow, FullWindow, PredictiveWindow, SlidingWindow

__all__ = [
    "ArgmaxWindow",
    "BucketBiasWindow",
    "CausalWindow",
    "ForwardPriorWindow",
    "FullWindow",
    "InEvaluation",
    "Intersection",
    "LinearBiasWindow",
    "PredictiveWindow",
    "SlidingWindow",
]
