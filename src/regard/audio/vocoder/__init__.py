"""HiFi-GAN's generator: sound from mel spectrograms, with published weights."""

from regard.audio.vocoder.folder import Vocoder, load_vocoder, save_vocoder
from regard.audio.vocoder.generator import Generator, synthesise
from regard.audio.vocoder.options import GENERATORS, GeneratorOptions, MelForm
from regard.audio.vocoder.package import from_checkpoint, from_package
from regard.audio.vocoder.weights import from_published

__all__ = [
    "GENERATORS",
    "Generator",
    "GeneratorOptions",
    "MelForm",
    "Vocoder",
    "from_checkpoint",
    "from_package",
    "from_published",
    "load_vocoder",
    "save_vocoder",
    "synthesise",
]
