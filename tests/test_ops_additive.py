from __future__ import annotations

import inspect
import operator
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Barrier

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
import regard.ops.additive as operation
from regard import ops
from regard.errors import RegardError, ShapeError
from regard.ops import eligibility, threads
from regard.ops.additive import find_slope, reference

ACTIVATIONS = ("tanh", "relu", "leaky_relu")
SCALES = (0.01, 0.1, 1.0, 3.0, 10.0, 30.0, 100.0)


def draw(*sizes, scale=1.0, v_scale=1.0, dtype=torch.float32, heads=0):
    """Query, keys and v for sizes B, T, S, D."""
    batch, steps, positions, size = sizes
    inner = (heads, size) if heads else (size,)
    shapes = ((batch, steps, *inner), (batch, positions, *inner), inner)
    scales = (scale, scale, v_scale)
    return [(torch.randn(s, dtype=torch.float64) * c).to(dtype) for s, c in zip(shapes, scales, strict=True)]


def run(function, inputs, dtype=None):
    """The energies and the gradients by query, keys and v of a fixed combination of them."""
    own = [x.detach().to(dtype or x.dtype).requires_grad_() for x in inputs]
    energies = function(*own)
    probe = torch.randn(energies.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return [energies.detach(), *torch.autograd.grad(energies, own, probe.to(energies.dtype))], probe.abs()


def bounds(inputs, probe, activation):
    """What ε is multiplied by: Σ|terms| of each result, the largest."""
    query, keys, v = (x.detach().double().abs() for x in inputs)
    terms = 1.0 if activation == "tanh" else float(query.max() + keys.max())
    largest = float(v.max())
    grad_v = float(probe.sum((0, -1, -2)).max())
    sums = float(probe.sum(-1).max()), float(probe.sum(-2).max())
    return float(v.sum(-1).max()) * terms, sums[0] * largest, sums[1] * largest, grad_v * terms


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("sizes", [(2, 3, 5, 48), (2, 1, 9, 33), (3, 35, 37, 66)], ids=str)
@pytest.mark.parametrize("scale", SCALES)
def test_errors_are_at_most_twice_the_plain_formulas_or_epsilon_times_the_terms(scale, sizes, activation):
    inputs = draw(*sizes, scale=scale)
    truth, probe = run(partial(reference, activation=activation), inputs, torch.float64)
    plain, _ = run(partial(reference, activation=activation), inputs)
    ours, _ = run(partial(ops.additive_energies, activation=activation), inputs)
    for a, b, c, bound in zip(ours, plain, truth, bounds(inputs, probe, activation), strict=True):
        allowed = 2 * max(float((b - c).abs().max()), torch.finfo(torch.float32).eps * bound)
        assert float((a - c).abs().max()) <= allowed


@pytest.mark.parametrize("scale", SCALES)
def test_float64_is_as_near_as_the_plain_formula(scale):
    inputs = draw(2, 7, 19, 35, scale=scale * 4, dtype=torch.float64)
    plain, probe = run(reference, inputs)
    ours, _ = run(ops.additive_energies, inputs)
    for a, b, bound in zip(ours, plain, bounds(inputs, probe, "tanh"), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=8 * torch.finfo(torch.float64).eps * bound)


def factored(query, keys, v):
    a, b = (2 * query).exp(), (2 * keys).exp()
    return (v * (1 - 2 / (1 + a[:, :, None] * b[:, None]))).sum(-1)


@pytest.mark.parametrize(("dtype", "far"), [(torch.float32, 60.0), (torch.float64, 400.0)])
def test_numbers_whose_powers_are_not_finite_are_computed_exactly(dtype, far):
    query, keys, v = draw(2, 3, 4, 21, dtype=dtype)
    query[1, 2, 5], keys[1, :, 5] = far, -far + torch.arange(4) / 4
    exact, _ = run(reference, (query, keys, v))
    assert not torch.allclose(factored(query, keys, v), exact[0], atol=1e-3)
    ours, _ = run(ops.additive_energies, (query, keys, v))
    for a, b in zip(ours, exact, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_not_a_number_and_infinity_are_what_the_plain_formula_makes_of_them(steps, activation):
    special = [float("nan"), float("inf"), -float("inf"), 3e38, -3e38, 1e-40, 44.0, -44.0, 0.0]
    values = torch.tensor(special)
    query, keys, v = draw(9, steps, 9, 17)
    query[:, 0, 3], keys[:, :, 3] = values, values
    inputs = [x.requires_grad_() for x in (query, keys, v)]
    plain = reference(*inputs, activation)
    ours = ops.additive_energies(*inputs, activation)
    torch.testing.assert_close(ours, plain, equal_nan=True, rtol=1e-5, atol=1e-5)
    if activation == "tanh":
        found, expected = (torch.autograd.grad(e.sum(), inputs) for e in (ours, plain))
        for a, b in zip(found, expected, strict=True):
            torch.testing.assert_close(a, b, equal_nan=True, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("infinite", [float("inf"), -float("inf")])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_gradients_at_infinite_keys_are_those_of_the_plain_formula(activation, infinite, dtype):
    query, keys, v = draw(2, 3, 5, 17, dtype=dtype)
    keys[0, 2, 3] = infinite
    inputs = [x.requires_grad_() for x in (query, keys, v)]
    energies = (f(*inputs, activation) for f in (ops.additive_energies, reference))
    ours, plain = (torch.autograd.grad(e.sum(), inputs) for e in energies)
    for a, b in zip(ours, plain, strict=True):
        assert not b.isnan().any()
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-4)


def test_an_infinite_direction_is_what_the_plain_formula_makes_of_it():
    query, keys, v = draw(2, 3, 4, 5)
    v[1] = float("inf")
    torch.testing.assert_close(ops.additive_energies(query, keys, v), reference(query, keys, v))


LAYOUTS = {
    "contiguous": lambda x: x.contiguous(),
    "transposed": lambda x: x.transpose(0, 1).contiguous().transpose(0, 1),
    "features apart": lambda x: x.transpose(1, -1).contiguous().transpose(1, -1),
    "sliced": lambda x: torch.stack([x, x + 1], 1)[:, 0],
    "every other": lambda x: x.repeat_interleave(2, -1)[..., ::2],
    "offset": lambda x: torch.cat([x.new_ones(x.shape[0], 1, *x.shape[2:]), x], 1)[:, 1:],
}


@settings(max_examples=60)
@given(
    sizes=st.tuples(st.integers(0, 4), st.integers(0, 20), st.integers(0, 20), st.integers(0, 40)),
    heads=st.integers(0, 3),
    activation=st.sampled_from(ACTIVATIONS),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    layouts=st.tuples(*[st.sampled_from(sorted(LAYOUTS))] * 2),
    scale=st.sampled_from([0.1, 3.0, 50.0]),
)
def test_any_sizes_strides_and_heads_are_the_plain_formula(sizes, heads, activation, dtype, layouts, scale):
    query, keys, v = draw(*sizes, heads=heads, dtype=dtype, scale=scale)
    given_inputs = (LAYOUTS[layouts[0]](query), LAYOUTS[layouts[1]](keys), v)
    expected, probe = run(partial(reference, activation=activation), (query, keys, v), torch.float64)
    own = [x.requires_grad_() for x in given_inputs]
    energies = ops.additive_energies(*own, activation)
    found = [energies, *torch.autograd.grad(energies, own, run_probe(energies))]
    reach = bounds((query, keys, v), probe, activation) if min(sizes) and query.numel() else (1.0,) * 4
    for a, b, bound in zip(found, expected, reach, strict=True):
        assert a.shape == b.shape
        torch.testing.assert_close(a.double(), b, rtol=0, atol=16 * torch.finfo(dtype).eps * max(bound, 1.0))


def run_probe(energies):
    probe = torch.randn(energies.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return probe.to(energies.dtype)


def test_memories_that_sentences_share_are_read_without_copies():
    query, keys, v = draw(1, 3, 5, 8)
    query, keys = query.expand(4, 3, 8), keys.expand(4, 5, 8)
    torch.testing.assert_close(ops.additive_energies(query, keys, v), reference(query, keys, v))


@pytest.mark.parametrize("kinds", ["hhh", "bbb", "hsb", "bds", "ssd", "shs"])
def test_half_types_are_computed_in_float32_and_mixed_ones_in_the_wider(kinds):
    types = {"h": torch.float16, "b": torch.bfloat16, "s": torch.float32, "d": torch.float64}
    inputs = [x.to(types[k]).requires_grad_() for x, k in zip(draw(2, 3, 5, 40), kinds, strict=True)]
    result = ops.additive_energies(*inputs)
    assert result.dtype == reference(*inputs).dtype
    exact, probe = run(reference, inputs, torch.float64)
    torch.testing.assert_close(result.double(), exact[0], rtol=torch.finfo(result.dtype).eps, atol=1e-5)
    for gradient, x, b in zip(torch.autograd.grad(result, inputs, run_probe(result)), inputs, exact[1:], strict=True):
        assert gradient.dtype == x.dtype
        coarse = torch.finfo(min(x.dtype, result.dtype, key=lambda d: -torch.finfo(d).eps)).eps
        torch.testing.assert_close(gradient.double(), b, rtol=4 * coarse, atol=8 * coarse * float(probe.sum().sqrt()))


def test_only_kernels_for_a_gpu_read_half_types_as_they_are_stored():
    half = [x.bfloat16() for x in draw(2, 1, 5, 8)]
    assert all(map(operator.is_, operation._as_read("triton", *half), half))
    for name in ("compiled", "numba", "chunked", "reference"):
        assert {x.dtype for x in operation._as_read(name, *half)} == {torch.float32}
    double = [*half[:2], half[2].double()]
    assert {x.dtype for x in operation._as_read("triton", *double)} == {torch.float64}


@pytest.fixture
def many_parts(monkeypatch):
    """Work is handed to other threads however little it is."""
    monkeypatch.setattr(threads, "GRAIN_SIZE", 1)
    yield
    torch.set_num_threads(1)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("sizes", [(1, 40, 7, 100), (5, 3, 6, 33), (1, 1, 50, 64)], ids=str)
def test_results_do_not_depend_on_the_number_of_threads(many_parts, sizes, activation):
    inputs = draw(*sizes)
    inputs[0][0, 0, 1] = 70.0
    results = []
    for count in (1, 2, 3, 7):
        torch.set_num_threads(count)
        results.append(run(partial(ops.additive_energies, activation=activation), inputs)[0])
    for other in results[1:]:
        assert all(map(torch.equal, other, results[0]))


def test_two_threads_at_once_get_the_same_bits(many_parts):
    torch.set_num_threads(2)
    inputs = draw(4, 9, 11, 70)
    alone, _ = run(ops.additive_energies, inputs)
    together = Barrier(2)

    def repeat(_):
        together.wait()
        return [run(ops.additive_energies, inputs)[0] for _ in range(20)]

    with ThreadPoolExecutor(2) as pool:
        for results in pool.map(repeat, range(2)):
            assert all(torch.equal(a, b) for result in results for a, b in zip(result, alone, strict=True))


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("heads", [0, 2])
@pytest.mark.parametrize("steps", [1, 3])
def test_first_and_second_derivatives_are_those_of_finite_differences(activation, heads, steps):
    inputs = [x.requires_grad_() for x in draw(2, steps, 4, 3, heads=heads, dtype=torch.float64)]
    function = partial(ops.additive_energies, activation=activation)
    assert torch.autograd.gradcheck(function, inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(function, inputs, fast_mode=True)


@pytest.mark.parametrize("wanted", range(3))
def test_the_gradient_of_one_input_is_the_same_alone(wanted):
    inputs = draw(2, 3, 4, 5)
    together, _ = run(ops.additive_energies, inputs)
    inputs[wanted].requires_grad_()
    energies = ops.additive_energies(*inputs)
    (alone,) = torch.autograd.grad(energies, [inputs[wanted]], run_probe(energies))
    assert torch.equal(alone, together[1 + wanted])
    if wanted < 2:  # v itself is linear
        (first,) = torch.autograd.grad(ops.additive_energies(*inputs).sum(), [inputs[wanted]], create_graph=True)
        assert torch.autograd.grad(first.sum(), [inputs[wanted]])[0].any()


@pytest.mark.parametrize("heads", [0, 2])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_gradients_without_autograd_are_those_with_it(activation, heads):
    inputs = draw(2, 3, 4, 5, heads=heads)
    results, _ = run(partial(ops.additive_energies, activation=activation), inputs)
    found = torch.ops.regard.additive_gradients(run_probe(results[0]), *inputs, find_slope(activation, None))
    assert all(map(torch.equal, found, results[1:]))


TRANSFORMS = {
    "gradients of each sentence": lambda f, q, k, v: torch.vmap(
        torch.func.grad(lambda v, q, k: f(q[None], k[None], v).square().sum()), (None, 0, 0)
    )(v, q, k),
    "a Jacobian": lambda f, q, k, v: torch.func.jacrev(lambda v: f(q, k, v))(v),
    "a second derivative": lambda f, q, k, v: torch.func.jacrev(torch.func.grad(lambda q: f(q, k, v).sum()))(q),
    "a batch of batches": lambda f, q, k, v: torch.vmap(lambda q, k: f(q[None], k[None], v))(q, k),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_of_functions_are_those_of_the_plain_formula(name):
    inputs = draw(3, 2, 5, 4, dtype=torch.float64)
    found, expected = (TRANSFORMS[name](f, *inputs) for f in (ops.additive_energies, reference))
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_inference_gives_the_same_bits(mode):
    inputs = [x.requires_grad_() for x in draw(2, 3, 4, 5)]
    expected = ops.additive_energies(*inputs)
    with mode():
        result = ops.additive_energies(*inputs)
    assert not result.requires_grad
    assert torch.equal(result, expected)


def test_nothing_is_compiled_where_numba_is_told_not_to(monkeypatch):
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    assert "numba: refused: NUMBA_DISABLE_JIT" in ops.explain("additive_energies", *draw(1, 2, 3, 4))
    assert "chunked: taken" in ops.explain("additive_energies")


def python(code, **environment):
    """Runs code in a process of its own, with this package."""
    source = str(Path(regard.__file__).parents[1])
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": source, **environment},
        capture_output=True,
        text=True,
        timeout=240,
    )


COMPILED = """
import torch
from torch._dynamo.testing import CompileCounterWithBackend
from regard import ops
counted = CompileCounterWithBackend("aot_eager")
compiled = torch.compile(ops.additive_energies, fullgraph=True, dynamic=True, backend=counted)
def run(function, *sizes):
    torch.manual_seed(0)
    batch, steps, positions, size = sizes
    shapes = (batch, steps, size), (batch, positions, size), (size,)
    inputs = [torch.randn(s).requires_grad_() for s in shapes]
    energies = function(*inputs)
    return [energies, *torch.autograd.grad(energies.square().sum(), inputs)]
for sizes in ((2, 3, 4, 6), (3, 5, 7, 8), (4, 2, 9, 10)):
    for a, b in zip(run(compiled, *sizes), run(ops.additive_energies, *sizes), strict=True):
        assert torch.equal(a, b)
print(counted.frame_count)
"""


def test_compiled_code_has_no_break_takes_any_sizes_and_gives_the_same_bits():
    done = python(COMPILED)
    assert done.stdout == "1\n", done.stderr


class Energies(torch.nn.Module):
    def forward(self, query, keys, v):
        return ops.additive_energies(query, keys, v, "leaky_relu", slope=0.2)


def test_an_exported_program_takes_other_lengths():
    steps, positions = torch.export.Dim("steps", min=2), torch.export.Dim("positions", min=2)
    shapes = {"query": {1: steps}, "keys": {1: positions}, "v": None}
    program = torch.export.export(Energies(), tuple(draw(2, 3, 4, 6)), dynamic_shapes=shapes)
    inputs = draw(2, 5, 7, 6)
    assert torch.equal(program.module()(*inputs), Energies()(*inputs))


@pytest.mark.parametrize("slope", [None, 0.0, 0.2])
def test_the_operations_for_compilers_keep_what_torch_asks_of_them(slope):
    inputs = [x.requires_grad_() for x in draw(2, 3, 4, 5, heads=2)]
    torch.library.opcheck(torch.ops.regard.additive_energies.default, (*inputs, slope))
    plain = [x.detach() for x in inputs]
    torch.library.opcheck(torch.ops.regard.additive_gradients.default, (torch.ones(2, 2, 3, 4), *plain, slope))


def test_tensors_without_numbers_have_a_result_without_numbers():
    with torch._subclasses.FakeTensorMode():
        assert ops.additive_energies(*draw(2, 3, 4, 5)).shape == (2, 3, 4)
    assert ops.additive_energies(*(x.to("meta") for x in draw(2, 3, 4, 5))).shape == (2, 3, 4)


@pytest.mark.parametrize(
    ("query", "keys", "v"),
    [
        ((2, 3, 5), (1, 4, 5), (5,)),
        ((2, 3, 5), (2, 4, 6), (5,)),
        ((2, 3, 5), (2, 4, 5), (6,)),
        ((2, 3, 5), (2, 4, 5), (1, 5)),
        ((2, 3, 2, 5), (2, 4, 5), (5,)),
        ((2, 5), (2, 5), ()),
    ],
)
def test_sizes_that_do_not_fit_are_shown(query, keys, v):
    with pytest.raises(ShapeError, match=r"must agree on B, H \(heads\) and D"):
        operation._check(torch.zeros(query), torch.zeros(keys), torch.zeros(v))


def test_an_unknown_activation_and_a_slope_without_use_are_refused():
    find = inspect.unwrap(find_slope)
    with pytest.raises(RegardError, match=r"activation='gelu' must be tanh, relu or leaky_relu"):
        find("gelu", None)
    with pytest.raises(RegardError, match=r"slope=0.2 needs activation='leaky_relu'"):
        find("relu", 0.2)
    assert find("leaky_relu", None) == 0.01


def test_explain_says_what_is_taken_and_why_others_are_not(monkeypatch):
    far = draw(1, 2, 3, 4, scale=1e6)
    told = ops.explain("additive_energies", *far)
    assert "triton: refused: the inputs are on cpu, the kernels are for a GPU" in told
    assert "numba: taken" in told
    assert operation.kernels_for("cpu").__name__.endswith("kernels.additive")
    elsewhere = [x.to("meta") for x in far]
    assert "reference: taken" in ops.explain("additive_energies", *elsewhere)
    monkeypatch.setattr(operation, "FEW", 23)
    assert "chunked: taken" in ops.explain("additive_energies", *elsewhere)
    assert operation.kernels_for("meta").__name__.endswith("additive_chunked")


@pytest.fixture
def without_numba(monkeypatch):
    monkeypatch.setattr(eligibility, "find_spec", lambda name: None)
    eligibility.unavailable.cache_clear()
    yield
    eligibility.unavailable.cache_clear()


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("heads", [0, 2])
def test_without_numba_chunks_of_the_plain_formula_are_taken(without_numba, monkeypatch, heads, activation):
    assert "numba: refused: numba is not installed" in ops.explain("additive_energies")
    monkeypatch.setattr(operation.kernels_for("cpu"), "CHUNK_ELEMENTS", 40)
    inputs = draw(2, 7, 4, 5, heads=heads)
    expected, _ = run(partial(reference, activation=activation), inputs)
    found, _ = run(partial(ops.additive_energies, activation=activation), inputs)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


MEMORY = """
import resource, torch
from regard import ops
torch.set_num_threads(1)
def run(batch, length):
    q, k, v = (torch.randn(s).requires_grad_() for s in ((batch, length, 256), (batch, length, 256), (256,)))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    torch.autograd.grad(ops.additive_energies(q, k, v).sum(), [q, k, v])
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
run(1, 8)
print(run(4, 400))
"""


def test_memory_does_not_hold_a_number_for_every_step_position_and_feature():
    done = python(MEMORY)
    assert done.returncode == 0, done.stderr
    plain = 4 * 400 * 400 * 256 * 4 / 2**20
    assert float(done.stdout) < 0.03 * plain


FORK = """
import multiprocessing, torch
from regard import ops
from regard.ops import threads
threads.GRAIN_SIZE = 1
torch.set_num_threads(2)
inputs = [torch.randn(s) for s in ((4, 9, 32), (4, 7, 32), (32,))]
expected = ops.additive_energies(*inputs)
from regard.ops.kernels.compiled import team
assert team._entries or threads._pools
def child(queue):
    torch.set_num_threads(2)
    queue.put(torch.equal(ops.additive_energies(*inputs), expected))
context = multiprocessing.get_context("fork")
queue = context.Queue()
threads._growing.acquire()
worker = context.Process(target=child, args=(queue,))
worker.start()
threads._growing.release()
print(queue.get(timeout=60))
worker.join(60)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_worker_computes_after_its_parent_did():
    done = python(FORK)
    assert done.stdout == "True\n", done.stderr


def test_a_place_where_nothing_can_be_written_is_no_obstacle(tmp_path):
    shutil.copytree(
        Path(regard.__file__).parent, tmp_path / "regard", ignore=shutil.ignore_patterns("__pycache__", "pretrained")
    )
    nowhere = tmp_path / "regard" / "ops" / "kernels" / "__pycache__"
    nowhere.write_text("a file where a folder would have to be")
    code = f"""
import torch
from regard import ops
import regard.ops.additive as operation
assert operation.kernels_for("cpu").__file__.startswith({str(tmp_path)!r})
assert type(operation.kernels_for("cpu").tangent.energies._cache).__name__ == "NullCache"
print(ops.additive_energies(torch.zeros(1, 2, 3), torch.zeros(1, 4, 3), torch.ones(3)).sum().item())
"""
    blocked = dict.fromkeys(("HOME", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR"), "")
    blocked |= {"HOME": str(nowhere), "XDG_CACHE_HOME": str(nowhere)}
    done = python(code, **blocked, PYTHONPATH=str(tmp_path), PYTHONDONTWRITEBYTECODE="1")
    assert done.stdout == "0.0\n", done.stderr


@pytest.mark.parametrize("kinds", ["hhs", "bbs", "bbb", "hsh", "sbs"])
@pytest.mark.parametrize("heads", [0, 2])
def test_the_formula_on_a_gpu_has_half_tangents_and_is_nearer_to_float64_than_all_in_half(kinds, heads):
    types = {"h": torch.float16, "b": torch.bfloat16, "s": torch.float32}
    inputs = [x.to(types[k]).requires_grad_() for x, k in zip(draw(2, 3, 5, 40, heads=heads), kinds, strict=True)]
    read = operation._as_read("reference", *(x.to("meta") for x in inputs))
    assert [x.dtype for x in read] == [inputs[0].dtype, inputs[1].dtype, torch.float32]
    exact, _ = run(reference, inputs, torch.float64)
    plain, _ = run(reference, inputs, types[kinds[0] if kinds[0] != "s" else kinds[1]])
    ours, _ = run(lambda query, keys, v: reference(query, keys, v.float()), inputs)
    assert ours[0].dtype == torch.float32
    for a, b, c, x in zip(ours[1:], plain[1:], exact[1:], inputs, strict=True):
        assert a.dtype == x.dtype
        error, of_plain = (float((y - c).abs().max()) for y in (a, b))
        assert error <= 2 * of_plain
    assert (ours[0] - exact[0]).abs().max() <= (plain[0] - exact[0]).abs().max()
