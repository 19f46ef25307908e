"""Batches of similar length."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from regard.data import bucket, padding
from regard.errors import RegardError


def realistic_lengths(count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    random = np.random.default_rng(0)
    source = np.minimum(400, 1 + random.lognormal(3.0, 0.6, count)).astype(np.int64)
    target = np.maximum(1, source * random.lognormal(0.0, 0.25, count)).astype(np.int64)
    return source, target


lengths = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=80)


@given(lengths, st.integers(1, 200), st.integers(0, 3), st.integers(1, 5), st.booleans())
def test_every_item_comes_once_over_all_ranks_and_no_batch_is_too_big(
    pairs: list[tuple[int, int]], batch_tokens: int, epoch: int, world_size: int, shuffle: bool
) -> None:
    source, target = [p[0] for p in pairs], [p[1] for p in pairs]
    plans = [
        bucket(
            source,
            target,
            batch_tokens=batch_tokens,
            seed=3,
            epoch=epoch,
            rank=r,
            world_size=world_size,
            shuffle=shuffle,
        )
        for r in range(world_size)
    ]
    batches = [batch for one in plans for batch in one]
    assert sorted(int(i) for batch in batches for i in batch) == list(range(len(pairs)))
    for batch in batches:
        assert len(batch)
        assert len(batch) == 1 or len(batch) * max(max(pairs[i]) for i in batch) <= batch_tokens
    counts = [len(one) for one in plans]
    assert max(counts) - min(counts) <= (1 if len(pairs) % world_size and len(batches) == len(pairs) else 0)


def test_padding_of_realistic_lengths_is_below_ten_percent_and_far_below_that_of_a_random_order() -> None:
    source, target = realistic_lengths(20_000)
    batches = bucket(source, target, batch_tokens=4096, seed=1, epoch=0)
    assert padding(batches, source) < 0.1
    assert padding(batches, target) < 0.1
    random_batches = np.split(np.random.default_rng(0).permutation(20_000), 200)
    assert padding(random_batches, source) > 0.5


def test_batches_are_filled() -> None:
    source, target = realistic_lengths(20_000)
    batches = bucket(source, target, batch_tokens=4096, seed=1, epoch=0)
    held = [len(b) * int(np.maximum(source, target)[b].max()) for b in batches]
    assert np.mean(held) > 0.9 * 4096


def test_a_plan_is_a_pure_function_and_membership_differs_between_epochs_and_seeds() -> None:
    source, target = realistic_lengths(2_000)

    def members(seed: int, epoch: int) -> set[tuple[int, ...]]:
        return {tuple(sorted(b.tolist())) for b in bucket(source, target, batch_tokens=1024, seed=seed, epoch=epoch)}

    again = [bucket(source, target, batch_tokens=1024, seed=1, epoch=2) for _ in range(2)]
    assert all(np.array_equal(a, b) for a, b in zip(*again, strict=True))
    first = members(1, 0)
    assert len(first & members(1, 1)) < len(first) / 2
    assert len(first & members(2, 0)) < len(first) / 2


def test_batches_come_in_random_order_and_by_growing_length_without_shuffling() -> None:
    source, target = realistic_lengths(5_000)

    def longest(**options: bool) -> list[int]:
        batches = bucket(source, target, batch_tokens=1024, seed=1, epoch=0, **options)
        return [int(np.maximum(source, target)[b].max()) for b in batches]

    assert longest(shuffle=False) == sorted(longest(shuffle=False))
    assert abs(np.corrcoef(longest(), np.arange(len(longest())))[0, 1]) < 0.3


def test_without_shuffling_all_epochs_are_the_same() -> None:
    source, target = realistic_lengths(500)
    one, two = (bucket(source, target, batch_tokens=512, seed=1, epoch=e, shuffle=False) for e in (0, 7))
    assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))


def test_an_item_longer_than_a_batch_is_a_batch_of_its_own() -> None:
    batches = bucket([5, 500, 5], [5, 5, 5], batch_tokens=20, seed=0, epoch=0)
    assert [1] in [b.tolist() for b in batches]


def test_ranks_without_an_item_of_their_own_get_no_batch() -> None:
    plans = [bucket([3, 3], [3, 3], batch_tokens=99, seed=0, epoch=0, rank=r, world_size=3) for r in range(3)]
    assert [len(p) for p in plans] == [1, 1, 0]


def test_a_million_items_are_planned_in_under_two_seconds() -> None:
    source, target = realistic_lengths(1_000_000)
    start = time.process_time()
    bucket(source, target, batch_tokens=4096, seed=1, epoch=0)
    assert time.process_time() - start < 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"source_lengths": [1, 2]}, "one number per item"),
        ({"rank": 2, "world_size": 2}, "rank must be at least 0 and below world_size=2; got 2"),
        ({"batch_tokens": 0}, "batch_tokens must be at least 1; got 0"),
    ],
)
def test_impossible_arguments_are_refused(options: dict[str, object], words: str) -> None:
    arguments: dict[str, object] = {
        "source_lengths": [1],
        "target_lengths": [1],
        "batch_tokens": 9,
        "seed": 0,
        "epoch": 0,
    }
    with pytest.raises(RegardError, match=words):
        bucket(**(arguments | options))  # type: ignore[arg-type]


def test_padding_of_nothing_is_nothing() -> None:
    assert padding([], []) == 0
    assert padding([np.array([0, 1])], [0, 0]) == 0
