"""Weights of generators in the format of the authors' program, with the names of `generator.layers`.

Each layer has a `bias`, and a `weight` in one of three forms: plain; with weight norm, as `weight_g` and `weight_v`; or
with torch's newer weight norm, as `parametrizations.weight.original0` and `original1`. Weight norm is W = g v / ‖v‖,
with a norm for each index of the first axis.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from regard.audio.vocoder.generator import Generator, layers
from regard.audio.vocoder.options import GeneratorOptions, MelForm
from regard.errors import ConfigError, DataError

NORMS = (("weight_g", "weight_v"), ("parametrizations.weight.original0", "parametrizations.weight.original1"))
OPTIONS = {
    "num_mels": "num_mels",
    "channels": "upsample_initial_channel",
    "upsample_rates": "upsample_rates",
    "upsample_kernel_sizes": "upsample_kernel_sizes",
    "kernel_sizes": "resblock_kernel_sizes",
    "dilations": "resblock_dilation_sizes",
}
"""Options of a generator and their keys in the authors' `config.json`."""
MEL = {
    "sample_rate": "sampling_rate",
    "n_fft": "n_fft",
    "win_length": "win_size",
    "hop_length": "hop_size",
    "num_mels": "num_mels",
    "f_min": "fmin",
    "f_max": "fmax",
}
"""The form of mel spectrograms and its keys there; the floor of the logarithm, 1e-5, is fixed in the program."""


def options_of(config: Mapping[str, Any]) -> tuple[GeneratorOptions, MelForm]:
    """The options of a generator and the form of its mel spectrograms, from the authors' `config.json`.

    Raises:
        DataError: for a missing key or an invalid value; the text names it.
    """
    if missing := [key for key in ("resblock", *OPTIONS.values(), *MEL.values()) if key not in config]:
        raise DataError(f"The configuration of the vocoder lacks {', '.join(missing)}.")
    if str(config["resblock"]) not in ("1", "2"):
        raise DataError(f"resblock must be 1 or 2 in the configuration of the vocoder; got {config['resblock']!r}.")
    values = {ours: config[theirs] for ours, theirs in OPTIONS.items()}
    mel = {ours: config[theirs] for ours, theirs in MEL.items()}
    try:
        top = mel["sample_rate"] / 2 if mel["f_max"] is None else mel["f_max"]
        options = GeneratorOptions.from_json(values | {"paired": str(config["resblock"]) == "1"})
        form = MelForm.from_json(mel | {"f_max": float(top), "f_min": float(mel["f_min"] or 0), "floor": 1e-5})
    except (ConfigError, TypeError, ValueError) as error:
        name = next(iter(getattr(error, "path", ())), "")
        key = OPTIONS.get(str(name)) or MEL.get(str(name))
        raise DataError(f"The configuration of the vocoder{f', {key}' if key else ''}: {error}") from None
    if options.hop_length != form.hop_length:
        raise DataError(
            f"upsample_rates give {options.hop_length} samples for a frame, but hop_size is {form.hop_length}, in the "
            "configuration of the vocoder."
        )
    return options, form


def from_published(weights: Mapping[str, Tensor], options: GeneratorOptions | None = None) -> Generator:
    """A generator with weights of the authors' program, with weight norm folded in.

    Args:
        weights: by their names under `generator` in checkpoints.
        options: None: those of V1.

    Raises:
        UnsupportedError: if the package transformers is not installed.
        DataError: for weights that are missing, unknown, of another shape or not finite; the text lists them.

    >>> from regard.audio.vocoder import GENERATORS
    >>> from_published({}, GENERATORS["v3"])  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    regard.errors.DataError: The weights are not those of this generator.
    """
    generator = Generator.without_weights(options)
    folded, mistakes = dict[str, Tensor](), list[str]()
    unread, expected = set(weights), generator.weights()
    for layer in layers(generator.options):
        for kind in ("weight", "bias"):
            name, keys = f"{layer.saved}.{kind}", _keys(weights, layer.published, kind)
            unread -= set(keys)
            if reasons := list(_mistakes(weights, keys, expected[name].shape)):
                mistakes += reasons
            else:
                folded[name] = _folded(*(weights[key] for key in keys))
    mistakes += [f"{name}: unknown" for name in sorted(map(str, unread))]
    if mistakes:
        more = f"\n  and {len(mistakes) - 12} more" if len(mistakes) > 12 else ""
        lines = "".join(f"\n  {line}" for line in mistakes[:12])
        raise DataError(
            f"The weights are not those of this generator. Check that they fit the configuration.{lines}{more}"
        )
    generator.load_weights(folded)
    return generator


def _keys(weights: Mapping[str, Tensor], layer: str, kind: str) -> list[str]:
    """The names of the parts of a weight or bias; for a missing weight, those with weight norm."""
    if kind == "bias" or f"{layer}.weight" in weights:
        return [f"{layer}.{kind}"]
    for pair in NORMS:
        if any(f"{layer}.{part}" in weights for part in pair):
            return [f"{layer}.{part}" for part in pair]
    return [f"{layer}.{part}" for part in NORMS[0]]


def _mistakes(weights: Mapping[str, Tensor], keys: list[str], expected: torch.Size) -> Iterator[str]:
    """Lines about the defects of a weight."""
    shapes = [expected] if len(keys) == 1 else [torch.Size((expected[0], *[1] * (len(expected) - 1))), expected]
    for key, shape in zip(keys, shapes, strict=True):
        value = weights.get(key)
        if value is None:
            yield f"{key}: missing; it should be {tuple(shape)}"
        elif not isinstance(value, Tensor) or not value.is_floating_point():
            kind = str(value.dtype).removeprefix("torch.") if isinstance(value, Tensor) else type(value).__name__
            yield f"{key}: {kind}; it should be floating point numbers {tuple(shape)}"
        elif value.shape != shape:
            yield f"{key}: {tuple(value.shape)}; it should be {tuple(shape)}"
        elif not bool(value.isfinite().all()):
            yield f"{key}: has numbers that are not finite"


def _folded(first: Tensor, direction: Tensor | None = None) -> Tensor:
    """A plain weight, or g v / ‖v‖ of its size g and direction v, computed in float64."""
    if direction is None:
        return first.float()
    v = direction.double()
    return (first.double() * v / v.flatten(1).norm(dim=1).view(first.shape)).float()
