"""Pairs to train small models on: numbers in digits, and how they are read in English.

A number has several readings, of which one is drawn ("twelve hundred" or "one thousand two hundred", with "and" or
without it), so that a trained model is uncertain and its beams differ.
"""

from __future__ import annotations

import random
from pathlib import Path

ONES = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
SIZES = {"train": 8000, "dev": 200, "test": 200}
"""How many pairs there are of each part."""


def reading(number: int, draw: random.Random) -> list[str]:
    """The words of a number below a million."""
    if 1000 <= number < 10000 and number % 1000 >= 100 and draw.random() < 0.4:
        hundreds, rest = divmod(number, 100)
        return [*reading(hundreds, draw), "hundred", *(reading(rest, draw) if rest else [])]
    if number >= 1000:
        thousands, rest = divmod(number, 1000)
        return [*reading(thousands, draw), "thousand", *(reading(rest, draw) if rest else [])]
    if number >= 100:
        hundreds, rest = divmod(number, 100)
        joint = ["and"] if rest and draw.random() < 0.3 else []
        return [*([ONES[hundreds]] if hundreds > 1 or draw.random() < 0.7 else ["a"]), "hundred", *joint] + (
            reading(rest, draw) if rest else []
        )
    if number >= 20:
        tens, rest = divmod(number, 10)
        return [TENS[tens - 2], *([ONES[rest]] if rest else [])]
    return [ONES[number]]


def pairs(part: str) -> list[tuple[str, str]]:
    """Numbers in digits, a blank between digits, and a reading of each; the same in every call."""
    draw = random.Random(list(SIZES).index(part))
    numbers = [draw.randrange(10 ** draw.randint(1, 6)) for _ in range(SIZES[part])]
    return [(" ".join(str(number)), " ".join(reading(number, draw))) for number in numbers]


def write(folder: Path) -> None:
    """Writes `train.num`, `train.eng` and so on: a text file for each part and side."""
    folder.mkdir(parents=True, exist_ok=True)
    for part in SIZES:
        for side, name in enumerate(("num", "eng")):
            lines = "".join(f"{pair[side]}\n" for pair in pairs(part))
            (folder / f"{part}.{name}").write_text(lines, encoding="utf-8")
