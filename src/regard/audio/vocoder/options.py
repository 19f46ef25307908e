"""What generators differ in, and the three that were published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import prod
from typing import Any

from regard.errors import ConfigError


@dataclass(frozen=True, kw_only=True, slots=True)
class GeneratorOptions:
    """The sizes of a generator; the defaults are those of HiFi-GAN V1.

    Args:
        num_mels: the bands of a frame.
        channels: after the first convolution; each stage halves them.
        upsample_rates: how many positions each stage makes of one; their product is the samples of a frame.
        upsample_kernel_sizes: the width of each stage's transposed convolution; its rate, or more by an even number.
        kernel_sizes: odd widths of the convolutions in the residual blocks that stand side by side in each stage.
        dilations: for each of those blocks, the dilations of its residual connections.
        paired: whether each dilated convolution is followed by one without dilation, in the same residual connection.

    Raises:
        ConfigError: for sizes that make no generator; the text names the option and its value.

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
                wanted = (
                    f"widths that are their rate, {', '.join(map(str, self.upsample_rates))}, or more by an even number"
                )
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
        """The samples of a frame."""
        return prod(self.upsample_rates)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> GeneratorOptions:
        """The options that `to_json` wrote.

        Raises:
            ConfigError: for a missing or unknown key, or a value that makes no generator.
        """
        names = [field.name for field in fields(cls)]
        if (missing := [name for name in names if name not in values]) or (set(values) - set(names)):
            unknown = ", ".join(sorted(set(values) - set(names))) or "none"
            raise ConfigError(
                f"The options of a generator are {', '.join(names)}.\n"
                f"  missing: {', '.join(missing) or 'none'}; unknown: {unknown}"
            )
        return cls(**{name: _tuples(value) for name, value in values.items()})

    def to_json(self) -> dict[str, Any]:
        """The options as values that JSON has."""
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
"""The published generators, the best (V1) to the fastest (V3)."""


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _lists(value: Any) -> Any:
    return list(map(_lists, value)) if isinstance(value, tuple) else value


def _error(name: str, value: Any, wanted: str) -> ConfigError:
    return ConfigError(f"{name} must be {wanted}; got {_lists(value)!r}.", (name,))
