"""Triton's kernels are compiled for a GPU that is not here, as callers launch them."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import regard

LAUNCHED = """
import contextlib, itertools
from collections import defaultdict
from types import SimpleNamespace
import torch
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.jit import JITFunction

# A driver that says what it would compile for, and launches that only compile. What triton makes of the arguments (an
# integer that is 1 is a constant, multiples of 16 are told to the compiler) is triton's own.
driver.set_active(SimpleNamespace(
    get_current_device=lambda: 0,
    get_current_stream=lambda device: 0,
    get_current_target=lambda: GPUTarget("cuda", 90, 32),
))
torch.cuda.device_of = lambda x: contextlib.nullcontext()
numbers, types, flags = (defaultdict(set) for _ in range(3))

def launcher(kernel, grid):
    def launch(*arguments, **options):
        name = kernel.fn.__name__
        for parameter, argument in zip(kernel.arg_names, arguments):
            if isinstance(argument, int):
                numbers[name, parameter].add(1 if argument == 1 else 16 if argument % 16 == 0 else "other")
            elif isinstance(argument, torch.Tensor):
                types[name, parameter].add(argument.dtype)
        for parameter, option in options.items():
            flags[name, parameter].add(option)
        try:
            built = kernel.run(*arguments, grid=grid, warmup=True, **options)
        except Exception as error:
            given = [tuple(x.shape) if isinstance(x, torch.Tensor) else x for x in arguments]
            print(f"{name} is not compiled with {given} {options}: {error}"[-1500:])
        else:
            assert ".target sm_90" in built.asm["ptx"] and built.asm["cubin"]
    return launch

JITFunction.__getitem__ = launcher
from regard.ops.kernels import additive_triton, dropout_triton

b, h, s, d = torch.bfloat16, torch.float16, torch.float32, torch.float64

def additive(heads, steps, positions, size, slope, kinds=(s, s, s)):
    inner = (heads, size) if heads > 1 else (size,)
    shapes = (2, steps, *inner), (2, positions, *inner), inner
    query, keys, v = (torch.zeros(shape, dtype=kind) for shape, kind in zip(shapes, kinds))
    energies = additive_triton.energies(query, keys, v, slope)
    additive_triton.gradients(energies, query, keys, v, slope)

# pairs of sizes that are 1, a multiple of 16 and neither: nine rows in which each pair occurs
sizes = (1, 32, 5)
for x, y in itertools.product(range(3), repeat=2):
    additive(*(sizes[i] for i in (x, y, (x + y) % 3, (x + 2 * y) % 3)), None)
for slope in (0.2, 0.0):
    for size in sizes:
        additive(size, size, size, size, slope)
        additive(3, 1, 20, size, slope)
for kinds in (d, d, d), (b, b, b), (h, h, h), (b, b, s), (s, b, s), (h, b, h):
    for slope in (None, 0.2):
        additive(2, 1, 20, 64, slope, kinds)
        additive(2, 5, 20, 64, slope, kinds)

rows = torch.arange(33)
drawn = (0, 1), (1, 0), (0, 0), (2**32 - 1, 2**32 - 1), (16, 0), (7, 3)
for number, key in enumerate(drawn):
    for site in (0, 1, 16, 5, 2**32 - 1):
        dropout_triton.dropout_mask(rows, rows, 17, p=0.3, key=key, site=site)
for dtype in (s, d, b, h):  # the step of a recording is read from a tensor
    dropout_triton.dropout_mask(rows, rows, 17, p=0.3, key=(7, torch.tensor(3)), site=5, dtype=dtype)
for p in (0.0, 2**-32, 2**-28, 0.1, 0.9):
    dropout_triton.dropout_mask(rows, rows, 17, p=p, key=(7, 3), site=5)
for count, width in itertools.product((1, 16, 33), repeat=2):
    for first in (0, 1):  # rows that begin at an odd number
        items, positions = rows[first:][:count], rows[:count].int()
        dropout_triton.dropout_mask(items, positions, width, p=0.3, key=(7, 3), site=5, dtype=(s, d)[first])

# what was launched is all that was meant: energies_kernel has no single step, which has a kernel of its own
for which, found in numbers.items():
    lacking = {1, 16, "other"} - found - ({1} if which == ("energies_kernel", "steps") else set())
    assert not lacking, (which, lacking)
for (name, parameter), found in types.items():
    if name == "mask_kernel":
        continue
    stored = parameter in ("x", "others", "q", "k", "v", "gradient", "grad_x") or name == "step_kernel"
    working = parameter in ("a", "b", "shares") or (name, parameter) == ("powers_kernel", "out")
    lacking = ({b, h, s, d} if stored else {s, d} if working else set()) - found
    assert not lacking, (name, parameter, lacking)
for (name, parameter), found in flags.items():
    assert parameter not in ("TANGENT", "WITH_V", "IS_READ") or found == {True, False}, (name, parameter)
    assert parameter != "SLOPE" or found == {0.0, 0.2}, name
print("done")
"""


@pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed")
def test_every_kernel_is_compiled_for_all_that_callers_launch_it_with(tmp_path):
    paths = os.pathsep.join([str(Path(regard.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths, "TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", LAUNCHED], env=environment, capture_output=True, text=True, timeout=280
    )
    assert done.stdout == "done\n", done.stdout + done.stderr[-3000:]
