"""The whole teacher-forced pass of a recurrent decoder as one node of the graph."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from regard.models.fused import reference
from regard.models.fused.graphs import RECORDERS, Recordings, Tensors
from regard.models.fused.plan import Plan, Weights
from regard.models.fused.steps import PASSES, AbstractPass, Results
from regard.ops import second_order


def all_steps(
    plan: Plan,
    embedded: Tensor,
    memory: tuple[Tensor | None, ...],
    first: Sequence[tuple[Tensor, ...]],
    masks: Sequence[Tensor],
    weights: Weights,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """All steps.

    Args:
        embedded: (B, T, E).
        memory: keys (B, S, G, D), values (B, S, G, V), the mask (B, S) or None, and of located energies the weights
            before the first step (B, H, P, S) and their sum (B, H, S), or None.
        first: the first state of every layer.
        masks: (T, B, D) of the dropout between layers, 1 / keep or 0; empty without dropout.

    Returns:
        outputs (B, T, D), cells (B, T, D), contexts (B, T, V), alignments (B, H, T, S).
    """
    flat = [*(tensor for state in first for tensor in state), *masks, *weights.flat()]
    records = embedded.device.type in RECORDERS and torch.is_grad_enabled()
    results = _AllSteps.apply(plan, len(masks), records, embedded, *memory, *flat)  # type: ignore[no-untyped-call]
    outputs, cells, contexts, alignments = results
    return outputs.transpose(0, 1), cells.transpose(0, 1), contexts.transpose(0, 1), alignments.permute(1, 2, 0, 3)


RECORDINGS = Recordings()


class _AllSteps(torch.autograd.Function):
    """Time comes first inside. A second derivative is that of `reference.steps`."""

    @staticmethod
    def forward(ctx: Any, plan: Plan, num_masks: int, records: bool, *inputs: Any) -> Any:
        forward = partial(_forward, plan, num_masks)
        ctx.set_materialize_grads(False)
        needed = any(ctx.needs_input_grad)
        ctx.recording = (
            RECORDINGS.reserve(ctx, (plan, num_masks), forward, _backward, inputs) if records and needed else None
        )
        passed, results = forward(inputs) if ctx.recording is None else (None, ctx.recording.forward(inputs))
        ctx.passed = passed if needed else None
        ctx.plan, ctx.num_masks, ctx.given = plan, num_masks, inputs[3:6]  # they get no gradients
        # the same for both paths, as checkpoints compare what is saved
        ctx.save_for_backward(*results, *inputs[:3], *inputs[6:])
        return results

    @staticmethod
    def backward(ctx: Any, *grad_results: Tensor | None) -> Any:
        saved = ctx.saved_tensors  # unpacking them refuses what was changed in place since
        if torch.is_grad_enabled():  # gradients that are to be differentiated themselves
            inputs = [*saved[4:7], *ctx.given, *saved[7:]]
            return None, None, None, *_differentiable(ctx, inputs, grad_results)
        if ctx.recording is not None:
            return None, None, None, *ctx.recording.backward(grad_results, ctx.needs_input_grad[3:])
        return None, None, None, *_backward(ctx.passed, saved[:4], grad_results)


def _differentiable(ctx: Any, inputs: Tensors, grad_results: Tensors) -> list[Tensor | None]:
    """The gradients of the inputs, as a part of the graph."""

    def steps(*inputs: Any) -> Results:
        return reference.steps(ctx.plan, ctx.num_masks, inputs)

    return second_order.gradients(steps, inputs, ctx.needs_input_grad[3:], grad_results)


def _forward(plan: Plan, num_masks: int, inputs: Sequence[Any]) -> tuple[AbstractPass, Results]:
    """All steps, from inputs, keys, values, mask, first states, masks of dropout and weights."""
    embedded, keys, values, mask, recent, total, *flat = inputs
    first, masks, weights = plan.divide(flat, num_masks)
    x = embedded.detach().transpose(0, 1).contiguous()
    passed = PASSES[plan.attends_first](plan, weights, (keys, values, mask), (recent, total), first, masks, x)
    for t in range(len(x)):
        passed.forward(t)
    return passed, passed.results()


def _backward(passed: AbstractPass, results: Any, grad_results: Tensors) -> list[Tensor | None]:
    """The gradients of the inputs."""
    reverse = passed.reverse(results, grad_results)
    for t in range(passed.steps - 1, -1, -1):
        reverse.backward(t)
    grad_x, grad_keys, grad_values, grad_first, grad_weights = reverse.gradients()
    grad_masks = [None for _ in passed.masks]
    return [
        grad_x.transpose(0, 1),
        grad_keys,
        grad_values,
        None,
        None,
        None,
        *grad_first,
        *grad_masks,
        *grad_weights.flat(),
    ]
