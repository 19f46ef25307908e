"""What is kept for the backward pass may be recomputed, packed and unpacked, and used several times."""

from __future__ import annotations

import pytest
import torch
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

from regard import ops
from support.cases import OPERATIONS, OperationCase
from support.cases.case import draw

LOSS = OperationCase(
    "loss of an output layer",
    (lambda *x: ops.linear_cross_entropy(*x, smoothing=0.1)[0],),
    lambda: (draw(3, 4), draw(7, 4, seed=1), draw(7, seed=2), torch.tensor([1, 5, 2])),
)
CASES = pytest.mark.parametrize(
    "case", [one for one in (*OPERATIONS, LOSS) if "hard" not in one.name], ids=lambda case: case.name
)


def prepared(case, dtype=torch.float32):
    inputs = [
        x.to(dtype).requires_grad_() if isinstance(x, torch.Tensor) and x.is_floating_point() else x
        for x in case.inputs()
    ]
    leaves = [x for x in inputs if isinstance(x, torch.Tensor) and x.requires_grad]
    expected = torch.autograd.grad(case.shows[0](*inputs).square().sum(), leaves)
    return case.shows[0], inputs, leaves, expected


def assert_same(found, expected):
    """Equal to float32's rounding of the largest element; a differentiable backward pass adds in another order."""
    for ours, theirs in zip(found, expected, strict=True):
        largest = max(1.0, theirs.abs().max().item()) if theirs.numel() else 1.0
        torch.testing.assert_close(ours.detach(), theirs, rtol=1.3e-6, atol=1e-5 * largest)


@CASES
def test_operations_can_be_checkpointed(case):
    function, inputs, leaves, expected = prepared(case)
    for options in ({}, {"retain_graph": True}, {"create_graph": True}):
        total = checkpoint(function, *inputs, use_reentrant=False).square().sum()
        assert_same(torch.autograd.grad(total, leaves, **options), expected)
        if options:
            assert_same(torch.autograd.grad(total, leaves), expected)
    checkpoint(function, *inputs, use_reentrant=True).square().sum().backward()
    assert_same([leaf.grad for leaf in leaves], expected)


@CASES
def test_what_operations_keep_may_be_packed(case):
    function, inputs, leaves, expected = prepared(case)
    for hooks in (saved_tensors_hooks(torch.clone, torch.clone), save_on_cpu()):
        with hooks:
            total = function(*inputs).square().sum()
        assert_same(torch.autograd.grad(total, leaves, retain_graph=True), expected)
        assert_same(torch.autograd.grad(total, leaves), expected)


@CASES
def test_a_graph_that_is_kept_gives_the_same_gradients_again(case):
    function, inputs, leaves, expected = prepared(case)
    total = function(*inputs).square().sum()
    for _ in range(3):
        assert_same(torch.autograd.grad(total, leaves, retain_graph=True), expected)
    assert_same(torch.autograd.grad(total, leaves, create_graph=True), expected)
