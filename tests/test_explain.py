"""What `ops.explain` says of an operation is what runs."""

from __future__ import annotations

from contextlib import nullcontext
from importlib import import_module

import pytest
import torch

from regard import ops
from regard.ops.choose import choose, step_implementations, steps_for
from regard.ops.eligibility import StandIn, numba_reason, only_loaded_kernels, stand_in

pytestmark = pytest.mark.skipif(
    numba_reason("regard.ops.kernels.cells") is not None, reason="without compiled loops there is one path"
)


def test_a_gpu_is_spoken_of_where_there_is_none():
    """By the tables and refusals that decide, about inputs that are not there."""
    square, wide = (StandIn(torch.device("cuda"), (64, size)) for size in (64, 5000))
    assert "reference: taken" in ops.explain("additive_energies", square, square, square)
    assert "triton: taken" in ops.explain("additive_energies", wide, wide, wide)
    assert "numba: refused: the inputs are on cuda, the kernels are for the CPU" in ops.explain("largest", square, 3)
    assert "reference: taken" in ops.explain("largest", square, 3)
    assert "keys: taken" in ops.explain("largest", wide, 3)


@pytest.mark.parametrize("operation", ["cells", "softmax"])
def test_steps_are_read_from_the_table_that_is_explained(operation):
    for device in ("cpu", "cuda"):
        taken = choose(step_implementations(operation), stand_in(device)).name
        room = "regard.ops.kernels" if taken == "numba" else "regard.ops"
        assert steps_for(operation, device).__name__ == f"{room}.{operation}"
    if operation in ops.STEPS:
        assert "reference: taken" in ops.explain(operation, stand_in("cuda"))


@pytest.mark.parametrize(
    ("context", "expected"),
    [(nullcontext, "numba"), (lambda: only_loaded_kernels(()), "chunked"), (ops.plain, "reference")],
)
def test_dispatch_takes_what_explain_shows(context, expected, monkeypatch):
    inputs, seen = (torch.randn(1, 2, 3), torch.randn(1, 4, 3), torch.randn(3)), []
    for name, file in (("numba", "additive"), ("chunked", "additive_chunked")):
        module = import_module(f"regard.ops.kernels.{file}")

        def watch(*given, name=name, original=module.energies):
            seen.append(name)
            return original(*given)

        monkeypatch.setattr(module, "energies", watch)
    with context():
        assert f"{expected}: taken" in ops.explain("additive_energies", *inputs)
        ops.additive_energies(*inputs)
    assert (seen or ["reference"]) == [expected]
