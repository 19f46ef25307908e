"""Which positions may be attended to, and how likely are they beforehand?"""

from regard.attention.windows.argmax import ArgmaxWindow
from regard.attention.windows.bucket_bias import BucketBiasWindow
from regard.attention.windows.full import FullWindow
from regard.attention.windows.in_evaluation import InEvaluation
from regard.attention.windows.intersection import Intersection
from regard.attention.windows.linear_bias import LinearBiasWindow
from regard.attention.windows.local import PredictiveWindow
from regard.attention.windows.prior import ForwardPriorWindow
from regard.attention.windows.sliding import CausalWindow, SlidingWindow

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
