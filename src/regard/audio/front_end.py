"""Spectrograms of sounds, and magnitudes from spectrograms."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, TypeVar

import torch
from torch import Tensor
from torch.nn import functional

from regard.audio.compression import Compression, logarithm
from regard.audio.filters import FilterNorm, Start, mel_filters, pre_emphasis
from regard.audio.inverse import least_squares, pseudo_inverse
from regard.errors import ConfigError, DataError, ShapeError
from regard.shapes import Float, Int, describe

Padding = Literal["reflect", "zeros"]


def padded(
    samples: Float[Tensor, "B samples"], width: int, padding: Padding, lengths: Int[Tensor, " B"] | None = None
) -> Float[Tensor, "B wider"]:
    """Sounds with `width` more samples at both ends: zeros, or reflections in the first and the last sample.

    A sound shorter than the reflection is reflected repeatedly. Samples after a padded sound are 0.

    Args:
        lengths: samples of each sound, at least 1; None: all of the tensor.

    >>> padded(torch.tensor([[1.0, 2.0, 3.0]]), 2, "reflect")
    tensor([[3., 2., 1., 2., 3., 2., 1.]])
    >>> padded(torch.tensor([[1.0, 2.0, 9.0]]), 2, "reflect", torch.tensor([2]))
    tensor([[1., 2., 1., 2., 1., 2., 0.]])
    """
    longest = samples.shape[1]
    if lengths is None and (padding == "zeros" or width < longest):
        return functional.pad(samples, (width, width), mode="constant" if padding == "zeros" else "reflect")
    if lengths is None:
        lengths = samples.new_full((len(samples),), longest, dtype=torch.long)
    places = torch.arange(-width, longest + width, device=samples.device)
    if padding == "zeros":
        inside = (places >= 0) & (places < lengths[:, None])
        return functional.pad(samples, (width, width)).where(inside, 0)
    return samples.gather(1, reflected(places, lengths[:, None])).where(places < lengths[:, None] + width, 0)


def reflected(places: Tensor, lengths: Tensor) -> Tensor:
    """The sample at each place of a sound that is reflected in its ends: a triangular wave 0 1 … L-1 … 1 0 1 …"""
    period = 2 * (lengths - 1).clamp(min=1)
    phase = places % period
    return torch.minimum(torch.minimum(phase, period - phase), lengths - 1)


Inversion = Literal["least_squares", "pseudo_inverse"]
Number = TypeVar("Number", int, float, Tensor)


@dataclass(frozen=True)
class FrontEnd:
    """The parameters of a spectral analysis of sound, and the analysis.

    Samples x in [-1, 1] are pre-emphasised, y_t = x_t - κ x_{t-1}; frames of them are multiplied by a periodic Hann
    window and transformed; the magnitudes, raised to a power, pass mel filters W and are compressed:
    mel = compress(W magnitudes^power) and linear = compress(magnitudes^power).

    A sound of N samples has 1 + ⌊N / hop_length⌋ frames if they are centred, with frame i around sample i · hop_length.
    Otherwise it has ⌊N / hop_length⌋, with frame i around the middle of samples i · hop_length to (i + 1) · hop_length.

    `FRONT_ENDS` has those of published systems by name; `dataclasses.replace` changes a parameter.

    Args:
        sample_rate: in Hz.
        n_fft: samples of a transform, an even number.
        win_length: samples of the window, in the middle of the transform.
        hop_length: samples from one frame to the next.
        f_min, f_max: range of the mel filters in Hz; None: half the sample rate.
        num_mels: the number of mel filters.
        pre_emphasis: κ; 0: none.
        centred: whether both ends are padded by n_fft / 2 samples rather than (n_fft - hop_length) / 2.
        padding: reflections or zeros.
        power: 1 for filters of magnitudes, 2 for filters of energies.
        compression: of mel and linear values.
        filter_norm: each filter has unit area in Hz, or weights that sum to 1.
        epsilon: a magnitude is √(re² + im² + ε).
        magnitude_floor: the smallest magnitude.
        peak: the pre-emphasised sound is scaled to this largest absolute sample; None: no scaling.
        start: the sample before the first for pre-emphasis.

    Raises:
        ConfigError: for invalid numbers; the text names the parameter.

    >>> front_end = FrontEnd()
    >>> sound = torch.sin(torch.arange(8000) * 0.1)
    >>> front_end.mel(sound).shape, front_end.num_frames(8000)
    (torch.Size([41, 80]), 41)
    >>> float(front_end.frame_time(40))
    0.5
    """

    sample_rate: int = 16000
    n_fft: int = 1024
    win_length: int = 800
    hop_length: int = 200
    f_min: float = 50.0
    f_max: float | None = 7600.0
    num_mels: int = 80
    pre_emphasis: float = 0.0
    centred: bool = True
    padding: Padding = "reflect"
    power: float = 1.0
    compression: Compression = field(default_factory=Compression)
    filter_norm: FilterNorm = "area"
    epsilon: float = 0.0
    magnitude_floor: float = 0.0
    peak: float | None = None
    start: Start = "silence"

    def __post_init__(self) -> None:
        for name in ("sample_rate", "n_fft", "win_length", "hop_length", "num_mels", "power"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} must be above 0; got {getattr(self, name)!r}.", (name,))
        if self.n_fft % 2:
            raise ConfigError(f"n_fft must be even; got {self.n_fft}.", ("n_fft",))
        if self.win_length > self.n_fft:
            raise ConfigError(f"win_length {self.win_length} must be at most n_fft, {self.n_fft}.", ("win_length",))
        if self.hop_length > self.win_length:
            text = f"hop_length {self.hop_length} must be at most win_length, {self.win_length}, to skip no samples."
            raise ConfigError(text, ("hop_length",))
        half = self.sample_rate / 2
        if self.f_max is not None and self.f_max > half:
            raise ConfigError(f"f_max {self.f_max:g} Hz is above half of sample_rate, {half:g} Hz.", ("f_max",))
        if not 0 <= self.f_min < self.highest:
            raise ConfigError(f"f_min {self.f_min:g} Hz must be from 0 to f_max, {self.highest:g} Hz.", ("f_min",))
        if not 0 <= self.pre_emphasis < 1:
            raise ConfigError(
                f"pre_emphasis must be at least 0 and below 1; got {self.pre_emphasis:g}.", ("pre_emphasis",)
            )
        for name in ("epsilon", "magnitude_floor"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} must be at least 0; got {getattr(self, name):g}.", (name,))
        if self.peak is not None and not 0 < self.peak <= 1:
            raise ConfigError(f"peak must be above 0 and at most 1; got {self.peak:g}.", ("peak",))
        _filters(self, torch.float32, torch.device("cpu"))

    @property
    def highest(self) -> float:
        """The highest frequency of the mel filters in Hz."""
        return self.sample_rate / 2 if self.f_max is None else self.f_max

    @property
    def num_bins(self) -> int:
        """The number of frequencies of a transform, n_fft / 2 + 1."""
        return self.n_fft // 2 + 1

    @property
    def margin(self) -> int:
        """The number of padding samples at each end of a sound."""
        return self.n_fft // 2 if self.centred else (self.n_fft - self.hop_length) // 2

    @property
    def least_samples(self) -> int:
        """The length of the shortest sound with a frame."""
        return 1 if self.centred else max(1, self.n_fft - 2 * self.margin)

    @property
    def filters(self) -> Float[Tensor, "mels bins"]:
        """The mel filters W in float64."""
        return _filters(self, torch.float64, torch.device("cpu")).clone()

    @property
    def window(self) -> Float[Tensor, " n_fft"]:
        """The window in the middle of a transform, in float64."""
        return _window(self, torch.float64, torch.device("cpu")).clone()

    @property
    def silence(self) -> Float[Tensor, " mels"]:
        """The mel values of a frame of silence, which pad targets."""
        return self.magnitudes_to_mel(torch.full((1, self.num_bins), self._least_magnitude))[0]

    @property
    def linear_silence(self) -> Float[Tensor, " bins"]:
        """The linear values of a frame of silence."""
        return self.compression(self._raised(torch.full((self.num_bins,), self._least_magnitude)))

    def num_frames(self, num_samples: Number) -> Number:
        """The number of frames of a sound, from its number of samples or a tensor of them."""
        return (num_samples + (2 * self.margin - self.n_fft)) // self.hop_length + 1

    def num_samples(self, num_frames: Number) -> Number:
        """The number of samples of Griffin-Lim's sound for a number of frames, up to a hop fewer than the original."""
        return (num_frames - 1) * self.hop_length + (self.n_fft - 2 * self.margin)

    def frame_time(self, frame: Number) -> Number | float:
        """The time of the middle of a frame, in seconds from the beginning of the sound.

        Args:
            frame: its index from 0, which may be a fraction, or a tensor of them.
        """
        return (frame * self.hop_length + (self.n_fft / 2 - self.margin)) / self.sample_rate

    def magnitudes(
        self, samples: Float[Tensor, "... samples"], lengths: Int[Tensor, "*batch"] | None = None
    ) -> Float[Tensor, "... T bins"]:
        """The magnitudes of the transform of a sound or of a batch.

        Args:
            samples: in [-1, 1]; float32 or float64.
            lengths: samples of each sound of a padded batch; None: all of the tensor. Frames after the end of a sound
                are those of silence; the others do not depend on the batch.

        Raises:
            DataError: for a sound without a frame.
            ShapeError: for samples that are not real numbers, or lengths that do not fit.
        """
        leading, samples, lengths = self._rows(samples, lengths)
        spectrum = torch.stft(
            padded(self._emphasised(samples, lengths), self.margin, self.padding, lengths),
            self.n_fft,
            self.hop_length,
            window=_window(self, samples.dtype, samples.device),
            center=False,
            return_complex=True,
        ).mT
        if self.epsilon:
            magnitudes = (spectrum.real.square() + spectrum.imag.square() + self.epsilon).sqrt()
        else:
            magnitudes = spectrum.abs()
        if self.magnitude_floor:
            magnitudes = magnitudes.clamp(min=self.magnitude_floor)
        if lengths is not None:
            frames = torch.arange(magnitudes.shape[1], device=samples.device) < self.num_frames(lengths)[:, None]
            magnitudes = magnitudes.where(frames[..., None], self._least_magnitude)
        return magnitudes.reshape(*leading, *magnitudes.shape[1:])

    def mel(
        self, samples: Float[Tensor, "... samples"], lengths: Int[Tensor, "*batch"] | None = None
    ) -> Float[Tensor, "... T mels"]:
        """The compressed mel spectrogram, with arguments and errors of `magnitudes`."""
        return self.magnitudes_to_mel(self.magnitudes(samples, lengths))

    def linear(
        self, samples: Float[Tensor, "... samples"], lengths: Int[Tensor, "*batch"] | None = None
    ) -> Float[Tensor, "... T bins"]:
        """The compressed spectrogram without mel filters, the target of Tacotron 1's second head."""
        return self.compression(self._raised(self.magnitudes(samples, lengths)))

    def magnitudes_to_mel(self, magnitudes: Float[Tensor, "... T bins"]) -> Float[Tensor, "... T mels"]:
        """The compressed mel spectrogram of magnitudes."""
        filters = _filters(self, magnitudes.dtype, magnitudes.device)
        return self.compression(self._raised(magnitudes) @ filters.T)

    def mel_to_magnitudes(
        self, mel: Float[Tensor, "... T mels"], method: Inversion = "least_squares"
    ) -> Float[Tensor, "... T bins"]:
        """Magnitudes with a given mel spectrogram.

        Args:
            method: `least_squares` with non-negative magnitudes, or `pseudo_inverse` with negative ones clipped, as in
                most references.

        Raises:
            ShapeError: for another number of mel values.
        """
        self._expect("mel", mel, self.num_mels, "num_mels")
        invert = least_squares if method == "least_squares" else pseudo_inverse
        filters = _filters(self, mel.dtype, mel.device)
        return self._lowered(invert(self.compression.inverse(mel), filters))

    def linear_to_magnitudes(self, linear: Float[Tensor, "... T bins"]) -> Float[Tensor, "... T bins"]:
        """The magnitudes of a compressed linear spectrogram.

        Raises:
            ShapeError: for another number of frequencies.
        """
        self._expect("linear", linear, self.num_bins, "n_fft / 2 + 1")
        return self._lowered(self.compression.inverse(linear))

    @property
    def _least_magnitude(self) -> float:
        return max(math.sqrt(self.epsilon), self.magnitude_floor)

    def _emphasised(self, samples: Tensor, lengths: Tensor | None) -> Tensor:
        if self.pre_emphasis:
            first = samples[:, :1]
            samples = pre_emphasis(samples, self.pre_emphasis, self.start)
            if lengths is not None and self.start == "extrapolation":  # a sound of one sample is not extrapolated
                samples = torch.cat([samples[:, :1].where(lengths[:, None] > 1, first), samples[:, 1:]], 1)
        if self.peak is not None:
            loud = samples.abs()
            if lengths is not None:
                loud = loud.where(torch.arange(loud.shape[1], device=loud.device) < lengths[:, None], 0)
            largest = loud.amax(-1, keepdim=True)
            samples = samples * (self.peak / largest.where(largest > 0, 1))
        return samples

    def _raised(self, magnitudes: Tensor) -> Tensor:
        return magnitudes if self.power == 1 else magnitudes**self.power

    def _lowered(self, energies: Tensor) -> Tensor:
        return energies if self.power == 1 else energies ** (1 / self.power)

    def _rows(self, samples: Tensor, lengths: Tensor | None) -> tuple[tuple[int, ...], Tensor, Tensor | None]:
        """The leading axes, the samples as (B, N), and the lengths as (B,)."""
        if not samples.dim() or not samples.is_floating_point():
            shown = describe({"samples": ("N" if samples.dim() == 1 else "B N", samples)})
            raise ShapeError(f"Samples are real numbers in [-1, 1], (…, N).\n{shown}")
        leading = tuple(samples.shape[:-1])
        if lengths is not None and (tuple(lengths.shape) != leading or lengths.is_floating_point()):
            shown = describe({"samples": ("B N", samples), "lengths": ("B", lengths)})
            raise ShapeError(f"lengths must be (B,) integers, the number of samples of each sound.\n{shown}")
        shortest = samples.shape[-1] if lengths is None or not lengths.numel() else int(lengths.min())
        if shortest < self.least_samples:
            where = "" if lengths is None else f" (sound {int(lengths.flatten().argmin()) + 1} of {lengths.numel()})"
            raise DataError(
                f"A sound of {shortest} samples{where} is too short for a frame, which needs {self.least_samples}."
            )
        if lengths is not None and lengths.numel() and int(lengths.max()) > samples.shape[-1]:
            shown = describe({"samples": ("B N", samples)})
            raise ShapeError(f"The length {int(lengths.max())} is more than the samples of the tensor.\n{shown}")
        rows = None if lengths is None else lengths.reshape(-1).to(samples.device)
        return leading, samples.reshape(-1, samples.shape[-1]), rows

    def _expect(self, name: str, tensor: Tensor, size: int, parameter: str) -> None:
        if tensor.dim() < 2 or tensor.shape[-1] != size:
            shown = describe({name: ("T F" if tensor.dim() == 2 else "B T F", tensor)})
            raise ShapeError(f"{name} must be (…, T, {size}), {parameter} numbers for each frame.\n{shown}")


@lru_cache(maxsize=64)
def _filters(front_end: FrontEnd, dtype: torch.dtype, device: torch.device) -> Tensor:
    f = front_end
    return mel_filters(f.sample_rate, f.n_fft, f.num_mels, f.f_min, f.highest, f.filter_norm).to(device, dtype)


@lru_cache(maxsize=64)
def _window(front_end: FrontEnd, dtype: torch.dtype, device: torch.device) -> Tensor:
    window = torch.hann_window(front_end.win_length, periodic=True, dtype=torch.float64)
    left = (front_end.n_fft - front_end.win_length) // 2
    right = front_end.n_fft - front_end.win_length - left
    return torch.nn.functional.pad(window, (left, right)).to(device, dtype)


REGARD = FrontEnd()
HIFI_GAN = FrontEnd(
    sample_rate=22050,
    n_fft=1024,
    win_length=1024,
    hop_length=256,
    f_min=0.0,
    f_max=8000.0,
    compression=logarithm(1e-5),
    centred=False,
    epsilon=1e-9,
)
"""The front end of HiFi-GAN's published vocoders."""
