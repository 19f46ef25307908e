"""The small models of the goldens of tensorflow-addons' decoders, over the original's weights."""

from __future__ import annotations

import torch
from torch import Tensor

from golden.archive import Golden, load
from regard.interop import tfa

START, END, STEPS = 0, 1, 7


class Cell:
    """h' = tanh(x W + h U + b), which is its output."""

    def __init__(self, weights: dict[str, Tensor]) -> None:
        self.weights = weights
        self.state_size = self.output_size = weights["bias"].shape[0]

    def __call__(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        w = self.weights
        new = torch.tanh(inputs @ w["kernel"] + state @ w["recurrent"] + w["bias"])
        return new, new

    def get_initial_state(self, inputs=None, batch_size=None, dtype=None):
        return torch.zeros(batch_size, self.state_size, dtype=dtype)


def layer(weights: dict[str, Tensor]):
    """The output layer."""
    return lambda outputs: outputs @ weights["output"] + weights["output_bias"]


def attentive(weights: dict[str, Tensor], memory: Tensor, lengths: Tensor, width: int = 1) -> tfa.AttentionWrapper:
    """The cell in an AttentionWrapper, over a memory with a row for each of `width` hypotheses."""
    mechanism = tfa.LuongAttention(5, tfa.tile_batch(memory, width), tfa.tile_batch(lengths, width), dtype=memory.dtype)
    wrapper = tfa.AttentionWrapper(
        Cell(weights), mechanism, attention_layer_size=5, alignment_history=True, dtype=memory.dtype
    )
    with torch.no_grad():
        for name, parameter in wrapper.named_parameters():
            given = weights["attention_layer" if "attention_layers" in name else "memory_layer"]
            parameter.copy_(given.T)
    mechanism.setup_memory(tfa.tile_batch(memory, width), tfa.tile_batch(lengths, width))
    return wrapper


def first_state(wrapper: tfa.AttentionWrapper, state: Tensor, width: int = 1) -> tfa.AttentionWrapperState:
    """The state before the first step, with an encoder's state."""
    rows = len(state) * width
    return wrapper.get_initial_state(batch_size=rows, dtype=state.dtype).clone(cell_state=tfa.tile_batch(state, width))


def golden(name: str, dtype: torch.dtype = torch.float32) -> Golden:
    """A golden of tensorflow-addons."""
    return load("tensorflow_addons", name, dtype)


def case_of(outputs: dict[str, Tensor], name: str) -> dict[str, Tensor]:
    """The outputs of one case."""
    return {key.removeprefix(f"{name}."): value for key, value in outputs.items() if key.startswith(f"{name}.")}


def close(actual: Tensor, expected: Tensor, tolerance: float = 1e-5) -> None:
    """Asserts equal shapes, and numbers to a tolerance, relative where they are above 1."""
    torch.testing.assert_close(actual.to(expected.dtype), expected, atol=tolerance, rtol=tolerance)
