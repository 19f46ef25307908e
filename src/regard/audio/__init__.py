"""Sound: waves of mel spectrograms by a vocoder (`regard.audio.vocoder`)."""

from regard.audio.vocoder import MelForm, Vocoder, load_vocoder, save_vocoder

__all__ = [
    "MelForm",
    "Vocoder",
    "load_vocoder",
    "save_vocoder",
]
