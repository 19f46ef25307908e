"""The analyses of published systems, by name."""

from __future__ import annotations

from dataclasses import replace

from regard.audio.compression import Compression, decibels, logarithm
from regard.audio.front_end import FrontEnd

_NVIDIA = FrontEnd(
    sample_rate=22050, n_fft=1024, win_length=1024, hop_length=256, f_min=0.0, f_max=8000.0, compression=logarithm(1e-5)
)
_HIFI_GAN = replace(_NVIDIA, centred=False, epsilon=1e-9)

FRONT_ENDS: dict[str, FrontEnd] = {
    "regard": FrontEnd(),
    "regard-22k": _HIFI_GAN,
    "bshall": FrontEnd(
        n_fft=2048,
        f_max=None,
        pre_emphasis=0.97,
        start="extrapolation",
        filter_norm="sum",
        compression=Compression(1e-5, decibels(span=80).scale, -20 / 80, minimum=-1.0),
    ),
    "coqui": FrontEnd(
        sample_rate=22050,
        win_length=1024,
        hop_length=256,
        f_min=0.0,
        f_max=None,
        compression=decibels(floor=1e-8, bound=4, symmetric=True),
    ),
    "coqui-ln": replace(_NVIDIA, compression=logarithm(1e-8)),
    "espnet": replace(_NVIDIA, f_min=80.0, f_max=7600.0, magnitude_floor=1e-5, compression=logarithm(1e-10, base=10)),
    "hifi-gan": _HIFI_GAN,
    "keithito": FrontEnd(
        sample_rate=20000,
        n_fft=2048,
        win_length=1000,
        hop_length=250,
        f_min=0.0,
        f_max=None,
        pre_emphasis=0.97,
        compression=decibels(),
    ),
    "nvidia": _NVIDIA,
    "rayhane": FrontEnd(
        sample_rate=22050,
        n_fft=2048,
        win_length=1100,
        hop_length=275,
        f_min=55.0,
        pre_emphasis=0.97,
        padding="zeros",
        power=2.0,
        peak=0.999,
        compression=decibels(bound=4, symmetric=True),
    ),
    "speechbrain": _NVIDIA,
}
"""Front ends by name. `regard` is the one for 16 kHz; `regard-22k` is that of HiFi-GAN's published vocoders."""
