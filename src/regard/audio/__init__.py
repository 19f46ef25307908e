"""Sound: files, spectrograms of published systems, and sound from spectrograms.

    sound ──► FrontEnd.mel ──► a model ──► FrontEnd.mel_to_magnitudes ──► griffin_lim ──► sound

A `FrontEnd` has the parameters of an analysis; `FRONT_ENDS` has those of published systems by name.
"""

from collections.abc import Mapping

from regard.audio.compression import Compression, decibels, logarithm
from regard.audio.distortion import Distortion, mel_cepstral_distortion, mel_cepstrum
from regard.audio.filters import de_emphasis, hertz_to_mel, mel_filters, mel_to_hertz, pre_emphasis
from regard.audio.front_end import FrontEnd
from regard.audio.inverse import least_squares, pseudo_inverse
from regard.audio.phases import griffin_lim
from regard.audio.pitch import Pitch, find_pitch
from regard.audio.resampling import resample
from regard.audio.silence import find_endpoint, sounding, trim_silence
from regard.audio.statistics import Standardisation
from regard.audio.synthetic import SyntheticSpeech, synthetic_speech
from regard.audio.vocoder import MelForm, Vocoder, load_vocoder, save_vocoder
from regard.audio.wave import encode_wave, read_wave, write_wave
from regard.interop import variants

__all__ = [
    "FRONT_ENDS",
    "Compression",
    "Distortion",
    "FrontEnd",
    "MelForm",
    "Pitch",
    "Standardisation",
    "SyntheticSpeech",
    "Vocoder",
    "de_emphasis",
    "decibels",
    "encode_wave",
    "find_endpoint",
    "find_pitch",
    "griffin_lim",
    "hertz_to_mel",
    "least_squares",
    "load_vocoder",
    "logarithm",
    "mel_cepstral_distortion",
    "mel_cepstrum",
    "mel_filters",
    "mel_to_hertz",
    "pre_emphasis",
    "pseudo_inverse",
    "read_wave",
    "resample",
    "save_vocoder",
    "sounding",
    "synthetic_speech",
    "trim_silence",
    "write_wave",
]

FRONT_ENDS: Mapping[str, FrontEnd] = variants.FRONT_ENDS
