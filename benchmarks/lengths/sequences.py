"""Four tasks with certain answers: copy, reverse, sort, and a spelling that is pronounced by rules."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from regard.data.text import synthetic

TASKS = ("copy", "reverse", "sort", "pronounce")
LETTERS = "abcdefghiklmnoprstuz"
VOWELS = "aeiou"


def pronounced(word: str) -> str:
    """The sounds of a word, separated by blanks.

    Letters have a sound of their own, with these exceptions: `c` is S before e and i, `ch`, `sh` and `ng` are one sound
    (a chain of three letters is read from the left), a doubled letter is one sound, a vowel before a consonant and `e`
    is long, and that `e` and an `e` at the end are silent. So outputs follow inputs from left to right, are shorter,
    and depend on up to two letters that follow.

    >>> pronounced("chace"), pronounced("banner"), pronounced("kitte")
    ('CH AA S', 'B A N E R', 'K I T')
    """
    sounds: list[str] = []
    silent = -1
    i = 0
    while i < len(word):
        letter, following = word[i], word[i + 1 : i + 2]
        if i == silent or (letter == "e" and i == len(word) - 1 and i > 0):
            i += 1
            continue
        pair = letter + following
        if pair in ("ch", "sh", "ng"):
            sounds.append(pair.upper())
            i += 2
            continue
        if pair == letter * 2:
            i += 1  # the second one is read
            continue
        sound = "S" if letter == "c" and following in ("e", "i") and following else letter.upper()
        if letter in VOWELS and following and following not in VOWELS and word[i + 2 : i + 3] == "e":
            sound, silent = sound * 2, i + 2
        sounds.append(sound)
        i += 1
    return " ".join(sounds)


def pairs(task: str, count: int, shortest: int, longest: int, seed: int) -> list[tuple[str, str]]:
    """Random inputs with their outputs, symbols separated by blanks; lengths are uniform."""
    if task != "pronounce":
        options = {"min_length": shortest, "max_length": longest, "num_symbols": 20, "seed": seed}
        return list(synthetic.generate(task, count, **options))
    random = np.random.default_rng(seed)
    found = []
    while len(found) < count:
        word = "".join(random.choice(list(LETTERS), random.integers(shortest, longest + 1)))
        if output := pronounced(word):
            found.append((" ".join(word), output))
    return found


def write(path: Path, task: str, count: int, shortest: int, longest: int, seed: int) -> Path:
    """Writes pairs, unless they are there."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        begun = path.with_suffix(f".{os.getpid()}")  # another process may write the same file
        synthetic.write(begun, pairs(task, count, shortest, longest, seed))
        begun.rename(path)
    return path


def read(path: Path) -> tuple[list[str], list[str]]:
    """The inputs and the outputs of written pairs."""
    inputs, outputs = zip(*(line.split("\t") for line in path.read_text().splitlines()), strict=True)
    return list(inputs), list(outputs)


def right_prefix(output: Sequence[str], reference: Sequence[str]) -> float:
    """The share of the reference that the output has right from the beginning on."""
    wrong = next((i for i, (a, b) in enumerate(zip(output, reference)) if a != b), min(len(output), len(reference)))
    return wrong / max(len(reference), 1)
