"""How far a position of the memory is from the query."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.errors import ShapeError
from regard.shapes import Float, Int


def offsets(position: Int[Tensor, " R"], num_positions: int) -> Int[Tensor, "R S"]:
    """j - i for every position j of the memory, i being each row's step; negative for the past.

    >>> offsets(torch.tensor([0, 2]), 3)
    tensor([[ 0,  1,  2],
            [-2, -1,  0]])
    """
    return torch.arange(num_positions, device=position.device) - position[:, None]


class OffsetVectors(nn.Module):
    """A learned vector a_{j-i} for every offset from -k to k; those farther away share the outermost ones.

    Args:
        max_distance: k.
        size: D, the width of a head; all heads share the vectors.

    Source: Shaw, Uszkoreit & Vaswani 2018 (arXiv 1803.02155), equation 5 (w_{-k} … w_k there).
    """

    def __init__(self, max_distance: int, size: int) -> None:
        super().__init__()
        if max_distance < 0:
            raise ShapeError(f"max_distance={max_distance} must be 0 or more.")
        self.max_distance = max_distance
        self.vectors = nn.Parameter(torch.empty(2 * max_distance + 1, size))
        nn.init.xavier_uniform_(self.vectors)

    def index(self, position: Int[Tensor, " R"], weights: Float[Tensor, "R H S"]) -> Int[Tensor, "R H S"]:
        """Which vector belongs to each energy or weight."""
        clipped = offsets(position, weights.shape[2]).clamp(-self.max_distance, self.max_distance)
        return (clipped + self.max_distance)[:, None].expand_as(weights)
