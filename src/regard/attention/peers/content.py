"""Attention by content as other implementations have it: Mozilla TTS, and sgrvinod's tutorial on captions."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from regard import ops
from regard.attention import recipes
from regard.attention.alignments import SigmoidAlignment
from regard.attention.contract import AbstractScore, AbstractWindow, Look, Source, Tree
from regard.attention.mechanism import Mechanism
from regard.attention.peers.argmax import argmax_window
from regard.attention.reads import WeightedSum
from regard.attention.scores import AdditiveScore
from regard.attention.sizes import share, split
from regard.attention.windows import InEvaluation
from regard.errors import UnsupportedError
from regard.shapes import Float, merge_rows


def mozilla_bahdanau(
    *, query_size: int, memory_size: int, size: int = 128, window: AbstractWindow | None = None, **others: Any
) -> Mechanism:
    """The old cell of Mozilla TTS's first Tacotron 1.

    Energies with a bias, σ divided by its sum, and in evaluation a window p - 3 … p + 5 around the last peak p.
    """
    if others:
        raise UnsupportedError(f"like='mozilla' has the options size and window; got {', '.join(others)}.")
    return Mechanism(
        AdditiveScore(query_size, memory_size, size, bias=True),
        SigmoidAlignment(normalised=True),
        WeightedSum(memory_size),
        InEvaluation(argmax_window("mozilla")) if window is None else window,
    )


class RectifiedScore(AbstractScore):
    """e_j = vᵀ max(W q + U h_j + b, 0): the additive score with a rectifier in place of tanh.

    Args:
        query_size, memory_size, size, num_heads: as in `AdditiveScore`.

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


def sgrvinod_show_attend_tell(
    *, query_size: int, memory_size: int, size: int = 256, num_heads: int = 1, **options: Any
) -> Mechanism:
    """A rectifier in place of tanh; with `gate="vector"` it is exactly that implementation's attention."""
    plain = recipes.show_attend_tell(
        query_size=query_size, memory_size=memory_size, size=size, num_heads=num_heads, **options
    )
    score = RectifiedScore(query_size, memory_size, size, num_heads=num_heads)
    return Mechanism(score, plain.alignment, plain.read, plain.window)
