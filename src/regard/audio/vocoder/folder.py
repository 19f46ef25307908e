"""Vocoders as folders of weights, a description and a licence, without code."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard import weights as weight_files
from regard.audio.vocoder.generator import Generator, synthesise
from regard.audio.vocoder.options import GeneratorOptions, MelForm
from regard.errors import ConfigError, DataError, newer_format
from regard.files import create_folder
from regard.shapes import Float, Int

WEIGHTS, CONFIG, LICENCE = "model.safetensors", "config.json", "LICENSE"
FORMAT = 1
"""The format of `config.json`."""
DAMAGED = "Make the folder again: regard data vocoder FOLDER"


@dataclass(frozen=True, eq=False, slots=True)
class Vocoder:
    """A generator with the form of the mel spectrograms of its training.

    Args:
        generator: without weight norm.
        licence: of its weights.
        origin: the source of its weights: package, version, file, sha256.

    >>> from regard.audio.vocoder import GENERATORS
    >>> vocoder = Vocoder(Generator(GENERATORS["v2"]), MelForm())
    >>> vocoder(torch.zeros(1, 4, 80)).shape
    torch.Size([1, 1024])
    """

    generator: Generator
    mel: MelForm
    licence: str | None = None
    origin: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        options = self.generator.options
        for name, value in (("num_mels", options.num_mels), ("hop_length", options.hop_length)):
            if value != getattr(self.mel, name):
                raise ConfigError(f"{name} is {value} of the generator and {getattr(self.mel, name)} of its mels.")

    def __call__(
        self, mels: Float[Tensor, "B T M"], lengths: Int[Tensor, " B"] | None = None, *, chunk: int | None = None
    ) -> Float[Tensor, "B samples"]:
        """Samples between -1 and 1 at `mel.sample_rate`, as `synthesise` computes them."""
        return synthesise(self.generator, mels, lengths, chunk=chunk)


def save_vocoder(vocoder: Vocoder, folder: Path | str) -> None:
    """Writes a vocoder atomically into a new folder: `model.safetensors`, `config.json` and `LICENSE` if it has one.

    The header of the weights has checksums of the weights and of the other files.

    Raises:
        DataError: if the folder exists and is not empty.
        RegardError: if it cannot be written.
    """
    folder = Path(folder)
    check_new(folder)
    config = {
        "format": FORMAT,
        "kind": "hifi-gan generator",
        "generator": vocoder.generator.options.to_json(),
        "mel": vocoder.mel.to_json(),
        "origin": dict(vocoder.origin),
    }
    files = {CONFIG: (json.dumps(config, indent=1, ensure_ascii=False) + "\n").encode("utf-8")}
    if vocoder.licence is not None:
        files[LICENCE] = vocoder.licence.encode("utf-8")
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in vocoder.generator.weights().items()}
    checksums = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}

    def write(partial: Path) -> None:
        for name, content in files.items():
            (partial / name).write_bytes(content)
        weight_files.write(weights, partial / WEIGHTS, extra={"files": checksums})

    create_folder(folder.absolute(), write)


def check_new(folder: Path) -> None:
    """Raises an error for a folder with files, or a file in its place."""
    if folder.is_dir():
        if any(folder.iterdir()):
            raise DataError(f"{folder} has files already. Choose another folder, or remove it first.")
    elif folder.exists() or folder.is_symlink():
        raise DataError(f"{folder} is a file. Choose another name for the folder.")


def load_vocoder(folder: Path | str, *, device: str | torch.device = "cpu") -> Vocoder:
    """Reads a vocoder of `save_vocoder` or `regard data vocoder`.

    Raises:
        UnsupportedError: if the package transformers is not installed.
        DataError: for files that are missing, damaged, of a newer format, or from different vocoders; the text names
            the file.
    """
    folder = Path(folder)
    missing = [name for name in (WEIGHTS, CONFIG) if not (folder / name).is_file()]
    if missing:
        raise DataError(
            f"{folder} is not the folder of a vocoder: it has no {' and no '.join(missing)}.\n"
            "  Make one: regard data vocoder FOLDER"
        )
    weights, header = weight_files.read(folder / WEIGHTS, advice=DAMAGED)
    if "sha256" not in header:
        raise DataError(f"{folder / WEIGHTS}: the weights have no checksum.\n  {DAMAGED}")
    _check_files(folder, header)
    config = _config(folder / CONFIG)
    try:
        generator = Generator.without_weights(GeneratorOptions.from_json(config["generator"]))
        mel = MelForm.from_json(config["mel"])
    except (ConfigError, TypeError, RuntimeError, OverflowError) as error:
        raise DataError(f"{folder / CONFIG}: {error}\n  {DAMAGED}") from None
    expected = {name: tensor.shape for name, tensor in generator.weights().items()}
    shapes = {name: tensor.shape for name, tensor in weights.items() if tensor.is_floating_point()}
    if wrong := [name for name in {**expected, **shapes} if expected.get(name) != shapes.get(name)]:
        lines = "".join(
            f"\n  {name}: expected {_shape(expected.get(name))}, got {_shape(shapes.get(name))}"
            for name in sorted(wrong)[:12]
        )
        raise DataError(f"{folder / WEIGHTS} does not belong to {folder / CONFIG}:{lines}")
    generator.load_weights({name: w if w.dtype == torch.float64 else w.float() for name, w in weights.items()})
    licence = folder / LICENCE
    text = licence.read_text(encoding="utf-8", errors="replace") if licence.is_file() else None
    return Vocoder(generator.to(device), mel, text, {name: str(value) for name, value in config["origin"].items()})


def _check_files(folder: Path, header: Mapping[str, Any]) -> None:
    """Raises an error for files other than those that were saved with the weights."""
    files = header.get("files")
    if not isinstance(files, dict) or CONFIG not in files:
        raise DataError(f"{folder / WEIGHTS}: the weights have no checksum of their {CONFIG}.\n  {DAMAGED}")
    for name in {CONFIG, LICENCE} & files.keys():
        path = folder / name
        if not path.is_file():
            raise DataError(f"{path}: the file is missing.\n  {DAMAGED}")
        if hashlib.sha256(path.read_bytes()).hexdigest() != files[name]:
            raise DataError(f"{path}: the file has changed: its checksum is wrong.\n  {DAMAGED}")


def _config(path: Path) -> dict[str, Any]:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        number = config["format"]
        if isinstance(number, int) and number > FORMAT:
            raise newer_format(path, number, FORMAT)
        if not all(isinstance(config[key], dict) for key in ("generator", "mel", "origin")):
            raise TypeError("generator, mel and origin must be objects")
    except DataError:
        raise
    except (ValueError, TypeError, KeyError) as error:
        raise DataError(f"{path}: not the description of a vocoder ({error!r}).\n  {DAMAGED}") from None
    return dict(config)


def _shape(shape: torch.Size | None) -> str:
    return "none" if shape is None else str(tuple(shape))
