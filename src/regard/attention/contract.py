"""The values that mechanisms exchange, and what a part of a mechanism is.

Rows and axes: `B` sentences, `R = B·K` rows (K hypotheses per sentence, sentence-major). Memories have B rows and are
never tiled or reordered by a beam; states have R rows. The heads axis `H` is always there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import FunctionType
from typing import Any, Literal, NamedTuple

import torch
from torch import Generator, Tensor, nn

from regard import tree
from regard.shapes import Bool, Float, Int

Tree = Any
"""Tensors, None, tuples, dicts and dataclasses of them (`regard.tree`)."""


@dataclass(frozen=True, slots=True)
class Source:
    """What a memory is prepared from.

    Args:
        values: what is read.
        keys: what queries are compared with; the values, where nothing else was given.
        mask: True where a position may be looked at; None means everywhere. Elsewhere keys and values are 0.
        start: the place of the first of these positions, when they extend a memory that is there already.
    """

    values: Float[Tensor, "B S M"]
    keys: Float[Tensor, "B S M2"]
    mask: Bool[Tensor, "B S"] | None = None
    start: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What is looked at, prepared once per source; every leaf has B rows.

    Args:
        score: what the score's `prepare` gave: mostly keys (B, S, G, D), which queries are compared with; None where
            energies do not depend on the source.
        window, alignment: what theirs gave, or None.
        read: what the read's gave: values (B, S, G, V). G divides H: heads that stand side by side share them.
        mask: True where a position may be looked at; None means everywhere.
    """

    score: Tree = None
    window: Tree = None
    alignment: Tree = None
    read: Float[Tensor, "B S _ _"]
    mask: Bool[Tensor, "B S"] | None = None

    @property
    def num_sentences(self) -> int:
        """B."""
        return self.read.shape[0]

    @property
    def num_positions(self) -> int:
        """S."""
        return self.read.shape[1]


@dataclass(frozen=True, slots=True)
class State:
    """What persists from one output step to the next; every leaf has R rows.

    Args:
        score, window, alignment: the leaf that each part owns, or None.
        position: (R,) long, the number of steps taken.
    """

    score: Tree
    window: Tree
    alignment: Tree
    position: Int[Tensor, " R"]


@dataclass(frozen=True, slots=True)
class Look:
    """One step as every part sees it.

    Args:
        query: (R, Q), R rows, those of a sentence beside each other.
        memory: B rows.
        position: how many steps each row has taken.
        inputs: (R, ...) what the decoder was fed, or None.
        generator: for parts that draw.
    """

    query: Float[Tensor, "R Q"]
    memory: Memory
    position: Int[Tensor, " R"]
    inputs: Tensor | None = None
    generator: Generator | None = None

    def with_memory(self, **fields: Tree) -> Look:
        """The same look at a memory with other fields: for a part that stands in for another, or holds several."""
        return replace(self, memory=replace(self.memory, **fields))


@dataclass(frozen=True, slots=True)
class Attended:
    """What was seen.

    Args:
        context: (R, V) after a step, (R, T, V) after a sequence.
        alignment: (R, H, S) or (R, H, T, S), None unless asked for; a tuple of them from `Parallel`.
        auxiliary: fixed per mechanism, e.g. index and log-probability of hard attention; mostly None.
    """

    context: Float[Tensor, "*rows V"]
    alignment: Any = None
    auxiliary: Tree = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Energies that a fast path may compute by itself, with x = W q + b the projected query and k what `prepare` gave:

        dot:       e_j = g · xᵀ k_j
        additive:  e_j = vᵀ tanh(x + k_j)

    Args:
        kind: which of them.
        projection: a module that maps queries (..., Q) to x (..., H·D); None where x is q.
        scale: g, a number or a learned scalar; of dot energies only.
        v: (H, D); of additive energies only.
        called: further modules that `forward` calls in a step and a fast path does not, by name.
    """

    kind: Literal["dot", "additive"]
    projection: nn.Module | None = None
    scale: float | Tensor = 1.0
    v: Float[Tensor, "H D"] | None = None
    called: tuple[tuple[str, nn.Module], ...] = ()

    def project(self, query: Float[Tensor, "*rows Q"], num_heads: int) -> Float[Tensor, "*rows H D"]:
        """g x, split into heads."""
        x = query if self.projection is None else self.projection(query)
        scaled = x * self.scale if self.kind == "dot" else x
        return scaled.unflatten(-1, (num_heads, -1))


@dataclass(frozen=True, slots=True)
class Support:
    """What a window allows; each is (R, 1 or H, S) or None.

    Args:
        support: bool, True where a position may be looked at.
        log_prior: added to the energies.
        gain: multiplied onto the weights afterwards, without renormalising.
    """

    support: Bool[Tensor, "R G S"] | None = None
    log_prior: Float[Tensor, "R G S"] | None = None
    gain: Float[Tensor, "R G S"] | None = None


class AbstractPart(nn.Module):
    """What every part of a mechanism has: a memory of its own per source and a leaf of its own in the state.

    A part never knows the other parts and never sets anything on itself during a call. Padding belongs to
    `Memory.mask`, which the mechanism applies: a part reads the mask only in `prepare` and `initial`.
    """

    is_recurrent: bool = False
    """Whether the leaf feeds later energies or weights, so that steps must be taken one after the other."""
    uses_query: bool = False
    """Whether the part reads the query; a mechanism none of whose parts does can `pool`."""
    trains_differently: bool = False
    """Whether training and evaluation differ by design: noise, sampling, a window only for synthesis."""
    is_positionwise: bool = False
    """Whether the part may be given few positions instead of all: what it says depends on their keys or values (scores,
    reads) or on the energies of the support (alignments), never on where a position stands or what is beside it, and
    neither its leaf nor its auxiliary speaks of positions. What it keeps per source is (B, S, G, …), G dividing H."""
    ignores_context: bool = False
    """Whether the `observe` of this class leaves `attended.context` alone, so that all steps may be read together."""
    query_size: int | None = None
    """Q, where the part reads the query and needs it to have so many features."""
    memory_size: int | None = None
    """The features of what `prepare` is given, keys for a score and values for a read, where so many are needed."""
    sources: tuple[str, ...] = ()
    """Where the part was published: keys of `regard/attention/bibliography.bib`, which `cite` prints."""
    declaration: str | None = None
    """The name by which a part of this kind declares what fast paths need to know."""

    def __init_subclass__(cls, **options: Any) -> None:
        """A subclass that replaces a method computes something else, so it has to make its declaration anew."""
        super().__init_subclass__(**options)
        name = cls.declaration
        if name is None or name in vars(cls):
            return
        inherited = {
            key for base in cls.__bases__ for key in dir(base) if not key.startswith("__") or key == "__call__"
        }
        if any(isinstance(value, (FunctionType, property)) for key, value in vars(cls).items() if key in inherited):
            first = next(kind for kind in reversed(cls.__mro__) if name in vars(kind))
            setattr(cls, name, vars(first)[name])

    def refuse(self, mechanism: Any) -> str | None:
        """Why the part cannot work beside the other parts of a mechanism, or None; asked when one is composed."""
        return None

    def prepare(self, source: Source) -> Tree:
        """What the part keeps per source (B rows), or None; S is the second dimension of every leaf.

        It arrives again as the field of `Memory` that is named after the part.
        """
        return None

    def initial(self, memory: Memory, num_rows: int) -> Tree:
        """The part's leaf before the first step (R rows), or None."""
        return None

    def observe(self, attended: Attended, look: Look, leaf: Tree) -> Tree:
        """The leaf after the read: what is known only once the weights are. `attended.alignment` is always there."""
        return leaf

    def observe_at(self, places: Int[Tensor, "#R #G W"], attended: Attended, look: Look, leaf: Tree) -> Tree:
        """`observe` when `attended.alignment` is (R, H, W), only at these places: for parts that need no more."""
        return leaf

    @property
    def observes_all(self) -> bool:
        """Whether `observe` must see the weights of all positions, since there is no `observe_at`."""
        kind = type(self)
        return kind.observe is not AbstractPart.observe and kind.observe_at is AbstractPart.observe_at

    @property
    def observes_context(self) -> bool:
        """Whether `observe` must see what was read."""
        kind = next(kind for kind in type(self).__mro__ if "observe" in vars(kind))
        return kind is not AbstractPart and not vars(kind).get("ignores_context", False)


class AbstractScore(AbstractPart):
    """How well does each position answer the query?"""

    num_heads: int = 1
    uses_query: bool = True
    is_log_density: bool = False
    """Whether exp(e) is a density over positions, and so a weight by itself."""
    declaration = "comparison"

    def comparison(self) -> Comparison | None:
        """The energies as fast paths know them, where they are of that kind: with it a score is as fast as ours."""
        return None

    def forward(self, look: Look, leaf: Tree) -> tuple[Float[Tensor, "R H S"], Tree]:
        """Energies (R, H, S), and the new leaf."""
        raise NotImplementedError


class AbstractWindow(AbstractPart):
    """Which positions may be looked at, and how likely are they beforehand?

    A window with a `width` says where it will be before there are energies (`start`) and can be asked about few places
    (`at`), so that a step need not look at the others (`regard.attention.narrow`).
    """

    has_gain: bool = False
    """Whether a gain is multiplied onto the weights, which then do not sum to 1."""
    is_bounded: bool = True
    """Whether the prior has an upper bound; a learned bias has none."""
    declaration = "extent"
    extent: Literal["all", "past"] | None = None
    """What is allowed, where it is that and nothing else: all positions, or at step t the positions 0 … t."""

    @property
    def width(self) -> int | None:
        """W, when at most W consecutive positions, known from `start`, are ever allowed in a step; None otherwise."""
        return None

    def start(self, look: Look, leaf: Tree) -> Int[Tensor, "R G"]:
        """The first of the W positions, (R, 1 or H) long; they may pass either end of the source."""
        raise NotImplementedError

    def at(self, places: Int[Tensor, "#R #G W"], look: Look, leaf: Tree) -> tuple[Support, Tree]:
        """What `forward` returns, at these places (1 or R, 1 or H, W) of the source only."""
        support, leaf = self(look, leaf)

        def pick(said: Tensor) -> Tensor:
            shape = torch.broadcast_shapes(said.shape[:2], places.shape[:2])
            return said.expand(*shape, -1).gather(-1, places.expand(*shape, -1))

        return tree.map(pick, support), leaf

    def forward(self, look: Look, leaf: Tree) -> tuple[Support, Tree]:
        """The support, and the new leaf."""
        raise NotImplementedError


class AbstractAlignment(AbstractPart):
    """Energies and what came before become weights.

    Energies outside the support are to be ignored; a row without any support gets zero weights.
    """

    is_normalised: bool = True
    """Whether the weights of a row with support sum to 1."""
    is_random: bool = False
    """Whether weights are drawn (in training, where the docstring says so)."""
    declaration = "softmax_factor"

    @property
    def softmax_factor(self) -> float | None:
        """β, where the weights are softmax(β e) over the support and nothing else."""
        return None

    def forward(
        self, energies: Float[Tensor, "R H S"], support: Bool[Tensor, "R G S"] | None, look: Look, leaf: Tree
    ) -> tuple[Float[Tensor, "R H S"], Tree, Tree]:
        """Weights (R, H, S), the new leaf, and an auxiliary tree or None."""
        raise NotImplementedError


class AbstractRead(AbstractPart):
    """Weights and values become a context. A read keeps no leaf; a row without weights reads zeros.

    `prepare` returns the values, (B, S, G, V) with G a divisor of H.
    """

    context_size: int
    declaration = "is_sum"
    is_sum: bool = False
    """Whether the context is `finish` of the sums Σ_j α_j v_j, heads side by side, v being what `prepare` gave."""

    def finish(self, sums: Float[Tensor, "R HV"], weights: Float[Tensor, "R ..."]) -> Float[Tensor, "R V"]:
        """The context of the sums; a row whose weights are all 0 gets zeros."""
        return sums

    def forward(self, weights: Float[Tensor, "R H S"], look: Look) -> Float[Tensor, "R V"]:
        """The context (R, V)."""
        raise NotImplementedError


class Parts(NamedTuple):
    """The parts of a mechanism."""

    score: AbstractScore
    window: AbstractWindow
    alignment: AbstractAlignment
    read: AbstractRead


def initial_position(num_rows: int, device: torch.device) -> Tensor:
    """Zero steps taken, (R,) long."""
    return torch.zeros(num_rows, dtype=torch.long, device=device)
