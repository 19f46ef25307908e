from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

import regard
from regard import ops
from regard.ops.additive import reference

SIZES = ((1, 1, 1, 0, 1), (2, 3, 5, 0, 7), (2, 1, 19, 0, 33), (2, 4, 17, 2, 19), (1, 33, 34, 0, 5))
"""B, T, S, heads (0 for none) and D."""
EMPTY = ((0, 2, 3, 0, 4), (2, 0, 3, 0, 4), (2, 2, 0, 2, 4), (2, 2, 3, 0, 0))
FORMS = (("tanh", None), ("relu", None), ("leaky_relu", 0.2))
EXTREMES = (float("nan"), float("inf"), -float("inf"), 3e38, 44.0, -44.0, 0.0)

COMPARED = """
import json, sys, warnings
import torch
import regard.ops.additive as operation
from regard.ops.additive import reference
warnings.simplefilter("ignore", RuntimeWarning)
torch.set_num_threads(1)
sizes, forms, extremes, device, name = json.loads(sys.argv[1])

def inputs(batch, steps, positions, heads, size, scale, dtype):
    torch.manual_seed(0)
    inner = (heads, size) if heads else (size,)
    q, k, v = (torch.randn(s, dtype=torch.float64) for s in ((batch, steps, *inner), (batch, positions, *inner), inner))
    return [x.to(device, dtype) for x in (q * scale, k * scale, v)]

def run(function, given, form, dtype):
    own = [x.to(dtype).requires_grad_() for x in given]
    energies = function(*own, form[0], slope=form[1])
    torch.manual_seed(1)
    probe = torch.randn(energies.shape, dtype=torch.float64).to(device)
    return [energies.detach(), *torch.autograd.grad(energies, own, probe.to(dtype))], probe.abs()

kernels = next(row.function for row in operation.ADDITIVE_ENERGIES if row.name == name)

for shape in sizes:
    for form in forms:
        for scale in (0.03, 3.0, 60.0):
            for dtype in (torch.float32, torch.float64) if scale == 60.0 else (torch.float32,):
                given = inputs(*shape, scale, dtype)
                truth, probe = run(reference, given, form, torch.float64)
                plain, _ = run(reference, given, form, dtype)
                ours, _ = run(kernels, given, form, dtype)
                q, k, v = (float(x.abs().max()) if x.numel() else 0.0 for x in given)
                terms = 1.0 if form[0] == "tanh" else q + k
                sums = [float(probe.sum(d).max()) if probe.numel() else 0.0 for d in (-1, -2, (0, -1, -2))]
                bounds = (v * shape[-1] * terms, sums[0] * v, sums[1] * v, sums[2] * terms)
                for what, a, b, c, bound in zip("eqkv", ours, plain, truth, bounds):
                    assert a.shape == c.shape and a.dtype == dtype
                    if not a.numel():
                        continue
                    error, of_plain = (float((x - c).abs().max()) for x in (a, b))
                    if not error <= 2 * max(of_plain, torch.finfo(dtype).eps * bound):
                        print("error of", what, error, "plain", of_plain, "terms", bound, shape, form, scale, dtype)

for steps in (1, 3):
    for form in forms:
        given = inputs(len(extremes), steps, len(extremes), 0, 5, 1.0, torch.float32)
        given[0][:, 0, 3] = torch.tensor(extremes)
        given[1][:, :, 3] = torch.tensor(extremes)
        a, b = (f(*given, form[0], slope=form[1]) for f in (kernels, reference))
        if not torch.allclose(a, b, rtol=1e-5, atol=1e-5, equal_nan=True):
            print("extremes differ", steps, form)

for infinite in (float("inf"), -float("inf")):
    for form in forms:
        given = inputs(2, 3, 5, 0, 7, 1.0, torch.float32)
        given[1][0, 2, 3] = infinite
        own = [x.requires_grad_() for x in given]
        energies = [f(*own, form[0], slope=form[1]) for f in (kernels, reference)]
        gradients = [torch.autograd.grad(e.sum(), own) for e in energies]
        if not all(torch.allclose(a, b, rtol=1e-5, atol=1e-4) for a, b in zip(*gradients)):
            print("gradients at an infinite key differ", infinite, form)

b, h, s, d = torch.bfloat16, torch.float16, torch.float32, torch.float64
for types in (b, b, b), (h, h, h), (b, b, s), (s, b, s), (h, b, h), (b, d, h):
    for steps, form in ((1, forms[0]), (3, forms[0]), (1, forms[2]), (3, forms[2])):
        given = [x.to(kind) for x, kind in zip(inputs(2, steps, 19, 2, 9, 1.0, torch.float64), types)]
        own = [x.requires_grad_() for x in given]
        energies = kernels(*own, form[0], slope=form[1])
        probe = torch.randn(energies.shape, dtype=torch.float64).to(device, energies.dtype)
        ours = [energies, *torch.autograd.grad(energies, own, probe)]
        working = d if d in types else s
        wide = [x.detach().to(working).requires_grad_() for x in given]
        energies = kernels(*wide, form[0], slope=form[1])
        truth = [energies, *torch.autograd.grad(energies, wide, probe.to(working))]
        assert ours[0].dtype == reference(*given).dtype
        assert [x.dtype for x in ours[1:]] == list(types)
        # the interpreter cuts to bfloat16 where a GPU rounds
        pairs = [(a.double(), x.double(), torch.finfo(a.dtype).eps) for a, x in zip(ours, truth)]
        if not all(torch.allclose(a, x, rtol=eps, atol=1e-7) for a, x, eps in pairs):
            print("half types are not what float32 gives, rounded", types, steps, form)

apart = [x.transpose(0, 1).contiguous().transpose(0, 1) for x in inputs(2, 3, 5, 0, 8, 1.0, torch.float32)[:2]]
v = inputs(2, 3, 5, 0, 8, 1.0, torch.float32)[2]
assert torch.allclose(kernels(*apart, v), reference(*apart, v), atol=1e-5)
print("done")
"""

needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed")


def python(code, *arguments, interpret):
    """Runs code in a process of its own: whether kernels are interpreted is settled when triton is imported."""
    paths = os.pathsep.join([str(Path(regard.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths, "TRITON_INTERPRET": "1" if interpret else "0"}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], env=environment, capture_output=True, text=True, timeout=280
    )
    return done.stdout + done.stderr[-3000:] if done.returncode or not done.stdout else done.stdout


@needs_triton
def test_interpreted_kernels_are_as_near_to_float64_as_the_plain_formula():
    settings = json.dumps([SIZES + EMPTY, FORMS, EXTREMES, "cpu", "triton"])
    assert python(COMPARED, settings, interpret=True) == "done\n"


@pytest.mark.gpu
@needs_triton
def test_kernels_on_a_gpu_are_as_near_to_float64_as_the_plain_formula():
    settings = json.dumps([SIZES + EMPTY, FORMS, EXTREMES, "cuda", "triton"])
    assert python(COMPARED, settings, interpret=False) == "done\n"


@pytest.mark.gpu
@needs_triton
def test_kernels_on_a_gpu_give_the_same_bits_every_time_and_hold_no_large_tensor():
    inputs = [torch.randn(s, device="cuda").requires_grad_() for s in ((8, 200, 256), (8, 300, 256), (256,))]
    assert "triton: taken" in ops.explain("additive_energies", *inputs)

    def run():
        energies = ops.additive_energies(*inputs)
        return [energies, *torch.autograd.grad(energies.square().sum(), inputs)]

    first = run()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    second = run()
    assert torch.cuda.max_memory_allocated() - before < 0.06 * 8 * 200 * 300 * 256 * 4
    assert all(map(torch.equal, first, second))
    torch.testing.assert_close(first[0], reference(*inputs), rtol=0, atol=1e-4)
