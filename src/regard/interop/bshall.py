"""bshall's Tacotron: its front end."""

from regard.audio import Compression, FrontEnd, decibels

FRONT_END = FrontEnd(
    n_fft=2048,
    f_max=None,
    pre_emphasis=0.97,
    start="extrapolation",
    filter_norm="sum",
    compression=Compression(1e-5, decibels(span=80).scale, -20 / 80, minimum=-1.0),
)
