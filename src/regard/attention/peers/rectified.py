"""An additive score with a rectifier."""

from __future__ import annotations

from torch import Tensor

from regard import ops
from regard.attention.contract import AbstractScore, Look, Source, Tree
from regard.attention.heads import share, split
from regard.attention.scores.additive import AdditiveScore
from regard.shapes import Float, merge_rows


class RectifiedScore(AbstractScore):
    """e_j = vᵀ max(W q + U h_j + b, 0): the additive score with a rectifier in place of tanh.

    Args:
        query_size, memory_size: Q and M.
        size: width of the hidden layer, all heads together; each head has its own v over its own slice.

    Source: Vinodababu's captioning of images in PyTorch, after Xu et al. 2015 (arXiv 1502.03044), section 3.1.2.
    """

    sources = ("xu2015",)

    is_positionwise = True

    def __init__(self, query_size: int, memory_size: int, size: int, *, num_heads: int = 1) -> None:
        super().__init__()
        self.query_size, self.memory_size = query_size, memory_size
        self.num_heads = num_heads
        self.additive = AdditiveScore(query_size, memory_size, size, num_heads=num_heads, bias=True)

    def prepare(self, source: Source) -> Tree:
        """U h, split into heads."""
        return self.additive.prepare(source)

    def forward(self, look: Look, leaf: Tree) -> tuple[Float[Tensor, "R H S"], Tree]:
        """Energies (R, H, S)."""
        shared = share(split(self.additive.query_projection(look.query), self.num_heads), look.memory.score)
        energies = ops.additive_energies(shared, look.memory.score, self.additive.v, "relu")
        return merge_rows(energies.transpose(1, 2)), leaf
