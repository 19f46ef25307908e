"""Gradients that are a part of the graph are those of an ordinary backward pass, and so are second derivatives."""

from __future__ import annotations

import pytest
import torch

from regard.attention import multi_head
from regard.layers import RecurrentStack, TokenEmbedding, TokenHead
from regard.models.transformer_layers import EncoderLayer
from regard.ops import plain
from regard.ops.autograd import second_order_gradients

B, T, D, N = 32, 9, 8, 11
X = torch.randn(B, T, D, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
IDS = torch.randint(1, N, (B, T), generator=torch.Generator().manual_seed(1))
MASK = torch.arange(T) < torch.randint(1, T + 1, (B, 1), generator=torch.Generator().manual_seed(2))


def tied_embeddings():
    embedding = TokenEmbedding(N, D)
    head = TokenHead(D, N, tied=embedding).double()
    return head, lambda: head.cross_entropy(embedding.double()(IDS), IDS, MASK, smoothing=0.1)[0]


def a_layer_that_is_called_twice():
    attention = multi_head(query_size=D, memory_size=D, size=D, num_heads=2)
    layer = EncoderLayer(D, attention, feed_forward_size=12, activation="gelu").double()
    return layer, lambda: layer(layer(X, MASK), MASK).square().sum()


def a_recurrent_layer_that_is_called_twice():
    stack = RecurrentStack(D, D).double()
    return stack, lambda: stack(stack(X, mask=MASK)[0], mask=MASK)[0].square().sum()


@pytest.mark.parametrize(
    ("case", "node"),
    [
        (tied_embeddings, "_Loss"),
        (a_layer_that_is_called_twice, "_DotAttention"),
        (a_recurrent_layer_that_is_called_twice, "_Layer"),
    ],
)
def test_inputs_that_depend_on_each_other_count_once(case, node):
    torch.manual_seed(3)
    module, loss = case()
    parameters = list(module.parameters())
    names, waiting = set(), [loss().grad_fn]
    while waiting:
        function = waiting.pop()
        names.add(type(function).__name__)
        waiting += [following for following, _ in function.next_functions if following is not None]
    assert f"{node}Backward" in names  # what is tested is in use
    ordinary = torch.autograd.grad(loss(), parameters)
    found = torch.autograd.grad(loss(), parameters, create_graph=True)
    second = torch.autograd.grad(sum(gradient.square().sum() for gradient in found), parameters)
    with plain():
        expected = torch.autograd.grad(loss(), parameters, create_graph=True)
        of_expected = torch.autograd.grad(sum(gradient.square().sum() for gradient in expected), parameters)
    for ours, theirs in zip((*ordinary, *found, *second), (*expected, *expected, *of_expected), strict=True):
        scale = max(float(theirs.detach().abs().max()), 1.0)
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-10 * scale)


def test_an_output_without_a_gradient_and_an_input_that_needs_none_are_left_out():
    x, y = (torch.tensor([value], requires_grad=True) for value in (2.0, 3.0))
    found = second_order_gradients(
        lambda a, b, _: (a * b, a), (x, y, None), (True, False, False), (torch.ones(1), None)
    )
    assert found[1:] == [None, None]
    torch.testing.assert_close(found[0], torch.tensor([3.0]))
    (again,) = torch.autograd.grad(found[0], y)
    torch.testing.assert_close(again, torch.ones(1))
