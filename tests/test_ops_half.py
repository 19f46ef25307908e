"""Half copies of weights: products as under autocast, with few conversions."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from regard import ops
from regard.layers import Linear
from regard.layers.cells.layer import GRU, LSTM
from regard.ops import half
from regard.ops.attend import weighted_sum
from regard.ops.over_steps import Loop
from regard.training.precision import weights_of_products


class Conversions(TorchDispatchMode):
    """Counts conversions between types."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0

    def __torch_dispatch__(self, function: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += str(function) == "aten._to_copy.default"
        return function(*args, **(kwargs or {}))


def passes(module: nn.Module, x: torch.Tensor, *, copied: bool) -> tuple[list[torch.Tensor], int]:
    """Output and gradients in bfloat16, and how many conversions were made."""
    counting, inputs = Conversions(), x.clone().requires_grad_()
    weights = list(module.parameters()) if copied else []
    with counting, half.copied(weights, torch.bfloat16), torch.autocast("cpu", dtype=torch.bfloat16):
        y = module(inputs)
        gradients = torch.autograd.grad(y.float().square().sum(), [inputs, *module.parameters()])
    return [y, *gradients], counting.count


def test_copies_give_what_autocast_gives_with_fewer_conversions() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(*(Linear(8, 8) for _ in range(5)))
    x = torch.randn(4, 8)
    (expected, many), (found, few) = (passes(module, x, copied=copied) for copied in (False, True))
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype
        torch.testing.assert_close(a, b, rtol=0, atol=0)
    assert few <= many - 2 * 2 * 5  # a weight and a bias, forward and backward


def test_what_several_products_read_is_converted_once_unless_it_changes() -> None:
    weight, x = torch.ones(3, 3, requires_grad=True), torch.ones(2, 3, requires_grad=True)
    with half.copied([weight], torch.bfloat16):
        copies = half.current()
        assert copies is not None
        with torch.no_grad():
            assert not copies.of_input(x).requires_grad
        assert copies.of_input(x).requires_grad
        assert copies.of_input(x) is copies.of_input(x)
        with torch.no_grad():
            x.add_(1)
        assert copies.of_input(x)[0, 0] == 2
        ops.linear(x, weight).sum().backward()
    assert half.current() is None
    assert weight.grad is not None
    assert x.grad is not None
    assert weight.grad.dtype == x.grad.dtype == torch.float32


@pytest.mark.parametrize("kind", [LSTM, GRU])
def test_steps_in_a_loop_have_half_products_and_states_in_float32(kind: Any) -> None:
    torch.manual_seed(0)
    layer, head, x = kind(6, 8), Linear(8, 6), torch.randn(5, 3, 6)
    values = torch.randn(3, 4, 1, 8, requires_grad=True)
    parameters = [*layer.parameters(), *head.parameters(), values]

    def run(weights: Any) -> list[torch.Tensor]:
        states: Any = (torch.zeros(3, 8),) * (2 if kind is LSTM else 1)
        total: Any = torch.zeros(())
        with half.copied(weights, torch.bfloat16), torch.autocast("cpu", dtype=torch.bfloat16, enabled=bool(weights)):
            with Loop():
                for each in x:
                    _, states = layer(each, states)
                    assert states[0].dtype == torch.float32
                    read = weighted_sum(head(states[0]).float().softmax(1)[:, None, :4], values)
                    total = total + (read.float() * states[0]).sum()
            return [total.detach(), *torch.autograd.grad(total, parameters)]

    for a, b in zip(run(weights_of_products(nn.ModuleList([layer, head]))), run([]), strict=True):
        assert a.dtype == b.dtype
        torch.testing.assert_close(a, b, rtol=0.05, atol=0.05)


def test_weights_that_are_shared_with_an_embedding_are_trained_by_both() -> None:
    table, head = nn.Embedding(4, 3), Linear(3, 4, bias=False)
    head.weight = table.weight
    network = nn.ModuleList([table, head])
    (weight,) = weights_of_products(network)
    with half.copied([weight], torch.bfloat16):
        assert table(torch.tensor([0])).dtype == torch.float32
        (head(table(torch.tensor([0]))).sum() + table(torch.tensor([1])).sum()).backward()
    assert table.weight.grad is not None
    assert table.weight.grad[1].abs().sum() > 2.5
