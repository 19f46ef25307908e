"""Sound: how far spectra are from those of a recording, and the pitch of a voice."""

from regard.audio.distortion import Distortion, mel_cepstral_distortion, mel_cepstrum
from regard.audio.pitch import Pitch, find_pitch

__all__ = [
    "Distortion",
    "Pitch",
    "find_pitch",
    "mel_cepstral_distortion",
    "mel_cepstrum",
]
