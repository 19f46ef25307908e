"""What torch asks of operations beside values and gradients: forward mode, torch.func, graphs, subclasses."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx

import regard.ops.softmax as softmax
from regard import ops
from regard.ops import choose, onednn
from regard.ops.logarithm import widen
from support.cases import OPERATIONS, OperationCase
from support.cases.case import draw, probabilities

OTHERS = (
    OperationCase("log softmax", (ops.log_softmax,), lambda: (draw(3, 6),)),
    OperationCase("largest", (lambda *x: ops.largest(*x)[0],), lambda: (draw(3, 9), 2, 1)),
    OperationCase(
        "loss of an output layer",
        (lambda *x: ops.linear_cross_entropy(*x, smoothing=0.1)[0],),
        lambda: (
            draw(3, 4),
            draw(7, 4, seed=1),
            draw(7, seed=2),
            torch.tensor([1, 5, 2]),
            torch.tensor([True, False, True]),
            torch.tensor([True, False, False, False, False, False, False]),
        ),
    ),
    OperationCase(
        "expected monotonic alignment, of few",
        (ops.expected_monotonic_alignment,),
        lambda: (probabilities(2, 3), probabilities(2, 3, seed=1) / 3),
    ),
    *(
        OperationCase(
            f"batch norm of real rows, {activation}",
            (
                lambda *x, activation=activation: ops.batch_norm(
                    x[0], torch.tensor([True, False, True, True, True]), *x[1:], activation=activation
                )[0],
            ),
            lambda: (draw(5, 3), draw(3, seed=1), draw(3, seed=2), draw(5, 3, seed=3)),
        )
        for activation in ("none", "relu")
    ),
)
CASES = pytest.mark.parametrize("case", [*OPERATIONS, *OTHERS], ids=lambda case: case.name)
NO_HESSIAN = ("hardmax", "largest")
PLAIN = {"reference", "selection", "additive", "chunked", "parallel", "sorting"}
"""Implementations that are operations of torch."""


@pytest.fixture(autouse=True)
def however_little(monkeypatch):
    monkeypatch.setattr(softmax, "MIN_ELEMENTS", 0)
    monkeypatch.setattr(onednn, "MIN_WORK", 0)


def of_numbers(case, dtype=torch.float64):
    """The operation as a function of its floating inputs, and these."""
    inputs = case.inputs()
    numbers = [isinstance(x, torch.Tensor) and x.is_floating_point() for x in inputs]

    def function(*floats):
        rest = iter(floats)
        return case.shows[0](*(next(rest) if number else x for x, number in zip(inputs, numbers, strict=True)))

    return function, tuple(x.to(dtype) for x, number in zip(inputs, numbers, strict=True) if number)


def directions(numbers):
    return tuple(draw(*x.shape, seed=40 + i).to(x.dtype) for i, x in enumerate(numbers))


def weights_of(x):
    return torch.cos(17 * torch.arange(x.numel(), dtype=x.dtype)).view(x.shape)


def difference(function, numbers, along, step=1e-6):
    up, down = (
        function(*(x + sign * step * d for x, d in zip(numbers, along, strict=True))).double() for sign in (1, -1)
    )
    return (up - down) / (2 * step)


@CASES
def test_derivatives_in_forward_mode_are_those_of_finite_differences(case):
    function, numbers = of_numbers(case)
    along = directions(numbers)
    expected = difference(function, numbers, along)
    with forward_ad.dual_level():
        result = function(*(forward_ad.make_dual(x, d) for x, d in zip(numbers, along, strict=True)))
        value, tangent = forward_ad.unpack_dual(result)
    torch.testing.assert_close(value, function(*numbers))
    torch.testing.assert_close(torch.zeros_like(value) if tangent is None else tangent, expected, rtol=1e-6, atol=1e-7)


@CASES
def test_torch_func_finds_the_derivatives_of_float32_that_float64_has(case):
    function, numbers = of_numbers(case)
    along = directions(numbers)
    value, tangent = torch.func.jvp(function, numbers, along)
    narrow = [tuple(x.float() for x in given) for given in (numbers, along)]
    found, moved = torch.func.jvp(function, *narrow)
    torch.testing.assert_close(found, value.float(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(moved.float(), tangent.float(), rtol=1e-4, atol=1e-4)


@CASES
def test_gradients_and_jacobians_by_torch_func_are_those_of_autograd(case):
    function, numbers = of_numbers(case)
    probe = weights_of(function(*numbers))
    leaves = [x.clone().requires_grad_() for x in numbers]
    loss = (function(*leaves) * probe).sum()
    expected = torch.autograd.grad(loss, leaves, allow_unused=True) if loss.requires_grad else (None,) * len(leaves)
    places = tuple(range(len(numbers)))
    found = torch.func.grad(lambda *x: (function(*x) * probe).sum(), places)(*numbers)
    forward, reverse = (
        kind(lambda *x: (function(*x) * probe).sum(), places)(*numbers)
        for kind in (torch.func.jacfwd, torch.func.jacrev)
    )
    for x, *theirs in zip(expected, found, forward, reverse, strict=True):
        for y in theirs:
            torch.testing.assert_close(y, torch.zeros_like(y) if x is None else x, rtol=1e-9, atol=1e-11)


@CASES
def test_hessians_forward_over_reverse_are_those_of_reverse_over_reverse(case):
    if case.name in NO_HESSIAN:
        pytest.skip("its derivative is constant")
    function, (first, *rest) = of_numbers(case)
    probe = weights_of(function(first, *rest))

    def loss(x):
        return (function(x, *rest) * probe).sum()

    expected = torch.func.jacrev(torch.func.jacrev(loss))(first)
    torch.testing.assert_close(torch.func.hessian(loss)(first), expected, rtol=1e-8, atol=1e-10)


@CASES
def test_operations_can_be_differentiated_twice(case):
    if case.name in NO_HESSIAN or "hard" in case.name:
        pytest.skip("its derivative is constant")
    function, numbers = of_numbers(case)
    assert torch.autograd.gradgradcheck(function, tuple(x.requires_grad_() for x in numbers), fast_mode=True)


@CASES
def test_operations_are_mapped_over_a_further_axis(case):
    function, numbers = of_numbers(case)
    several = [tuple(x + shift for x in numbers) for shift in (0.0, 1e-3, 0.02)]
    expected = torch.stack([function(*each) for each in several])
    found = torch.func.vmap(function)(*(torch.stack(given) for given in zip(*several, strict=True)))
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)


@CASES
def test_a_graph_of_an_operation_gives_the_same_for_other_numbers(case):
    function, numbers = of_numbers(case, torch.float32)
    program = make_fx(function)(*numbers)
    others = tuple(x + 0.01 * d for x, d in zip(numbers, directions(numbers), strict=True))
    torch.testing.assert_close(program(*others), function(*others), rtol=1e-5, atol=1e-5)


@CASES
def test_a_graph_of_a_gradient_gives_the_same_for_other_numbers(case):
    if case.name.startswith(("entmax of 1.3", "entmax, an alpha")):
        pytest.skip("a graph of thousands of steps of a bisection, as that of the operation")
    function, numbers = of_numbers(case)
    gradient = torch.func.grad(lambda *x: function(*x).square().sum(), tuple(range(len(numbers))))
    program = make_fx(gradient)(*numbers)
    others = tuple(x + 0.01 * d for x, d in zip(numbers, directions(numbers), strict=True))
    for ours, theirs in zip(program(*others), gradient(*others), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11)


@pytest.mark.filterwarnings("ignore")
@CASES
def test_a_trace_of_an_operation_gives_the_same_for_other_numbers(case):
    function, numbers = of_numbers(case, torch.float32)
    program = torch.jit.trace(function, numbers, check_trace=False)
    others = tuple(x + 0.01 * d for x, d in zip(numbers, directions(numbers), strict=True))
    torch.testing.assert_close(program(*others), function(*others), rtol=1e-5, atol=1e-5)


class Marked(torch.Tensor):
    """A tensor subclass that marks what comes of it."""


@CASES
def test_a_subclass_of_tensors_stays_one(case):
    function, numbers = of_numbers(case, torch.float32)
    found = function(*(x.as_subclass(Marked) for x in numbers))
    assert type(found) is Marked
    torch.testing.assert_close(found.as_subclass(torch.Tensor), function(*numbers), rtol=1e-5, atol=1e-5)


@CASES
def test_tensors_without_numbers_give_tensors_without_numbers(case):
    function, numbers = of_numbers(case, torch.float32)
    if any(isinstance(x, torch.Tensor) and not x.is_floating_point() for x in case.inputs()):
        pytest.skip("an input that is no number is real")
    with torch._subclasses.FakeTensorMode() as mode:
        found = function(*(mode.from_tensor(x) for x in numbers))
    assert isinstance(found, torch._subclasses.FakeTensor)
    assert found.shape == function(*numbers).shape


@pytest.mark.parametrize("name", ops.IMPLEMENTATIONS)
def test_no_kernel_is_taken_where_none_can_be_seen_into(name):
    case = next((one for one in (*OPERATIONS, *OTHERS) if one.shows[0] is getattr(ops, name)), None)
    uncased = {
        "warping_path": (draw(2, 4, 5),),
        "largest": (draw(3, 9), 2),
        "linear_cross_entropy": OTHERS[2].inputs(),
        "batch_norm": (draw(4, 3), None, draw(3), draw(3), None, None, 1e-5, "relu"),
    }
    inputs = case.inputs() if case else uncased[name]
    with forward_ad.dual_level():
        assert choose.choose(ops.IMPLEMENTATIONS[name], *inputs).name in PLAIN


def test_a_half_number_is_widened_by_torch_func_too():
    x = torch.tensor([1e-6, 0.5], dtype=torch.float16)
    assert torch.func.grad(lambda x: widen(x).log()[0])(x)[0] == 4094
    value, moved = torch.func.jvp(widen, (x,), (torch.ones_like(x),))
    assert value.dtype == moved.dtype == torch.float32
    assert moved.tolist() == [1, 1]


def test_log_softmax_does_not_write_over_what_has_a_tangent():
    x, d = draw(3, 6), draw(3, 6, seed=1)
    kept = x.clone()
    with forward_ad.dual_level():
        found = forward_ad.unpack_dual(ops.log_softmax(forward_ad.make_dual(x, d)))
    torch.testing.assert_close(found.primal, kept.log_softmax(1))
    torch.testing.assert_close(found.tangent, d - (kept.softmax(1) * d).sum(1, keepdim=True))
