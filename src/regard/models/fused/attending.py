"""What attention does in the steps of a fused pass of speech: work on buffers of all steps, or its own step.

A look (`ops.attend`) is for energies whose derivative is written by hand: location-sensitive, additive and dot energies
with a softmax and a weighted sum, and location-sensitive ones with forward attention, with or without an agent. The
query's projection gets its gradient as one product over all steps. Dynamic convolution has a look of its own
(`convolving`).

All other attention takes its own `step`, whatever it is made of: the graph of a step begins at leaves of its own
(query, state, memory, the frames that were fed) and is run backward when the cells need it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import linear

from regard import ops, tree
from regard.attention import AdditiveScore, ForwardAlignment, LocationScore, Mechanism, declarations
from regard.attention.heads import split, weighted_sum
from regard.layers import recorders
from regard.layers.eligibility import ineligible
from regard.models.fused import agents, convolving, reference, support
from regard.models.fused.contract import (
    AbstractAttending,
    AbstractAttendingBackward,
    AbstractPlan,
    Flat,
    ReferenceStep,
)
from regard.ops.choose import loaded, steps_for
from regard.ops.eligibility import refuse_numba
from regard.ops.linear import Product
from regard.ops.location.reference import location_energies


def plan(
    attention: Any, memory: Any, state: Any, *, alignment: bool, generator: Generator | None
) -> tuple[AbstractPlan, bool]:
    """By which way attention takes the steps, from its first state, and whether it reports its weights itself.

    Where it does not, and they are recorded, the way gives alignments.
    """
    asked = alignment or recorders.wanted(attention)
    with recorders.silent():  # the way is the one that is taken without a recorder
        if refuse_look(attention, memory) is None:
            return LookPlan(attention, memory, state, asked), False
        if convolving.refuse(attention, memory) is None:
            return convolving.ConvolvedPlan(attention, memory, state, asked), False
    names = tuple(dict(attention.named_parameters()))
    return StepPlan(attention, memory, state, names, alignment, generator), True


def refuse_hand(attention: Any) -> str | None:
    """Why attention takes its own step, or None where its derivative is written by hand."""
    reason = refuse_look(attention)
    return None if reason is None or convolving.refuse(attention) is None else reason


def refuse_look(attention: Any, memory: Any = None) -> str | None:
    """Why attention takes its own step, or None where its energies are computed by a look."""
    if type(attention) is not Mechanism:
        return f"a {type(attention).__name__} has steps of its own"
    if (reason := ineligible(attention, "attention")) is not None:
        return reason
    score: Any = attention.score
    is_located = type(score) is LocationScore
    content = score.content if is_located else score
    comparison = content.comparison() if not is_located or type(content) is AdditiveScore else None
    known = (ForwardAlignment,) if is_located else ()
    if (reason := declarations.ineligible(attention.parts, comparison, finish=False, alignments=known)) is not None:
        return reason
    if (
        type(attention.alignment) is ForwardAlignment
        and (reason := agents.refuse(attention.alignment.agent)) is not None
    ):
        return reason
    assert comparison is not None
    if comparison.rotate is not None:
        return f"looks do not rotate queries, as {type(score).__name__} does"
    uncalled: list[tuple[nn.Module, str, type]] = []
    if comparison.projection is not None:
        uncalled.append((comparison.projection, "the query's projection", nn.Linear))
    if is_located:
        if (reason := refuse_numba("regard.ops.location.numba")) is not None:
            return reason
        uncalled += [(content, "attention.score.content", AdditiveScore), (score.filters, "the filters", nn.Conv1d)]
    for module, name, kind in uncalled:
        if (reason := ineligible(module, name, kind)) is not None:
            return reason
    if memory is None:
        return None
    if memory.num_positions == 0:
        return "there is nothing to look at"
    weight = next(attention.parameters(), memory.read)
    is_of_type = all(x.dtype == weight.dtype for x in (memory.read, memory.score))
    return None if is_of_type else "memory and weights are of different types"


@dataclass(frozen=True, eq=False)
class LookPlan(AbstractPlan):
    """A look.

    Args:
        attention: a `Mechanism`.
        memory, state: its memory and first state.
        alignment: whether alignments are asked for.
    """

    attention: Any
    memory: Any
    state: Any
    alignment: bool

    @property
    def is_random(self) -> bool:
        return False

    @property
    def is_located(self) -> bool:
        """Whether energies depend on earlier alignments."""
        return type(self.attention.score) is LocationScore

    @property
    def is_forward(self) -> bool:
        """Whether it is forward attention."""
        return type(self.attention.alignment) is ForwardAlignment

    @property
    def agent(self) -> Any:
        """What predicts how likely forward attention moves on, or None."""
        return self.attention.alignment.agent if self.is_forward else None

    @property
    def progress(self) -> tuple[Tensor, Tensor] | None:
        """a (B, H, S) and u (B, H) before the first step of forward attention."""
        leaf = self.state.alignment
        return (leaf.alignment.detach(), leaf.move.detach()) if self.is_forward else None

    @property
    def sharpening(self) -> float:
        """β of the softmax."""
        return 1.0 if self.is_forward else float(self.attention.alignment.softmax_factor)

    @property
    def energies(self) -> str:
        """dot, additive or location."""
        return "location" if self.is_located else str(self.attention.score.comparison().kind)

    def flat(self) -> list[Tensor | None]:
        """Keys, values, the query's projection (W, b), v, the filters (H, F, C, W), their projection, the agent's."""
        score = self.attention.score
        content = score.content if self.is_located else score
        _, keys, query, v = support.compare(content, self.memory.score)
        located: tuple[Tensor | None, Tensor | None] = (None, None)
        if self.is_located:
            located = score.filters.weight.unflatten(0, (score.num_heads, -1)), score.location_projection
        return [keys, self.memory.read, *query, v, *located, *agents.flat(self.agent)]

    def begin(self, flat: Flat, needs: Sequence[bool], fed: Tensor, records: bool) -> AbstractAttending:
        return Look(self, flat, len(fed), fed)

    def location(self, filters: Tensor, projection: Tensor) -> Any:
        """What a located look takes beside the memory."""
        score, leaf = self.attention.score, self.state.score
        return loaded("regard.ops.attend.location", "Location")(
            filters.detach(),
            projection.detach(),
            leaf.recent.detach(),
            leaf.cumulative.detach(),
            score.location != "cumulative",
            score.location != "previous",
            score.detached,
        )

    def reference(self, flat: Flat) -> ReferenceStep:
        keys, values, weight, bias, v, filters, projection, *of_agent = flat
        score, mask = self.attention.score, self.memory.mask
        kind, first = self.energies, self.location(filters, projection) if self.is_located else None
        # the last P alignments (B, H, P, S), the sum as a channel and the sum that the next one begins with (B, H, S)
        trace = None if first is None else (first.recent, first.recent[:, :, -1], first.sum)
        progress = self.progress

        def step(query: Tensor, fed: Tensor) -> tuple[Tensor, Any]:
            nonlocal trace, progress
            projected = split(query if weight is None else linear(query, weight, bias), score.num_heads)
            if first is None or trace is None:
                energies = reference.energies(kind, projected, keys, v)
            else:
                past = first.channels(*trace[:2])
                energies = location_energies(projected[:, None], keys, past[:, None], filters, projection, v)[:, 0]
            support = None if mask is None else mask[:, None]
            if progress is None:
                weights = ops.masked_softmax(energies * self.sharpening, support)
            else:
                weights = ops.forward_alignment(energies, *progress, support)
            if first is not None and trace is not None:
                seen = weights.detach() if first.is_detached else weights
                trace = torch.cat([trace[0][:, :, 1:], seen[:, :, None]], 2), trace[2] + seen, trace[2] + seen
            context = weighted_sum(weights, values)
            if progress is not None:
                last, move = progress
                if self.agent is not None:
                    read = [context, query] if self.agent.input_size is None else [context, fed, query]
                    move = agents.reference(of_agent, torch.cat(read, 1))
                progress = torch.where(weights.any(-1, keepdim=True), weights, last), move
            return context, (weights if self.alignment else None, None)

        return step


class Look(AbstractAttending):
    """Attention by a look, forward."""

    def __init__(self, plan: LookPlan, flat: Flat, steps: int, fed: Tensor | None = None) -> None:
        keys, values, weight, bias, v, filters, projection, *of_agent = flat
        attention = plan.attention
        options = {"steps": steps, "num_heads": attention.score.num_heads, "sharpening": plan.sharpening}
        memory = keys, values, plan.memory.mask, v
        if plan.progress is not None:
            moving = loaded("regard.ops.attend.forward", "ForwardLook")
            beside = {"location": plan.location(filters, projection), "start": plan.progress[0]}
            self.look = moving(*memory, **beside, **options)
        elif plan.is_located:
            located = loaded("regard.ops.attend.location", "LocationLook")
            self.look = located(*memory, location=plan.location(filters, projection), **options)
        else:
            self.look = steps_for("attend", keys.device.type).LOOKS[plan.energies](*memory, **options)
        self.plan = plan
        self.agent = None
        if plan.agent is not None and fed is not None:
            self.agent = agents.AgentSteps(plan.agent, of_agent, fed)
        self.weight, self.bias = (None if x is None else x.detach() for x in (weight, bias))
        self.of_query = None if self.weight is None else Product(self.weight, len(keys))
        self.asked: list[Tensor] = []

    @property
    def beside(self) -> Any:
        return (self.look.weights[0] if self.plan.alignment else None), None

    def forward(self, t: int, query: Tensor, fed: Tensor, contexts: Tensor) -> None:
        self.asked.append(query)
        projected = query if self.of_query is None else self.of_query(query, self.bias)
        self.look.forward(t, projected, contexts, 0)
        if self.agent is not None:
            self.look.moves[t + 1] = self.agent.forward(t, contexts[t], query)

    def results(self) -> list[Tensor]:
        return [self.look.weights[:]] if self.plan.alignment else []

    def reverse(self, grad_contexts: Tensor, grad_results: Sequence[Tensor | None]) -> AbstractAttendingBackward:
        return LookBackward(self, grad_contexts, grad_results[0] if grad_results else None)


class LookBackward(AbstractAttendingBackward):
    """Of `Look`."""

    def __init__(self, forward: Look, grad_contexts: Tensor, grad_weights: Tensor | None) -> None:
        self.passed, self.grad_contexts, self.grad_weights = forward, grad_contexts, grad_weights
        self.look = forward.look.reverse()
        self.to_query = None if forward.weight is None else Product(forward.weight.t(), len(forward.look.keys))
        agent = forward.agent
        self.agent = None if agent is None else agents.AgentBackward(agent)
        self.of_fed = torch.zeros_like(agent.fed) if agent is not None and agent.fed.shape[2] else None

    @property
    def grad_fed(self) -> Tensor | None:
        return self.of_fed

    def backward(self, t: int) -> Tensor | None:
        if self.agent is None or t + 1 == len(self.grad_contexts):
            return self._backward(t)
        # u_t, which the next step read, to what the agent read: the context gets its part before it goes further
        grad_context, grad_fed, of_agent = self.agent.backward(t, self.look.grad_moves[t + 1])
        self.grad_contexts[t].add_(grad_context)
        if self.of_fed is not None:
            self.of_fed[t] = grad_fed
        return self._backward(t) + of_agent

    def _backward(self, t: int) -> Tensor:
        """The gradient of the query through the look."""
        self.look.backward(t, self.grad_contexts, None if self.grad_weights is None else self.grad_weights[t])
        grad_query: Tensor = self.look.grad_queries[t].flatten(1)
        return grad_query if self.to_query is None else self.to_query(grad_query)

    def gradients(self) -> list[Tensor | None]:
        passed = self.passed
        grad_keys, grad_values, grad_v = self.look.gradients(self.grad_contexts)
        grad_weight = grad_bias = None
        if passed.weight is not None:
            # grad_W = Σ grad_qᵀ s over all T·B rows
            rows = self.look.grad_queries.flatten(2).flatten(0, 1)
            grad_weight = rows.t() @ torch.cat(passed.asked)
            grad_bias = None if passed.bias is None else rows.sum(0)
        located = self.look.of_filters() if passed.plan.is_located else (None, None)
        of_agent = [None] * 4 if self.agent is None else self.agent.gradients()
        return [grad_keys, grad_values, grad_weight, grad_bias, grad_v, *located, *of_agent]


class _Attending(nn.Module):
    """Attention's step as a module's call, for `functional_call`."""

    def __init__(self, attention: nn.Module) -> None:
        super().__init__()
        self.attention: Any = attention

    def forward(self, *inputs: Any, **options: Any) -> Any:
        """`attention.step`."""
        return self.attention.step(*inputs, **options)


@dataclass(frozen=True, eq=False)
class StepPlan(AbstractPlan):
    """Attention's own step.

    Args:
        attention: takes the steps.
        memory, state: its memory and first state.
        names: of its parameters.
        alignment: whether alignments are asked for.
        generator: that it draws from.
    """

    attention: Any
    memory: Any
    state: Any
    names: tuple[str, ...]
    alignment: bool
    generator: Generator | None

    @property
    def is_random(self) -> bool:
        return bool(self.attention.is_random)

    def flat(self) -> list[Tensor | None]:
        """The leaves of memory and state, then the parameters."""
        named = dict(self.attention.named_parameters())
        return [*tree.leaves(self.memory), *tree.leaves(self.state), *(named[name] for name in self.names)]

    def divide(self, flat: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
        """The leaves of the memory, those of the state, and the parameters."""
        rest = iter(flat)
        memory, state = ([next(rest) for _ in tree.leaves(part)] for part in (self.memory, self.state))
        return memory, state, list(rest)

    def begin(self, flat: Flat, needs: Sequence[bool], fed: Tensor, records: bool) -> AbstractAttending:
        return OwnSteps(self, flat, needs, fed, records)

    def reference(self, flat: Flat) -> ReferenceStep:
        of_memory, of_state, weights = self.divide(flat)
        memory, state = _rebuilt(self.memory, of_memory), _rebuilt(self.state, of_state)
        attending = _Attending(self.attention)
        named = {f"attention.{name}": weight for name, weight in zip(self.names, weights, strict=True)}

        def step(query: Tensor, fed: Tensor) -> tuple[Tensor, Any]:
            nonlocal state
            options = {"inputs": fed, "alignment": self.alignment, "generator": self.generator}
            attended, state = torch.func.functional_call(attending, named, (query, memory, state), options)
            beside = (attended.alignment, attended.auxiliary) if self.alignment else (None, None)
            return attended.context, beside

        return step


@dataclass(frozen=True)
class Recorded:
    """The graph of a step: its leaves, and what came of them.

    Args:
        query, fed, state: leaves.
        context, after, results: the context, the next state's leaves, and those of alignment and auxiliary.
    """

    query: Tensor
    fed: Tensor
    state: list[Tensor]
    context: Tensor
    after: list[Tensor]
    results: list[Tensor]


class OwnSteps(AbstractAttending):
    """Attention's own steps, forward."""

    def __init__(self, plan: StepPlan, flat: Flat, needs: Sequence[bool], fed: Tensor, records: bool) -> None:
        self.plan, self.records, self.needs_fed = plan, records, needs[-1]
        self.frames = fed
        of_memory, of_state, weights = plan.divide(flat)
        need_memory, _, self.need_weights = plan.divide(needs[:-1])
        # leaves that all steps share; the parameters are attention's own
        self.memory = [
            leaf.detach().requires_grad_(records and need) for leaf, need in zip(of_memory, need_memory, strict=True)
        ]
        self.weights = [weight for weight, need in zip(weights, self.need_weights, strict=True) if need]
        self.whole_memory = _rebuilt(plan.memory, self.memory)
        self.states = [_rebuilt(plan.state, [leaf.detach() for leaf in of_state])]  # the last one only
        self.recorded: list[Recorded] = []
        self.said: list[Any] = []

    @property
    def beside(self) -> Any:
        return self.said[0]

    def forward(self, t: int, query: Tensor, fed: Tensor, contexts: Tensor) -> None:
        plan = self.plan
        asked = query.detach().clone().requires_grad_(self.records)
        fed = fed.detach().requires_grad_(self.records and self.needs_fed)
        state = tree.map(lambda leaf: leaf.detach(), self.states.pop())
        begin = list(tree.leaves(state))
        for leaf in begin:
            leaf.requires_grad_(self.records and leaf.is_floating_point())
        with torch.set_grad_enabled(self.records):
            attended, state = plan.attention.step(
                asked, self.whole_memory, state, inputs=fed, alignment=plan.alignment, generator=plan.generator
            )
        self.states.append(state)
        beside = (attended.alignment, attended.auxiliary) if plan.alignment else (None, None)
        if self.records:
            after, results = list(tree.leaves(state)), list(tree.leaves(beside))
            self.recorded.append(Recorded(asked, fed, begin, attended.context, after, results))
        self.said.append(tree.map(lambda leaf: leaf.detach(), beside))
        contexts[t] = attended.context.detach()

    def results(self) -> list[Tensor]:
        return [torch.stack(parts) for parts in zip(*map(tree.leaves, self.said), strict=True)]

    def reverse(self, grad_contexts: Tensor, grad_results: Sequence[Tensor | None]) -> AbstractAttendingBackward:
        return OwnStepsBackward(self, grad_contexts, grad_results)


class OwnStepsBackward(AbstractAttendingBackward):
    """Of `OwnSteps`."""

    def __init__(self, forward: OwnSteps, grad_contexts: Tensor, grad_results: Sequence[Tensor | None]) -> None:
        self.passed, self.grad_contexts, self.grad_results = forward, grad_contexts, grad_results
        self.shared = [*(leaf for leaf in forward.memory if leaf.requires_grad), *forward.weights]
        self.totals: list[Tensor | None] = [None] * len(self.shared)
        self.grad_after: list[Tensor | None] = [None] * len(forward.recorded[-1].after)
        self.of_fed = [torch.zeros_like(forward.frames)] if forward.needs_fed else []

    @property
    def grad_fed(self) -> Tensor | None:
        return self.of_fed[0] if self.of_fed else None

    def backward(self, t: int) -> Tensor | None:
        step, grads = self.passed.recorded[t], self.grad_results
        # the context, the next state and the results to the step's leaves
        pairs = [(step.context, self.grad_contexts[t]), *zip(step.after, self.grad_after, strict=True)]
        pairs += [(y, None if g is None else g[t]) for y, g in zip(step.results, grads, strict=True)]
        pairs = [(y, g) for y, g in pairs if g is not None and y.requires_grad]
        if not pairs:
            return None
        begin = [leaf for leaf in step.state if leaf.requires_grad]
        fed = [] if self.grad_fed is None else [step.fed]
        leaves, of_pairs = [step.query, *fed, *begin, *self.shared], [cast(Tensor, g) for _, g in pairs]
        of_leaves = iter(
            torch.autograd.grad([y for y, _ in pairs], leaves, of_pairs, retain_graph=True, allow_unused=True)
        )
        grad_query = next(of_leaves)
        if self.grad_fed is not None and (of_fed := next(of_leaves)) is not None:
            self.grad_fed[t] = of_fed
        self.grad_after[:] = [next(of_leaves) if leaf.requires_grad else None for leaf in step.state]
        for index, grad in enumerate(of_leaves):
            self.totals[index] = _sum(self.totals[index], grad)
        return grad_query

    def gradients(self) -> list[Tensor | None]:
        rest = iter(self.totals)
        grad_memory = [next(rest) if leaf.requires_grad else None for leaf in self.passed.memory]
        grad_weights = [next(rest) if need else None for need in self.passed.need_weights]
        return [*grad_memory, *self.grad_after, *grad_weights]


def refuse_steps(attention: nn.Module) -> str | None:
    """Why attention's steps cannot be run backward one by one, or None."""
    for name, module in attention.named_modules(prefix="attention"):
        if hasattr(module, "parametrizations"):
            return f"{name} has parametrised weights"
        for key, value in module.__dict__.items():
            if isinstance(value, Tensor) and value.requires_grad:
                return f"the {key} of {name} is no parameter"
        # they would be called in every step, and again for the sum
        if any(weight._backward_hooks for weight in module.parameters(recurse=False)):
            return f"hooks of a weight of {name} want to be called"
    return None


def _rebuilt(like: Any, leaves: Sequence[Tensor]) -> Any:
    """A tree of the same structure with these leaves."""
    rest: Iterator[Tensor] = iter(leaves)
    return tree.map(lambda _: next(rest), like)


def _sum(total: Tensor | None, grad: Tensor | None) -> Tensor | None:
    """Adds in place; the first one is copied, as autograd may share it."""
    if grad is None:
        return total
    return grad.clone() if total is None else total.add_(grad)
