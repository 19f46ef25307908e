"""A module's twin for many steps of as many rows without gradients: the same weights, laid out once."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn

from regard.layers import recurrence
from regard.layers.eligibility import ineligible
from regard.layers.output import TokenHead
from regard.layers.recurrent import CellState, RecurrentStack
from regard.ops.choose import refuse_kernels, steps_for
from regard.ops.linear import Product
from regard.ops.log_softmax import log_softmax
from regard.shapes import Float

ModuleT = TypeVar("ModuleT", bound=nn.Module)
ENOUGH = 2
"""Rows from which on steps are worth the preparation."""
_KINDS = (torch.float32, torch.float64)


def twin(module: ModuleT, rows: int) -> ModuleT:
    """A twin that takes steps of about so many rows quicker, or the module itself where that cannot be.

    Its linear maps, recurrent stacks and output layers are replaced, whatever module they belong to, where their
    weights say all that they do (`eligibility`); the others stay. Nothing is set on the module, and the twin does not
    see what becomes of its weights afterwards.
    """
    if rows < ENOUGH or torch.is_grad_enabled() or torch.is_autocast_enabled("cpu") or refuse_kernels() is not None:
        return module
    return cast(ModuleT, _twin(module, rows))


def _twin(module: nn.Module, rows: int) -> nn.Module:
    if type(module) in _TWINS:
        return module if _refuses(module) else _TWINS[type(module)](module, rows)
    children = {name: None if child is None else _twin(child, rows) for name, child in module._modules.items()}
    if all(child is module._modules[name] for name, child in children.items()):
        return module
    copied = copy.copy(module)
    copied.__dict__["_modules"] = children
    return copied


def _refuses(module: nn.Module) -> bool:
    """Whether a module has no twin: it has to be called, or its weights are of other kinds."""
    if ineligible(module, "it") is not None or (isinstance(module, TokenHead) and not module.is_plain):
        return True
    if isinstance(module, RecurrentStack) and (
        module.cell not in _STEPS or module.bidirectional or any(map(recurrence.unreadable, module.layers))
    ):
        return True
    return any(weight.device.type != "cpu" or weight.dtype not in _KINDS for weight in module.parameters())


class Packed:
    """A product that is packed when it is first asked for: not every weight of a decoder takes part in its steps.

    Args:
        weight: (N, K).
        rows: of its inputs.
    """

    def __init__(self, weight: Tensor, rows: int) -> None:
        self.weight, self.rows = weight, rows
        self.made: list[Product] = []

    def __call__(self, x: Float[Tensor, "*rows K"], bias: Tensor | None = None) -> Float[Tensor, "*rows N"]:
        """x Wᵀ + b."""
        if not self.made:
            self.made.append(Product(self.weight, self.rows))
        return self.made[0](x, bias)


class PackedLinear(nn.Linear):
    """A linear map whose weight is packed.

    Args:
        linear: whose weight and bias it has.
        rows: of its inputs.
    """

    def __init__(self, linear: nn.Linear, rows: int) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.weight = linear.weight
        self.register_parameter("bias", linear.bias)
        self.product = Packed(linear.weight, rows)

    def forward(self, input: Tensor) -> Tensor:
        """x Wᵀ + b."""
        return self.product(input, self.bias)


class PackedHead(nn.Module):
    """An output layer that makes log-probabilities in the place of its logits.

    Args:
        head: whose weights it has.
        rows: of its features.
    """

    def __init__(self, head: TokenHead, rows: int) -> None:
        super().__init__()
        self.adapter = _twin(head.adapter, rows)
        self.projection = head.projection
        self.product = Packed(head.projection.weight, rows)
        bias: Tensor | None = head.projection.bias
        bias = head.projection.weight.new_zeros(len(head.never)) if bias is None else bias.detach()
        self.bias = bias.masked_fill(head.never, float("-inf"))

    def forward(self, features: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows N"]:
        """Log-probabilities of the next token."""
        return log_softmax(self.product(self.adapter(features), self.bias))


class PackedStack(nn.Module):
    """The step of a recurrent stack: what is fed and an LSTM's state meet the weights in one product.

    Args:
        stack: of LSTM or GRU cells, one direction.
        rows: of its state.
    """

    def __init__(self, stack: RecurrentStack, rows: int) -> None:
        super().__init__()
        self.stack = stack
        self.cells = [_STEPS[stack.cell](layer, rows) for layer in stack.layers]

    def step(self, inputs: Float[Tensor, "R F"], state: CellState) -> tuple[Float[Tensor, "R D"], CellState]:
        """One step of every layer."""
        new = []
        for index, cell in enumerate(self.cells):
            new.append(cell(inputs, state[index]))
            inputs = self.stack._between(index, inputs, new[-1][0])
        return inputs, tuple(new)


Step = Callable[[Tensor, tuple[Tensor, ...]], tuple[Tensor, ...]]


def _lstm(layer: Any, rows: int) -> Step:
    product = Packed(torch.cat([layer.weight_ih_l0, layer.weight_hh_l0], 1), rows)
    bias = (layer.bias_ih_l0 + layer.bias_hh_l0)[None]
    cell = steps_for("cells", "cpu").lstm

    def step(inputs: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        h, c = state
        cells, hidden = c.new_empty(2, *c.shape), h.new_empty(2, *h.shape)
        cells[0] = c
        cell(0, product(torch.cat([inputs, h], 1)), bias, cells, torch.empty_like(c)[None], hidden)
        return hidden[1], cells[1]

    return step


def _gru(layer: Any, rows: int) -> Step:
    size = layer.hidden_size
    turned, bias = (given.roll(size, 0) for given in (layer.weight_ih_l0, layer.bias_ih_l0))  # n, r, z
    fed, recurrent = Packed(turned, rows), Packed(layer.weight_hh_l0, rows)
    cell = steps_for("cells", "cpu").gru

    def step(inputs: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        (h,) = state
        hidden = h.new_empty(2, *h.shape)
        hidden[0] = h
        both, new = h.new_empty(1, len(h), 2 * size), h.new_empty(1, *h.shape)
        cell(0, fed(inputs), bias[None], recurrent(h, layer.bias_hh_l0), both, new, hidden)
        return (hidden[1],)

    return step


_STEPS: dict[str, Callable[[Any, int], Step]] = {"lstm": _lstm, "gru": _gru}
_TWINS: dict[type[nn.Module], Callable[[Any, int], nn.Module]] = {
    nn.Linear: PackedLinear,
    RecurrentStack: PackedStack,
    TokenHead: PackedHead,
}
