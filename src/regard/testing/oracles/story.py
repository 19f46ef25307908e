"""What an oracle is told: the life of one head of one row, as plain floats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

Vector = list[float]
Matrix = list[Vector]
OracleT = TypeVar("OracleT", bound=Callable[..., Any])


@dataclass(frozen=True)
class Story:
    """One head of one row up to a step; nothing is carried, everything is computed again from the beginning.

    Args:
        head: which head.
        memory: (S, M), the values of a sentence without padding.
        keys: (S, M2), the memory unless there are keys of their own.
        queries: of all steps, this one included.
        inputs: what the decoder was fed in all steps, or None.
        weights: of this head in the steps before.
        contexts: of the steps before.
    """

    head: int
    memory: Matrix
    keys: Matrix
    queries: Sequence[Vector]
    inputs: Sequence[Vector] | None = None
    weights: Sequence[Vector] = ()
    contexts: Sequence[Vector] = ()

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
    """What a window says of every position: allowed or not, added to the energy, multiplied onto the weight."""

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

    def enlist(function: OracleT) -> OracleT:
        for part in parts:
            ORACLES[part] = function
        return function

    return enlist


def ask(part: Any, *told: Any) -> Any:
    """What the oracle of a part says."""
    if type(part) not in ORACLES:
        raise LookupError(f"{type(part).__name__} has no oracle: write its equation as a loop and enlist it.")
    return ORACLES[type(part)](part, *told)
