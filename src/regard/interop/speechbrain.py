"""SpeechBrain: attention, and NVIDIA's Tacotron 2.

Its training has guided attention of width 0.2 and weight 50, halved every 10 epochs, for 50 epochs.
"""

from __future__ import annotations

from functools import partial

from regard.attention import recipes
from regard.interop.nvidia import FRONT_END, TACOTRON2_FORM, TACOTRON2_WEIGHTS, tacotron2

__all__ = ["FRONT_END", "TACOTRON2_FORM", "TACOTRON2_WEIGHTS", "location_sensitive", "tacotron2"]

location_sensitive = partial(recipes.location_sensitive, location="previous", first_alignment="uniform", detached=True)
