"""Any with any: mechanisms drawn from every score, window, alignment and read, and what is refused."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, get_args

import torch

from regard.attention import Mechanism
from regard.errors import UnsupportedError
from regard.testing.cases import PARTS, MechanismCase, PartCase
from regard.testing.cases.case import PART_SIZE, Kind

KINDS: tuple[Kind, ...] = get_args(Kind)
HEADS = (1, 2)


@dataclass(frozen=True)
class Composition:
    """A score, a window, an alignment and a read, with so many heads."""

    parts: tuple[PartCase, ...]
    num_heads: int

    @property
    def name(self) -> str:
        """The names of the parts, and the number of heads."""
        heads = "1 head" if self.num_heads == 1 else f"{self.num_heads} heads"
        return " · ".join([*(part.name for part in self.parts), heads])

    def make(self) -> Mechanism:
        """The mechanism, the same weights every time.

        Raises:
            UnsupportedError: when a part refuses the others.
        """
        torch.manual_seed(0)
        return compose([part.make(self.num_heads) for part in self.parts], self.parts)

    @property
    def case(self) -> MechanismCase:
        """As a case for the laws and the oracles."""
        exempt = {law: reason for part in self.parts for law, reason in part.exempt.items()}
        return MechanismCase(self.name, (), self.make, PART_SIZE, PART_SIZE, PART_SIZE, exempt=exempt)


def parts_of(kind: Kind) -> list[PartCase]:
    """All parts of a kind."""
    return [part for part in PARTS if part.kind == kind]


def compose(made: Sequence[Any], cases: Sequence[PartCase]) -> Mechanism:
    """A mechanism of parts of all kinds."""
    return Mechanism(**{case.kind: part for case, part in zip(cases, made, strict=True)})


def compositions() -> Iterator[Composition]:
    """Every score with every window, alignment and read, with one head and with two; refused ones too."""
    for heads in HEADS:
        for parts in itertools.product(*map(parts_of, KINDS)):
            yield Composition(parts, heads)


@cache
def judged() -> tuple[tuple[Composition, str | None], ...]:
    """Every composition with the reason why it is refused, or None; each part is made once."""
    made = {(case.kind, case.name, heads): case.make(heads) for heads in HEADS for case in PARTS}
    found: list[tuple[Composition, str | None]] = []
    for one in compositions():
        try:
            compose([made[case.kind, case.name, one.num_heads] for case in one.parts], one.parts)
            found.append((one, None))
        except UnsupportedError as error:
            found.append((one, str(error)))
    return tuple(found)


def accepted() -> list[Composition]:
    """What is not refused."""
    return [one for one, reason in judged() if reason is None]


def cover_pairs(seed: int = 0) -> list[Composition]:
    """A small draw of what is not refused, in which every two parts that go together meet, with 1 head or with 2.

    Another seed draws other company for every pair.
    """
    draw = torch.Generator().manual_seed(seed)
    candidates = accepted()
    order = torch.randperm(len(candidates), generator=draw).tolist()
    missing = {pair for one in candidates for pair in _pairs(one)}
    chosen = []
    for wanted in range(6, 0, -1):
        for index in order:
            new = missing & _pairs(candidates[index])
            if len(new) >= wanted:
                missing -= new
                chosen.append(candidates[index])
    return chosen


def refusals() -> dict[tuple[str, str], str]:
    """What never goes together, as pairs of parts (`score: mixture`), with the reason that a part gives."""
    reasons: dict[tuple[str, str], list[str | None]] = {}
    for one, reason in judged():
        for pair in _pairs(one):
            reasons.setdefault(pair, []).append(reason)
    return {pair: found[0] for pair, found in sorted(reasons.items()) if found[0] is not None and None not in found}


def _pairs(one: Composition) -> set[tuple[str, str]]:
    names = [f"{part.kind}: {part.name}" for part in one.parts]
    return set(itertools.combinations(names, 2))
