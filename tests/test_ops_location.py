from __future__ import annotations

import inspect

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

import regard.ops.location as operation
from regard import ops
from regard.attention import location_sensitive
from regard.errors import ShapeError
from regard.ops import over_steps, threads
from regard.ops.eligibility import unavailable
from regard.ops.location import located, reference

if unavailable("numba", "regard.ops.kernels.location") is None:
    from regard.ops.kernels import location as kernels

NAMES = ("energies", *(f"the gradient of {name}" for name in ("query", "keys", "past", "filters", "projection", "v")))
KINDS = (torch.float64, torch.float32)


def draw(B=2, K=1, S=9, H=1, D=8, C=1, W=3, F=4, dtype=torch.float64):
    shapes = (B, K, H, D), (B, S, H, D), (B, K, H, C, S), (H, F, C, W), (H, F, D), (H, D)
    scales = 1.0, 1.0, 1.0, (C * W) ** -0.5, F**-0.5, 1.0
    return [(c * torch.randn(shape, dtype=torch.float64)).to(dtype) for shape, c in zip(shapes, scales, strict=True)]


def answers(function, inputs, weigh=lambda probe: probe):
    leaves = [x.detach().requires_grad_() for x in inputs]
    energies = function(*leaves)
    probe = torch.randn(energies.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return [energies.detach(), *torch.autograd.grad(energies, leaves, weigh(probe).to(energies.dtype))]


def sizes_of_terms(inputs):
    """Of each answer the largest sum of the sizes of its terms: the same sums of |x|, with slopes of 1."""

    def linear(query, keys, past, filters, projection, v):
        x = query[:, :, None] + keys[:, None] + located(past, filters, projection)
        return (x * v).sum(-1).transpose(2, 3)

    return [
        float(x.abs().max()) if x.numel() else 0.0
        for x in answers(linear, [x.double().abs() for x in inputs], torch.abs)
    ]


def assert_same(inputs, dtype):
    """Only rounding away from the plain formula in float64; slopes of tanh are as exact as numbers near 1."""
    expected = answers(reference, [x.double() for x in inputs])
    ours, terms = answers(ops.location_energies, inputs), sizes_of_terms(inputs)
    for name, a, b, size in zip(NAMES, ours, expected, terms, strict=True):
        assert a.shape == b.shape, name
        atol = 8 * torch.finfo(dtype).eps * max(1.0, size)
        torch.testing.assert_close(a.double(), b, rtol=0, atol=atol, msg=name)


@pytest.mark.parametrize("dtype", KINDS, ids=str)
@pytest.mark.parametrize(
    "sizes",
    [
        {},
        {"K": 3},
        {"H": 2, "C": 2},
        {"W": 31, "F": 32, "S": 40, "D": 33},  # one product
        {"W": 31, "F": 8, "C": 2, "D": 32},  # two products
        {"W": 1, "F": 1, "K": 2, "H": 3},
        {"S": 1, "W": 7},
        {"B": 1, "D": 1},
    ],
    ids=str,
)
def test_energies_and_every_gradient_are_the_plain_formulas(sizes, dtype):
    assert_same(draw(**sizes, dtype=dtype), dtype)


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.fixed_dictionaries(
        {
            **{letter: st.integers(0, 4) for letter in "BKS"},
            **{letter: st.integers(1, 3) for letter in "HCF"},
            "D": st.integers(1, 20),
            "W": st.sampled_from([1, 3, 9]),
        }
    ),
    dtype=st.sampled_from(KINDS),
)
def test_any_sizes_are_the_plain_formula(sizes, dtype):
    if sizes["B"] * sizes["K"] * sizes["S"]:
        assert_same(draw(**sizes, dtype=dtype), dtype)
    else:  # torch has no filters of nothing
        found = answers(ops.location_energies, inputs := draw(**sizes, dtype=dtype))
        assert found[0].shape == (sizes["B"], sizes["K"], sizes["H"], sizes["S"])
        assert all(gradient.shape == x.shape and not gradient.any() for gradient, x in zip(found[1:], inputs))


@pytest.mark.parametrize("held", [operation.HELD, 0])
@pytest.mark.parametrize("sizes", [{"C": 2}, {"K": 2}, {"H": 2, "W": 5}, {"h": 3, "w": 4, "K": 3}], ids=str)
def test_a_gpu_takes_one_convolution_and_holds_no_more_than_it_may(sizes, held, monkeypatch):
    monkeypatch.setattr(operation, "HELD", held)
    inputs = draw(**{name: size for name, size in sizes.items() if name not in "hw"})
    if "h" in sizes:
        inputs[1] = torch.randn(2, 12, 1, 8).double()
        inputs[2], inputs[3] = torch.randn(2, 3, 1, 1, 3, 4).double(), torch.randn(1, 4, 1, 3, 5).double()
    found, expected = (answers(f, inputs) for f in (operation.by_convolution, reference))
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12)
    with over_steps.Loop():
        leaves = [x.clone().requires_grad_() for x in inputs]
        twice = operation.by_convolution(*leaves) + operation.by_convolution(*leaves)
    probe = torch.ones_like(twice)
    expected = torch.autograd.grad(reference(*leaves), leaves, 2 * probe)
    for a, b in zip(torch.autograd.grad(twice, leaves, probe), expected, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


@pytest.mark.parametrize("sizes", [{"B": 5}, {"B": 5, "K": 2}, {"B": 5, "H": 2}], ids=str)
def test_blocks_of_any_size_give_the_same(monkeypatch, sizes):
    inputs = draw(**sizes)
    expected = answers(ops.location_energies, inputs)
    for block in (1, 200):
        monkeypatch.setattr(kernels, "BLOCK_ELEMENTS", block)
        for a, b in zip(answers(ops.location_energies, inputs), expected, strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=1e-13)


def test_threads_give_the_same(monkeypatch):
    inputs = draw(B=7, K=2)
    expected = answers(ops.location_energies, inputs)
    monkeypatch.setattr(threads, "GRAIN_SIZE", 1)
    torch.set_num_threads(2)
    try:
        found = answers(ops.location_energies, inputs)
    finally:
        torch.set_num_threads(1)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-13)


@pytest.mark.parametrize("far", [30.0, 500.0])
def test_large_sums_saturate_as_the_plain_formula_does(far):
    query, *others = draw(dtype=torch.float32)
    found, expected = (answers(f, [query * far, *others]) for f in (ops.location_energies, reference))
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


def test_a_number_that_is_none_stays_in_its_row():
    query, keys, past, *others = draw(B=3, K=2)
    past[1, 0, 0, 0, 4] = float("nan")
    found = ops.location_energies(query, keys, past, *others).isnan()
    assert found[1, 0, 0].tolist() == [False] * 3 + [True] * 3 + [False] * 3
    assert found.sum() == 3


@pytest.mark.parametrize("layout", ["transposed", "expanded", "sliced"])
def test_inputs_need_not_stand_side_by_side(layout):
    query, keys, past, filters, projection, v = draw(B=3, K=2, H=2)
    query = {
        "transposed": lambda: query.transpose(0, 3).contiguous().transpose(0, 3),
        "expanded": lambda: query[:1].expand_as(query),
        "sliced": lambda: torch.stack([query, query], -1)[..., 0],
    }[layout]()
    keys = torch.cat([keys, keys], 1)[:, 3:12]
    past = past.transpose(3, 4).contiguous().transpose(3, 4)
    inputs = (query, keys, past, filters.transpose(0, 1).contiguous().transpose(0, 1), projection, v)
    torch.testing.assert_close(ops.location_energies(*inputs), reference(*inputs))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_types_are_computed_in_float32(dtype):
    inputs = [x.to(dtype).requires_grad_() for x in draw()]
    found = ops.location_energies(*inputs)
    assert found.dtype == dtype
    expected = reference(*(x.float() for x in inputs)).to(dtype)
    torch.testing.assert_close(found, expected)
    assert [g.dtype for g in torch.autograd.grad(found.sum(), inputs)] == [dtype] * 6


def test_only_what_is_asked_for_is_differentiated():
    inputs = draw(C=2, W=9, F=2)
    inputs[5].requires_grad_()
    (grad_v,) = torch.autograd.grad(ops.location_energies(*inputs).sum(), [inputs[5]])
    (expected,) = torch.autograd.grad(reference(*inputs).sum(), [inputs[5]])
    torch.testing.assert_close(grad_v, expected, rtol=0, atol=1e-12)


def test_second_derivatives_are_right():
    inputs = [x.requires_grad_() for x in draw(B=1, S=3, D=2, F=2)]
    assert torch.autograd.gradgradcheck(ops.location_energies, tuple(inputs))


def test_the_compiler_and_torch_func_take_operations_that_they_know():
    inputs = draw(B=3, dtype=torch.float32)
    expected = ops.location_energies(*inputs)
    each = torch.vmap(lambda q, k, p: ops.location_energies(q[None], k[None], p[None], *inputs[3:])[0])
    torch.testing.assert_close(each(*inputs[:3]), expected)
    grad_query = torch.func.grad(lambda q: ops.location_energies(q, *inputs[1:]).sum())(inputs[0])
    leaf = inputs[0].clone().requires_grad_()
    torch.testing.assert_close(
        grad_query, torch.autograd.grad(ops.location_energies(leaf, *inputs[1:]).sum(), leaf)[0], rtol=1e-5, atol=1e-6
    )


def test_what_is_taken_is_explained(monkeypatch):
    assert "numba: taken" in ops.explain("location_energies", *draw())
    told = ops.explain("location_energies", *(x.to("meta") for x in draw()))
    assert "numba: refused: the inputs are on meta" in told
    assert "convolution: taken" in told
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    assert "additive: taken" in ops.explain("location_energies", *draw())
    inputs = draw(K=2)
    torch.testing.assert_close(ops.location_energies(*inputs), reference(*inputs))


@pytest.mark.parametrize("wrong", range(6))
def test_sizes_that_do_not_fit_are_refused(wrong):
    inputs = draw(B=2, K=3, S=9, H=5, D=8, C=4, W=7, F=6)
    inputs[wrong] = inputs[wrong][..., :-1]
    with pytest.raises(ShapeError, match="must agree on their sizes"):
        inspect.unwrap(ops.location_energies)(*inputs)


def test_filters_of_even_width_are_refused():
    with pytest.raises(ShapeError, match="odd"):
        ops.location_energies(*draw(W=4))


def test_memory_of_hypotheses_is_not_copied(monkeypatch):
    """Nothing as large as all rows' keys is made."""
    inputs = draw(B=4, K=6, S=30, D=16)
    made = []
    empty = torch.Tensor.new_empty
    monkeypatch.setattr(torch.Tensor, "new_empty", lambda x, *a, **o: made.append(y := empty(x, *a, **o)) or y)
    monkeypatch.setattr(kernels, "BLOCK_ELEMENTS", 1)
    ops.location_energies(*inputs)
    assert max(x.numel() for x in made) <= inputs[1].numel() // 4 * 6


def test_a_mechanism_is_what_is_written_by_hand():
    mechanism = location_sensitive(query_size=5, memory_size=6, size=8, num_filters=4, kernel_size=5).double()
    queries, values = torch.randn(2, 4, 5).double(), torch.randn(2, 7, 6).double()
    found, score = mechanism(queries, mechanism.prepare(values))[0].context, mechanism.score
    past = torch.zeros(2, 7).double()
    for t, query in enumerate(queries.unbind(1)):
        features = functional.conv1d(past[:, None], score.filters.weight, padding=2).transpose(1, 2)
        hidden = score.content.query_projection(query)[:, None] + score.content.key_projection(values)
        weights = (torch.tanh(hidden + features @ score.location_projection[0]) @ score.content.v[0]).softmax(-1)
        past = past + weights
        torch.testing.assert_close(found[:, t], (weights[:, None] @ values)[:, 0])


def test_the_table_ends_with_the_reference():
    assert operation.LOCATION_ENERGIES[-1].function is reference
