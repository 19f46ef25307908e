"""Environments of the peers: each has its own, since they disagree about what they need."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

_TRAINING = ("pyyaml", "setuptools", "six", "tensorboard", "sacrebleu")
_OPENNMT = (*_TRAINING, "configargparse", "ctranslate2", "pyonmttok", "rapidfuzz", "pyahocorasick", "flask", "waitress")

_SERVING = ("huggingface_hub", "protobuf", "fastapi", "uvicorn")


@dataclass(frozen=True, slots=True)
class Environment:
    """What pip installs.

    Args:
        program: as the package index calls it, with its version.
        needs: what its job needs. A program that declares more, or other versions, is installed without dependencies.
        absent: packages that it imports at its start and that no job uses.
        alone: whether the program comes without what it declares.
        on_torch: whether it runs on torch; it gets the version that regard runs on.
    """

    program: str
    needs: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    alone: bool = True
    on_torch: bool = True


ENVIRONMENTS = {
    "joey_nmt": Environment(
        "joeynmt==2.3.0",
        (
            *_TRAINING,
            "sacremoses",
            "sentencepiece==0.2.0",  # later ones have no SetVocabulary
            "safetensors",
            "subword-nmt",
            "matplotlib",
            "pandas",
            "importlib_metadata",
            "packaging",
        ),
    ),
    "opennmt_py": Environment("OpenNMT-py==3.5.1", _OPENNMT, ("spacy", "fasttext")),
    "eole_rnn": Environment(
        "eole==0.6.4",
        (*_OPENNMT, "pydantic", "rich", "safetensors", "sentencepiece", "subword-nmt", "tokenizers", *_SERVING),
        ("spacy", "fasttext", "torchcodec", "datasets", "pandas", "aiohttp", "requests"),
    ),
    "espnet_rnn": Environment(
        "espnet==202511",
        (
            "scipy",
            "six",
            "editdistance",
            "nltk",
            "configargparse",
            "typeguard",
            "humanfriendly",
            "pyyaml",
            "h5py",
            "packaging",
        ),
    ),
    "keras_rnn": Environment("keras==3.15.1", alone=False),
    "marian": Environment("transformers==4.57.3", ("sentencepiece", "sacremoses", "safetensors"), alone=False),
    "tensorflow_addons_rnn": Environment(
        "tensorflow-addons==0.23.0", ("tensorflow-cpu==2.15.1", "numpy==1.26.4"), alone=False, on_torch=False
    ),
}


def python(name: str, folder: Path, torch: str) -> Path:
    """The interpreter of a peer's environment, which is made in the folder unless it is there.

    Args:
        torch: the version for all.
    """
    place, wanted = folder / name, ENVIRONMENTS[name]
    found = place / "bin" / "python"
    if (place / "complete").exists():
        return found
    print(f"making the environment of {wanted.program} in {place}", file=sys.stderr, flush=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", place], check=True)
    constraint = folder / "constraint.txt"
    constraint.write_text(f"torch=={torch}\n", encoding="utf-8")
    environment = {**os.environ, "PIP_CONSTRAINT": str(constraint)}
    needs = [
        *wanted.needs,
        *(["torch", "numpy"] if wanted.on_torch else []),
        *([] if wanted.alone else [wanted.program]),
    ]
    install = [found, "-m", "pip", "install", "--quiet"]
    subprocess.run([*install, *needs], check=True, env=environment)
    if wanted.alone:
        subprocess.run([*install, "--no-deps", wanted.program], check=True, env=environment)
    (place / "complete").touch()
    return found
