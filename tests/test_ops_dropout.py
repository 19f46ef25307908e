from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec

import pytest
import torch

from regard.ops import dropout
from regard.ops.dropout import dropout_mask, philox, reference
from regard.ops.eligibility import numba_reason

KNOWN = [  # kat_vectors of Random123 1.14: rounds, counter, key, words
    (7, "00000000 00000000 00000000 00000000", "00000000 00000000", "5f6fb709 0d893f64 4f121f81 4f730a48"),
    (10, "00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    (7, "243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "4dfccaba 190a87f0 c47362ba b6b5242a"),
    (10, "243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]
LARGE = torch.tensor([0, 1, 2**31, 2**32 - 1, 5, 5]), torch.tensor([0, 7, 2**20, 3, 2**31 - 1, 2**31])
OPTIONS = {"p": 0.3, "key": (2**31 - 1, 2**32 - 5), "site": 0xDEADBEEF}


def words(text):
    return [int(word, 16) for word in text.split()]


@pytest.mark.parametrize(("rounds", "counter", "key", "expected"), KNOWN)
def test_philox_gives_the_words_that_its_authors_published(rounds, counter, key, expected):
    found = philox(tuple(torch.tensor([word]) for word in words(counter)), tuple(words(key)), rounds=rounds)
    assert [int(word) for word in found] == words(expected)


@pytest.mark.skipif(numba_reason("regard.ops.kernels.dropout") is not None, reason="no compiled loops here")
@pytest.mark.parametrize("width", [1, 16, 63, 64, 65, 200])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_compiled_masks_are_those_of_the_reference_bit_for_bit(width, dtype):
    from regard.ops.kernels import dropout as numba

    expected = reference(*LARGE, width, dtype=dtype, **OPTIONS)
    if dtype.itemsize == 2:
        assert torch.equal(expected, reference(*LARGE, width, **OPTIONS).to(dtype))
    assert torch.equal(numba.dropout_mask(*LARGE, width, dtype=dtype, **OPTIONS), expected)


COMPARED = """
import contextlib, json, sys, torch
torch.cuda.device_of = lambda x: contextlib.nullcontext()
from regard.ops.dropout import reference
from regard.ops.kernels.dropout_triton import dropout_mask as triton
rows, options = json.loads(sys.argv[1])
items, positions = map(torch.tensor, rows)
for width in (1, 64, 77):
    for dtype in (torch.float32, torch.float64):
        masks = [one(items, positions, width, dtype=dtype, **options) for one in (reference, triton)]
        assert torch.equal(*masks), (width, dtype)
        read = {**options, "key": (options["key"][0], torch.tensor(options["key"][1]))}  # of a recorded step
        assert torch.equal(triton(items, positions, width, dtype=dtype, **read), masks[0])
    for dtype in (torch.bfloat16, torch.float16):  # rounded as a mask of float32 is
        expected = reference(items, positions, width, **options).to(dtype)
        assert torch.equal(triton(items, positions, width, dtype=dtype, **options), expected), (width, dtype)
"""


@pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed")
def test_kernels_for_a_gpu_give_the_masks_of_the_reference_bit_for_bit():
    given = json.dumps([[row.tolist() for row in LARGE], OPTIONS])
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    subprocess.run([sys.executable, "-c", COMPARED, given], check=True, env=environment, timeout=300)


def test_a_row_has_the_mask_of_its_item_and_position_whatever_stands_beside_it():
    items, positions = torch.tensor([9, 4, 9, 7]), torch.tensor([0, 3, 1, 0])
    together = dropout(torch.ones(4, 50), items, positions, 0.4, (3, 8), 5)
    order = torch.tensor([2, 0, 3])
    assert torch.equal(dropout(torch.ones(3, 50), items[order], positions[order], 0.4, (3, 8), 5), together[order])
    narrow = dropout(torch.ones(4, 20), items, positions, 0.4, (3, 8), 5)
    assert torch.equal(narrow, together[:, :20])


@pytest.mark.parametrize("p", [0.05, 0.3, 0.5, 0.9])
def test_the_share_that_is_dropped_is_p(p):
    items = torch.arange(4000)
    mask = dropout_mask(items, torch.zeros_like(items), 256, p=p, key=(1, 1), site=3)
    deviation = (p * (1 - p) / mask.numel()) ** 0.5
    assert abs(float((mask == 0).double().mean()) - p) < 4 * deviation
    assert mask[mask != 0].unique().tolist() == pytest.approx([1 / (1 - p)])
    for axis in (0, 1):
        shares = (mask == 0).double().mean(axis)
        spread = (p * (1 - p) / mask.shape[axis]) ** 0.5
        assert float(shares.std()) == pytest.approx(spread, rel=0.2), "more or less alike than chance"
        assert float((shares - p).abs().max()) < 6 * spread


def bits(*, items=0, positions=0, site=5, key=(1, 2), count=512, width=512, p=0.5):
    """Masks as ±1 of neighbouring items, moved by what is given."""
    items = torch.arange(count) + items
    mask = dropout_mask(items, torch.zeros_like(items) + positions, width, p=p, key=key, site=site)
    return mask.sign() * 2 - 1


MOVED = {
    "the next item": {"items": 1},
    "an item far away": {"items": 2**16},
    "the next position": {"positions": 1},
    "a position far away": {"positions": 2**20},
    "the next site": {"site": 4},
    "the next step": {"key": (1, 3)},
    "the next seed": {"key": (2, 2)},
    "seed and step swapped": {"key": (2, 1)},
    "position and item moved alike": {"positions": 1, "items": 1},
}


@pytest.mark.parametrize("moved", MOVED.values(), ids=MOVED)
def test_masks_that_differ_in_one_word_are_independent(moved):
    first, second = bits(), bits(**moved)
    count = first.numel()
    assert abs(float((first * second).sum())) < 4.5 * count**0.5
    assert float((first * second).mean(0).std()) == pytest.approx(len(first) ** -0.5, rel=0.2)
    for lag in (1, 16, 64):
        assert abs(float((first[:, lag:] * second[:, :-lag]).sum())) < 4.5 * count**0.5


@pytest.mark.parametrize("lag", [1, 2, 15, 16, 17, 32, 48, 64, 128])
def test_features_of_one_row_are_independent(lag):
    first = bits()
    pairs = first[:, lag:] * first[:, :-lag]
    assert abs(float(pairs.sum())) < 4.5 * pairs.numel() ** 0.5
    assert float(pairs.mean(1).std()) == pytest.approx(pairs.shape[1] ** -0.5, rel=0.2)
