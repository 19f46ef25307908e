"""Variants of mechanisms, models and front ends that other programs have, by the names that `like=` and keys take.

A variant is imported when it is asked for. This module is the only one of `regard.interop` that the rest of the package
imports, so that no other file has to know a program by its name; a further variant is a room and a line here.

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
AttCovLoc is `location_sensitive(first_alignment="uniform", accumulate_first=True, sharpening=2)`. Rayhane Mamah's
Tacotron 2 and TensorFlowTTS have the default: their several biases add up to b.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from regard.lazy import OnDemand

Variants = OnDemand[Any]

RECIPES: dict[str, Variants] = {
    "bahdanau": OnDemand({"mozilla": "regard.interop.mozilla:bahdanau"}),
    "coverage": OnDemand({"espnet": "regard.interop.espnet:coverage"}),
    "dynamic_convolution": OnDemand({"coqui": "regard.interop.coqui:dynamic_convolution"}),
    "forward_attention": OnDemand(
        {"coqui": "regard.interop.coqui:forward_attention", "espnet": "regard.interop.espnet:forward_attention"}
    ),
    "gmm": OnDemand({"coqui": "regard.interop.coqui:gmm"}),
    "location_sensitive": OnDemand(
        {
            "coqui": "regard.interop.coqui:location_sensitive",
            "espnet": "regard.interop.espnet:location_sensitive",
            "nvidia": "regard.interop.nvidia:location_sensitive",
            "speechbrain": "regard.interop.speechbrain:location_sensitive",
        }
    ),
    "monotonic": OnDemand({"tfa_parallel": "regard.interop.tfa.mechanisms.monotonic:clipped_monotonic"}),
    "show_attend_tell": OnDemand({"sgrvinod": "regard.interop.sgrvinod:show_attend_tell"}),
}
"""For each recipe, what builds its variants from the options that are given."""

TACOTRONS: dict[str, Variants] = {
    "tacotron1": OnDemand(
        {
            "coqui": "regard.interop.coqui:tacotron1",
            "keithito": "regard.interop.keithito:tacotron1",
            "mozilla": "regard.interop.mozilla:tacotron1",
        }
    ),
    "tacotron2": OnDemand(
        {
            "coqui": "regard.interop.coqui:tacotron2",
            "espnet": "regard.interop.espnet:tacotron2",
            "nvidia": "regard.interop.nvidia:tacotron2",
            "rayhane": "regard.interop.rayhane:tacotron2",
            "speechbrain": "regard.interop.speechbrain:tacotron2",
        }
    ),
}
"""For each model, the functions that build its variants."""

TACOTRON_WEIGHTS: dict[str, Variants] = {
    "tacotron1": OnDemand({"coqui": "regard.interop.coqui:TACOTRON1_WEIGHTS"}),
    "tacotron2": OnDemand(
        {
            "coqui": "regard.interop.coqui:TACOTRON2_WEIGHTS",
            "espnet": "regard.interop.espnet:WEIGHTS",
            "nvidia": "regard.interop.nvidia:WEIGHTS",
            "speechbrain": "regard.interop.speechbrain:WEIGHTS",
        }
    ),
}
"""For each model, of the variants whose weights can be read, how they are found (`regard.interop.tacotron.Weights`)."""

FORMS: dict[str, Variants] = {
    "coqui": OnDemand(
        {
            "tacotron2": "regard.interop.coqui:TACOTRON2_FORM",
            "tacotron1": "regard.interop.coqui:TACOTRON1_FORM",
        }
    ),
    "espnet": OnDemand({"tacotron2": "regard.interop.espnet:FORM"}),
    "keithito": OnDemand({"tacotron1": "regard.interop.keithito:FORM"}),
    "mozilla": OnDemand({"tacotron1": "regard.interop.mozilla:FORM"}),
    "nvidia": OnDemand({"tacotron2": "regard.interop.nvidia:FORM"}),
    "rayhane": OnDemand({"tacotron2": "regard.interop.rayhane:FORM"}),
    "speechbrain": OnDemand({"tacotron2": "regard.interop.speechbrain:FORM"}),
}
"""For each program, what a configuration of its Tacotrons is (`TacotronForm`), by `architecture`; the first is meant if
none is given."""

TRANSFORMERS: Variants = OnDemand({"annotated_transformer": "regard.interop.annotated_transformer:change"})
"""Functions that change a new encoder or decoder."""

TRANSFORMER_DEFAULTS: Variants = OnDemand({"annotated_transformer": "regard.interop.annotated_transformer:DEFAULTS"})
"""Defaults of the sections of such an encoder or decoder that differ from ours."""

CAPTIONERS: Variants = OnDemand(
    {
        "arctic": "regard.interop.arctic:CAPTIONER",
        "sgrvinod": "regard.interop.sgrvinod:CAPTIONER",
        "bilinear": "regard.models.captioner:BILINEAR",
    }
)
"""What decoders of captions are like (`CaptionerForm`); `bilinear` is Luong's attention over an image."""

FRONT_ENDS: Variants = OnDemand(
    {
        "regard": "regard.audio.front_end:REGARD",
        "regard-22k": "regard.audio.front_end:HIFI_GAN",
        "bshall": "regard.interop.bshall:FRONT_END",
        "coqui": "regard.interop.coqui:FRONT_END",
        "coqui-ln": "regard.interop.coqui:LOGARITHMIC_FRONT_END",
        "espnet": "regard.interop.espnet:FRONT_END",
        "hifi-gan": "regard.audio.front_end:HIFI_GAN",
        "keithito": "regard.interop.keithito:FRONT_END",
        "nvidia": "regard.interop.nvidia:FRONT_END",
        "rayhane": "regard.interop.rayhane:FRONT_END",
        "speechbrain": "regard.interop.speechbrain:FRONT_END",
    }
)
"""Front ends, ours among them (`regard.audio.FRONT_ENDS`)."""


def names_of(variants: Mapping[str, Any]) -> Any:
    """The type of the names of variants, which checks options and keys: one of these words."""
    return Literal.__getitem__(tuple(variants))


if TYPE_CHECKING:  # type checkers take any string: they read no tables
    CaptionerName = str
    FrontEndName = str
    TacotronName = str
    TransformerName = str
else:
    CaptionerName = names_of(CAPTIONERS)
    FrontEndName = names_of(FRONT_ENDS)
    TacotronName = names_of(FORMS)
    TransformerName = names_of(TRANSFORMERS)
