"""The teacher-forced loop of a decoder of frames as one node of the graph, with any attention.

    with query cells:     s_t = query_cells([p_t; c_{t-1}]),  c_t = attend(s_t),  d_t = output_cells([s_t; c_t]) or s_t
    without query cells:  c_t = attend(h_{t-1}), h the state of the first output cell,  d_t = output_cells([p_t; c_t])

The cells write into buffers of all steps (`stacks`), and attention writes into buffers, too, or takes its own step
(`attending`). What is made of p for all steps, and what is said of d and c, stands before and after the node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor

from regard import tree
from regard.errors import UnsupportedError
from regard.layers import recorders
from regard.models.fused import attending, stacks
from regard.models.fused.contract import AbstractPlan
from regard.models.fused.stacks import Cells, CellsBackward, StackPlan
from regard.ops import second_order
from regard.ops.eligibility import refuse_autocast, refuse_device, refuse_empty, refuse_kernels, refuse_types


def refuse(decoder: Any, *inputs: Tensor) -> str | None:
    """Why there is no fused pass for a decoder, or for such inputs, or None."""
    weights = tuple(decoder.parameters())
    if (reason := refuse_kernels(*inputs) or refuse_device("cpu", *weights, *inputs)) is not None:
        return reason
    if (reason := refuse_types(*weights, *inputs) or refuse_autocast(*weights) or refuse_empty(*inputs)) is not None:
        return reason
    for name in ("query_cells", "output_cells"):
        stack = getattr(decoder, name)
        if stack is not None and (reason := stacks.refuse(stack, name)) is not None:
            return reason
    return attending.refuse_steps(decoder.attention)


def explain(decoder: Any) -> str:
    """What a fused pass does in its steps."""
    with recorders.silent():
        reason = attending.refuse_hand(decoder.attention)
    attention = "writes into buffers of all steps" if reason is None else f"takes its own step: {reason}"
    return f"a training pass is one fused node of the graph, in which attention {attention}"


@dataclass(frozen=True)
class SpeechPlan:
    """What is fixed of a pass.

    Args:
        query, output: of the cells, or None.
        attention: of attention.
        context_size: V.
    """

    query: StackPlan | None
    output: StackPlan | None
    attention: AbstractPlan
    context_size: int

    def divide(self, flat: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any], Sequence[Any]]:
        """The weights of query and output cells, and attention's inputs."""
        first, second = (0 if stack is None else stack.num_weights for stack in (self.query, self.output))
        return flat[:first], flat[first : first + second], flat[first + second :]


def run(
    decoder: Any,
    features: Tensor,
    fed: Tensor,
    memory: Any,
    state: Any,
    *,
    alignment: bool,
    generator: Generator | None,
) -> tuple[Tensor, Tensor, Any, Any]:
    """All steps.

    Args:
        features: (B, T, P), the prenet's.
        fed: (B, T, n·F), the frames.
        memory, state: attention's memory and first state.

    Returns:
        outputs (B, T, D), contexts (B, T, V), and attention's alignments (B, T, …) and auxiliary (B, T, …), or None.
    """
    parts = [decoder.query_cells, decoder.output_cells]
    query, output = (None if stack is None else stacks.plan(stack, features) for stack in parts)
    attention, reports = attending.plan(decoder.attention, memory, state, alignment=alignment, generator=generator)
    plan = SpeechPlan(query, output, attention, decoder.attention.context_size)
    flat = [weight for stack in parts if stack is not None for weight in stacks.flat_weights(stack)]
    structure: list[Any] = []
    with recorders.joined() if reports else recorders.silent():
        outputs, contexts, *results = _Frames.apply(  # type: ignore[no-untyped-call]
            plan, structure, torch.is_grad_enabled(), features, fed, *flat, *attention.flat()
        )
    leaves = iter([result.transpose(0, 1) for result in results])
    weights, auxiliary = tree.map(lambda _: next(leaves), structure[0])
    if not reports and weights is not None:
        recorders.report(decoder.attention, weights.transpose(1, 2))
        weights = weights if alignment else None
    return outputs.transpose(0, 1), contexts.transpose(0, 1), weights, auxiliary


class _Frames(torch.autograd.Function):
    """Time comes first inside. A second derivative is that of `reference_steps`."""

    @staticmethod
    def forward(
        ctx: Any, plan: SpeechPlan, structure: list[Any], records: bool, features: Tensor, fed: Tensor, *flat: Any
    ) -> Any:
        ctx.set_materialize_grads(False)
        passed = Pass(plan, records and any(ctx.needs_input_grad), ctx.needs_input_grad[4:], features, fed, flat)
        results = passed.forward()
        structure.append(passed.attending.beside)
        ctx.mark_non_differentiable(*(result for result in results if not result.is_floating_point()))
        ctx.passed = passed if passed.records else None
        ctx.plan = plan
        ctx.save_for_backward(features, fed, *flat)
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        inputs = ctx.saved_tensors  # unpacking them refuses what was changed in place since
        if torch.is_grad_enabled():
            if ctx.plan.attention.is_random:
                raise UnsupportedError("Attention that draws at random has no second derivative in a fused pass.")

            def steps(*inputs: Tensor) -> Sequence[Tensor]:
                return reference_steps(ctx.plan, *inputs)

            return None, None, None, *second_order.gradients(steps, inputs, ctx.needs_input_grad[3:], grads)
        return None, None, None, *ctx.passed.backward(grads)


class Pass:
    """The steps, and after them the same backward.

    Args:
        records: whether it will run backward.
        needs: whether the frames need gradients, then which of the flat inputs.
        features, fed: (B, T, P) and (B, T, n·F).
        flat: the weights of the cells, then attention's inputs.
    """

    def __init__(
        self, plan: SpeechPlan, records: bool, needs: Sequence[bool], features: Tensor, fed: Tensor, flat: Sequence[Any]
    ) -> None:
        self.plan, self.records = plan, records
        self.features, self.fed = (x.detach().transpose(0, 1) for x in (features, fed))
        self.steps, self.batch = self.features.shape[:2]
        of_query, of_output, of_attention = plan.divide(flat)
        needed = (*plan.divide(needs[1:])[2], needs[0])
        self.query = None if plan.query is None else Cells(plan.query, of_query, self.steps, self.batch)
        self.output = None if plan.output is None else Cells(plan.output, of_output, self.steps, self.batch)
        self.attending = plan.attention.begin(of_attention, needed, self.fed, records)
        self.contexts = features.new_empty(self.steps, self.batch, plan.context_size)

    def forward(self) -> list[Tensor]:
        """Outputs, contexts and results, (T, B, …)."""
        outputs, context = [], torch.zeros_like(self.contexts[0])
        for t in range(self.steps):
            if self.query is not None:
                query = self.query.forward(t, self.features[t], context)
            else:
                assert self.output is not None
                query = self.output.asked[t]
            self.attending.forward(t, query, self.fed[t], self.contexts)
            context = self.contexts[t]
            if self.output is not None:
                left = self.features[t] if self.query is None else query
                outputs.append(self.output.forward(t, left, context))
            else:
                outputs.append(query)
        return [torch.stack(outputs), self.contexts[:], *self.attending.results()]

    def backward(self, grads: Sequence[Tensor | None]) -> list[Tensor | None]:
        """The gradients of features, frames and all flat inputs."""
        grad_outputs, grad_contexts, *grad_results = grads
        query = None if self.query is None else CellsBackward(self.query)
        output = None if self.output is None else CellsBackward(self.output)
        to_contexts = torch.zeros_like(self.contexts)
        if grad_contexts is not None:
            to_contexts.copy_(grad_contexts)
        attention = self.attending.reverse(to_contexts, grad_results)
        grad_features = torch.empty_like(self.features, memory_format=torch.contiguous_format)
        size = next(cells.size for cells in (self.output, self.query) if cells is not None)
        nothing = self.features.new_zeros(self.batch, size)
        for t in range(self.steps - 1, -1, -1):
            # d_t to what the output cells read; the context of this step has what the next one's cells gave it
            grad_query = nothing if grad_outputs is None else grad_outputs[t]
            if output is not None:
                grad_left, grad_context = output.backward(t, grad_query).tensor_split([-self.plan.context_size], 1)
                to_contexts[t].add_(grad_context)
                if query is None:
                    grad_features[t] = grad_left
                grad_query = grad_left
            # c_t to the query, and the query to the cells that made it
            grad_asked = attention.backward(t)
            if query is not None:
                grad_query = grad_query if grad_asked is None else grad_query + grad_asked
                grad_features[t], grad_context = query.backward(t, grad_query).tensor_split(
                    [-self.plan.context_size], 1
                )
                if t:
                    to_contexts[t - 1].add_(grad_context)
            elif grad_asked is not None:
                assert output is not None
                output.layers[0].grad_last.add_(grad_asked)
        of_cells = [grad for part in (query, output) if part is not None for grad in part.gradients()]
        grad_fed = None if attention.grad_fed is None else attention.grad_fed.transpose(0, 1)
        return [grad_features.transpose(0, 1), grad_fed, *of_cells, *attention.gradients()]


def reference_steps(plan: SpeechPlan, features: Tensor, fed: Tensor, *flat: Any) -> list[Tensor]:
    """The steps in torch's own operations: what `_Frames` computes, differentiable as often as asked for."""
    of_query, of_output, of_attention = plan.divide(flat)
    attend = plan.attention.reference(of_attention)
    query_state = None if plan.query is None else stacks.zeros(plan.query, of_query, len(features))
    output_state = None if plan.output is None else stacks.zeros(plan.output, of_output, len(features))
    context = features.new_zeros(len(features), plan.context_size)
    taken = []
    for t, (x, frames) in enumerate(zip(features.unbind(1), fed.unbind(1), strict=True)):
        if plan.query is not None:
            read = torch.cat([x, context], 1)
            query, query_state = stacks.reference_step(plan.query, of_query, t, read, query_state)
        else:
            assert output_state is not None
            query = output_state[0][0]
        context, beside = attend(query, frames)
        output = query
        if plan.output is not None:
            read = torch.cat([x if plan.query is None else query, context], 1)
            output, output_state = stacks.reference_step(plan.output, of_output, t, read, output_state)
        taken.append([output, context, *tree.leaves(beside)])
    return [torch.stack(parts) for parts in zip(*taken, strict=True)]
