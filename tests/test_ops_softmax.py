from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import regard.ops.softmax as operation
from regard import ops
from regard.ops import threads
from regard.ops.eligibility import unavailable
from regard.ops.softmax import reference

pytestmark = pytest.mark.skipif(unavailable("numba", "regard.ops.kernels.softmax") is not None, reason="no numba")
LIMITS = {torch.float64: 1e-12, torch.float32: 1e-6}
INFINITY, NAN = float("inf"), float("nan")


@pytest.fixture(autouse=True)
def however_little(monkeypatch):
    monkeypatch.setattr(operation, "MIN_ELEMENTS", 0)


def answers(function, energies, support):
    own = energies.detach().requires_grad_()
    weights = function(own, support)
    probe = torch.randn(weights.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return weights.detach(), *torch.autograd.grad(weights, own, probe.to(weights.dtype))


def assert_same(energies, support):
    assert operation._numba_reason(energies, support) is None
    expected = answers(reference, energies, support)
    for a, b in zip(answers(ops.masked_softmax, energies, support), expected, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        torch.testing.assert_close(a, b, rtol=0, atol=LIMITS[a.dtype], equal_nan=True)


@settings(max_examples=80, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 5), min_size=0, max_size=3),
    width=st.integers(0, 37),
    shared=st.lists(st.booleans(), min_size=3, max_size=3),
    leading=st.integers(0, 3),
    scale=st.sampled_from([0.1, 10.0, 300.0]),
    dtype=st.sampled_from(list(LIMITS)),
)
def test_any_support_that_broadcasts_gives_the_plain_weights_and_gradients(sizes, width, shared, leading, scale, dtype):
    rows = [1 if one else size for size, one in zip(sizes, shared)][min(leading, len(sizes)) :]
    energies = (scale * torch.randn(*sizes, width, dtype=torch.float64)).to(dtype)
    assert_same(energies, torch.rand(*rows, width) > 0.4)


def test_rows_without_support_have_no_weights_and_no_gradient():
    support = torch.tensor([[True, False], [False, False]])
    weights, gradient = answers(ops.masked_softmax, torch.randn(2, 2), support)
    assert weights.tolist() == [[1, 0], [0, 0]]
    assert not gradient.any()


@pytest.mark.parametrize("dtype", LIMITS, ids=str)
def test_what_is_no_number_or_infinite_counts_in_the_support_alone(dtype):
    rows = [
        [1.0, NAN, 2.0, 0.0],
        [1.0, INFINITY, 2.0, 0.0],
        [1.0, -INFINITY, 2.0, 0.0],
        [-INFINITY, -INFINITY, -INFINITY, 0.0],
        [0.0, -1e30, 1e30, 5.0],
        [0.0, -88.0, -800.0, -0.0],
    ]
    energies = torch.tensor(rows, dtype=dtype)
    assert_same(energies, torch.tensor([True, False, True, True]))
    support = torch.tensor([True, True, True, False])
    found, expected = (answers(f, energies, support) for f in (ops.masked_softmax, reference))
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a[:, :3], b[:, :3], rtol=0, atol=LIMITS[dtype], equal_nan=True)
        assert not a[:, 3].any()


def test_a_gradient_that_is_infinite_outside_the_support_changes_nothing():
    energies = torch.randn(1, 3, requires_grad=True)
    weights = ops.masked_softmax(energies, torch.tensor([[True, True, False]]))
    (found,) = torch.autograd.grad(weights, energies, torch.tensor([[1.0, 2.0, INFINITY]]))
    assert found.isfinite().all()
    assert found[0, 2] == 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_types_are_computed_in_float32(dtype):
    energies, support = torch.randn(4, 9).to(dtype).requires_grad_(), torch.rand(4, 9) > 0.3
    found = ops.masked_softmax(energies, support)
    assert found.dtype == dtype
    torch.testing.assert_close(found, reference(energies.float(), support).to(dtype))
    (gradient,) = torch.autograd.grad(found.square().sum(), energies)
    assert gradient.dtype == dtype


def test_energies_and_gradients_that_are_given_are_left_as_they_are():
    energies, support, probe = torch.randn(3, 4, requires_grad=True), torch.rand(3, 4) > 0.3, torch.randn(3, 4)
    kept = energies.detach().clone(), probe.clone()
    torch.autograd.grad(ops.masked_softmax(energies, support), energies, probe)
    ops.masked_softmax(energies.detach(), support)
    assert torch.equal(energies, kept[0])
    assert torch.equal(probe, kept[1])


def test_inputs_need_not_stand_side_by_side():
    assert_same(torch.randn(5, 4, 6).transpose(0, 2), (torch.rand(5, 1, 6) > 0.3).transpose(0, 2))


def test_derivatives_are_those_of_finite_differences_also_the_second():
    support = torch.tensor([[True, True, False], [False, False, False], [True, True, True]])
    energies = torch.randn(3, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda e: ops.masked_softmax(e, support), energies)
    assert torch.autograd.gradgradcheck(lambda e: ops.masked_softmax(e, support), energies)


def test_threads_give_the_same(monkeypatch):
    energies, support = torch.randn(23, 4, 7), torch.rand(23, 1, 7) > 0.3
    expected = answers(ops.masked_softmax, energies, support)
    monkeypatch.setattr(threads, "GRAIN_SIZE", 1)
    torch.set_num_threads(2)
    try:
        found = answers(ops.masked_softmax, energies, support)
    finally:
        torch.set_num_threads(1)
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def test_torch_func_takes_operations_that_it_knows():
    energies, support = torch.randn(3, 2, 4), torch.rand(3, 2, 4) > 0.3
    found = torch.vmap(ops.masked_softmax)(energies, support)
    torch.testing.assert_close(found, ops.masked_softmax(energies, support))


def test_what_is_taken_is_explained(monkeypatch):
    energies, support = torch.randn(3, 4), torch.rand(3, 4) > 0.3
    assert "numba: taken" in ops.explain("masked_softmax", energies, support)
    assert "needs no mask" in ops.explain("masked_softmax", energies)
    assert "numba: refused: the inputs are on meta" in ops.explain("masked_softmax", energies.to("meta"), support)
    monkeypatch.setattr(operation, "MIN_ELEMENTS", 13)
    assert "too few numbers" in ops.explain("masked_softmax", energies, support)


@pytest.mark.parametrize("function", [ops.masked_softmax, reference])
def test_padding_gets_exactly_nothing_where_a_real_energy_is_no_number(function):
    energies = torch.tensor([[1.0, NAN, 2.0, NAN]])
    weights = function(energies, torch.tensor([[True, True, False, False]]))
    assert weights[:, :2].isnan().all()
    assert weights[:, 2:].tolist() == [[0, 0]]
