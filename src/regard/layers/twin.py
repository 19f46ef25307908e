"""A module's twin for many steps of as many rows without gradients: the same weights, laid out once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn

from regard.layers.cells.cell import State, ineligible_layer
from regard.layers.cells.single import STEPS, Packed
from regard.layers.eligibility import ineligible
from regard.layers.linear import Linear
from regard.layers.output import TokenHead
from regard.layers.recurrent import CellState, RecurrentStack
from regard.ops.eligibility import refuse_autocast, refuse_kernels
from regard.ops.linear.storage import stores_bytes
from regard.ops.log_softmax import log_softmax
from regard.shapes import Float

ModuleT = TypeVar("ModuleT", bound=nn.Module)
MIN_ROWS = 2
"""Rows from which on steps are worth the preparation."""
_KINDS = (torch.float32, torch.float64)


def twin(module: ModuleT, rows: int) -> ModuleT:
    """A twin that takes steps of about so many rows quicker, or the module itself where that cannot be.

    Its linear maps, recurrent stacks and output layers are replaced, whatever module they belong to, where their
    weights say all that they do (`eligibility`); the others stay. Nothing is set on the module, and the twin does not
    see what becomes of its weights afterwards.
    """
    return module if refuse(rows) is not None else cast(ModuleT, _twin(module, rows))


def refuse(rows: int = MIN_ROWS) -> str | None:
    """Why steps of so many rows have no twin, whatever the module, or None."""
    if rows < MIN_ROWS and not stores_bytes():
        return "weights that are packed save a single row nothing"
    if (reason := refuse_kernels() or refuse_autocast()) is not None:
        return reason
    return "gradients may be asked for" if torch.is_grad_enabled() else None


def _twin(module: nn.Module, rows: int) -> nn.Module:
    if type(module) in _TWINS:
        return module if _refuses(module) else _TWINS[type(module)](module, rows)
    children = {name: None if child is None else _twin(child, rows) for name, child in module._modules.items()}
    if all(child is module._modules[name] for name, child in children.items()):
        return module
    copied: nn.Module = object.__new__(type(module))  # `copy.copy` refuses parametrised modules
    copied.__dict__ = {**module.__dict__, "_modules": children}
    return copied


def _refuses(module: nn.Module) -> bool:
    """Whether a module has no twin: it has to be called, or its weights are of other kinds."""
    if ineligible(module, "it") is not None or (isinstance(module, TokenHead) and not module.is_plain):
        return True
    if isinstance(module, RecurrentStack) and (
        module.cell not in STEPS or module.bidirectional or any(map(ineligible_layer, module.layers))
    ):
        return True
    return any(weight.device.type != "cpu" or weight.dtype not in _KINDS for weight in module.parameters())


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
        self.product = Packed(linear.weight, rows=rows)

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
        self.product = Packed(head.projection.weight, rows=rows)
        bias: Tensor | None = head.projection.bias
        bias = head.projection.weight.new_zeros(len(head.never)) if bias is None else bias.detach()
        self.forbidden = head.never if head.never_counts else None
        self.bias = bias if head.never_counts else bias.masked_fill(head.never, float("-inf"))

    def forward(self, features: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows N"]:
        """Log-probabilities of the next token."""
        result = log_softmax(self.product(self.adapter(features), self.bias))
        return result if self.forbidden is None else result.masked_fill(self.forbidden, float("-inf"))


class PackedStack(nn.Module):
    """The step of a recurrent stack.

    Args:
        stack: of LSTM or GRU cells, one direction.
        rows: of its state.
    """

    def __init__(self, stack: RecurrentStack, rows: int) -> None:
        super().__init__()
        self.stack = stack
        self.cells = [STEPS[stack.cell](layer, rows) for layer in stack.layers]

    def step(self, inputs: Float[Tensor, "R F"], state: CellState) -> tuple[Float[Tensor, "R D"], CellState]:
        """One step of every layer."""

        def run(cell: Callable[..., State], x: Tensor, last: State) -> tuple[Tensor, State]:
            after = cell(x, last)
            return after[0], after

        return self.stack.through(run, self.cells, inputs, state)


_TWINS: dict[type[nn.Module], Callable[[Any, int], nn.Module]] = {
    nn.Linear: PackedLinear,
    Linear: PackedLinear,
    RecurrentStack: PackedStack,
    TokenHead: PackedHead,
}
