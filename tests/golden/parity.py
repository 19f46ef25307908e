"""Comparing a mechanism with a golden: outputs, and the probe's gradient for every input and every original weight.

Our parameters are written as functions of the original's weights, so that autograd carries our gradients back to the
names and shapes of the original, folded biases included.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call

from golden.archive import Golden, Tensors, load
from regard.attention import Mechanism, MechanismState

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-11}
"""Largest difference, relative to the largest number of a kind when that is above 1."""

Weights = Callable[[Tensors], Mapping[str, Tensor]]


class Attend(nn.Module):
    """A mechanism step by step, as one call: contexts, alignments, and what is asked of the state after every step."""

    def __init__(self, mechanism: Mechanism, state: Callable[[MechanismState], Tensors]) -> None:
        super().__init__()
        self.mechanism = mechanism
        self.state = state

    def forward(self, given: Tensors) -> Tensors:
        """What `queries` (the memory itself when there are none) see in `memory`."""
        memory = self.mechanism.prepare(given["memory"], keys=given.get("keys"), lengths=given.get("lengths"))
        state, steps = self.mechanism.initial_state(memory), []
        for i, query in enumerate(given.get("queries", given["memory"]).unbind(1)):
            inputs = given["previous_outputs"][:, i] if "previous_outputs" in given else None
            look, state = self.mechanism.step(query, memory, state, inputs=inputs, alignment=True)
            steps.append({"context": look.context, "alignment": look.alignment} | self.state(state))
        outputs = {name: torch.stack([step[name] for step in steps], 1) for name in steps[0]}
        return outputs | {"alignment": outputs["alignment"].transpose(1, 2)}


@dataclass(frozen=True)
class Parity:
    """Ours beside an original's.

    Args:
        name: original/mechanism.
        make: our mechanism.
        weights: the original's weights by name to our parameters by name.
        finish: (outputs, given, original's weights) to outputs, for what the original does after attention.
        state: what of our state the original gives out after every step.
        given: the original's inputs to `memory`, `queries`, `keys`, `lengths` and `previous_outputs`.
        differentiable: whether gradients are compared.
    """

    name: str
    make: Callable[[], Mechanism]
    weights: Weights
    finish: Callable[[Tensors, Tensors, Tensors], Tensors] = lambda outputs, given, weights: outputs
    state: Callable[[MechanismState], Tensors] = lambda state: {}
    given: Callable[[Tensors], Tensors] = lambda inputs: inputs
    differentiable: bool = True

    def __str__(self) -> str:
        return self.name

    def differences(self, dtype: torch.dtype) -> dict[str, float]:
        """The largest relative difference of every output and gradient."""
        golden = load(*self.name.split("/"), dtype)
        module = Attend(self.make(), self.state).to(dtype).eval()
        weights = leaves(golden.weights)
        inputs = leaves(golden.inputs)
        mapped = {f"mechanism.{name}": value.to(dtype) for name, value in self.weights(weights).items()}
        shapes = {name: tuple(value.shape) for name, value in module.named_parameters()}
        assert shapes == {name: tuple(value.shape) for name, value in mapped.items()}
        outputs = self.finish(functional_call(module, mapped, (self.given(inputs),)), inputs, weights)
        return compare(golden, outputs, inputs | weights if self.differentiable else {})


def leaves(tensors: Tensors) -> Tensors:
    """Floats, ready to be differentiated; the rest as it is."""
    return {
        name: value.clone().requires_grad_() if value.is_floating_point() else value for name, value in tensors.items()
    }


def compare(golden: Golden, outputs: Tensors, given: Tensors) -> dict[str, float]:
    """Differences of outputs, and of the probe's gradients with respect to what was given."""
    found = {name: relative(outputs[name], value) for name, value in golden.outputs.items()}
    wanted = {name: value for name, value in given.items() if value.requires_grad}
    if wanted:
        probe = torch.stack([(outputs[name] * factor).sum() for name, factor in golden.probes.items()]).sum()
        gradients = torch.autograd.grad(probe, list(wanted.values()), allow_unused=True)
        largest = max(float(value.abs().max()) for value in golden.gradients.values())
        for (name, value), gradient in zip(wanted.items(), gradients, strict=True):
            ours = torch.zeros_like(value) if gradient is None else gradient
            found[f"gradient of {name}"] = relative(ours, golden.gradients[name], largest)
    return found


def relative(ours: Tensor, theirs: Tensor, size: float | None = None) -> float:
    """The largest difference, divided by the largest number (or `size`) when that is above 1."""
    assert ours.shape == theirs.shape, f"{tuple(ours.shape)} and {tuple(theirs.shape)}"
    largest = float(theirs.detach().abs().max()) if size is None else size
    return float((ours.detach() - theirs).abs().max()) / max(largest, 1.0)


def assert_parity(parity: Parity, dtype: torch.dtype) -> None:
    """Every difference is within the tolerance of the precision."""
    found = parity.differences(dtype)
    assert found
    beyond = {name: value for name, value in found.items() if not value <= TOLERANCE[dtype]}
    assert beyond == {}
