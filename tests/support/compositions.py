"""Mechanisms composed of any score, window, alignment and read, and the compositions that are refused."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import get_args

import torch

from regard.attention import Mechanism
from regard.attention.contract import Parts
from support.cases import PARTS, MechanismCase, PartCase
from support.cases.case import PART_SIZE, Kind

KINDS: tuple[Kind, ...] = get_args(Kind)
HEADS = (1, 2)


@dataclass(frozen=True)
class Composition:
    """A score, a window, an alignment and a read, with a number of heads."""

    parts: tuple[PartCase, ...]
    num_heads: int

    @property
    def name(self) -> str:
        """The names of the parts, and the number of heads."""
        heads = "1 head" if self.num_heads == 1 else f"{self.num_heads} heads"
        return " · ".join([*(part.name for part in self.parts), heads])

    def make(self) -> Mechanism:
        """The mechanism, with the same weights every time.

        Raises:
            UnsupportedError: if a part refuses the others.
        """
        torch.manual_seed(0)
        return Mechanism(**{part.kind: part.make(self.num_heads) for part in self.parts})

    @property
    def case(self) -> MechanismCase:
        """The composition as a case for the laws and the oracles."""
        exempt = {law: reason for part in self.parts for law, reason in part.exempt.items()}
        return MechanismCase(self.name, (), self.make, PART_SIZE, PART_SIZE, PART_SIZE, exempt=exempt)


def parts_of(kind: Kind) -> list[PartCase]:
    """All parts of a kind."""
    return [part for part in PARTS if part.kind == kind]


def compositions() -> Iterator[Composition]:
    """Every score with every window, alignment and read, with one head and with two; also those that are refused."""
    for heads in HEADS:
        for parts in itertools.product(*map(parts_of, KINDS)):
            yield Composition(parts, heads)


@cache
def judged() -> tuple[tuple[Composition, str | None], ...]:
    """Every composition with the reason why it is refused, or None; each part is made once."""
    parts = {(case.kind, case.name, heads): case.make(heads) for heads in HEADS for case in PARTS}
    return tuple(
        (
            one,
            Parts(**{case.kind: parts[case.kind, case.name, one.num_heads] for case in one.parts}).unsupported_reason(),
        )
        for one in compositions()
    )


def accepted() -> list[Composition]:
    """The compositions that are not refused."""
    return [composition for composition, reason in judged() if reason is None]


def cover_pairs(seed: int = 0) -> list[Composition]:
    """A small random choice of accepted compositions that has every accepted pair of parts, with 1 or 2 heads.

    Another seed combines every pair with other parts.
    """
    draw = torch.Generator().manual_seed(seed)
    candidates = accepted()
    order = torch.randperm(len(candidates), generator=draw).tolist()
    missing = {pair for composition in candidates for pair in _pairs(composition)}
    chosen = []
    for least in range(6, 0, -1):
        for index in order:
            covered = missing & _pairs(candidates[index])
            if len(covered) >= least:
                missing -= covered
                chosen.append(candidates[index])
    return chosen


def refusals() -> dict[tuple[str, str], str]:
    """The pairs of parts (`score: mixture`) that are always refused, with the reason that a part gives."""
    reasons: dict[tuple[str, str], list[str | None]] = {}
    for composition, reason in judged():
        for pair in _pairs(composition):
            reasons.setdefault(pair, []).append(reason)
    return {pair: texts[0] for pair, texts in sorted(reasons.items()) if texts[0] is not None and None not in texts}


def _pairs(composition: Composition) -> set[tuple[str, str]]:
    names = [f"{part.kind}: {part.name}" for part in composition.parts]
    return set(itertools.combinations(names, 2))
