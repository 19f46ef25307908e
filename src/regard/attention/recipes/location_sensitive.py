"""Content and location."""

from __future__ import annotations

from typing import Any, Literal

from regard.attention.alignments import AlignmentName, SigmoidAlignment, alignment_named
from regard.attention.beginning import FirstAlignment
from regard.attention.contract import AbstractWindow
from regard.attention.mechanism import Mechanism
from regard.attention.reads import WeightedSum
from regard.attention.scores import LocationScore
from regard.errors import UnsupportedError

_PAPER: dict[str, Any] = {
    "location": "cumulative",
    "first_alignment": "zeros",
    "alignment": "softmax",
    "sharpening": 1.0,
}
_LIKE: dict[str | None, dict[str, Any]] = {
    None: {},
    "coqui": {"location": "both", "alignment": "smoothed_sigmoid"},
    "espnet": {"first_alignment": "uniform", "sharpening": 2.0},
    "nvidia": {"location": "both"},
    "speechbrain": {"location": "previous", "first_alignment": "uniform"},
}


def location_sensitive(
    *,
    query_size: int,
    memory_size: int,
    size: int = 128,
    num_heads: int = 1,
    location: Literal["previous", "cumulative", "both"] | None = None,
    num_filters: int = 32,
    kernel_size: int = 31,
    num_previous: int = 1,
    first_alignment: FirstAlignment | None = None,
    accumulate_first: bool = False,
    alignment: AlignmentName | None = None,
    sharpening: float | None = None,
    output_bias: bool = False,
    like: Literal["coqui", "espnet", "nvidia", "speechbrain"] | None = None,
    window: AbstractWindow | None = None,
) -> Mechanism:
    """Additive attention that also sees where it was: e_ij = vᵀ tanh(W q_i + U h_j + L f_ij + b), f_i = F * α.

    Args:
        query_size, memory_size: Q and M.
        size: width of the hidden layer, all heads together.
        num_heads: each has its own filters on its own alignments; the reads stand side by side.
        location: what the filters F see: the `previous` weights, the `cumulative` ones (unless told), or `both`.
        num_filters, kernel_size: of F.
        num_previous: how many steps back `previous` reaches, a channel each.
        first_alignment: what the first step takes for the weights before it: `zeros` (unless told), `uniform`, or
            all on the `first` position.
        accumulate_first: whether that stays in the sum (coverage and location, ESPnet's AttCovLoc).
        alignment: what makes weights of energies (`alignment_named`): softmax unless told; Chorowski's smoothing.
        sharpening: a factor on the energies, 1 unless told.
        output_bias: a bias of v, which a sigmoid sees and a softmax does not.
        like: another implementation. It changes what is not told:

            - `nvidia` (Tacotron 2): both channels, no b.
            - `coqui` (Tacotron 1 and 2): both channels, no b, smoothing with a bias of v.
            - `espnet` (AttLoc): a uniform start, which does not stay in the sum; sharpening 2. Its speech recognition
              has location="previous".
            - `speechbrain`: the previous weights alone, a uniform start, no gradient from a step to the weights before.

            Rayhane Mamah's Tacotron 2 and TensorFlowTTS are the default: their further biases add up to b.
        window: where it may look.

    Source: Chorowski et al. 2015, Attention-Based Models for Speech Recognition (arXiv 1506.07503); the defaults are
    Tacotron 2's (arXiv 1712.05884).
    """
    told = {
        "location": location,
        "first_alignment": first_alignment,
        "alignment": alignment,
        "sharpening": sharpening,
    }
    if like not in _LIKE:
        raise UnsupportedError(f"like={like!r} must be one of {', '.join(name for name in _LIKE if name)}.")
    chosen = _PAPER | _LIKE[like] | {name: value for name, value in told.items() if value is not None}
    smooth = chosen["alignment"] in ("sigmoid", "smoothed_sigmoid")
    if output_bias and not smooth:
        raise UnsupportedError(f"alignment={chosen['alignment']!r} does not see a bias of v; leave output_bias out.")
    weights = (
        SigmoidAlignment(
            normalised=chosen["alignment"] == "smoothed_sigmoid", bias=0.0, sharpening=chosen["sharpening"]
        )
        if smooth and (output_bias or like == "coqui")
        else alignment_named(chosen["alignment"], sharpening=chosen["sharpening"], num_heads=num_heads)
    )
    return Mechanism(
        LocationScore(
            query_size,
            memory_size,
            size,
            num_heads=num_heads,
            location=chosen["location"],
            num_filters=num_filters,
            kernel_size=kernel_size,
            num_previous=num_previous,
            first_alignment=chosen["first_alignment"],
            accumulate_first=accumulate_first,
            bias=like not in ("coqui", "nvidia"),
            detached=like == "speechbrain",
        ),
        weights,
        WeightedSum(memory_size, num_heads=num_heads),
        window,
    )
