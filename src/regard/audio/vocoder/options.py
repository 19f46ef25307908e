"""The sizes of generators, the three published ones, and the mel spectrograms of a vocoder."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from operator import attrgetter
from typing import Any

from regard.errors import ConfigError


@dataclass(frozen=True, kw_only=True, slots=True)
class GeneratorOptions:
    """The sizes of a generator; the defaults are those of HiFi-GAN V1.

    Args:
        num_mels: the bands of a frame.
        channels: after the first convolution; each stage halves them.
        upsample_rates: the factor of each stage; their product is the number of samples of a frame.
        upsample_kernel_sizes: the width of each stage's transposed convolution: its rate plus an even number.
        kernel_sizes: odd widths of the convolutions in the parallel residual blocks of each stage.
        dilations: for each of those blocks, the dilations of its residual connections.
        paired: whether a convolution without dilation follows each dilated one in the same residual connection.

    Raises:
        ConfigError: for invalid sizes; the text names the option and its value.

    >>> GeneratorOptions().hop_length
    256
    """

    num_mels: int = 80
    channels: int = 512
    upsample_rates: tuple[int, ...] = (8, 8, 2, 2)
    upsample_kernel_sizes: tuple[int, ...] = (16, 16, 4, 4)
    kernel_sizes: tuple[int, ...] = (3, 7, 11)
    dilations: tuple[tuple[int, ...], ...] = ((1, 3, 5), (1, 3, 5), (1, 3, 5))
    paired: bool = True

    def __post_init__(self) -> None:
        names = ("upsample_rates", "upsample_kernel_sizes", "kernel_sizes", "dilations")
        lists = {name: getattr(self, name) for name in names}
        for name, value in lists.items():
            if not isinstance(value, tuple):
                raise _error(name, value, "a list")
        if not all(isinstance(block, tuple) for block in self.dilations):
            raise _error("dilations", self.dilations, "a list of lists")
        numbers = {"num_mels": (self.num_mels,), "channels": (self.channels,)}
        numbers |= lists | {"dilations": tuple(dilation for block in self.dilations for dilation in block)}
        for name, values in numbers.items():
            if not values or any(not isinstance(value, int) or value < 1 for value in values):
                raise _error(name, getattr(self, name), "whole numbers of at least 1")
        if not isinstance(self.paired, bool):
            raise _error("paired", self.paired, "true or false")
        if len(self.upsample_kernel_sizes) != len(self.upsample_rates):
            wanted = f"as many widths as there are upsample_rates, {len(self.upsample_rates)}"
            raise _error("upsample_kernel_sizes", self.upsample_kernel_sizes, wanted)
        for rate, width in zip(self.upsample_rates, self.upsample_kernel_sizes, strict=True):
            if width < rate or (width - rate) % 2:
                wanted = f"the rates, {', '.join(map(str, self.upsample_rates))}, plus even numbers"
                raise _error("upsample_kernel_sizes", self.upsample_kernel_sizes, wanted)
        if any(width % 2 == 0 for width in self.kernel_sizes):
            raise _error("kernel_sizes", self.kernel_sizes, "odd widths")
        if len(self.dilations) != len(self.kernel_sizes) or not all(self.dilations):
            wanted = f"a list of dilations for each of the {len(self.kernel_sizes)} kernel_sizes"
            raise _error("dilations", self.dilations, wanted)
        if self.channels % 2 ** len(self.upsample_rates):
            stages = len(self.upsample_rates)
            wanted = f"a multiple of {2**stages}, as each of the {stages} stages halves them"
            raise _error("channels", self.channels, wanted)

    @property
    def hop_length(self) -> int:
        """The number of samples of a frame."""
        return math.prod(self.upsample_rates)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> GeneratorOptions:
        """The options of `to_json`.

        Raises:
            ConfigError: for a missing or unknown key, or an invalid value.
        """
        _check_keys("The options of a generator are", values, (field.name for field in fields(cls)))
        return cls(**{name: _tuples(value) for name, value in values.items()})

    def to_json(self) -> dict[str, Any]:
        """The options as JSON values."""
        return {field.name: _lists(getattr(self, field.name)) for field in fields(self)}


GENERATORS = {
    "v1": GeneratorOptions(),
    "v2": GeneratorOptions(channels=128),
    "v3": GeneratorOptions(
        channels=256,
        upsample_rates=(8, 8, 4),
        upsample_kernel_sizes=(16, 16, 8),
        kernel_sizes=(3, 5, 7),
        dilations=((1, 2), (2, 6), (3, 12)),
        paired=False,
    ),
}
"""The published generators, from the best (V1) to the fastest (V3)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MelForm:
    r"""The form of a vocoder's mel spectrograms; the defaults are those of HiFi-GAN's published weights.

    $$ v = \ln \max(\text{floor}, W |Y|) $$

    with the magnitudes |Y| of an STFT with a Hann window, and W Slaney's mel filters of unit area.

    Args:
        sample_rate: in Hz.
        n_fft, win_length, hop_length: of the STFT, in samples.
        num_mels: the number of filters.
        f_min, f_max: in Hz, from the first to the last filter.
        floor: the smallest energy.

    Raises:
        ConfigError: for an invalid value.

    >>> MelForm().frame_rate
    86.1328125
    """

    sample_rate: int = 22050
    n_fft: int = 1024
    win_length: int = 1024
    hop_length: int = 256
    num_mels: int = 80
    f_min: float = 0.0
    f_max: float = 8000.0
    floor: float = 1e-5

    def __post_init__(self) -> None:
        for name in ("sample_rate", "n_fft", "win_length", "hop_length", "num_mels"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ConfigError(f"{name} must be a whole number of at least 1; got {value!r}.", (name,))
        for name in ("f_min", "f_max", "floor"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
                raise ConfigError(f"{name} must be a number; got {value!r}.", (name,))
        if not 0 <= self.f_min < self.f_max <= self.sample_rate / 2:
            raise ConfigError(
                f"f_min and f_max must lie between 0 and half the sample rate, {self.sample_rate / 2:g} Hz; got "
                f"{self.f_min:g} and {self.f_max:g}.",
                ("f_max",),
            )
        if self.floor <= 0:
            raise ConfigError(f"floor must be above 0; got {self.floor!r}.", ("floor",))

    @property
    def frame_rate(self) -> float:
        """Frames per second."""
        return self.sample_rate / self.hop_length

    def differences(self, other: MelForm) -> list[str]:
        """Lines about the differences from another form, with which the vocoder would produce noise.

        >>> MelForm().differences(MelForm(sample_rate=16000, f_max=7600.0))
        ['sample_rate: 22050 here, 16000 there', 'f_max: 8000.0 here, 7600.0 there']
        """
        pairs = {field.name: (getattr(self, field.name), getattr(other, field.name)) for field in fields(self)}
        return [f"{name}: {mine!r} here, {theirs!r} there" for name, (mine, theirs) in pairs.items() if mine != theirs]

    @classmethod
    def of(cls, front_end: Any) -> MelForm:
        """The form of a front end's mel spectrograms, before any standardisation.

        Args:
            front_end: an object with the attributes of a `FrontEnd`. Centring, padding and the smallest magnitude are
                ignored, as they shift frames by half a hop or are inaudible.

        Raises:
            ConfigError: for a front end whose mel spectrograms are not logarithms of magnitudes of the unchanged sound;
                the text names the differences.
        """
        required: dict[str, Any] = {"pre_emphasis": 0, "power": 1, "filter_norm": "area", "peak": None}
        required |= {"compression.scale": 1, "compression.offset": 0}
        required |= {"compression.minimum": None, "compression.maximum": None}
        pairs = {name: (attrgetter(name)(front_end), value) for name, value in required.items()}
        if other := [f"{name} {value!r}, not {wanted!r}" for name, (value, wanted) in pairs.items() if value != wanted]:
            raise ConfigError(
                f"A vocoder reads natural logarithms of mel magnitudes; this front end has {'; '.join(other)}."
            )
        names = ("sample_rate", "n_fft", "win_length", "hop_length", "num_mels", "f_min")
        top = front_end.sample_rate / 2 if front_end.f_max is None else front_end.f_max
        return cls(
            **{name: getattr(front_end, name) for name in names}, f_max=float(top), floor=front_end.compression.floor
        )

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> MelForm:
        """The form of `to_json`.

        Raises:
            ConfigError: for a missing or unknown key, or an invalid value.
        """
        _check_keys("The form of a mel spectrogram has", values, (field.name for field in fields(cls)))
        return cls(**values)

    def to_json(self) -> dict[str, Any]:
        """The form as JSON values."""
        return asdict(self)


def _check_keys(sentence: str, values: Mapping[str, Any], expected: Iterable[str]) -> None:
    names = list(expected)
    if set(values) != set(names):
        missing = ", ".join(name for name in names if name not in values) or "none"
        unknown = ", ".join(sorted(set(values) - set(names))) or "none"
        raise ConfigError(f"{sentence} {', '.join(names)}.\n  missing: {missing}; unknown: {unknown}")


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _lists(value: Any) -> Any:
    return list(map(_lists, value)) if isinstance(value, tuple) else value


def _error(name: str, value: Any, wanted: str) -> ConfigError:
    return ConfigError(f"{name} must be {wanted}; got {_lists(value)!r}.", (name,))
