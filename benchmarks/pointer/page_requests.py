"""Requests in words and the commands that they mean; most have words that no other request has.

    python benchmarks/pointer/page_requests.py FOLDER [--train 4000] [--test 500] [--seed 1]

Writes `train.tsv`, `dev.tsv` and `test.tsv`: a request, a tab, its command. Names of people, places and things are
drawn from syllables, and no two requests have the same; in a tenth of the requests they are a few that all files have.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from pathlib import Path

TEMPLATES = (
    ("please call {0}", "CALL {0}"),
    ("could you call {0} and {1} for me", "CALL {0} ; CALL {1}"),
    ("tell {0} that i meet {1} in {2}", "SEND {0} : MEET {1} AT {2}"),
    ("write to {0} : {1} cannot come on {day}", "SEND {0} : ABSENT {1} {day}"),
    ("how do i get from {0} to {1}", "ROUTE {0} > {1}"),
    ("how do i get to {0} from {1} without passing {2}", "ROUTE {1} > {0} AVOID {2}"),
    ("move the meeting with {0} to {day}", "MOVE MEETING {0} {day}"),
    ("on {day} i want to see {0} , not {1}", "MEETING {0} {day} ; CANCEL {1}"),
    ("buy {number} {0} at {1}", "BUY {1} {0} x {number}"),
    ("remind me on {day} to bring {0} back to {1}", "REMIND {day} RETURN {0} > {1}"),
    ("what is the weather in {0} on {day}", "WEATHER {0} {day}"),
    ("cancel everything on {day}", "CANCEL ALL {day}"),
)
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
NUMBERS = ("two", "three", "four", "five", "ten", "twelve")
COMMON = ("anna", "paul", "berlin", "london", "office", "station", "bread", "mother")
ONSETS = (
    "b",
    "br",
    "d",
    "dr",
    "f",
    "g",
    "gl",
    "h",
    "k",
    "kl",
    "l",
    "m",
    "n",
    "p",
    "r",
    "s",
    "sch",
    "t",
    "tr",
    "v",
    "w",
)
VOWELS, CODAS = ("a", "e", "i", "o", "u"), ("n", "r", "s", "l", "m", "nd", "")


def names(generator: random.Random, taken: set[str]) -> Iterator[str]:
    """Names that were not drawn before."""
    while True:
        count = generator.choice((2, 3))
        name = "".join(
            generator.choice(ONSETS) + generator.choice(VOWELS) + generator.choice(CODAS) for _ in range(count)
        )
        if name not in taken:
            taken.add(name)
            yield name


def requests(count: int, generator: random.Random, taken: set[str]) -> Iterator[tuple[str, str]]:
    """Pairs of a request and its command."""
    fresh = names(generator, taken)
    for _ in range(count):
        request, command = generator.choice(TEMPLATES)
        is_common = generator.random() < 0.1
        chosen = generator.sample(COMMON, 3) if is_common else [next(fresh) for _ in range(3)]
        values = {"day": generator.choice(DAYS), "number": generator.choice(NUMBERS)}
        yield request.format(*chosen, **values), command.format(*chosen, **values)


def main() -> None:
    """Writes the files."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--train", type=int, default=4000)
    parser.add_argument("--test", type=int, default=500, help="requests of the test, and of the validations")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    generator, taken = random.Random(options.seed), set(COMMON)
    for name, count in (("train", options.train), ("dev", options.test), ("test", options.test)):
        lines = [f"{request}\t{command}\n" for request, command in requests(count, generator, taken)]
        (options.folder / f"{name}.tsv").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
