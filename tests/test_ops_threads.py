"""Work is shared among threads: every part is done once, by torch's threads or a pool's, whoever comes at once."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from regard.ops import threads

pytest.importorskip("numba")
from regard.ops.kernels.compiled import compiled, team


@compiled
def count(done, start, stop):
    for i in range(start, stop):
        done[i] += 1


@compiled
def scale(numbers, factor, whole, start, stop):
    for i in range(start, stop):
        numbers[i] *= factor * len(whole)


@compiled
def swallow(numbers, start, stop):
    for i in range(start, stop):
        room = np.empty(numbers[i], np.float64)
        numbers[i] = len(room)


@pytest.fixture(autouse=True)
def several(monkeypatch):
    monkeypatch.setattr(threads, "GRAIN_SIZE", 1)
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(1)


@pytest.fixture(params=["torch's threads", "a pool"])
def hands(request, monkeypatch):
    if request.param == "a pool":
        monkeypatch.setattr(team, "openmp", lambda: 0)
    elif not team.openmp():
        pytest.skip("torch has no OpenMP here")
    return request.param


@pytest.mark.parametrize("parts", [1, 2, 3, 5, 12, 13, 1000])
def test_every_part_is_done_once(hands, parts):
    done = np.zeros(parts, np.int64)
    threads.parallel_for(count, (done,), parts, 1 << 20)
    assert (done == 1).all()


def test_kernels_are_told_apart_by_what_they_are_given(hands):
    for kind in (np.float32, np.float64, np.float32):
        numbers = np.ones(40, kind)
        threads.parallel_for(scale, (numbers, kind(3), np.zeros((2, 2))), len(numbers), 1 << 20)
        threads.parallel_for(scale, (numbers[::2], kind(2), np.zeros(1, np.int32)), len(numbers) // 2, 1 << 20)
        assert numbers.tolist() == [12, 6] * 20


def test_python_threads_may_come_at_once(hands):
    done = np.zeros((4, 50, 300), np.int64)
    with ThreadPoolExecutor(4) as pool:
        for _ in pool.map(lambda own: [threads.parallel_for(count, (row,), len(row), 1 << 20) for row in own], done):
            pass
    assert (done == 1).all()


def test_a_kernel_without_memory_says_so(hands):
    sizes = np.full(8, 1 << 50)
    with pytest.raises(MemoryError):
        threads.parallel_for(swallow, (sizes,), len(sizes), 1 << 20)


def test_parts_are_shared_where_no_cache_of_compiled_code_can_be_written():
    code = (
        "from numba.core import caching\n"
        "for impl in (caching.CacheImpl, caching.FunctionCache._impl_class):\n"
        "    impl._locator_classes = []\n"
        "from regard.ops.kernels.compiled import team\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
