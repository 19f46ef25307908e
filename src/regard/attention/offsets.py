"""How far a position of the memory is from the query, as a vector."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.errors import ShapeError
from regard.shapes import Float, Int


class OffsetVectors(nn.Module):
    """A learned vector a_{j-i} for every offset from -k to k; offsets beyond ±k share the outermost vectors.

    Args:
        max_distance: k.
        size: D, the width of a head; all heads share the vectors.

    Source: Shaw, Uszkoreit & Vaswani 2018 (arXiv 1803.02155), section 3.2 (w_{-k} … w_k there).
    """

    def __init__(self, max_distance: int, size: int) -> None:
        super().__init__()
        if max_distance < 0:
            raise ShapeError(f"max_distance={max_distance} must be 0 or more.")
        self.max_distance = max_distance
        self.vectors = nn.Parameter(torch.empty(2 * max_distance + 1, size))
        nn.init.xavier_uniform_(self.vectors)

    def index(self, position: Int[Tensor, " R"], weights: Float[Tensor, "R H S"]) -> Int[Tensor, "R H S"]:
        """The index of the vector of each energy or weight, that of offset j - i, with i the row's step.

        >>> OffsetVectors(1, 4).index(torch.tensor([0, 2]), torch.zeros(2, 1, 4))
        tensor([[[1, 2, 2, 2]],
        <BLANKLINE>
                [[0, 0, 1, 2]]])
        """
        offset = torch.arange(weights.shape[2], device=weights.device) - position[:, None]
        return (offset.clamp(-self.max_distance, self.max_distance) + self.max_distance)[:, None].expand_as(weights)
