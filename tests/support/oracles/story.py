"""The argument of an oracle: all steps of one head of one row, as plain floats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

Vector = list[float]
Matrix = list[Vector]
OracleT = TypeVar("OracleT", bound=Callable[..., Any])


@dataclass(frozen=True)
class Story:
    """One head of one row up to a step; there is no state, everything is computed again from the first step.

    Args:
        head: the number of the head.
        memory: (S, M), the values of a sentence without padding.
        keys: (S, M2); the memory itself if there are no other keys.
        queries: of all steps up to this one.
        inputs: the decoder's inputs of all steps, or None.
        weights: of this head in earlier steps.
        contexts: of earlier steps.
        grid: (h, w), if the positions are the cells of an image, or None.
    """

    head: int
    memory: Matrix
    keys: Matrix
    queries: Sequence[Vector]
    inputs: Sequence[Vector] | None = None
    weights: Sequence[Vector] = ()
    contexts: Sequence[Vector] = ()
    grid: tuple[int, int] | None = None

    @property
    def query(self) -> Vector:
        """The query of this step."""
        return self.queries[-1]

    @property
    def step(self) -> int:
        """The number of this step, from 0."""
        return len(self.queries) - 1

    @property
    def num_positions(self) -> int:
        """S."""
        return len(self.memory)


@dataclass(frozen=True)
class Seen:
    """The output of a window for every position: whether it is allowed, its log prior, and its gain."""

    allowed: list[bool]
    prior: Vector = field(default_factory=list)
    gain: Vector = field(default_factory=list)


ORACLES: dict[type, Callable[..., Any]] = {}
"""The oracle of every part.

- a score: (score, story) -> energies (S)
- a window: (window, story) -> `Seen`
- an alignment: (alignment, story, energies of all steps, allowed positions of all steps) -> weights (S)
- a read: (read, story, weights (H, S)) -> context (V)
"""


def oracle(*parts: type) -> Callable[[OracleT], OracleT]:
    """Makes a function the oracle of a part: `@oracle(DotScore)`."""

    def register(function: OracleT) -> OracleT:
        for part in parts:
            ORACLES[part] = function
        return function

    return register


def ask(part: Any, *arguments: Any) -> Any:
    """The result of the oracle of a part."""
    if type(part) not in ORACLES:
        raise LookupError(f"{type(part).__name__} has no oracle: write its equation as a loop, under `@oracle`.")
    return ORACLES[type(part)](part, *arguments)
