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

Options of the recipe that are given take precedence. `argmax_window` has the windows of other implementations.
"""

from __future__ import annotations

from collections.abc import Callable

from regard.attention.mechanism import Mechanism
from regard.attention.peers import coqui, espnet, mozilla, nvidia, sgrvinod, speechbrain, tensorflow_addons
from regard.attention.peers.argmax import argmax_window
from regard.attention.peers.coqui import RestartingForwardAlignment
from regard.attention.peers.espnet import ClampedForwardAlignment
from regard.attention.peers.rectified import RectifiedScore
from regard.attention.peers.sigmoid_mixture import SigmoidMixtureScore
from regard.attention.peers.tensorflow_addons import ClippedMonotonicAlignment
from regard.attention.peers.unmasked import UnmaskedAlignment
from regard.attention.peers.unmoved_location import UnmovedLocationScore

IMITATIONS: dict[str, dict[str, Callable[..., Mechanism]]] = {
    "bahdanau": {"mozilla": mozilla.bahdanau},
    "coverage": {"espnet": espnet.coverage},
    "dynamic_convolution": {"coqui": coqui.dynamic_convolution},
    "forward_attention": {"coqui": coqui.forward_attention, "espnet": espnet.forward_attention},
    "gmm": {"coqui": coqui.gmm},
    "location_sensitive": {
        "coqui": coqui.location_sensitive,
        "espnet": espnet.location_sensitive,
        "nvidia": nvidia.location_sensitive,
        "speechbrain": speechbrain.location_sensitive,
    },
    "monotonic": {"tfa_parallel": tensorflow_addons.monotonic},
    "show_attend_tell": {"sgrvinod": sgrvinod.show_attend_tell},
}
"""For each recipe and implementation, the function that builds it from the options that were given."""

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
