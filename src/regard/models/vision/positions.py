"""Position vectors of the cells of an image: half of the features for the row y, half for the column x."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from regard.errors import ConfigError, ShapeError
from regard.shapes import Bool, Float


class SinusoidalPlanePositions(nn.Module):
    """(p_y, p_x): with D / 2 features each, p_{t,2i} = sin(t / 10000^{2i/(D/2)}) and p_{t,2i+1} the cosine.

    t is the row or column, counted from 0; if `normalised`, 2π (y + 1) / h in an image of h rows of real cells, and
    2π (x + 1) / w with w columns: the position relative to the size of the image.

    Args:
        size: D, even.
        normalised: whether positions are relative to the size of the image.

    Raises:
        ConfigError: for an odd size.

    Source: Parmar et al. 2018 (arXiv 1802.05751), section 3.1; normalised as in Carion et al. 2020 (arXiv 2005.12872)
    and in Zhao et al. 2021 (BTTR, arXiv 2105.02412), whose features of x precede those of y.
    """

    def __init__(self, size: int, *, normalised: bool = False) -> None:
        super().__init__()
        if size % 2:
            raise ConfigError(f"size={size} must be even: half of the features are for rows, half for columns.")
        self.size = size
        self.normalised = normalised

    def forward(
        self, grid: tuple[int, int], mask: Bool[Tensor, "B h w"] | None, like: Tensor
    ) -> Float[Tensor, "*B h w D"]:
        """The vectors of the cells, (h, w, D) for all images, or (B, h, w, D) if they are normalised and masked.

        Args:
            grid: (h, w).
            mask: True at real cells; all if None.
            like: has the dtype and device of the result.
        """
        double = torch.float32 if like.device.type == "mps" else torch.float64
        rows, columns = (torch.arange(side, dtype=double, device=like.device) for side in grid)
        if self.normalised:
            height, width = (
                (float(grid[0]), float(grid[1]))
                if mask is None
                else (mask.any(2).sum(1).clamp(min=1)[:, None], mask.any(1).sum(1).clamp(min=1)[:, None])
            )
            rows, columns = 2 * math.pi * (rows + 1) / height, 2 * math.pi * (columns + 1) / width
        of_rows, of_columns = (self._waves(t) for t in (rows, columns))
        shape = (*of_rows.shape[:-2], *grid, -1)
        parts = of_rows[..., :, None, :].expand(shape), of_columns[..., None, :, :].expand(shape)
        return torch.cat(parts, -1).to(like.dtype)

    def _waves(self, t: Float[Tensor, "*rows"]) -> Float[Tensor, "*rows D"]:
        half = self.size // 2
        even = torch.arange(0, half, 2, device=t.device, dtype=t.dtype)
        angles = t[..., None] * 10000.0 ** (-even / half)
        return torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)[..., :half]


class LearnedPlanePositions(nn.Module):
    """(p_y, p_x): learned vectors of D / 2 features for each row and for each column.

    Args:
        size: D, even.
        max_grid: the numbers of rows and columns.

    Raises:
        ConfigError: for an odd size, or no rows or columns.

    Source: Carion et al. 2020 (arXiv 2005.12872), whose features of columns precede those of rows.
    """

    def __init__(self, size: int, max_grid: tuple[int, int]) -> None:
        super().__init__()
        if size % 2:
            raise ConfigError(f"size={size} must be even: half of the features are for rows, half for columns.")
        if min(max_grid) < 1:
            raise ConfigError(f"max_grid={max_grid} must have at least a row and a column.")
        self.size = size
        self.max_grid = max_grid
        self.rows, self.columns = (nn.Embedding(count, size // 2) for count in max_grid)
        for table in (self.rows, self.columns):
            nn.init.normal_(table.weight, std=size**-0.5)

    def forward(
        self, grid: tuple[int, int], mask: Bool[Tensor, "B h w"] | None, like: Tensor
    ) -> Float[Tensor, "h w D"]:
        """The vectors of the cells.

        Args:
            grid: (h, w).
            mask: not used.
            like: has the dtype of the result.

        Raises:
            ShapeError: for more rows or columns than are learned.
        """
        if grid[0] > self.max_grid[0] or grid[1] > self.max_grid[1]:
            raise ShapeError(
                f"An image of {grid[0]} rows and {grid[1]} columns of cells exceeds max_grid={self.max_grid} of the "
                "learned positions. Use smaller images, a larger max_grid, or sinusoidal positions."
            )
        rows, columns = (
            table(torch.arange(side, device=table.weight.device))
            for table, side in zip((self.rows, self.columns), grid, strict=True)
        )
        shape = (*grid, -1)
        return torch.cat([rows[:, None].expand(shape), columns[None].expand(shape)], -1).to(like.dtype)
