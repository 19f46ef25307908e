"""Synthetic tasks with certain answers, to test whether a model learns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.errors import RegardError

Task = Callable[[NDArray[np.int64]], NDArray[np.int64]]

TASKS: dict[str, Task] = {
    "copy": lambda symbols: symbols,
    "reverse": lambda symbols: symbols[::-1],
    "sort": np.sort,
}


def generate(
    task: str, count: int, *, min_length: int = 1, max_length: int = 20, num_symbols: int = 20, seed: int = 1
) -> Iterator[tuple[str, str]]:
    """Random sequences and their copies, reversals or sorted forms, as texts for `whitespace` units.

    Lengths are uniform from `min_length` to `max_length`, symbols uniform over the numbers `0` to `num_symbols - 1`.
    Pairs depend on the arguments only, and a larger `count` only adds pairs.

    Args:
        task: a name in `TASKS`.

    >>> list(generate("reverse", 2, max_length=4, seed=3))
    [('1 3 4 3', '3 4 3 1'), ('17 11 0 1', '1 0 11 17')]
    """
    if task not in TASKS:
        raise RegardError(f"There is no synthetic task {task!r}; the tasks are {', '.join(TASKS)}.")
    if not 0 <= min_length <= max_length:
        raise RegardError(f"Lengths must satisfy 0 <= min_length <= max_length; got {min_length} and {max_length}.")
    if num_symbols < 1 or count < 0:
        raise RegardError(f"num_symbols must be at least 1 and count at least 0; got {num_symbols} and {count}.")
    return _pairs(TASKS[task], count, min_length, max_length, num_symbols, np.random.default_rng(seed))


def write(path: Path | str, pairs: Iterable[tuple[str, str]]) -> int:
    """Writes pairs as TSV and returns their number.

    Raises:
        RegardError: for a text with a tab or a line end, which TSV cannot hold.
    """
    count = 0
    with Path(path).open("w", encoding="utf-8", newline="\n") as file:
        for count, (source, target) in enumerate(pairs, start=1):
            if any(mark in text for text in (source, target) for mark in "\t\r\n"):
                raise RegardError(
                    f"Pair {count} has a tab or a line end, which TSV cannot hold: {source!r}, {target!r}."
                )
            file.write(f"{source}\t{target}\n")
    return count


def _pairs(
    task: Task, count: int, shortest: int, longest: int, num_symbols: int, random: np.random.Generator
) -> Iterator[tuple[str, str]]:
    for _ in range(count):
        symbols = random.integers(num_symbols, size=int(random.integers(shortest, longest + 1)))
        yield " ".join(map(str, symbols)), " ".join(map(str, task(symbols)))
