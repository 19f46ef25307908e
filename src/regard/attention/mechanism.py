"""A mechanism: four parts and one state."""

from __future__ import annotations

from dataclasses import replace
from typing import get_type_hints

import torch
from torch import Generator, Tensor

from regard import tree
from regard.attention import local_steps, whole_sequence
from regard.attention.contract import (
    AbstractAlignment,
    AbstractRead,
    AbstractScore,
    AbstractWindow,
    Attended,
    Comparison,
    MechanismState,
    Memory,
    Parts,
    Source,
    StepInputs,
    Support,
    Tree,
    initial_position,
)
from regard.attention.interface import AbstractAttention
from regard.attention.memory import widened, with_mask
from regard.attention.sizes import check_grid, check_memory, check_query
from regard.attention.windows import FullWindow
from regard.errors import ShapeError, UnsupportedError
from regard.layers import recorders
from regard.layers.module_weights import overridden
from regard.ops import over_steps
from regard.ops.choose import Implementation, choose
from regard.shapes import Bool, Float, Int, describe, keep_mask, merge_rows, num_hypotheses


class Mechanism(AbstractAttention):
    """An attention mechanism: score → window → alignment → read.

    `step` defines it; `forward` computes all steps at once and agrees with the loop of `step`. Memory and state belong
    to the caller and nothing is stored on the module, so threads may share one mechanism.

    Invariants: padding gets weight exactly 0; a row that may attend to nothing gets zero weights, a zero context and
    zero gradients; neither the rest of the batch nor further padding changes a result.

    Args:
        score, alignment, read: the parts.
        window: all positions if None.
        narrow: whether a step computes only the positions of the window, which costs its width instead of S and gives
            the same result. None does so where the parts allow it and it is less work (`explain`); True is an error if
            they do not.
        sources: publications of the composition, apart from those of its parts; keys as in `cite`.

    >>> import torch
    >>> from regard.attention import bahdanau
    >>> mechanism = bahdanau(query_size=6, memory_size=8, size=4)
    >>> memory = mechanism.prepare(torch.randn(2, 5, 8), lengths=torch.tensor([5, 3]))
    >>> state = mechanism.initial_state(memory)
    >>> attended, state = mechanism.step(torch.randn(2, 6), memory, state, alignment=True)
    >>> attended.context.shape, attended.alignment.shape
    (torch.Size([2, 8]), torch.Size([2, 1, 5]))
    """

    def __init__(
        self,
        score: AbstractScore,
        alignment: AbstractAlignment,
        read: AbstractRead,
        window: AbstractWindow | None = None,
        *,
        narrow: bool | None = None,
        sources: tuple[str, ...] = (),
    ) -> None:
        super().__init__()
        self.sources = sources
        self.score = score
        self.window = window if window is not None else FullWindow()
        self.alignment = alignment
        self.read = read
        self.narrow = narrow
        kinds = get_type_hints(Parts)
        for name, part in self.parts._asdict().items():
            if not isinstance(part, kind := kinds[name]):
                raise UnsupportedError(f"{name} must be an {kind.__name__}; got {type(part).__name__}.")
        if (reason := self.parts.unsupported_reason()) is not None:
            raise UnsupportedError(reason)
        if narrow and (reason := local_steps.unsupported_reason(self.parts)) is not None:
            raise UnsupportedError(f"narrow=True is impossible: {reason}.")

    @property
    def parts(self) -> Parts:
        """Score, window, alignment and read."""
        return Parts(self.score, self.window, self.alignment, self.read)

    @property
    def inner(self) -> Parts:
        return self.parts

    @property
    def query_size(self) -> int | None:
        """Q, or None if no part fixes it."""
        sizes = (part.query_size for part in self.parts)
        return next((size for size in sizes if size is not None), None)

    @property
    def context_size(self) -> int:
        return self.read.context_size

    @property
    def num_heads(self) -> int:
        """H."""
        return self.score.num_heads

    @property
    def is_normalised(self) -> bool:
        return self.alignment.is_normalised and not self.window.has_gain

    @property
    def is_random(self) -> bool:
        return self.alignment.is_random

    def prepare(
        self,
        values: Float[Tensor, "B S M"],
        *,
        keys: Float[Tensor, "B S M2"] | None = None,
        mask: Bool[Tensor, "B S"] | None = None,
        lengths: Int[Tensor, " B"] | None = None,
        grid: tuple[int, int] | None = None,
    ) -> Memory:
        """The memory: everything that depends only on the source, computed once.

        Args:
            values: (B, S, M), the vectors that contexts are sums of; padding counts as 0.
            keys: (B, S, M2), the vectors that queries are compared with; the values if None.
            mask: (B, S) bool, True where a position may be attended to.
            lengths: (B,) integers, instead of a mask.
            grid: (h, w), if the positions are the cells of an image, s = y·w + x.

        Raises:
            ShapeError: for both mask and lengths, a mask of another shape or type, or a grid of more or fewer cells.
        """
        return self._prepare(values, keys, keep_mask(values, mask, lengths) if values.dim() == 3 else None, 0, grid)

    def _prepare(
        self,
        values: Tensor,
        keys: Tensor | None,
        mask: Tensor | None,
        start: int | Tensor,
        grid: tuple[int, int] | None = None,
    ) -> Memory:
        """The memory of positions from `start` on."""
        if values.dim() != 3:
            raise ShapeError("values must be (B, S, M).\n" + describe({"values": ("B S M", values)}))
        if keys is not None and keys.shape[:2] != values.shape[:2]:
            raise ShapeError(
                "values and keys disagree on (B, S).\n"
                + describe({"values": ("B S M", values), "keys": ("B S M", keys)})
            )
        if grid is not None:
            check_grid(grid, values)
        for part in (self.score, self.alignment):
            check_memory("values" if keys is None else "keys", values if keys is None else keys, part.memory_size)
        check_memory("values", values, self.read.memory_size)
        if mask is not None:
            values = values.masked_fill(~mask[..., None], 0)
            keys = None if keys is None else keys.masked_fill(~mask[..., None], 0)
        keys = values if keys is None else keys
        source = Source(values, keys, mask, start, grid)
        return Memory(**{name: part.prepare(source) for name, part in self.parts._asdict().items()}, mask=mask)

    def extend(
        self,
        memory: Memory,
        values: Float[Tensor, "B S2 M"],
        *,
        keys: Float[Tensor, "B S2 M2"] | None = None,
        mask: Bool[Tensor, "B S2"] | None = None,
    ) -> Memory:
        """The memory with further positions, also of a memory without any (S = 0), whose contexts are zero.

        Raises:
            UnsupportedError: for a recurrent mechanism, whose state depends on the number of positions.
        """
        if self.is_recurrent:
            recurrent = [type(part).__name__ for part in self.parts if part.is_recurrent]
            raise UnsupportedError(
                f"The memory of a recurrent mechanism cannot grow: the state of {', '.join(recurrent)} depends on the "
                "number of positions. Prepare the whole memory first."
            )
        start = memory.num_positions if memory.filled is None else memory.filled[0]
        added = self._prepare(values, keys, keep_mask(values, mask), start)
        if memory.filled is not None:
            places = start + torch.arange(values.shape[1], device=values.device)
            whole = tree.map(
                lambda leaf, new: leaf.index_copy(1, places, new.to(leaf.dtype)),
                replace(memory, filled=None),
                with_mask(added),
            )
            return replace(whole, filled=memory.filled + values.shape[1])
        if (memory.mask is None) != (added.mask is None):
            memory, added = with_mask(memory), with_mask(added)
        return tree.map(lambda *leaves: torch.cat(leaves, 1), memory, added)

    def at_pace(self, memory: Memory, pace: Float[Tensor, " B"]) -> Memory:
        """The memory through which attention moves faster or slower than it was trained to.

        Of forward attention with a transition agent the odds of moving on are multiplied, of mixtures the steps.

        Args:
            pace: (B,) positive factors; 1 changes nothing.

        Raises:
            UnsupportedError: if no part of the mechanism moves at a pace of its own.

        Source: the speed control of Zhang, Ling & Dai 2018 (arXiv 1807.06736), whose bias is log pace.
        """
        if not any(part.has_pace for part in self.parts):
            raise UnsupportedError(
                "pace: attention moves at a pace of its own with a transition agent (forward_attention) and with "
                f"mixtures (gmm), not with {type(self.score).__name__} and {type(self.alignment).__name__}."
            )
        if pace.shape != (memory.num_sentences,):
            raise ShapeError(
                f"pace must be (B={memory.num_sentences},), a factor for each sentence.\n"
                + describe({"pace": ("B", pace)})
            )
        return replace(memory, pace=pace.to(memory.read.device, torch.float32))

    def initial_state(self, memory: Memory, num_hypotheses: int = 1) -> MechanismState:
        rows = memory.num_sentences * num_hypotheses
        return MechanismState(
            self.score.initial(memory, rows),
            self.window.initial(memory, rows),
            self.alignment.initial(memory, rows),
            initial_position(rows, memory.read.device),
        )

    def step(
        self,
        query: Float[Tensor, "R Q"],
        memory: Memory,
        state: MechanismState,
        *,
        inputs: Tensor | None = None,
        alignment: bool = False,
        generator: Generator | None = None,
    ) -> tuple[Attended, MechanismState]:
        """One step of every row.

        Args:
            query: (R, Q); R is B times the hypotheses, sentence-major.
            memory: from `prepare`, B rows.
            state: from `initial_state` or the step before.
            inputs: (R, ...) the decoder's input, which some transition agents read.
            alignment: whether to return `Attended.alignment` (R, H, S).
            generator: for mechanisms that draw random numbers.
        """
        if not recorders.wanted(self):
            return self._step(query, memory, state, inputs=inputs, alignment=alignment, generator=generator, reads=True)
        attended, state = self._step(
            query, memory, state, inputs=inputs, alignment=True, generator=generator, reads=True
        )
        if attended.alignment is not None:
            recorders.report(self, attended.alignment[:, :, None])
        return attended if alignment else replace(attended, alignment=None), state

    def _step(
        self,
        query: Tensor,
        memory: Memory,
        state: MechanismState,
        *,
        inputs: Tensor | None,
        alignment: bool,
        generator: Generator | None,
        reads: bool = False,
    ) -> tuple[Attended, MechanismState]:
        """A step; without `reads` its context is empty: the caller computes the contexts of all steps together."""
        check_query(query, self.query_size)
        wide = widened(memory, query)
        if wide is not memory:  # the first state has the types of the memory
            memory, state = wide, widened(state, query)
        parts, loop = self.parts, over_steps.current()
        if reads and loop is not None and (comparison := loop.shared(_of_one_operation, self)) is not None:
            context, weights = whole_sequence.step(parts, comparison, query, memory)
            return Attended(context, weights if alignment else None), replace(state, position=state.position + 1)
        step_inputs = StepInputs(query, memory, state.position, inputs, generator)
        positions = self._positions(step_inputs, state.window)
        allowed, window = self._allowed(step_inputs, state.window, positions)
        local = step_inputs if positions is None else replace(step_inputs, memory=local_steps.take(memory, positions))
        energies, score = self.score(local, state.score)
        if allowed.log_prior is not None:
            energies = energies + allowed.log_prior
        weights, part_state, auxiliary = self.alignment(energies, allowed.support, local, state.alignment)
        if allowed.gain is not None:
            weights = weights * allowed.gain
        context = self.read(weights, local) if reads else weights[:, 0, :0]
        attended = Attended(context, weights, auxiliary)
        whole = attended
        if positions is not None and (alignment or any(part.observes_all for part in parts)):
            whole = replace(attended, alignment=local_steps.scatter(weights, positions, memory.num_positions))
        score, window, part_state = (
            part.observe(whole, step_inputs, before)
            if positions is None or part.observes_all
            else part.observe_at(positions, attended, step_inputs, before)
            for part, before in ((self.score, score), (self.window, window), (self.alignment, part_state))
        )
        state = MechanismState(score, window, part_state, state.position + 1)
        return whole if alignment else replace(attended, alignment=None), state

    def _allowed(self, inputs: StepInputs, state: Tree, positions: Tensor | None) -> tuple[Support, Tree]:
        """The support by window and mask, at these positions or everywhere, and the window's state."""
        allowed, state = self.window(inputs, state) if positions is None else self.window.at(positions, inputs, state)
        mask = inputs.memory.mask
        if mask is None:
            return allowed, state
        if positions is None:
            hypotheses = num_hypotheses(inputs.query.shape[0], mask.shape[0])
            mask = merge_rows(mask[:, None].expand(-1, hypotheses, -1))[:, None]
        else:
            mask = local_steps.take_mask(mask, positions)
        return replace(allowed, support=mask if allowed.support is None else allowed.support & mask), state

    def _positions(self, inputs: StepInputs, state: Tree) -> Tensor | None:
        """The positions (R, 1 or H, W) that this step attends to, or None for all."""
        width, num_positions = self.window.width, inputs.memory.num_positions
        rows = num_hypotheses(inputs.query.shape[0], inputs.memory.num_sentences)
        if width is None or local_steps.unsupported_now(self.parts, num_positions, rows, self.narrow) is not None:
            return None
        return local_steps.find(self.window.start(inputs, state), width, num_positions)

    def explain(self, memory: Memory, *, rows_per_sentence: int = 1) -> str:
        """Two lines of text: whether a step computes all positions of a memory or only those of the window, and why;
        and whether `forward` attends to all steps in one operation, which keeps no weights.

        Args:
            rows_per_sentence: hypotheses per sentence, times T where `forward` computes all steps at once.

        >>> from regard.attention import SlidingWindow, luong
        >>> mechanism = luong(query_size=6, memory_size=6, window=SlidingWindow(back=1, front=1))
        >>> print(mechanism.explain(mechanism.prepare(torch.zeros(1, 200, 6))))
        narrow: a step attends to 3 of 200 positions
        sequences: the weights of all steps are computed; this path does not support SlidingWindow
        >>> print(luong(query_size=6, memory_size=6).explain(mechanism.prepare(torch.zeros(1, 5, 6))))
        full: a step attends to all 5 positions; FullWindow has no width and may allow any number of them
        sequences: one operation for all steps, which keeps no weights
        """
        num_positions = memory.num_positions
        reason = local_steps.unsupported_now(self.parts, num_positions, rows_per_sentence, self.narrow)
        step = f"full: a step attends to all {num_positions} positions; {reason}"
        if reason is None:
            width = min(self.window.width or 0, num_positions)
            step = f"narrow: a step attends to {width} of {num_positions} positions"
        inputs = self, memory, memory.num_sentences
        path = choose(PATHS, *inputs, from_start=True, alignment=False)
        reason = _whole_sequence_reason(*inputs, from_start=True, alignment=False)
        return f"{step}\nsequences: {path.name}{f'; {reason}' if path is PATHS[-1] else ''}"

    def forward(
        self,
        queries: Float[Tensor, "R T Q"],
        memory: Memory,
        state: MechanismState | None = None,
        *,
        inputs: Tensor | None = None,
        alignment: bool = False,
        generator: Generator | None = None,
    ) -> tuple[Attended, MechanismState]:
        """All steps of a sequence of queries (R, T, Q); agrees with the loop of `step`.

        A mechanism that is not recurrent computes them at once, as if they were further hypotheses. Without `alignment`
        it attends to all steps in one operation that keeps no weights, if its parts allow it (`explain`).

        Returns:
            context (R, T, V), alignment (R, H, T, S) if requested, and the state after the last step.
        """
        check_query(queries, self.query_size, sequence=True)
        wide = widened(memory, queries)
        if wide is not memory:
            memory, state = wide, widened(state, queries)
        rows, steps = queries.shape[:2]
        from_start = state is None
        if state is None:
            state = self.initial_state(memory, num_hypotheses(rows, memory.num_sentences))
        if steps == 0:
            empty = queries.new_zeros(rows, self.num_heads, 0, memory.num_positions) if alignment else None
            return Attended(queries.new_zeros(rows, 0, self.context_size), empty), state
        path = choose(PATHS, self, memory, rows, from_start=from_start, alignment=alignment)
        if not recorders.wanted(self):
            attended, state = path.function(self, queries, memory, state, inputs, alignment, generator)
            return attended, state
        with recorders.silent():
            attended, after = path.function(self, queries, memory, state, inputs, True, generator)
            weights = attended.alignment
            if weights is None:  # parts on this path draw no random numbers: the weights can be computed again
                with torch.no_grad():
                    weights = self._merge_steps(queries, memory, state, inputs, True, generator)[0].alignment
        if weights is not None:
            recorders.report(self, weights)
        return attended if alignment else replace(attended, alignment=None), after

    def _merge_steps(
        self,
        queries: Tensor,
        memory: Memory,
        state: MechanismState,
        inputs: Tensor | None,
        alignment: bool,
        generator: Generator | None,
    ) -> tuple[Attended, MechanismState]:
        """All steps as if they were further hypotheses of one."""
        rows, steps = queries.shape[:2]
        position = (state.position[:, None] + torch.arange(steps, device=queries.device)).flatten()
        attended, _ = self.step(
            merge_rows(queries),
            memory,
            MechanismState(None, None, None, position),
            inputs=None if inputs is None else merge_rows(inputs),
            alignment=alignment,
            generator=generator,
        )
        weights = attended.alignment
        return Attended(
            attended.context.unflatten(0, (rows, steps)),
            None if weights is None else weights.unflatten(0, (rows, steps)).transpose(1, 2),
            tree.map(lambda leaf: leaf.unflatten(0, (rows, steps)), attended.auxiliary),
        ), replace(state, position=state.position + steps)

    def _loop(
        self,
        queries: Tensor,
        memory: Memory,
        state: MechanismState,
        inputs: Tensor | None,
        alignment: bool,
        generator: Generator | None,
    ) -> tuple[Attended, MechanismState]:
        if not isinstance(queries.shape[1], int):
            recurrent = [type(part).__name__ for part in self.parts if part.is_recurrent]
            raise UnsupportedError(
                "torch.export cannot loop over any number of steps T, and a step depends on those before it "
                f"({', '.join(recurrent)}). Export `step` and loop over it, or export forward for a fixed T."
            )
        # all contexts are read after the last step in one product, if no part observes them and steps are not local
        together = overridden(self, Mechanism, "step") is None and self.window.width is None
        together = together and not any(part.observes_context for part in self.parts)
        step = self._step if together else self.step
        results = []
        with over_steps.Loop():
            for t in range(queries.shape[1]):
                step_inputs = None if inputs is None else inputs[:, t]
                attended, state = step(
                    queries[:, t],
                    memory,
                    state,
                    inputs=step_inputs,
                    alignment=alignment or together,
                    generator=generator,
                )
                results.append(attended)
        weights = torch.stack([attended.alignment for attended in results], 2) if alignment or together else None
        if together and weights is not None:
            position = state.position[:, None] + torch.arange(-len(results), 0, device=queries.device)
            together_inputs = StepInputs(queries.flatten(0, 1), memory, position.flatten())
            context = self.read(weights.transpose(1, 2).flatten(0, 1), together_inputs).unflatten(0, queries.shape[:2])
        else:
            context = torch.stack([attended.context for attended in results], 1)
        return Attended(
            context,
            weights if alignment else None,
            tree.map(lambda *leaves: torch.stack(leaves, 1), *(attended.auxiliary for attended in results)),
        ), state

    def pool(self, memory: Memory) -> Attended:
        """The context (B, V) and the alignment (B, H, S) of each memory, for a mechanism without a query.

        Raises:
            UnsupportedError: if a part needs a query.
        """
        if self.uses_query:
            names = [type(part).__name__ for part in self.parts if part.uses_query]
            raise UnsupportedError(f"{' and '.join(names)} needs a query: use step or forward.")
        kind = next((weight.dtype for weight in self.parameters()), memory.read.dtype)
        query = memory.read.new_zeros(memory.num_sentences, 0, dtype=kind)
        return self.step(query, memory, self.initial_state(memory), alignment=True)[0]


def _of_one_operation(mechanism: Mechanism) -> Comparison | None:
    """The score's comparison, if a step can be one operation on the query."""
    parts = mechanism.parts
    if mechanism.narrow or parts.window.extent != "all":
        return None
    if overridden(mechanism, Mechanism, "_allowed", "_positions") is not None:
        return None
    comparison = parts.score.comparison()
    if comparison is None or comparison.rotate is not None:
        return None
    return comparison if whole_sequence.unsupported_reason(parts, comparison, reports=True) is None else None


def _whole_sequence_reason(
    mechanism: Mechanism, memory: Memory, num_rows: int, *, from_start: bool, alignment: bool
) -> str | None:
    if alignment:
        return "the weights are requested"
    if (name := overridden(mechanism, Mechanism, "step", "_step", "_allowed", "_positions")) is not None:
        return f"{type(mechanism).__name__} overrides {name}"
    return whole_sequence.unsupported_now(mechanism.parts, memory, num_rows, from_start=from_start, reports=True)


PATHS = (
    Implementation(
        "step by step, since a step depends on the steps before it",
        lambda mechanism, *inputs: mechanism._loop(*inputs),
        lambda mechanism, *_, **options: None if mechanism.is_recurrent else "no step depends on those before it",
    ),
    Implementation(
        "one operation for all steps, which keeps no weights",
        lambda mechanism, queries, memory, state, *_: (
            Attended(whole_sequence.attend(mechanism.parts, queries, memory), None),
            replace(state, position=state.position + queries.shape[1]),
        ),
        _whole_sequence_reason,
    ),
    Implementation("the weights of all steps are computed", lambda mechanism, *inputs: mechanism._merge_steps(*inputs)),
)
"""The paths of `forward`, which calls the first that supports its inputs; `explain` shows the name."""
