"""The colours of weights, for light and dark pages: equal steps of weight are equal steps of colour in OKLab."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

HUES = (215.0, 275.0)
"""From a pale cyan to indigo, in degrees of OKLCH."""
WARM = (85.0, 5.0)
"""From a pale yellow to red, for a second kind of weights in the same picture."""
CHROMA = 0.13
VIVID = 0.66
"""The share of a ramp that is used behind text: its colours, without its inks."""
LIGHT = (1.0, 0.24)
"""Lightness of weight 0 and of full weight on a light page: white paper, dark ink."""
DARK = (0.225, 0.96)
GOLDEN = 180 * (3 - 5**0.5)
"""The golden angle in degrees: multiples of it lie far from the ones before, however many there are."""
SHADES = (0.46, 0.6, 0.38)
"""Lightnesses of `distinct` colours, all readable on white."""


def ramp(count: int = 256, *, dark: bool = False, hues: tuple[float, float] = HUES) -> NDArray[np.float64]:
    """sRGB colours (count, 3) between 0 and 1, from weight 0 to full weight.

    Source: Ottosson 2020, "A perceptual color space for image processing" (OKLab).

    >>> ramp(2).round(2)[0]
    array([1., 1., 1.])
    """
    fine = _path(np.linspace(0, 1, 4096), dark, hues)
    lengths = np.concatenate([[0], np.linalg.norm(np.diff(fine, axis=0), axis=1).cumsum()])
    u = np.interp(np.linspace(0, lengths[-1], count), lengths, np.linspace(0, 1, len(fine)))
    return _srgb(_path(u, dark, hues))


def highlights(count: int = 256, *, dark: bool = False, hues: tuple[float, float] = HUES) -> NDArray[np.float64]:
    """Colours (count, 3) behind text: the beginning of a ramp."""
    return ramp(round(count / VIVID), dark=dark, hues=hues)[:count]


def distinct(count: int) -> NDArray[np.float64]:
    """Colours (count, 3) for lines and letters on white, of which neighbours differ most.

    >>> distinct(40).shape
    (40, 3)
    """
    index = np.arange(count)
    hue, light = np.radians(25 + GOLDEN * index), np.take(SHADES, index % len(SHADES))
    return _srgb(np.stack([light, CHROMA * np.cos(hue), CHROMA * np.sin(hue)], axis=1).reshape(count, 3))


def are_light(colours: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether black is more readable than white on each colour (n, 3).

    Source: WCAG 2: both have the same contrast at a relative luminance of 0.179.
    """
    linear = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)
    light: NDArray[np.bool_] = linear @ np.array([0.2126, 0.7152, 0.0722]) > 0.179
    return light


def hexadecimal(colours: NDArray[np.float64]) -> list[str]:
    """`#rrggbb` of each colour."""
    return ["#" + bytes(row).hex() for row in (colours * 255).round().astype(np.uint8)]


def _path(u: NDArray[np.float64], dark: bool, hues: tuple[float, float]) -> NDArray[np.float64]:
    """OKLab colours (n, 3) of the path at u between 0 and 1; both ends are grey."""
    start, end = DARK if dark else LIGHT
    ink = 1 - u if dark else u
    hue = np.radians(hues[0] + (hues[1] - hues[0]) * ink)
    chroma = CHROMA * np.sin(np.pi * u) ** 0.8
    return np.stack([start + (end - start) * u, chroma * np.cos(hue), chroma * np.sin(hue)], axis=1)


def _srgb(lab: NDArray[np.float64]) -> NDArray[np.float64]:
    to_cones = np.array(
        [[1, 0.3963377774, 0.2158037573], [1, -0.1055613458, -0.0638541728], [1, -0.0894841775, -1.291485548]]
    )
    to_linear = np.array(
        [
            [4.0767416621, -3.3077115913, 0.2309699292],
            [-1.2684380046, 2.6097574011, -0.3413193965],
            [-0.0041960863, -0.7034186147, 1.707614701],
        ]
    )
    linear = ((lab @ to_cones.T) ** 3 @ to_linear.T).clip(0, 1)
    return np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
