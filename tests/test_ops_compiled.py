from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from regard.ops.kernels import compiled
from regard.ops.kernels.compiled import order

KERNEL = """
from regard.ops.kernels.compiled import compiled


@compiled
def twice(x):
    return x + x
"""


def load(path):
    spec = importlib.util.spec_from_file_location("kept", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.twice(2.0) == 4.0
    return module.twice.stats


def test_a_kept_kernel_is_compiled_anew_when_a_part_of_kernels_has_changed(tmp_path, monkeypatch):
    path = tmp_path / "kept.py"
    path.write_text(KERNEL, encoding="utf-8")
    assert load(path).cache_misses
    assert load(path).cache_hits
    monkeypatch.setattr(compiled, "DIGEST", "others")
    assert load(path).cache_misses
    assert load(path).cache_hits


@compiled.compiled
def largest(row):
    return order.largest(row)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("special", [0.0, -0.0, 7.0, np.inf, -np.inf, np.nan, -np.nan])
def test_the_largest_of_a_row_is_found_wherever_it_stands(dtype, special):
    row = np.linspace(-5, -1, 37).astype(dtype)
    for place in (0, 5, 36):
        given = row.copy()
        given[place] = special
        np.testing.assert_array_equal(largest(given), given.max())
    assert largest(np.full(3, -np.inf, dtype)) == -np.inf
