"""Stacks of cells whose states are dropped or zoned out, in buffers of all steps, forward and backward.

    new = cell(x, old),  u = keep ⊙ new + stay ⊙ old   (u, new and old of each tensor of a layer's state)

The cells' derivative is that of `layers.cells.buffered`: each of their weights gets its gradient as one product over
all T·B rows. Masks are drawn for all steps at once, by item, as single steps would draw them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from regard.layers.cell_stack import CellStack
from regard.layers.cells import elementary
from regard.layers.cells.buffered import LAYERS
from regard.layers.cells.cell import Parameters, ineligible_layer, parameters
from regard.layers.dropout import drop
from regard.layers.eligibility import DROPOUTS, drops, ineligible
from regard.layers.recurrent import RecurrentStack
from regard.layers.zoneout import Zoneout


def refuse(stack: Any, name: str) -> str | None:
    """Why cells have to be called, or None."""
    if (reason := ineligible(stack, name, CellStack)) is not None:
        return reason
    if stack.cell not in LAYERS:
        return f"the fused pass knows no {stack.cell} cells"
    uncalled = [
        (stack.dropout, "dropout", DROPOUTS),
        (stack.zoneout, "zoneout", (Zoneout,)),
        (stack.zoneout.dropout if type(stack.zoneout) is Zoneout else stack.dropout, "zoneout.dropout", DROPOUTS),
    ]
    if stack.projection is not None:
        uncalled.append((stack.projection, "projection", (nn.Linear,)))
    for module, inner, kinds in uncalled:
        if (reason := ineligible(module, f"{name}.{inner}", *kinds)) is not None:
            return reason
    for index, cells in enumerate(stack.cells):
        where = f"{name}.cells.{index}"
        if (reason := ineligible(cells, where, RecurrentStack)) is not None:
            return reason
        if (reason := ineligible_layer(cells.layers[0], where)) is not None:
            return reason
    return None


@dataclass(frozen=True)
class Blend:
    """What a state tensor becomes after a step: keep ⊙ new + stay ⊙ old; each (T, B, D), or a number."""

    keep: Any
    stay: Any

    def at(self, t: int) -> tuple[Any, Any]:
        """Those of a step, (B, D) or numbers."""
        keep = self.keep[t] if isinstance(self.keep, Tensor) else self.keep
        return keep, self.stay[t] if isinstance(self.stay, Tensor) else self.stay


def blends(stack: CellStack, like: Tensor) -> tuple[tuple[Blend | None, ...], ...]:
    """Of every layer's state tensors; None where a tensor stays as the cell made it.

    Args:
        like: (B, T, any).
    """
    ones = like.new_ones(*like.shape[:2], stack.size).detach()
    result = []
    for index in range(stack.num_layers):
        of_layer: list[Blend | None] = []
        for number in range(stack.num_tensors):
            layer, blend = index * stack.num_tensors + number, None
            if stack.zoneout.p:
                if stack.zoneout.training and not drops(stack.zoneout.dropout):
                    blend = None
                elif stack.zoneout.training:
                    changes = drop(stack.zoneout.dropout, ones, layer=layer).transpose(0, 1).gt(0).to(ones.dtype)
                    blend = Blend(changes, 1 - changes)
                else:
                    blend = Blend(1 - stack.zoneout.p, stack.zoneout.p)
            elif stack.dropout.p and drops(stack.dropout) and (number == 0 or stack.dropped == "state"):
                blend = Blend(drop(stack.dropout, ones, layer=layer).transpose(0, 1).contiguous(), 0)
            of_layer.append(blend)
        result.append(tuple(of_layer))
    return tuple(result)


@dataclass(frozen=True)
class StackPlan:
    """What is fixed of a stack of cells.

    Args:
        blends: of every layer's state tensors.
    """

    cell: str
    residual: bool
    zones_output: bool
    blends: tuple[tuple[Blend | None, ...], ...]

    @property
    def num_weights(self) -> int:
        """Tensors in the stack's flat weights: four a layer, and the projection's two."""
        return 4 * len(self.blends) + 2 * self.residual


def plan(stack: CellStack, like: Tensor) -> StackPlan:
    """What is fixed of a stack, with the masks of all steps; like (B, T, any)."""
    return StackPlan(stack.cell, stack.residual, stack.zones_output or not stack.zoneout.p, blends(stack, like))


class Cells:
    """A stack's steps in buffers: states (T + 1, B, D), row t is the state before step t."""

    def __init__(self, plan: StackPlan, weights: Sequence[Any], steps: int, batch: int) -> None:
        self.plan, self.steps = plan, steps
        self.projection = [weight.detach() for weight in weights[-2:]] if plan.residual else None
        layers = [tuple(weights[4 * index : 4 * index + 4]) for index in range(len(plan.blends))]
        self.layers: list[Any] = []
        for layer, of_layer in zip(layers, plan.blends, strict=True):
            size = layer[1].shape[1]
            first = tuple(layer[1].new_zeros(batch, size) for _ in of_layer)
            self.layers.append(LAYERS[plan.cell](layer, first, steps))
        width = self.projection[0].shape[1] if self.projection is not None else 0
        self.read = layers[0][0].new_empty(steps, batch, width)

    @property
    def size(self) -> int:
        """D, of the outputs."""
        return int(self.layers[-1].size)

    @property
    def asked(self) -> Tensor:
        """h of the first layer, (T + 1, B, D)."""
        hidden: Tensor = self.layers[0].hidden
        return hidden

    def forward(self, t: int, left: Tensor, right: Tensor) -> Tensor:
        """The output (B, D) of a step from [left; right]."""
        first = self.layers[0]
        if self.projection is None:
            torch.cat([left, right], 1, out=first.fed[t])
            x = None
        else:
            torch.cat([left, right], 1, out=self.read[t])
            x = linear(self.read[t], *self.projection)
        for layer, of_layer in zip(self.layers, self.plan.blends, strict=True):
            if x is not None:
                layer.fed[t] = x
            layer.forward(t)
            output = h = layer.hidden[t + 1]  # (B, D)
            for blend, states in zip(of_layer, self._states(layer), strict=True):
                if blend is None:
                    continue
                keep, stay = blend.at(t)
                if states is layer.hidden and not self.plan.zones_output:
                    output = h.clone()
                new, old = states[t + 1], states[t]
                new.mul_(keep).add_(old * stay) if isinstance(stay, Tensor) or stay else new.mul_(keep)
            x = output + x if self.plan.residual and x is not None else output
        assert x is not None
        return x

    @staticmethod
    def _states(layer: Any) -> list[Tensor]:
        return [layer.hidden, layer.cells] if hasattr(layer, "cells") else [layer.hidden]


class CellsBackward:
    """A stack backward, from its last step to its first."""

    def __init__(self, cells: Cells) -> None:
        self.cells = cells
        self.layers = [layer.reverse() for layer in cells.layers]
        self.grad_projected = torch.empty_like(cells.layers[0].hidden[1:])

    def backward(self, t: int, grad: Tensor) -> Tensor:
        """The gradient of [left; right], from that of the output (B, D)."""
        plan = self.cells.plan
        for layer, of_layer in zip(reversed(self.layers), reversed(plan.blends), strict=True):
            grad_fed = self._layer(t, layer, of_layer, grad)
            grad = grad_fed + grad if plan.residual else grad_fed
        if self.cells.projection is None:
            return grad
        self.grad_projected[t] = grad
        return grad @ self.cells.projection[0]

    def _layer(self, t: int, layer: Any, of_layer: tuple[Blend | None, ...], grad: Tensor) -> Tensor:
        """A layer: u = keep ⊙ new + stay ⊙ old gives new keep ⊙ grad_u, and old stay ⊙ grad_u beside the cell."""
        later: list[tuple[Tensor, Tensor]] = []
        for number, blend in enumerate(of_layer):
            if blend is None:
                continue
            keep, stay = blend.at(t)
            carried = layer.grad_last if number == 0 else layer.grad_cells
            if number == 0:
                whole = carried + grad if self.cells.plan.zones_output else carried.clone()
                grad = whole * keep if self.cells.plan.zones_output else whole * keep + grad
                later.append((carried, whole * stay))
                carried.zero_()
            else:
                later.append((carried, carried * stay))
                carried.mul_(keep)
        grad_fed: Tensor = layer.backward(t, grad)
        for carried, old in later:
            carried.add_(old)
        return grad_fed

    def gradients(self) -> list[Tensor]:
        """Of the flat weights, each one product over all steps."""
        flat = [grad for layer in self.layers for grad in layer.gradients()]
        if self.cells.projection is not None:
            rows = self.grad_projected.flatten(0, 1)
            flat += [rows.t() @ self.cells.read.flatten(0, 1), rows.sum(0)]
        return flat


def flat_weights(stack: CellStack) -> list[Tensor]:
    """Four a layer, then the projection's."""
    flat = [weight for cells in stack.cells for weight in parameters(cells.layers[0])[0]]
    return flat if stack.projection is None else [*flat, stack.projection.weight, stack.projection.bias]


def reference_step(
    plan: StackPlan, weights: Sequence[Tensor], t: int, x: Tensor, state: Any
) -> tuple[Tensor, list[tuple[Tensor, ...]]]:
    """A step of a stack."""
    x = linear(x, weights[-2], weights[-1]) if plan.residual else x
    states = []
    for index, of_layer in enumerate(plan.blends):
        layer: Parameters = tuple(weights[4 * index : 4 * index + 4])  # type: ignore[assignment]
        new = elementary.step(plan.cell, x, state[index], layer)
        output, mixed = new[0], []
        for blend, fresh, old in zip(of_layer, new, state[index], strict=True):
            keep, stay = (1, 0) if blend is None else blend.at(t)
            mixed.append(fresh * keep + old * stay)
        output = mixed[0] if plan.zones_output else output
        states.append(tuple(mixed))
        x = output + x if plan.residual else output
    return x, states


def zeros(plan: StackPlan, weights: Sequence[Tensor], batch: int) -> list[tuple[Tensor, ...]]:
    """The first state."""
    return [
        tuple(weights[4 * index + 1].new_zeros(batch, weights[4 * index + 1].shape[1]) for _ in of_layer)
        for index, of_layer in enumerate(plan.blends)
    ]
