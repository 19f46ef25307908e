"""The whole teacher-forced pass of a recurrent decoder as one node of the graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from regard.models.fused.passing import PASSES
from regard.models.fused.plan import Plan, Weights


def sweep(
    plan: Plan,
    embedded: Tensor,
    memory: tuple[Tensor, Tensor, Tensor | None],
    first: Sequence[tuple[Tensor, ...]],
    masks: Sequence[Tensor],
    weights: Weights,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """All steps.

    Args:
        embedded: (B, T, E).
        memory: keys (B, S, G, D), values (B, S, G, V), and the mask (B, S) or None.
        first: the first state of every layer.
        masks: (T, B, D) of the dropout between layers, 1 / keep or 0; empty without dropout.

    Returns:
        outputs (B, T, D), cells (B, T, D), contexts (B, T, V), alignments (B, H, T, S).
    """
    flat = [*(tensor for state in first for tensor in state), *masks, *weights.flat()]
    found = _Sweep.apply(plan, len(masks), embedded, *memory, *flat)  # type: ignore[no-untyped-call]
    outputs, cells, contexts, alignments = found
    return outputs.transpose(0, 1), cells.transpose(0, 1), contexts.transpose(0, 1), alignments.permute(1, 2, 0, 3)


class _Sweep(torch.autograd.Function):
    """Time comes first inside."""

    @staticmethod
    def forward(
        ctx: Any, plan: Plan, num_masks: int, embedded: Tensor, keys: Tensor, values: Tensor, mask: Any, *flat: Any
    ) -> Any:
        n, num_states = plan.num_tensors, plan.num_tensors * plan.num_layers
        first = [flat[i : i + n] for i in range(0, num_states, n)]
        masks, weights = flat[num_states : num_states + num_masks], Weights.of(flat[num_states + num_masks :])
        x = embedded.detach().transpose(0, 1).contiguous()
        forward = PASSES[plan.attends_first](plan, weights, (keys, values, mask), first, masks, x)
        for t in range(len(x)):
            forward.forward(t)
        results = forward.results()
        ctx.set_materialize_grads(False)
        ctx.passed = forward if any(ctx.needs_input_grad) else None
        ctx.save_for_backward(embedded, keys, values, *results, *flat)
        return results

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *by_results: Tensor | None) -> Any:
        results = ctx.saved_tensors[3:7]  # unpacking them all refuses what was changed in place since
        back = ctx.passed.back(results, by_results)
        for t in range(len(results[0]) - 1, -1, -1):
            back.backward(t)
        by_x, by_keys, by_values, by_first, by_weights = back.gradients()
        by_flat = [*by_first, *(None for _ in ctx.passed.masks), *by_weights.flat()]
        return None, None, by_x.transpose(0, 1), by_keys, by_values, None, *by_flat
