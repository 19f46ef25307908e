"""Layers for numbers: an input layer, and heads for points or quantiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from regard.errors import UnsupportedError
from regard.layers.dropout import Dropout
from regard.layers.linear import Linear
from regard.shapes import Float

QUANTILES = "quantiles"
"""The name of quantiles in the auxiliary outputs of a decoder."""
MEDIAN = 0.5


class ValueEmbedding(nn.Module):
    """W x + b: D features of F values, for example the series and the known inputs of a time step.

    With `marks_missing` NaN counts as 0, and each value has a further input m, 1 if it is missing: W [x; m] + b.
    Otherwise a NaN makes all D features NaN.

    Args:
        num_features: F.
        size: D.
        marks_missing: whether values may be NaN.
        dropout: probability that a feature is dropped in training.

    Source: the mask beside the values as input: Che et al. 2018 (arXiv 1606.01865), their "GRU-simple".

    >>> embedding = ValueEmbedding(2, 3, marks_missing=True)
    >>> embedding(torch.tensor([[0.5, float("nan")]])).isnan().any()
    tensor(False)
    """

    def __init__(self, num_features: int, size: int, *, marks_missing: bool = False, dropout: float = 0.0) -> None:
        super().__init__()
        self.num_features = num_features
        self.size = size
        self.marks_missing = marks_missing
        self.projection = Linear(num_features * (2 if marks_missing else 1), size)
        self.dropout = Dropout(dropout)

    def forward(self, values: Float[Tensor, "*rows F"]) -> Float[Tensor, "*rows D"]:
        """Features of a step's values (R, F), or of a sequence's (B, T, F)."""
        if self.marks_missing:
            missing = values.isnan()
            values = torch.cat([values.masked_fill(missing, 0), missing.to(values.dtype)], -1)
        return self.dropout(self.projection(values))


class ValueHead(nn.Module):
    """W x + b: a point for each of F values; the mean if trained by the squared error.

    Args:
        size: D, the width of the features.
        num_features: F.
    """

    def __init__(self, size: int, num_features: int) -> None:
        super().__init__()
        self.num_features = num_features
        self.projection = Linear(size, num_features)

    def forward(self, features: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows F"]:
        """Values."""
        return self.projection(features)


class QuantileHead(nn.Module):
    """Q quantiles of each of F values, which cannot cross; the decoder's values are the medians.

    With a = W x + b, Q numbers for each value, and m the level 1/2:

    q_m = a_m,  q_k = q_{k-1} + softplus(a_k) for k > m,  q_k = q_{k+1} - softplus(a_k) for k < m.

    They are in order without sorting: each level keeps its own weights and gradients, and the median is an affine map,
    like the values of `ValueHead`.

    Args:
        size: D, the width of the features.
        num_features: F.
        levels: increasing probabilities between 0 and 1, with 0.5 among them.

    Raises:
        UnsupportedError: for other levels.

    Source: Koenker & Bassett 1978, Regression quantiles; positive increments: Park et al. 2022 (arXiv 2111.06581),
    there from the lowest level, here from the median.

    >>> head = QuantileHead(4, 2, levels=(0.1, 0.5, 0.9))
    >>> values, further = head(torch.zeros(3, 4))
    >>> values.shape, further["quantiles"].shape
    (torch.Size([3, 2]), torch.Size([3, 2, 3]))
    """

    def __init__(self, size: int, num_features: int, *, levels: Sequence[float] = (0.1, 0.5, 0.9)) -> None:
        super().__init__()
        ordered = all(lower < upper for lower, upper in pairwise((0.0, *levels, 1.0)))
        if not ordered or MEDIAN not in levels:
            raise UnsupportedError(
                f"levels={tuple(levels)} must increase, lie between 0 and 1, and include 0.5: the median is the "
                "decoder's next input."
            )
        self.num_features = num_features
        self.levels = tuple(levels)
        self.projection = Linear(size, num_features * len(levels))

    def forward(
        self, features: Float[Tensor, "*rows D"]
    ) -> tuple[Float[Tensor, "*rows F"], Mapping[str, Float[Tensor, "*rows F Q"]]]:
        """The medians, and by name all `quantiles`, in the order of the levels."""
        free = self.projection(features).unflatten(-1, (self.num_features, len(self.levels)))
        middle = self.levels.index(MEDIAN)
        below, median, above = free.split([middle, 1, len(self.levels) - middle - 1], -1)
        lower = median - softplus(below).flip(-1).cumsum(-1).flip(-1)
        upper = median + softplus(above).cumsum(-1)
        return median[..., 0], {QUANTILES: torch.cat([lower, median, upper], -1)}
