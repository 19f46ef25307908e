"""One thread, one seed, and shapes of parts and operations checked against their annotations."""

from __future__ import annotations

import pytest
import torch
from jaxtyping import install_import_hook

# The front doors (`Mechanism`, `Parallel`, models) stay out: their own errors say more, and tests look at them.
CHECKED = [
    *(f"regard.attention.{room}" for room in ("alignments", "heads", "reads", "scores", "windows")),
    "regard.layers",
    "regard.ops",
]

install_import_hook(CHECKED, "annotations.checked")
torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)
