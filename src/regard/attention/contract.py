"""The values that the parts of a mechanism exchange, and the parts.

Rows and axes: `B` sentences, `R = B·K` rows (K hypotheses per sentence, sentence-major). Memories have B rows and are
never tiled or reordered by a beam; states have R rows. The heads axis `H` is always there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import FunctionType
from typing import Any, Literal, NamedTuple

import torch
from torch import Generator, Tensor, nn

from regard import tree
from regard.shapes import Bool, Float, Int, num_hypotheses

Tree = Any
"""Tensors, None, tuples, dicts and dataclasses of them (`regard.tree`)."""


@dataclass(frozen=True, slots=True)
class Source:
    """The encoder's output, from which a memory is prepared.

    Args:
        values: the vectors that contexts are sums of.
        keys: the vectors that queries are compared with; by default the values.
        mask: True where a position may be attended to; None means everywhere. Elsewhere keys and values are 0.
        start: the index of the first of these positions; above 0, or a tensor (), where they extend a memory.
        grid: (h, w), if the positions are the cells of an image, s = y·w + x, so that S = h·w; or None.
    """

    values: Float[Tensor, "B S M"]
    keys: Float[Tensor, "B S M2"]
    mask: Bool[Tensor, "B S"] | None = None
    start: int | Int[Tensor, ""] = 0
    grid: tuple[int, int] | None = None

    @property
    def positions(self) -> Int[Tensor, " S"]:
        """The indices of these positions."""
        count, device = self.values.shape[1], self.values.device
        if isinstance(self.start, Tensor):
            return torch.arange(count, device=device) + self.start
        return torch.arange(self.start, self.start + count, device=device)


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """A source as the parts of a mechanism have prepared it; every leaf has B rows.

    Args:
        score: the result of the score's `prepare`: usually keys (B, S, G, D); None if energies do not depend on the
            source.
        window, alignment: the results of their `prepare`, or None.
        read: the result of the read's `prepare`: values (B, S, G, V). G divides H: adjacent heads share them.
        mask: True where a position may be attended to; None means everywhere.
        filled: the number of positions in use, the same for all rows, if there is room for further ones.
        pace: how fast attention moves along the source, as `Mechanism.at_pace` sets it; None as trained.
    """

    score: Tree = None
    window: Tree = None
    alignment: Tree = None
    read: Float[Tensor, "B S _ _"]
    mask: Bool[Tensor, "B S"] | None = None
    filled: Int[Tensor, " B"] | None = None
    pace: Float[Tensor, " B"] | None = None

    @property
    def num_sentences(self) -> int:
        """B."""
        return self.read.shape[0]

    @property
    def num_positions(self) -> int:
        """S."""
        return self.read.shape[1]


@dataclass(frozen=True, slots=True)
class MechanismState:
    """The state between output steps; every leaf has R rows.

    Args:
        score, window, alignment: the states of the parts, or None.
        position: (R,) long, the number of steps taken.
    """

    score: Tree
    window: Tree
    alignment: Tree
    position: Int[Tensor, " R"]


@dataclass(frozen=True, slots=True)
class StepInputs:
    """The inputs of one step, which every part receives.

    Args:
        query: (R, Q), sentence-major.
        memory: B rows.
        position: the number of steps that each row has taken.
        inputs: (R, ...) the decoder's input, or None.
        generator: for parts that draw random numbers.
    """

    query: Float[Tensor, "R Q"]
    memory: Memory
    position: Int[Tensor, " R"]
    inputs: Tensor | None = None
    generator: Generator | None = None

    @property
    def pace(self) -> Float[Tensor, " R"] | None:
        """The memory's pace, for each row."""
        pace = self.memory.pace
        return None if pace is None else pace.repeat_interleave(num_hypotheses(len(self.query), len(pace)))

    def paced(self, steps: Float[Tensor, "R H C"]) -> Float[Tensor, "R H C"]:
        """Steps along the source at the memory's pace."""
        return steps if (pace := self.pace) is None else steps * pace[:, None, None].to(steps.dtype)

    def with_memory(self, **fields: Tree) -> StepInputs:
        """The same inputs with some fields of the memory replaced, for a part that contains other parts."""
        return replace(self, memory=replace(self.memory, **fields))


@dataclass(frozen=True, slots=True)
class Attended:
    """The result of attending.

    Args:
        context: (R, V) after a step, (R, T, V) after a sequence.
        alignment: (R, H, S) or (R, H, T, S), or None if it was not requested; a tuple of them from `Parallel`.
        auxiliary: a tree that depends on the alignment, such as a `Choice` of hard attention; usually None.
    """

    context: Float[Tensor, "*rows V"]
    alignment: Tree = None
    auxiliary: Tree = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Energies that a fast path can compute without the score, from the query x = W q + b and the prepared keys k:

        dot:       e_j = g · xᵀ k_j, or g · (R_t x)ᵀ k_j, with R_t a rotation that depends on the step t
        additive:  e_j = vᵀ tanh(x + k_j)

    Args:
        kind: dot or additive.
        projection: a module that maps queries (..., Q) to x (..., H·D); None for x = q.
        scale: g, a number or a learned scalar; only for dot energies.
        v: (H, D); only for additive energies.
        called: further modules, by name, that `forward` calls and a fast path does not.
        rotate: a function from x (..., H, D) and the steps (...) to R_t x; None without rotations.
    """

    kind: Literal["dot", "additive"]
    projection: nn.Module | None = None
    scale: float | Tensor = 1.0
    v: Float[Tensor, "H D"] | None = None
    called: tuple[tuple[str, nn.Module], ...] = ()
    rotate: Callable[[Tensor, Tensor], Tensor] | None = None

    def project(self, query: Float[Tensor, "*rows Q"], num_heads: int) -> Float[Tensor, "*rows H D"]:
        """g x, split into heads; not rotated."""
        x = query if self.projection is None else self.projection(query)
        scaled = x * self.scale if self.kind == "dot" else x
        return scaled.unflatten(-1, (num_heads, -1))


@dataclass(frozen=True, slots=True)
class Support:
    """The output of a window; each field is (R, 1 or H, S) or None.

    Args:
        support: bool, True where a position may be attended to.
        log_prior: is added to the energies.
        gain: multiplies the weights, which are not normalised again.
    """

    support: Bool[Tensor, "R G S"] | None = None
    log_prior: Float[Tensor, "R G S"] | None = None
    gain: Float[Tensor, "R G S"] | None = None


class AbstractPart(nn.Module):
    """A part of a mechanism, with its own field of the memory and its own state.

    A part does not know the other parts and sets nothing on itself during a call. The mechanism applies the mask of
    padding: a part reads it only in `prepare` and `initial`.
    """

    is_recurrent: bool = False
    """Whether later energies or weights depend on the state, so that steps must be taken one after the other."""
    uses_query: bool = False
    """Whether the part reads the query."""
    trains_differently: bool = False
    """Whether training and evaluation differ by design: noise, sampling, a window only for synthesis."""
    is_positionwise: bool = False
    """Whether the part can compute a few positions without the others. Its result then depends only on their keys or
    values (scores, reads) or on the energies of the support (alignments), not on the index or the neighbours of a
    position; neither its state nor its auxiliary holds positions; it prepares (B, S, G, …) with G a divisor of H."""
    has_pace: bool = False
    """Whether the part moves along the source at `memory.pace`."""
    ignores_context: bool = False
    """Whether the `observe` of this class does not read `attended.context`, so that all steps may be read together."""
    query_size: int | None = None
    """Q, if the part reads the query and fixes its number of features."""
    memory_size: int | None = None
    """M, the features of the values (of a read) or keys (of other parts) in `prepare`, if the part fixes them."""
    sources: tuple[str, ...] = ()
    """Publications: keys of `regard/attention/bibliography.bib`, which `cite` prints."""
    declaration: str | None = None
    """The attribute by which a part of this kind describes itself to fast paths."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Resets the declaration of a subclass that overrides a method, as it may then compute something else."""
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

    def unsupported_reason(self, parts: Parts) -> str | None:
        """Why the part cannot work with the parts of a mechanism, or None; called when the mechanism is composed."""
        return None

    def prepare(self, source: Source) -> Tree:
        """The part's field of `Memory` (B rows), or None; S is the second dimension of every leaf."""
        return None

    def initial(self, memory: Memory, num_rows: int) -> Tree:
        """The part's state before the first step (R rows), or None."""
        return None

    def observe(self, attended: Attended, inputs: StepInputs, state: Tree) -> Tree:
        """The state after the read, where it depends on the weights. `attended.alignment` is never None."""
        return state

    def observe_at(
        self, positions: Int[Tensor, "#R #G W"], attended: Attended, inputs: StepInputs, state: Tree
    ) -> Tree:
        """`observe` from the weights (R, H, W) of a few positions, for parts that need no others."""
        return state

    @property
    def observes_all(self) -> bool:
        """Whether `observe` needs the weights of all positions, since there is no `observe_at`."""
        kind = type(self)
        return kind.observe is not AbstractPart.observe and kind.observe_at is AbstractPart.observe_at

    @property
    def observes_context(self) -> bool:
        """Whether `observe` needs the context."""
        kind = next(kind for kind in type(self).__mro__ if "observe" in vars(kind))
        return kind is not AbstractPart and not vars(kind).get("ignores_context", False)


class AbstractScore(AbstractPart):
    """How well does each position answer the query?"""

    num_heads: int = 1
    uses_query: bool = True
    is_log_density: bool = False
    """Whether exp(e) is a density over positions, which can serve as the weights without normalisation."""
    declaration = "comparison"

    def comparison(self) -> Comparison | None:
        """The energies in a form that fast paths can compute, or None."""
        return None

    def forward(self, inputs: StepInputs, state: Tree) -> tuple[Float[Tensor, "R H S"], Tree]:
        """The energies (R, H, S), and the new state."""
        raise NotImplementedError


class AbstractContentScore(AbstractScore):
    """A score with the projections of another one, `content`."""

    content: Any

    def __init__(self, content: AbstractScore) -> None:
        super().__init__()
        self.content = content
        self.query_size, self.memory_size = content.query_size, content.memory_size
        self.num_heads = content.num_heads

    def prepare(self, source: Source) -> Tree:
        """The prepared keys of the other score."""
        return self.content.prepare(source)


class AbstractWindow(AbstractPart):
    """Which positions may be attended to, and how likely are they beforehand?

    A window with a `width` has positions that do not depend on energies (`start`) and can be evaluated at these only
    (`at`), so that a step can skip the others (`regard.attention.local_steps`).
    """

    has_gain: bool = False
    """Whether the weights are multiplied by a gain, so that they do not sum to 1."""
    is_bounded: bool = True
    """Whether the prior has an upper bound; a learned bias has none."""
    declaration = "extent"
    extent: Literal["all", "past"] | None = None
    """The support, if it is always one of these: all positions, or at step t the positions 0 … t."""

    def extent_of(self, num_positions: int) -> Literal["all", "past"] | None:
        """`extent` for the steps 0 … S - 1 over S positions."""
        return self.extent

    @property
    def width(self) -> int | None:
        """W, if a step allows at most W consecutive positions, which begin at `start`; otherwise None."""
        return None

    def start(self, inputs: StepInputs, state: Tree) -> Int[Tensor, "R G"]:
        """The first of the W positions, (R, 1 or H) long; the window may reach beyond either end of the source."""
        raise NotImplementedError

    def at(self, positions: Int[Tensor, "#R #G W"], inputs: StepInputs, state: Tree) -> tuple[Support, Tree]:
        """`forward` at a few positions (1 or R, 1 or H, W) of the source."""
        support, state = self(inputs, state)

        def pick(field: Tensor) -> Tensor:
            shape = torch.broadcast_shapes(field.shape[:2], positions.shape[:2])
            return field.expand(*shape, -1).gather(-1, positions.expand(*shape, -1))

        return tree.map(pick, support), state

    def forward(self, inputs: StepInputs, state: Tree) -> tuple[Support, Tree]:
        """The support, and the new state."""
        raise NotImplementedError


class AbstractAlignment(AbstractPart):
    """Turns energies, and the weights of earlier steps, into weights.

    It ignores energies outside the support; a row without support gets zero weights.
    """

    is_normalised: bool = True
    """Whether the weights of a row with support sum to 1."""
    is_random: bool = False
    """Whether weights are drawn at random, perhaps only in training."""
    declaration = "softmax_factor"

    @property
    def softmax_factor(self) -> float | None:
        """β, if the weights are softmax(β e) over the support; otherwise None."""
        return None

    def forward(
        self, energies: Float[Tensor, "R H S"], support: Bool[Tensor, "R G S"] | None, inputs: StepInputs, state: Tree
    ) -> tuple[Float[Tensor, "R H S"], Tree, Tree]:
        """Weights (R, H, S), the new state, and an auxiliary tree or None."""
        raise NotImplementedError


class AbstractRead(AbstractPart):
    """Turns weights and values into a context. A read keeps no state; a row without weights reads zeros.

    `prepare` returns the values, (B, S, G, V) with G a divisor of H.
    """

    context_size: int
    declaration = "is_sum"
    is_sum: bool = False
    """Whether the context is `finish` of the sums Σ_j α_j v_j of the prepared values v, heads concatenated."""

    @property
    def observes_context(self) -> bool:
        return False

    def finish(
        self, sums: Float[Tensor, "R HV"], weights: Float[Tensor, "R ..."], query: Float[Tensor, "R Q"]
    ) -> Float[Tensor, "R V"]:
        """The context from the sums; a row whose weights are all 0 gets zeros."""
        return sums

    def forward(self, weights: Float[Tensor, "R H S"], inputs: StepInputs) -> Float[Tensor, "R V"]:
        """The context (R, V)."""
        raise NotImplementedError


SHARED_ATTRIBUTES = {
    *("is_recurrent", "uses_query", "trains_differently", "query_size", "memory_size", "sources"),
    *("has_gain", "is_bounded", "is_normalised", "is_random", "context_size"),
}
"""Attributes of a wrapper that are those of the part inside it."""


class AbstractWrapper(AbstractPart):
    """A part around another part of its kind, with its methods and attributes where the wrapper does not override them.

    Its own are `is_positionwise`, the declaration for fast paths and `ignores_context`: contexts that are read after
    the last step are rounded differently.

    Args:
        inner: the other part.
        name: the attribute that it becomes.
    """

    def __init__(self, inner: AbstractPart, name: str) -> None:
        super().__init__()
        self.add_module(name, inner)
        self._name = name
        kinds = type(self).__mro__
        own = {key for kind in kinds[: kinds.index(AbstractWrapper)] for key in vars(kind)}
        for flag in SHARED_ATTRIBUTES - own:
            if hasattr(inner, flag):
                setattr(self, flag, getattr(inner, flag))

    @property
    def inner(self) -> AbstractPart:
        """The part that is wrapped."""
        part: AbstractPart = getattr(self, self._name)
        return part

    def unsupported_reason(self, parts: Parts) -> str | None:
        return self.inner.unsupported_reason(parts)

    def prepare(self, source: Source) -> Tree:
        return self.inner.prepare(source)

    def initial(self, memory: Memory, num_rows: int) -> Tree:
        return self.inner.initial(memory, num_rows)

    def observe(self, attended: Attended, inputs: StepInputs, state: Tree) -> Tree:
        return self.inner.observe(attended, inputs, state)

    def observe_at(
        self, positions: Int[Tensor, "#R #G W"], attended: Attended, inputs: StepInputs, state: Tree
    ) -> Tree:
        return self.inner.observe_at(positions, attended, inputs, state)

    @property
    def observes_all(self) -> bool:
        return self.inner.observes_all


class Parts(NamedTuple):
    """The parts of a mechanism."""

    score: AbstractScore
    window: AbstractWindow
    alignment: AbstractAlignment
    read: AbstractRead

    def unsupported_reason(self) -> str | None:
        """Why the parts cannot be one mechanism: the first part's reason to refuse the others; None if they can."""
        return next((reason for part in self if (reason := part.unsupported_reason(self)) is not None), None)


def initial_position(num_rows: int, device: torch.device) -> Tensor:
    """`MechanismState.position` before the first step: zeros, (R,) long."""
    return torch.zeros(num_rows, dtype=torch.long, device=device)
