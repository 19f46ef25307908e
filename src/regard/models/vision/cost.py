"""What an image costs: multiply-adds of its encoding."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from regard.models.vision.backbone import AbstractBackbone
from regard.models.vision.encoder import ImageEncoder


def multiply_adds(network: ImageEncoder | AbstractBackbone, height: int, width: int) -> float:
    """Multiply-adds of the forward pass over an image of this size, in billions (10^9).

    Those of convolutions and products are counted; norms, activations and positions are not. The backward pass has
    about twice as many. Nothing is computed.

    >>> from regard.models.vision import PlainBackbone
    >>> round(multiply_adds(PlainBackbone(1, widths=(10,), depth=1), 100, 200) * 1e9)  # 100 · 200 · 10 · 9
    1800000
    """
    shadow: Any = copy.deepcopy(network).to("meta").eval()
    dtype = next(shadow.parameters()).dtype
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        shadow(torch.empty(1, network.channels, height, width, dtype=dtype, device="meta"))
    return counter.get_total_flops() / 2e9
