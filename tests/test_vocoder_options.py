"""What vocoders are described by: the sizes of generators, and the mel spectrograms that they read."""

from __future__ import annotations

import re
import sys
from dataclasses import replace

import pytest

from regard.audio.vocoder import Generator, GeneratorOptions, MelForm
from regard.errors import ConfigError, UnsupportedError

PAIRED = GeneratorOptions(
    num_mels=5,
    channels=16,
    upsample_rates=(4, 2),
    upsample_kernel_sizes=(8, 4),
    kernel_sizes=(3, 7),
    dilations=((1, 3), (1, 5)),
)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"channels": 0}, "channels must be whole numbers of at least 1; got 0"),
        ({"upsample_rates": 8}, "upsample_rates must be a list; got 8"),
        ({"dilations": (1, 3)}, r"dilations must be a list of lists; got \[1, 3\]"),
        ({"channels": 10}, "channels must be a multiple of 4, as each of the 2 stages halves them; got 10"),
        ({"upsample_rates": ()}, r"upsample_rates must be whole numbers of at least 1; got \[\]"),
        ({"upsample_rates": (4, 2.0)}, r"upsample_rates .* got \[4, 2.0\]"),
        (
            {"upsample_kernel_sizes": (8,)},
            "upsample_kernel_sizes must be as many widths as there are upsample_rates, 2",
        ),
        (
            {"upsample_kernel_sizes": (8, 5)},
            r"the rates, 4, 2, plus even numbers; got \[8, 5\]",
        ),
        ({"upsample_kernel_sizes": (2, 2)}, r"plus even numbers; got \[2, 2\]"),
        ({"kernel_sizes": (3, 4)}, r"kernel_sizes must be odd widths; got \[3, 4\]"),
        (
            {"dilations": ((1, 3),)},
            r"dilations must be a list of dilations for each of the 2 kernel_sizes; got \[\[1, 3",
        ),
        ({"dilations": ((1, 3), ())}, "dilations must be a list of dilations for each"),
        ({"paired": 1}, "paired must be true or false; got 1"),
        ({"num_mels": True - 1}, "num_mels must be whole numbers of at least 1; got 0"),
    ],
)
def test_sizes_that_make_no_generator_are_refused(change, message):
    with pytest.raises(ConfigError, match=message) as error:
        replace(PAIRED, **change)
    assert error.value.path == (next(iter(change)),)


@pytest.mark.parametrize("kind", [GeneratorOptions, MelForm])
def test_keys_that_are_missing_or_unknown_are_named(kind):
    values = kind().to_json()
    del values["num_mels"]
    with pytest.raises(ConfigError, match="missing: num_mels; unknown: mels"):
        kind.from_json(values | {"mels": 80})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sample_rate": 22050.0}, "sample_rate must be a whole number of at least 1; got 22050.0"),
        ({"hop_length": 0}, "hop_length must be a whole number of at least 1; got 0"),
        ({"f_max": 12000.0}, "half the sample rate, 11025 Hz; got 0 and 12000"),
        ({"f_min": float("nan")}, "f_min must be a number; got nan"),
        ({"floor": 0}, "floor must be above 0; got 0"),
        ({"floor": "small"}, "floor must be a number; got 'small'"),
    ],
)
def test_forms_that_no_spectrogram_has_are_refused(change, message):
    with pytest.raises(ConfigError, match=message):
        MelForm(**change)


def test_without_the_extra_a_generator_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(UnsupportedError, match=re.escape("pip install 'regard[vocoder]'")):
        Generator(PAIRED)
