"""Variants of mechanisms, models and front ends in other programs, by their names in `like=` and in configurations.

Variants are imported on first use. This module is the only one of `regard.interop` that the rest of the package
imports, so no other file knows a program by its name. A further program is a module and a line in `PROGRAMS`.

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

Given options of the recipe take precedence: ESPnet's speech recognition has `location="previous"`, and its
AttCovLoc is `location_sensitive(first_alignment="uniform", accumulate_first=True, sharpening=2)`. Rayhane Mamah's
Tacotron 2 and TensorFlowTTS have the default: their several biases add up to b.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from regard.lazy import OnDemand

Variants = OnDemand[Any]

PROGRAMS: Mapping[str, Sequence[str]] = {
    "annotated_transformer": ["change_transformer", "TRANSFORMER_DEFAULTS"],
    "arctic": ["CAPTIONER"],
    "bshall": ["FRONT_END"],
    "coqui": [
        *("dynamic_convolution", "forward_attention", "gmm", "location_sensitive", "FRONT_END"),
        *("tacotron1", "TACOTRON1_WEIGHTS", "tacotron2", "TACOTRON2_WEIGHTS"),
    ],
    "espnet": [
        *("coverage", "forward_attention", "location_sensitive", "FRONT_END"),
        *("tacotron2", "TACOTRON2_WEIGHTS"),
    ],
    "keithito": ["tacotron1", "FRONT_END"],
    "mozilla": ["bahdanau", "tacotron1"],
    "nvidia": ["location_sensitive", "tacotron2", "TACOTRON2_WEIGHTS", "FRONT_END"],
    "rayhane": ["tacotron2", "FRONT_END"],
    "sgrvinod": ["show_attend_tell", "CAPTIONER"],
    "speechbrain": ["location_sensitive", "tacotron2", "TACOTRON2_WEIGHTS", "FRONT_END"],
}
"""For each program, the names in its module (`regard.interop.PROGRAM`) that the tables below have. A module with
`tacotron2` has `TACOTRON2_FORM`, too."""


def programs_with(name: str, **others: str) -> Variants:
    """By program, the objects of one name.

    Args:
        others: places of further objects (`OnDemand`).
    """
    places = {program: f"regard.interop.{program}:{name}" for program, names in PROGRAMS.items() if name in names}
    return OnDemand(places | others)


RECIPE_VARIANTS: dict[str, Variants] = {
    **{name: programs_with(name) for name in ("bahdanau", "coverage", "dynamic_convolution", "forward_attention")},
    **{name: programs_with(name) for name in ("gmm", "location_sensitive", "show_attend_tell")},
    "monotonic": OnDemand({"tfa_parallel": "regard.interop.tfa.mechanisms.monotonic:clipped_monotonic"}),
}
"""For each recipe, the functions that build its variants from the given options."""

TACOTRONS: dict[str, Variants] = {name: programs_with(name) for name in ("tacotron1", "tacotron2")}
"""For each model, the functions that build its variants."""

TACOTRON_WEIGHTS: dict[str, Variants] = {name: programs_with(f"{name.upper()}_WEIGHTS") for name in TACOTRONS}
"""For each model, the names of the weights of variants that can be read (`regard.interop.tacotron.Weights`)."""

FORMS: dict[str, Variants] = {
    program: OnDemand(forms)
    for program, names in PROGRAMS.items()
    if (forms := {n: f"regard.interop.{program}:{n.upper()}_FORM" for n in ("tacotron2", "tacotron1") if n in names})
}
"""For each program, its Tacotrons in a configuration (`TacotronForm`) by `architecture`; the first is the default."""

TRANSFORMERS: Variants = programs_with("change_transformer")
"""Functions that change a new encoder or decoder."""

TRANSFORMER_DEFAULTS: Variants = programs_with("TRANSFORMER_DEFAULTS")
"""Defaults of the sections of such an encoder or decoder that differ from ours."""

CAPTIONERS: Variants = programs_with("CAPTIONER", bilinear="regard.models.captioner:BILINEAR")
"""The decoders of captions (`CaptionerForm`); `bilinear` is Luong's attention over an image."""

FRONT_ENDS: Variants = OnDemand(
    {
        "regard": "regard.audio.front_end:REGARD",
        "regard-22k": "regard.audio.front_end:HIFI_GAN",
        "hifi-gan": "regard.audio.front_end:HIFI_GAN",
        **programs_with("FRONT_END").places,
        "coqui-ln": "regard.interop.coqui:LOGARITHMIC_FRONT_END",
    }
)
"""Front ends, including ours (`regard.audio.FRONT_ENDS`)."""


def names_of(variants: Mapping[str, Any]) -> Any:
    """The type of the names of variants: a `Literal` of them."""
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
