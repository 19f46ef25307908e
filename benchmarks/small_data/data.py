"""Files of a language, and nested subsets of them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Files:
    """Training, development and test data of one language."""

    train: Path
    dev: Path
    test: Path


def spelling(folder: Path, language: str) -> Files:
    """Of SIGMORPHON 2020 task 1, as its files are."""
    return Files(*(folder / f"{language}_{part}.tsv" for part in ("train", "dev", "test")))


def inflection(folder: Path, language: str) -> Files:
    """Of CoNLL-SIGMORPHON 2017 task 1, setting high: lemma, form and tags."""
    return Files(*(folder / f"{language}-{part}" for part in ("train-high", "dev", "uncovered-test")))


def subset(lines: Sequence[str], count: int) -> list[str]:
    """So many lines, in their order: those whose words have the least hashes, so that a smaller subset is in a larger.

    Lines of one word stay together or out together, but for the last word's.
    """
    ranked = sorted(range(len(lines)), key=lambda i: (_hash(lines[i].partition("\t")[0]), i))
    return [lines[i] for i in sorted(ranked[:count])]


def cut(files: Files, count: int, into: Path) -> Files:
    """The same with fewer pairs to train on.

    Raises:
        SystemExit: if there are not so many.
    """
    lines = files.train.read_text(encoding="utf-8").splitlines()
    if len(lines) < count:
        raise SystemExit(f"{files.train} has {len(lines)} lines, and {count} are asked for.")
    into.mkdir(parents=True, exist_ok=True)
    smaller = into / f"{files.train.stem}_{count}.tsv"
    smaller.write_text("".join(f"{line}\n" for line in subset(lines, count)), encoding="utf-8")
    return Files(smaller, files.dev, files.test)


def _hash(word: str) -> str:
    return hashlib.sha256(word.encode()).hexdigest()
