"""Cases: a name, the public things that the case shows, a maker and sizes; and numbers for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn

from regard.attention import Mechanism
from regard.testing.source import EncodedSource
from support import tiny

Kind = Literal["score", "window", "alignment", "read"]
PART_SIZE = 6


@dataclass(frozen=True)
class Case:
    """What all cases have."""

    name: str
    shows: tuple[Any, ...]


@dataclass(frozen=True)
class MechanismCase(Case):
    """A mechanism, which `make` makes, and the public things that it shows; the rest as in `check_mechanism`."""

    make: Callable[[], Any]
    memory_size: int | tuple[int, ...] = 6
    query_size: int = 5
    input_size: int | None = None
    key_size: int | None = None
    exempt: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PartCase:
    """A single part, for compositions: queries, memory and keys have `PART_SIZE` features.

    Args:
        kind: score, window, alignment or read.
        make: makes the part from the number of heads, 1 or 2.
        exempt: laws that a mechanism with the part does not keep by design, with the reasons.
    """

    name: str
    kind: Kind
    make: Callable[[int], Any]
    exempt: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class OperationCase(Case):
    """An operation and random inputs for it in float64."""

    inputs: Callable[[], tuple[Any, ...]]


@dataclass(frozen=True)
class LossCase(Case):
    """A loss and its inputs, each with its letters, which say what can be permuted (B) and padded (T, S).

    Inputs of type bool are masks; without any real cell the loss is 0.
    """

    inputs: Callable[[], tuple[tuple[str, Tensor], ...]]
    call: Callable[..., Tensor]


@dataclass(frozen=True)
class LayerCase(Case):
    """A layer and inputs for its `forward` (or `call`), rows first."""

    make: Callable[[], nn.Module]
    inputs: Callable[[], tuple[Tensor, ...]]
    call: Callable[..., Any] = lambda layer, *inputs: layer(*inputs)


@dataclass(frozen=True)
class EncoderCase(Case):
    """An encoder of ids below 7."""

    make: Callable[[], Any]


@dataclass(frozen=True)
class ImageEncoderCase(Case):
    """An encoder of images of two channels."""

    make: Callable[[], Any]


@dataclass(frozen=True)
class DecoderCase(Case):
    """A decoder and its sources; its inputs are `num_tokens` ids or `num_features` values."""

    make: Callable[[], Any]
    sources: Callable[[], tuple[EncodedSource, ...]] = tiny.sources
    num_tokens: int | None = tiny.NUM_TOKENS
    num_features: int | None = None
    exempt: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ClassifierCase(Case):
    """A classifier of documents (B, S, W) of ids below 7, with 3 labels."""

    make: Callable[[], Any]


def covering(cases: Iterable[MechanismCase | DecoderCase]) -> set[str]:
    """Names of cases that together have every public thing and every class of module: the first of each."""
    seen: set[Any] = set()
    names = set()
    for case in cases:
        things = {id(thing) for thing in case.shows} | {type(module) for module in case.make().modules()}
        if things - seen:
            names.add(case.name)
            seen |= things
    return names


def of_recipe(name: str, recipe: Callable[..., Any], shows: tuple[Any, ...], **options: Any) -> MechanismCase:
    """A case of a recipe: queries of 5 and a memory of 6 features, unless the options have other sizes."""
    sizes = {key: options.pop(key, size) for key, size in (("query_size", 5), ("memory_size", 6))}
    return MechanismCase(name, (recipe, Mechanism, *shows), lambda: recipe(**sizes, **options), **sizes)


def draw(*shape: int, seed: int = 0) -> Tensor:
    """Normal numbers."""
    return torch.randn(*shape, generator=_seeded(seed), dtype=torch.float64)


def probabilities(*shape: int, seed: int = 0) -> Tensor:
    """Numbers between 0 and 1."""
    return torch.rand(*shape, generator=_seeded(seed), dtype=torch.float64)


def ids(*shape: int) -> Tensor:
    """Ids below 7."""
    return torch.randint(0, 7, shape, generator=_seeded(0))


def _seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)
