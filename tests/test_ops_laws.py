from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard import ops
from support.cases import OPERATIONS
from support.oracles.alignments import chunk, monotonic
from support.oracles.arithmetic import masked_softmax


def floating(inputs):
    return [x for x in inputs if isinstance(x, torch.Tensor) and x.is_floating_point()]


def convert(inputs, dtype):
    return tuple(x.to(dtype) if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in inputs)


@pytest.mark.parametrize("case", OPERATIONS, ids=lambda case: case.name)
def test_gradients_of_operations_are_those_of_finite_differences(case):
    inputs = [x.requires_grad_() if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in case.inputs()]
    assert torch.autograd.gradcheck(case.shows[0], tuple(inputs), fast_mode=True)


@pytest.mark.parametrize("case", OPERATIONS, ids=lambda case: case.name)
def test_rows_of_operations_are_independent(case):
    inputs = case.inputs()
    together = case.shows[0](*inputs)
    rows = len(together)
    for row in range(rows):
        alone = [x[row : row + 1] if isinstance(x, torch.Tensor) and len(x) == rows else x for x in inputs]
        torch.testing.assert_close(case.shows[0](*alone)[0], together[row], rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("case", OPERATIONS, ids=lambda case: case.name)
def test_operations_keep_their_type_and_are_close_to_float64(case, dtype):
    rounded = convert(case.inputs(), dtype)
    expected = case.shows[0](*convert(rounded, torch.float64))
    actual = case.shows[0](*rounded)
    assert actual.dtype == dtype
    torch.testing.assert_close(actual.double(), expected, rtol=0, atol=8 * torch.finfo(dtype).eps * 4)


IMPLEMENTED = [
    pytest.param(case, one, implementations[-1], id=f"{case.name}-{one.name}")
    for case in OPERATIONS
    if (implementations := ops.IMPLEMENTATIONS.get(case.shows[0].__name__, ()))
    for one in implementations
]


@pytest.mark.parametrize(("case", "implementation", "reference"), IMPLEMENTED)
def test_every_implementation_is_as_near_to_float64_as_the_reference(case, implementation, reference):
    dtype = torch.float32
    inputs = convert(case.inputs(), dtype)
    if (reason := implementation.unsupported_reason(*inputs)) is not None:
        pytest.skip(reason)

    def run(function, dtype):
        own = tuple(
            x.detach().clone().requires_grad_() if isinstance(x, torch.Tensor) and x.is_floating_point() else x
            for x in convert(inputs, dtype)
        )
        result = function(*own)
        results = result if isinstance(result, tuple) else (result,)
        torch.manual_seed(1)
        total = sum((x * torch.randn(x.shape, dtype=torch.float64).to(x)).sum() for x in results)
        return [*(x.detach() for x in results), *torch.autograd.grad(total, floating(own))]

    truth = run(reference.function, torch.float64)
    plain = run(reference.function, dtype)
    ours = run(implementation.function, dtype)
    for a, b, c in zip(ours, plain, truth, strict=True):
        scale = float(c.abs().max().clamp(min=1))
        allowed = 2 * max(float((b - c).abs().max()), torch.finfo(dtype).eps * scale * inputs[0].shape[-1])
        assert float((a - c).abs().max()) <= allowed


def test_every_operation_with_implementations_ends_in_its_reference_and_is_explained():
    for name, implementations in ops.IMPLEMENTATIONS.items():
        assert implementations[-1].name == "reference"
        assert ops.explain(name).startswith(name)
        assert "taken" in ops.explain(name)


rows_of_energies = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=7)


@given(energies=rows_of_energies, data=st.data(), scale=st.sampled_from([1e-6, 1.0, 1e3]))
def test_masked_softmax_is_its_equation_for_any_energies_and_any_mask(energies, data, scale):
    energies = [e * scale for e in energies]
    support = data.draw(st.lists(st.booleans(), min_size=len(energies), max_size=len(energies)))
    given_energies = torch.tensor(energies, dtype=torch.float64, requires_grad=True)
    weights = ops.masked_softmax(given_energies[None], torch.tensor([support]))[0]
    torch.testing.assert_close(weights.tolist(), masked_softmax(energies, support), rtol=1e-9, atol=1e-12)
    assert all(w == 0.0 for w, inside in zip(weights.tolist(), support, strict=True) if not inside)
    (gradient,) = torch.autograd.grad((weights * torch.arange(len(energies))).sum(), given_energies)
    assert torch.isfinite(gradient).all()
    assert any(support) or not gradient.any()


@given(st.integers(0, 3), st.integers(0, 4))
def test_masked_softmax_of_nothing_is_nothing(rows, width):
    support = torch.zeros(rows, width, dtype=torch.bool)
    assert ops.masked_softmax(torch.zeros(rows, width), support).eq(0).all()
    assert ops.masked_softmax(torch.zeros(rows, 0)).shape == (rows, 0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_masked_softmax_knows_no_sentinel_that_overflows(dtype):
    largest = torch.finfo(dtype).max
    energies = torch.tensor([[largest, -largest, 0.0], [-largest, -largest, -largest]], dtype=dtype)
    support = torch.tensor([[True, True, False], [True, True, False]])
    expected = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]], dtype=dtype)
    assert torch.equal(ops.masked_softmax(energies, support), expected)


probabilities = st.one_of(st.sampled_from([0.0, 1.0, 1e-12, 1 - 1e-12]), st.floats(0, 1))


@settings(max_examples=150)
@given(
    st.lists(st.tuples(probabilities, st.floats(0, 1)), min_size=1, max_size=8),
)
def test_expected_monotonic_alignment_is_its_definition_for_any_probabilities(drawn):
    choose, start = [p for p, _ in drawn], [a for _, a in drawn]
    total = max(sum(start), 1.0)
    start = [a / total for a in start]
    p = torch.tensor([choose], dtype=torch.float64, requires_grad=True)
    previous = torch.tensor([start], dtype=torch.float64)
    alignment = ops.expected_monotonic_alignment(p, previous)
    torch.testing.assert_close(alignment[0].tolist(), monotonic(choose, start), rtol=1e-9, atol=1e-12)
    assert float(alignment.detach().sum()) <= 1 + 1e-9
    (gradient,) = torch.autograd.grad(alignment.square().sum(), p)
    assert torch.isfinite(gradient).all()


def test_expected_monotonic_alignment_of_a_long_source_loses_no_mass():
    draw = torch.Generator().manual_seed(0)
    choose = torch.rand(2, 500, generator=draw) * 0.8 + 0.1
    start = torch.zeros(2, 500)
    start[:, 0] = 1
    exact = ops.expected_monotonic_alignment(choose.double(), start.double())
    torch.testing.assert_close(ops.expected_monotonic_alignment(choose, start).double(), exact, rtol=0, atol=1e-6)
    assert exact.sum(-1).min() > 1 - 1e-9


@settings(max_examples=100)
@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(-1e3, 1e3), st.booleans()), min_size=1, max_size=8),
    st.integers(1, 10),
)
def test_moving_chunk_softmax_is_its_equation_for_any_energies(drawn, width):
    stops, energies, support = ([row[i] for row in drawn] for i in range(3))
    mass = torch.tensor(stops, dtype=torch.float64)[None, None]
    u = torch.tensor(energies, dtype=torch.float64)[None, None].requires_grad_()
    weights = ops.moving_chunk_softmax(mass, u, torch.tensor(support)[None, None], width)
    expected = chunk(stops, energies, support, width)
    torch.testing.assert_close(weights[0, 0].tolist(), expected, rtol=1e-9, atol=1e-12)
    (gradient,) = torch.autograd.grad(weights.square().sum(), u)
    assert torch.isfinite(gradient).all()
