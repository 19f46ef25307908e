"""sgrvinod's PyTorch tutorial on image captioning: its attention, and captioners with its weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from regard import ops
from regard.attention import recipes
from regard.attention.contract import AbstractScore, Source, StepInputs, Tree
from regard.attention.mechanism import Mechanism
from regard.attention.scores import AdditiveScore
from regard.attention.sizes import share, split
from regard.interop.captioners import CaptionerWeights, cell_weights, load_captioner
from regard.models import RecurrentDecoder
from regard.models.captioner import CaptionerForm
from regard.shapes import Float, merge_rows


class RectifiedScore(AbstractScore):
    """e_j = vᵀ max(W q + U h_j + b, 0): the additive score with a rectifier instead of tanh.

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

    def forward(self, inputs: StepInputs, state: Tree) -> tuple[Float[Tensor, "R H S"], Tree]:
        """Energies (R, H, S)."""
        shared = share(split(self.additive.query_projection(inputs.query), self.num_heads), inputs.memory.score)
        energies = ops.additive_energies(shared, inputs.memory.score, self.additive.v, "relu")
        return merge_rows(energies.transpose(1, 2)), state


def show_attend_tell(
    *, query_size: int, memory_size: int, size: int = 256, num_heads: int = 1, **options: Any
) -> Mechanism:
    """Attention with a rectifier instead of tanh; `gate="vector"` gives that implementation's."""
    plain = recipes.show_attend_tell(
        query_size=query_size, memory_size=memory_size, size=size, num_heads=num_heads, **options
    )
    score = RectifiedScore(query_size, memory_size, size, num_heads=num_heads)
    return Mechanism(score, plain.alignment, plain.read, plain.window)


CAPTIONER = CaptionerForm(attention=show_attend_tell, gate="vector", readout="state", bridge="linear")
"""A rectifier instead of tanh in the energies, a vector gate, outputs L_o s_t, and a linear s_0."""


def from_sgrvinod(
    weights: Mapping[str, Tensor], *, padding: int | None = None, never: Sequence[int] = (), dropout: float = 0.0
) -> RecurrentDecoder:
    """A decoder with the weights of sgrvinod's `DecoderWithAttention`, equal to it up to rounding.

    Args:
        weights: its `state_dict()`.
        padding, never: as in `captioner`; the program's `word_map` has the ids of `<pad>` and `<start>`.
        dropout: in later training; there 0.5.

    Raises:
        DataError: for weights that are missing, of other shapes, or left over.
    """
    theirs = CaptionerWeights(weights)
    projections = {side: theirs.linear(f"attention.{side}_att") for side in ("encoder", "decoder", "full")}
    first = [theirs.linear(f"init_{name}") for name in "hc"]
    cell = [theirs.take(f"decode_step.{kind}_{side}") for kind in ("weight", "bias") for side in ("ih", "hh")]
    embedding, gate, head = theirs.take("embedding.weight"), theirs.linear("f_beta"), theirs.linear("fc")
    theirs.finish()
    return load_captioner(
        "sgrvinod",
        {
            "embedding.table.weight": embedding,
            "attention.score.additive.query_projection.weight": projections["decoder"][0],
            # both biases are summed before the rectifier; that of v shifts all energies equally
            "attention.score.additive.query_projection.bias": projections["decoder"][1] + projections["encoder"][1],
            "attention.score.additive.key_projection.weight": projections["encoder"][0],
            "attention.score.additive.v": projections["full"][0],
            "attention.read.gate.weight": gate[0],
            "attention.read.gate.bias": gate[1],
            **cell_weights(*cell),
            "bridge.maps.0.weight": torch.cat([weight for weight, _ in first]),
            "bridge.maps.0.bias": torch.cat([bias for _, bias in first]),
            "head.projection.weight": head[0],
            "head.projection.bias": head[1],
        },
        padding=padding,
        never=never,
        dropout=dropout,
    )
