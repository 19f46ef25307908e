"""Which mel spectrograms a vocoder was trained on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from regard.errors import ConfigError


@dataclass(frozen=True, kw_only=True, slots=True)
class MelForm:
    r"""How the mel spectrograms of a vocoder are computed; the defaults are those of HiFi-GAN's published weights.

    $$ v = \ln \max(\text{floor}, W |Y|) $$

    with the magnitudes |Y| of an STFT with a Hann window, and W Slaney's mel filters of unit area.

    Args:
        sample_rate: samples of a second.
        n_fft, win_length, hop_length: of the STFT, in samples.
        num_mels: filters.
        f_min, f_max: in Hz, where the first filter begins and the last one ends.
        floor: smaller energies are taken for it.

    Raises:
        ConfigError: for a value that no spectrogram has.

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
        """Frames of a second."""
        return self.sample_rate / self.hop_length

    def differences(self, other: MelForm) -> list[str]:
        """What another form has otherwise, a line for each: a vocoder makes noise of other mel spectrograms.

        >>> MelForm().differences(MelForm(sample_rate=16000, f_max=7600.0))
        ['sample_rate: 22050 here, 16000 there', 'f_max: 8000.0 here, 7600.0 there']
        """
        pairs = {field.name: (getattr(self, field.name), getattr(other, field.name)) for field in fields(self)}
        return [f"{name}: {mine!r} here, {theirs!r} there" for name, (mine, theirs) in pairs.items() if mine != theirs]

    @classmethod
    def of(cls, front_end: Any) -> MelForm:
        """The form of a front end's mel spectrograms, before any standardisation.

        Args:
            front_end: what has the attributes of a `FrontEnd`. Centring, padding and the smallest magnitude may be
                anything: they move the frames by half a hop, or change what nobody hears.

        Raises:
            ConfigError: for a front end whose mel spectrograms are no logarithms of magnitudes of the sound as it is;
                the text names what is otherwise.
        """
        wanted = {"pre_emphasis": 0, "power": 1, "filter_norm": "area", "peak": None}
        compressed = {"scale": 1, "offset": 0, "minimum": None, "maximum": None}
        found = {name: (getattr(front_end, name), value) for name, value in wanted.items()}
        for name, value in compressed.items():
            found[f"compression.{name}"] = (getattr(front_end.compression, name), value)
        if other := [f"{name} {value!r}, not {wish!r}" for name, (value, wish) in found.items() if value != wish]:
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
        """The form that `to_json` wrote.

        Raises:
            ConfigError: for a missing or unknown key, or a value that no spectrogram has.
        """
        names = [field.name for field in fields(cls)]
        if set(values) != set(names):
            missing = ", ".join(name for name in names if name not in values) or "none"
            unknown = ", ".join(sorted(set(values) - set(names))) or "none"
            raise ConfigError(
                f"The form of a mel spectrogram has {', '.join(names)}.\n  missing: {missing}; unknown: {unknown}"
            )
        return cls(**values)

    def to_json(self) -> dict[str, Any]:
        """The form as values that JSON has."""
        return asdict(self)
