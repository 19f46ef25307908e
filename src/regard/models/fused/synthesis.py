"""A decoder of frames' step in a free run: weights laid out once, and a few calls of kernels for a step.

The prenet, the cells and the head are products with packed weights, and energies that a look knows
(`attending.refuse_look`) are made in buffers; all other attention takes its own step. For a single row they are those
of `single`, which read fewer weights.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import torch
from torch import Generator, Tensor, nn

from regard.attention.contract import Tree
from regard.layers.cell_stack import CellStack
from regard.layers.cells.single import STEPS, Packed
from regard.layers.eligibility import DROPOUTS, drops, ineligible
from regard.layers.prenet import KEY, Prenet
from regard.layers.recurrent import CellState
from regard.layers.twin import twin
from regard.models.contract import DecoderOutput
from regard.models.fused import agents, attending, single, stacks
from regard.models.naming import chosen, named
from regard.models.tacotron.heads import ACTIVATIONS, STOP, FrameHead, StopHead
from regard.ops.choose import loaded
from regard.ops.eligibility import refuse_autocast, refuse_device, refuse_kernels, refuse_numba, refuse_types
from regard.ops.linear.storage import stores_bytes

STEPS_AT_ONCE = 64
"""Steps whose masks are drawn together for a single row."""


@dataclass(frozen=True, slots=True)
class SpeechMemory:
    """Which of the first sentences those are that remain, (B,), and the seeds of their prenets (B,).

    Args:
        attention: attention's memory if it takes its own step; the twin keeps what looks read.
    """

    sentences: Tensor
    seeds: Tensor
    attention: Tree


@dataclass(frozen=True, slots=True)
class SpeechState:
    """Where rows stand.

    Args:
        query, output: the cells' states, or None.
        attention: the state of attention's own step, or of its look.
        context: (R, V), the last one; or the last weights (R, H·S), where they stand for it (`single`).
        frames: (R, n·F), the last n frames; None if the prenet sees only the last one.
        position: (R,) long, the number of steps taken.
    """

    query: CellState | None
    output: CellState | None
    attention: Tree
    context: Tensor
    frames: Tensor | None
    position: Tensor


def refuse(decoder: Any, memory: Any = None, rows: int = 1) -> str | None:
    """Why a decoder's free runs have no such step, or None."""
    if (reason := ineligible(decoder, "the decoder")) is not None:
        return reason
    weights = tuple(decoder.parameters())
    if (reason := refuse_kernels() or refuse_device("cpu", *weights) or refuse_types(*weights)) is not None:
        return reason
    if (reason := refuse_autocast() or refuse_numba("regard.ops.attend.numba", *weights[:1])) is not None:
        return reason
    for name in ("query_cells", "output_cells"):
        stack = getattr(decoder, name)
        if stack is None:
            continue
        if (reason := stacks.refuse(stack, name)) is not None:
            return reason
        if drops(stack.dropout) or stack.zoneout.training:
            return f"{name} drop units"
    return "gradients may be asked for" if memory is not None and torch.is_grad_enabled() else None


class SpeechTwin:
    """Takes a decoder's steps for one free run, where nothing is in the way (`refuse`).

    Args:
        decoder: a `TacotronDecoder`.
        memory: what it prepared.
        rows: as many as there will be, about.
    """

    def __init__(self, decoder: Any, memory: Any, rows: int) -> None:
        self.num_features = decoder.num_features
        self.continuous = decoder.continuous
        self.memory = memory
        self.initial = decoder.initial_state
        self.looks = attending.refuse_look(decoder.attention, memory.attention) is None
        query, output = decoder.query_cells, decoder.output_cells
        is_single = rows == 1 and len(memory.seeds) == 1 and not stores_bytes()
        self.prenet = _prenet(decoder.prenet, rows, is_single)
        # weights stand for contexts if all that reads these can take them
        takes_weights = single.takes_cells(query) and single.takes_cells(output) and _plain_head(decoder.head)
        self.mixing = (
            single.SingleLook(decoder.attention, memory) if is_single and self.looks and takes_weights else None
        )
        mix = None if self.mixing is None else self.mixing.mix
        self.query_cells, self.output_cells = (
            None if stack is None else _cells(stack, rows, is_single, left, mix, sparse=left is decoder.prenet)
            for stack, left in ((query, decoder.prenet), (output, query or decoder.prenet))
        )
        self.head = _head(decoder.head, rows, is_single, mix)
        self.attention: Any = self.mixing
        if self.mixing is None:
            self.attention = (_Look if self.looks else _OwnStep)(decoder.attention, memory, rows)

    def begin(self) -> SpeechMemory:
        """The memory that the steps read."""
        sentences = torch.arange(len(self.memory.seeds))
        return SpeechMemory(sentences, self.memory.seeds, None if self.looks else self.memory.attention)

    def initial_state(self, memory: SpeechMemory, num_hypotheses: int = 1) -> SpeechState:
        """As the decoder's."""
        first = self.initial(self.memory)
        rows = memory.sentences.repeat_interleave(num_hypotheses)
        query, output = (
            None if state is None else tuple(tuple(part[rows] for part in layer) for layer in state)
            for state in (first.query, first.output)
        )
        attention = self.attention.initial(memory, rows, num_hypotheses)
        frames = None if first.frames is None else first.frames[rows]
        context = first.context[rows] if self.mixing is None else first.context.new_zeros(len(rows), self.mixing.width)
        return SpeechState(query, output, attention, context, frames, first.position[rows])

    def step(
        self,
        inputs: Tensor,
        memory: SpeechMemory,
        state: SpeechState,
        *,
        alignment: bool = False,
        generator: Generator | None = None,
    ) -> tuple[DecoderOutput, SpeechState]:
        """As the decoder's."""
        frames, hypotheses = state.frames, inputs.shape[0] // memory.seeds.shape[0]
        seeds, sentences = memory.seeds, memory.sentences
        if hypotheses > 1:
            seeds, sentences = seeds.repeat_interleave(hypotheses), sentences.repeat_interleave(hypotheses)
        if frames is None:
            fed = inputs[:, -self.num_features :]
        else:
            fed = frames = torch.cat([frames, inputs], 1)[:, -frames.shape[1] :]
        x = self.prenet(fed, seeds, state.position)
        query_state, output_state = state.query, state.output
        if self.query_cells is not None:
            assert query_state is not None
            query, query_state = self.query_cells(x, state.context, query_state)
            x = query
        else:
            assert output_state is not None
            query = output_state[0][0]
        context, attention, weights, auxiliary = self.attention.step(
            query, fed, memory, sentences, state.attention, alignment, generator
        )
        output = query
        if self.output_cells is not None:
            assert output_state is not None
            output, output_state = self.output_cells(x, context, output_state)
        values, further = self.head(output, context, inputs.shape[1] // self.num_features)
        outcome = DecoderOutput(
            values=values,
            alignments=named("attention", weights if alignment else None),
            auxiliary={**further, **(chosen("attention", auxiliary) if alignment else {})},
        )
        return outcome, SpeechState(query_state, output_state, attention, context, frames, state.position + 1)


class _Look:
    """Attention by a look.

    Its state is () or, of located energies, (channels, sum) of earlier alignments, and of forward attention a and u.
    """

    def __init__(self, attention: Any, memory: Any, rows: int) -> None:
        plan = attending.LookPlan(attention, memory.attention, attention.initial_state(memory.attention), False)
        flat = [None if x is None else x.detach() for x in plan.flat()]
        forward = attending.Look(plan, flat, 0)
        self.look, self.bias, self.size = forward.look, forward.bias, attention.context_size
        self.of_query = None if forward.weight is None else Packed(forward.weight, rows=rows)
        filters, projection = flat[5:7]
        self.location = None if filters is None or projection is None else plan.location(filters, projection)
        self.agent, self.of_agent, self.progress = plan.agent, flat[7:], plan.progress

    def initial(self, memory: SpeechMemory, rows: Tensor, num_hypotheses: int) -> Tree:
        """What the first step reads."""
        return attending.first_state(self.location, self.progress, rows)

    def step(
        self,
        query: Tensor,
        fed: Tensor,
        memory: SpeechMemory,
        sentences: Tensor,
        state: Tree,
        alignment: bool,
        generator: Generator | None,
    ) -> tuple[Tensor, Tree, Tensor, Tree]:
        """The context (R, V), the state, the weights (R, H, S) and nothing beside them."""
        asked = query if self.of_query is None else self.of_query(query, self.bias)
        contexts = query.new_empty(query.shape[0], self.size)
        if self.location is None:
            return contexts, (), self.look.once(asked, sentences, contexts), None
        past, total, *progress = state
        if not progress:
            weights = self.look.once_after(asked, past, sentences, contexts)
        else:
            last, move = progress
            weights, last = self.look.once_moving(asked, past, sentences, contexts, last, move)
            if self.agent is not None:
                read = [contexts, query] if self.agent.input_size is None else [contexts, fed, query]
                move = agents.reference(self.of_agent, torch.cat(read, 1))
            progress = [last, move]
        past, total = self.location.after(past, total, weights)
        return contexts, (past, total, *progress), weights, None


class _OwnStep:
    """Attention's own step."""

    def __init__(self, attention: Any, memory: Any, rows: int) -> None:
        self.attention = twin(attention, rows)

    def initial(self, memory: SpeechMemory, rows: Tensor, num_hypotheses: int) -> Tree:
        """Attention's first state."""
        return self.attention.initial_state(memory.attention, num_hypotheses)

    def step(
        self,
        query: Tensor,
        fed: Tensor,
        memory: SpeechMemory,
        sentences: Tensor,
        state: Tree,
        alignment: bool,
        generator: Generator | None,
    ) -> tuple[Tensor, Tree, Tree, Tree]:
        """The context (R, V), the state, the weights and what is beside them."""
        attended, state = self.attention.step(
            query, memory.attention, state, inputs=fed, alignment=alignment, generator=generator
        )
        return attended.context, state, attended.alignment, attended.auxiliary


class _Cells:
    """The step of a `CellStack` in evaluation."""

    def __init__(self, stack: CellStack, rows: int) -> None:
        self.cells = [STEPS[stack.cell](cells.layers[0], rows) for cells in stack.cells]
        self.residual, self.zoneout, self.zones_output = stack.residual, stack.zoneout.p, stack.zones_output
        self.projection = None if stack.projection is None else twin(stack.projection, rows)

    def __call__(self, left: Tensor, context: Tensor, state: CellState) -> tuple[Tensor, CellState]:
        """The output (R, D) and the new state."""
        x = torch.cat([left, context], 1)
        x = x if self.projection is None else self.projection(x)
        finals = []
        for cell, old in zip(self.cells, state, strict=True):
            new = cell(x, old)
            output = new[0]
            if self.zoneout:
                new = tuple(torch.lerp(fresh, last, self.zoneout) for fresh, last in zip(new, old, strict=True))
                output = new[0] if self.zones_output else output
            finals.append(new)
            x = output + x if self.residual else output
        return x, tuple(finals)


def _cells(stack: CellStack, rows: int, is_single: bool, left: Any, mix: single.Mix | None, *, sparse: bool) -> Any:
    """From what stands before the context, the context and the state to the output and the new state."""
    if is_single and single.takes_cells(stack):
        size = left.size if sparse else left.output_size
        return single.SingleCells(stack, size, sparse=sparse, mix=mix)
    return _Cells(stack, rows)


def _prenet(prenet: Any, rows: int, is_single: bool) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """From frames (R, n·F), seeds and positions (R,) to features (R, P)."""
    is_plain = (
        ineligible(prenet, "the prenet", Prenet) is None
        and ineligible(prenet.dropout, "dropout", *DROPOUTS) is None
        and not drops(prenet.dropout)
        and all(ineligible(layer, "it", nn.Linear) is None for layer in prenet.layers)
    )
    if not is_plain:
        return lambda x, seeds, positions: prenet(x, seeds=seeds, start=positions)
    always = not prenet.training and prenet.drops == "always" and prenet.dropout.p > 0
    masks = _Masks(prenet.dropout.p, next(prenet.parameters()).dtype) if always else None
    if is_single:
        maps = [
            loaded(single.KERNELS, "Map")(single.affine(layer.weight, _bias(layer), sparse=layer.in_features))
            for layer in prenet.layers
        ]

        def run_single(x: Tensor, seeds: Tensor, positions: Tensor) -> Tensor:
            for number, layer in enumerate(maps):
                x = layer.rectified(x, None if masks is None else masks(seeds, positions, len(layer.like), number))
            return x

        return run_single
    layers = [(layer.bias, Packed(layer.weight, rows=rows)) for layer in prenet.layers]

    def run(x: Tensor, seeds: Tensor, positions: Tensor) -> Tensor:
        for number, (bias, product) in enumerate(layers):
            x = product(x, bias).relu_()
            if masks is not None:
                x.mul_(masks(seeds, positions, x.shape[1], number))
        return x

    return run


class _Masks:
    """The prenet's masks in synthesis; those of a single row are drawn for several steps at once."""

    def __init__(self, p: float, dtype: torch.dtype) -> None:
        self.draw = partial(import_module("regard.ops.dropout.numba").dropout_mask, p=p, key=KEY, dtype=dtype)
        self.drawn: dict[tuple[int, int, int], Tensor] = {}

    def __call__(self, seeds: Tensor, positions: Tensor, width: int, site: int) -> Tensor:
        """(R, P)."""
        if seeds.shape[0] > 1:
            mask: Tensor = self.draw(seeds, positions, width, site=site)
            return mask
        seed, position = int(seeds), int(positions)
        key = site, seed, position // STEPS_AT_ONCE
        if key not in self.drawn:
            several = torch.arange(STEPS_AT_ONCE) + STEPS_AT_ONCE * key[2]
            self.drawn[key] = self.draw(seeds.expand(STEPS_AT_ONCE), several, width, site=site)
        return self.drawn[key][position % STEPS_AT_ONCE, None]


def _plain_head(head: Any) -> bool:
    """Whether frames and logits of stopping are one product."""
    stop = getattr(head, "stop", None)
    modules = [(head, FrameHead), (getattr(head, "projection", None), nn.Linear)]
    if stop is not None:
        modules += [(stop, StopHead), (getattr(stop, "projection", None), nn.Linear)]
    if any(module is None or ineligible(module, "it", kind) is not None for module, kind in modules):
        return False
    return stop is None or bool(stop.context_size) == bool(head.context_size)


def _head(head: Any, rows: int, is_single: bool, mix: single.Mix | None) -> Callable[..., tuple[Tensor, Any]]:
    """The head, whose frames and logits of stopping are one product if they read the same."""
    if not _plain_head(head):
        called: Any = twin(head, rows)
        return lambda output, context, num_frames: called(output, context, num_frames)
    stop = getattr(head, "stop", None)
    projections = [head.projection] if stop is None else [head.projection, stop.projection]
    width, context_size, activation = head.projection.out_features, head.context_size, head.activation
    weight = torch.cat([linear.weight for linear in projections]).detach()
    bias = torch.cat([_bias(linear) for linear in projections])
    num_features = head.num_features
    if is_single:
        mapped = loaded(single.KERNELS, "Map")(single.affine(weight, bias, context=context_size, mix=mix))

        def say(output: Tensor, context: Tensor) -> Tensor:
            reads = context if context_size else None
            said: Tensor = mapped(None, reads if mix else None, output, None if mix else reads, output.shape[0])
            return said
    else:
        product = Packed(weight, rows=rows)

        def say(output: Tensor, context: Tensor) -> Tensor:
            return product(torch.cat([output, context], 1) if context_size else output, bias)

    def run(output: Tensor, context: Tensor, num_frames: int) -> tuple[Tensor, Any]:
        joint = say(output, context)
        frames = joint[:, : num_frames * num_features]
        frames = frames if activation is None else ACTIVATIONS[activation](frames)
        return frames, {} if stop is None else {STOP: joint[:, width : width + num_frames]}

    return run


def _bias(linear: nn.Linear) -> Tensor:
    bias: Tensor | None = linear.bias
    return linear.weight.new_zeros(linear.out_features) if bias is None else bias.detach()
