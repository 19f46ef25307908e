"""Mechanisms as other implementations have them: for weights that were trained there, and for comparisons.

What only an imitation needs is here and nowhere else. `like=` of a recipe names the implementation:

| recipe | `like` | what it changes |
|---|---|---|
| `coverage` | `espnet` | AttCov: the sum begins with uniform weights; sharpening 2 |
| `dynamic_convolution` | `coqui` | padding is normalised over, and has 10⁻⁸ afterwards |
| `forward_attention` | `coqui` | `RestartingForwardAlignment`; its location score is `UnmovedLocationScore` without b |
| `forward_attention` | `espnet` | AttForward, AttForwardTA: `ClampedForwardAlignment` |
| `gmm` | `coqui` | GravesAttention: `SigmoidMixtureScore`; padding has 10⁻⁸ |
| `location_sensitive` | `coqui` | Tacotron 1 and 2: both channels, no b, smoothing with a bias of v |
| `location_sensitive` | `espnet` | AttLoc: a uniform start, which does not stay in the sum; sharpening 2 |
| `location_sensitive` | `nvidia` | Tacotron 2: both channels, no b |
| `location_sensitive` | `speechbrain` | the previous weights, a uniform start, no gradient to the steps before |
| `monotonic` | `tfa_parallel` | `ClippedMonotonicAlignment`: mode `parallel`, which loses mass in long sources |
| `show_attend_tell` | `sgrvinod` | a rectifier in place of the tangent |

Options that are given stay as they are given. Windows of others are `argmax_window`.
"""

from __future__ import annotations

from collections.abc import Callable

from regard.attention.mechanism import Mechanism
from regard.attention.peers import coqui, espnet, nvidia, sgrvinod, speechbrain, tensorflow_addons
from regard.attention.peers.argmax import argmax_window
from regard.attention.peers.coqui import RestartingForwardAlignment
from regard.attention.peers.espnet import ClampedForwardAlignment
from regard.attention.peers.rectified import RectifiedScore
from regard.attention.peers.sigmoid_mixture import SigmoidMixtureScore
from regard.attention.peers.tensorflow_addons import ClippedMonotonicAlignment
from regard.attention.peers.unmasked import UnmaskedAlignment
from regard.attention.peers.unmoved_location import UnmovedLocationScore

IMITATIONS: dict[str, dict[str, Callable[..., Mechanism]]] = {
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
"""Who builds a recipe as another implementation has it; each is given the options of the recipe that were given."""

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
