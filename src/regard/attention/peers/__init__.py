"""Mechanisms as other implementations compute them: for weights that were trained there, and for comparisons.

Code that only an imitation needs is here. The option `like` of a recipe names the implementation:

| recipe | `like` | what it changes |
|---|---|---|
| `bahdanau` | `mozilla` | the old cell: σ divided by its sum, a bias, in evaluation a window around the last peak |
| `coverage` | `espnet` | AttCov: the sum starts from uniform weights; sharpening 2 |
| `dynamic_convolution` | `coqui` | the softmax includes padding, whose weights then become 10⁻⁸ |
| `forward_attention` | `coqui` | `RestartingForwardAlignment`; its location score is `UnmovedLocationScore` without b |
| `forward_attention` | `espnet` | AttForward, AttForwardTA: `ClampedForwardAlignment` |
| `gmm` | `coqui` | GravesAttention: `SigmoidMixtureScore`; the weight of padding is 10⁻⁸ |
| `location_sensitive` | `coqui` | Tacotron 1 and 2: both channels, no b, smoothing with a bias of v |
| `location_sensitive` | `espnet` | AttLoc: a uniform start, which does not stay in the sum; sharpening 2 |
| `location_sensitive` | `nvidia` | Tacotron 2: both channels, no b |
| `location_sensitive` | `speechbrain` | the previous weights, a uniform start, no gradient to earlier steps |
| `monotonic` | `tfa_parallel` | `ClippedMonotonicAlignment`: mode `parallel`, which loses mass in long sources |
| `show_attend_tell` | `sgrvinod` | a rectifier in place of tanh |

Options of the recipe that are given take precedence: ESPnet's speech recognition has `location="previous"`, and its
AttCovLoc is `location_sensitive(first_alignment="uniform", accumulate_first=True, sharpening=2)`. `argmax_window` has
the windows of other implementations.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from regard.attention import recipes
from regard.attention.mechanism import Mechanism
from regard.attention.peers import coqui
from regard.attention.peers.argmax import argmax_window
from regard.attention.peers.content import RectifiedScore, mozilla_bahdanau, sgrvinod_show_attend_tell
from regard.attention.peers.coqui import (
    RestartingForwardAlignment,
    SigmoidMixtureScore,
    UnmaskedAlignment,
    UnmovedLocationScore,
)
from regard.attention.peers.monotonic import (
    ClampedForwardAlignment,
    ClippedMonotonicAlignment,
    espnet_forward_attention,
    tfa_monotonic,
)

IMITATIONS: dict[str, dict[str, Callable[..., Mechanism]]] = {
    "bahdanau": {"mozilla": mozilla_bahdanau},
    "coverage": {"espnet": partial(recipes.coverage, first_alignment="uniform", sharpening=2.0)},
    "dynamic_convolution": {"coqui": coqui.dynamic_convolution},
    "forward_attention": {"coqui": coqui.forward_attention, "espnet": espnet_forward_attention},
    "gmm": {"coqui": coqui.gmm},
    "location_sensitive": {
        "coqui": coqui.location_sensitive,
        "espnet": partial(recipes.location_sensitive, first_alignment="uniform", sharpening=2.0),
        "nvidia": partial(recipes.location_sensitive, location="both", bias=False),
        "speechbrain": partial(
            recipes.location_sensitive, location="previous", first_alignment="uniform", detached=True
        ),
    },
    "monotonic": {"tfa_parallel": tfa_monotonic},
    "show_attend_tell": {"sgrvinod": sgrvinod_show_attend_tell},
}
"""For each recipe and implementation, what builds it from the options that are given, which take precedence."""

__all__ = [
    "IMITATIONS",
    "ClampedForwardAlignment",
    "ClippedMonotonicAlignment",
    "RectifiedScore",
    "RestartingForwardAlignment",
    "SigmoidMixtureScore",
    "UnmaskedAlignment",
    "UnmovedLocationScore",
    "argmax_window",
]
