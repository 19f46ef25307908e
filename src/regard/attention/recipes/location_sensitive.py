"""Content and location."""

from __future__ import annotations

from typing import Literal

from regard.attention.alignments import SigmoidAlignment
from regard.attention.alignments.named import AlignmentName, alignment_named
from regard.attention.beginning import FirstAlignment
from regard.attention.contract import AbstractWindow
from regard.attention.mechanism import Mechanism
from regard.attention.reads import WeightedSum
from regard.attention.recipes.imitable import imitable
from regard.attention.scores import LocationScore
from regard.errors import UnsupportedError


@imitable
def location_sensitive(
    *,
    query_size: int,
    memory_size: int,
    size: int = 128,
    num_heads: int = 1,
    location: Literal["previous", "cumulative", "both"] = "cumulative",
    num_filters: int = 32,
    kernel_size: int = 31,
    num_previous: int = 1,
    first_alignment: FirstAlignment = "zeros",
    accumulate_first: bool = False,
    alignment: AlignmentName = "softmax",
    sharpening: float = 1.0,
    bias: bool = True,
    output_bias: bool = False,
    detached: bool = False,
    like: Literal["coqui", "espnet", "nvidia", "speechbrain"] | None = None,
    window: AbstractWindow | None = None,
) -> Mechanism:
    """Additive attention that depends on earlier alignments: e_ij = vᵀ tanh(W q_i + U h_j + L f_ij + b), f_i = F * α.

    Args:
        query_size, memory_size: Q and M.
        size: width of the hidden layer, all heads together.
        num_heads: each head has its own filters on its own alignments; the contexts are concatenated.
        location: the input of the filters F: the `previous` weights, the `cumulative` ones, or `both`.
        num_filters, kernel_size: of F.
        num_previous: how many previous steps `previous` holds, each a channel.
        first_alignment: what the first step takes as the weights before it: `zeros`, `uniform`, or
            all on the `first` position.
        accumulate_first: whether that stays in the sum (coverage and location, ESPnet's AttCovLoc).
        alignment: the alignment, by name (`alignment_named`); `smoothed_sigmoid` is Chorowski's smoothing.
        sharpening: a factor on the energies.
        bias: whether there is b.
        output_bias: whether v has a bias, which changes a sigmoid and not a softmax.
        detached: whether gradients stop at the weights of earlier steps.
        like: another implementation (`regard.attention.peers`). Rayhane Mamah's Tacotron 2 and TensorFlowTTS are the
            default: their several biases add up to b.
        window: which positions may be attended to; all if None.

    Source: Chorowski et al. 2015, Attention-Based Models for Speech Recognition (arXiv 1506.07503); the defaults are
    Tacotron 2's (arXiv 1712.05884).
    """
    smooth = alignment in ("sigmoid", "smoothed_sigmoid")
    if output_bias and not smooth:
        raise UnsupportedError(f"alignment={alignment!r} does not depend on a bias of v; leave output_bias out.")
    weights = (
        SigmoidAlignment(normalised=alignment == "smoothed_sigmoid", bias=0.0, sharpening=sharpening)
        if output_bias
        else alignment_named(alignment, sharpening=sharpening, num_heads=num_heads)
    )
    return Mechanism(
        LocationScore(
            query_size,
            memory_size,
            size,
            num_heads=num_heads,
            location=location,
            num_filters=num_filters,
            kernel_size=kernel_size,
            num_previous=num_previous,
            first_alignment=first_alignment,
            accumulate_first=accumulate_first,
            bias=bias,
            detached=detached,
        ),
        weights,
        WeightedSum(memory_size, num_heads=num_heads),
        window,
    )
