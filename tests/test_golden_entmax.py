"""Parity with the entmax package."""

from __future__ import annotations

import pytest
import torch

from golden.archive import load
from golden.parity import TOLERANCE, compare, leaves
from regard import ops


def entmax15(energies, support):
    return ops.entmax(energies, support, 1.5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize(
    ("name", "operation"),
    [
        ("sparsemax", ops.sparsemax),
        ("sparsemax_masked", ops.sparsemax),
        ("sparsemax_bisect", ops.sparsemax),
        ("entmax15", entmax15),
        ("entmax15_masked", entmax15),
        ("entmax_bisect", ops.entmax),
    ],
)
def test_weights_and_gradients_are_those_of_the_entmax_package(name, operation, dtype):
    golden = load("entmax", name, dtype)
    given = leaves(golden.inputs)
    weights = operation(given["energies"], golden.inputs["energies"].isfinite(), *list(given.values())[1:])
    found = compare(golden, {"weights": weights}, given)
    assert {name: value for name, value in found.items() if not value <= TOLERANCE[dtype]} == {}
