"""Dynamic convolution attention."""

from __future__ import annotations

from typing import Literal

from regard.attention.alignments import SoftmaxAlignment
from regard.attention.contract import AbstractWindow
from regard.attention.mechanism import Mechanism
from regard.attention.reads import WeightedSum
from regard.attention.recipes.imitable import imitable
from regard.attention.scores import DynamicConvolutionScore
from regard.attention.windows import ForwardPriorWindow, Intersection


@imitable
def dynamic_convolution(
    *,
    query_size: int,
    memory_size: int,
    size: int = 128,
    num_heads: int = 1,
    static_filters: int = 8,
    static_kernel: int = 21,
    dynamic_filters: int = 8,
    dynamic_kernel: int = 21,
    reach: int = 10,
    alpha: float = 0.1,
    beta: float = 0.9,
    like: Literal["coqui"] | None = None,
    window: AbstractWindow | None = None,
) -> Mechanism:
    """Attention only by location, with a forward prior: e_i = vᵀ tanh(U (F * α) + T (G_i * α) + b) + log(P * α).

    α are the weights of the previous step.

    Args:
        query_size, memory_size: Q and M.
        size: width of the hidden layers, all heads together.
        num_heads: each head follows its own weights; the contexts are concatenated.
        static_filters, static_kernel, dynamic_filters, dynamic_kernel: of F, and of G_i, which is made from the query.
        reach, alpha, beta: of the beta-binomial prior P: its largest move is reach, its mean
            reach · alpha / (alpha + beta).
        like: another implementation (`regard.attention.peers`).
        window: a further window; both apply.

    Source: Battenberg et al. 2020, Location-Relative Attention Mechanisms for Robust Long-Form Speech Synthesis
    (arXiv 1910.10288).
    """
    prior = ForwardPriorWindow(reach=reach, alpha=alpha, beta=beta, num_heads=num_heads)
    return Mechanism(
        DynamicConvolutionScore(
            query_size,
            size,
            num_heads=num_heads,
            static_filters=static_filters,
            static_kernel=static_kernel,
            dynamic_filters=dynamic_filters,
            dynamic_kernel=dynamic_kernel,
        ),
        SoftmaxAlignment(),
        WeightedSum(memory_size, num_heads=num_heads),
        prior if window is None else Intersection([prior, window]),
    )
