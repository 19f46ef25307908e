"""Layer norms whose output is half: torch's operation and a conversion, and by kernels for a GPU one launch."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from torch import nn

import regard
from regard import ops
from regard.layers.linear import LayerNorm
from regard.ops import half

COMPARED = """
import contextlib, torch
torch.cuda.device_of = lambda x: contextlib.nullcontext()
from regard.ops.kernels import layer_norm_triton
from regard.ops.layer_norm import LAYER_NORM, reference
by_kernels = LAYER_NORM[0].function

def run(function, inputs, probe, kind):
    own = [x.detach().requires_grad_() for x in inputs]
    y = function(*own, 1e-5, kind)
    assert y.dtype == kind
    return [y.detach(), *torch.autograd.grad(y, own, probe.to(kind))]

layer_norm_triton.PROGRAMS = 2  # programs take several tiles of rows
torch.manual_seed(0)
for shape in ((1, 1), (3, 16), (2, 5, 77), (50, 130), (3, 4096)):
    for kind in (torch.bfloat16, torch.float16):
        x, probe = torch.randn(2, *shape)
        inputs = 3 * x + 2, torch.randn(shape[-1]), torch.randn(shape[-1])
        probe = probe.to(kind)
        truth = run(reference, [v.double() for v in inputs], probe, torch.float64)
        plain, ours = (run(function, inputs, probe, kind) for function in (reference, by_kernels))
        for what, a, b, c in zip("yxwb", ours, plain, truth):
            assert a.shape == b.shape and a.dtype == b.dtype
            # the interpreter cuts to bfloat16 where a GPU rounds
            eps = 2 * torch.finfo(kind).eps if what == "y" else 4e-6
            error, of_plain = (float((v.double() - c).abs().max()) for v in (a, b))
            if not error <= max(2 * of_plain, eps * max(1, float(c.abs().max()))):
                print("error of", what, error, "plain", of_plain, shape, kind)

# a gradient of gradients is the reference's
leaves = [torch.randn(shape).requires_grad_() for shape in ((4, 6), (6,), (6,))]
found = []
for function in (by_kernels, reference):
    y = function(*leaves, 1e-5, torch.float16).float()
    first = torch.autograd.grad(y.square().sum(), leaves, create_graph=True)
    found.append(torch.autograd.grad(sum(g.square().sum() for g in first), leaves))
if not all(torch.allclose(a, b, rtol=0.02, atol=0.02 * float(b.abs().max())) for a, b in zip(*found)):
    print("second derivatives differ")
print("done")
"""


@pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed")
def test_interpreted_kernels_are_as_near_to_float64_as_torchs_operation() -> None:
    paths = os.pathsep.join([str(Path(regard.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths, "TRITON_INTERPRET": "1"}
    done = subprocess.run(
        [sys.executable, "-c", COMPARED], env=environment, capture_output=True, text=True, timeout=280
    )
    assert done.stdout == "done\n", done.stdout + done.stderr[-3000:]


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_in_front_of_half_products_a_norm_is_half_on_a_gpu_only(device: str) -> None:
    norm, x = LayerNorm(4, device=device), torch.ones(3, 4, device=device)
    assert norm(x).dtype == torch.float32
    with half.copied([], torch.bfloat16):
        assert norm(x).dtype == (torch.float32 if device == "cpu" else torch.bfloat16)


def test_kernels_are_for_half_outputs_of_float32() -> None:
    triton, x, weight = ops.IMPLEMENTATIONS["layer_norm"][0], torch.ones(3, 4), torch.ones(4)
    assert triton.unsupported_reason(x, weight, weight) == "torch's own operation gives the type of its input"
    half_inputs = x.half(), weight.half(), weight.half(), 1e-5, torch.float16
    assert "it computes in float32" in str(triton.unsupported_reason(*half_inputs))
    wide = torch.ones(1, 10_000)
    assert triton.unsupported_reason(wide, wide[0], wide[0], 1e-5, torch.float16) == "rows are wider than 8192 features"
    assert "not triton" not in str(triton.unsupported_reason(x, weight, weight, 1e-5, torch.float16))
    torch.testing.assert_close(ops.layer_norm(x, weight, weight), nn.functional.layer_norm(x, (4,), weight, weight))
