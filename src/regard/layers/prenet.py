"""The prenet: the bottleneck between a decoder of frames and its previous output."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn

from regard.errors import ConfigError
from regard.layers.dropout import Dropout, drop
from regard.layers.linear import Linear
from regard.ops.dropout import dropout_mask
from regard.shapes import Float, Int

KEY = (0x70726E74, 0)
"""The key of the draws in synthesis, in addition to seed, step and layer."""


class Prenet(nn.Module):
    """Layers of dropout(relu(W x + b)).

    With drops="always" features are dropped in evaluation too, as in Tacotron 2, so that a decoder does not only copy
    its last frame. The mask of a row is then a hash of its seed, its step and the layer (`ops.dropout`): a sentence has
    the same masks in any batch and any run, and another seed gives another reading of the same text.

    Args:
        input_size: F.
        sizes: of the layers; the last is the width of the outputs.
        dropout: the probability that a unit is dropped.
        drops: "training" or "always".
        bias: whether there is b.

    Raises:
        ConfigError: for no layers, or another `drops`.

    Source: Wang et al. 2017 (arXiv 1703.10135), table 1; in synthesis too: Shen et al. 2018 (arXiv 1712.05884), section
    2.2.

    >>> prenet = Prenet(3, (8, 4), drops="always").eval()
    >>> x = torch.ones(1, 3)
    >>> torch.equal(prenet(x), prenet(x)), torch.equal(prenet(x), prenet(x, seeds=torch.tensor([1])))
    (True, False)
    """

    def __init__(
        self,
        input_size: int,
        sizes: Sequence[int] = (256, 256),
        *,
        dropout: float = 0.5,
        drops: Literal["training", "always"] = "training",
        bias: bool = True,
    ) -> None:
        super().__init__()
        if not sizes:
            raise ConfigError("sizes is empty: a prenet has at least one layer.")
        if drops not in ("training", "always"):
            raise ConfigError(f"drops={drops!r} must be 'training' or 'always'.")
        self.drops = drops
        self.size = sizes[-1]
        widths = [input_size, *sizes]
        self.layers = nn.ModuleList(Linear(before, after, bias=bias) for before, after in pairwise(widths))
        self.dropout = Dropout(dropout)

    def forward(
        self,
        x: Float[Tensor, "*rows F"],
        *,
        seeds: Int[Tensor, " R"] | None = None,
        start: Int[Tensor, " R"] | None = None,
    ) -> Float[Tensor, "*rows P"]:
        """Features of one step (R, F), or of all steps of sequences (B, T, F).

        Args:
            seeds: (R,) or (B,), for evaluation with drops="always"; 0 if None.
            start: (R,) or (B,), the number of the step, or of the first of the steps; 0 if None.
        """
        synthesis = not self.training and self.drops == "always" and self.dropout.p > 0
        for number, layer in enumerate(self.layers):
            x = torch.relu(layer(x))
            x = x * self._mask(x, number, seeds, start) if synthesis else drop(self.dropout, x, layer=number)
        return x

    def _mask(self, x: Tensor, number: int, seeds: Tensor | None, start: Tensor | None) -> Tensor:
        """The mask of the units of a layer in synthesis."""
        zeros = torch.zeros(len(x), dtype=torch.long, device=x.device)
        seeds, start = (zeros if numbers is None else numbers for numbers in (seeds, start))
        width, steps = x.shape[-1], x.shape[1] if x.dim() == 3 else 1
        positions = (start[:, None] + torch.arange(steps, device=x.device)).flatten()
        rows = seeds.repeat_interleave(steps)
        return dropout_mask(rows, positions, width, p=self.dropout.p, key=KEY, site=number, dtype=x.dtype).view_as(x)
