"""Parity with ESPnet's guided attention loss."""

from __future__ import annotations

import pytest
import torch

from golden.archive import load
from golden.parity import TOLERANCE, compare, leaves
from regard.losses import guided_attention


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
def test_guided_attention_is_that_of_espnet(dtype):
    golden = load("espnet", "guided_attention_loss", dtype)
    given = leaves(golden.inputs)
    steps, positions = given["alignment"].shape[1:]
    source = torch.arange(positions) < given["source_lengths"][:, None]
    target = torch.arange(steps) < given["target_lengths"][:, None]
    loss = 2 * guided_attention(given["alignment"][:, None], source, target, width=0.4)
    found = compare(golden, {"loss": loss}, given)
    assert {name: value for name, value in found.items() if not value <= TOLERANCE[dtype]} == {}
