"""The Annotated Transformer: its layer norm and its initial weights."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.layers import TokenEmbedding
from regard.shapes import Float


class AnnotatedLayerNorm(nn.Module):
    """w (x - mean) / (σ + ε) + b, with σ² the sum of squares divided by D - 1; a layer norm has D and √(σ² + ε).

    Args:
        size: D.
        epsilon: ε.

    Source: Rush 2018, The Annotated Transformer, and its revision of 2022.
    """

    def __init__(self, size: int, epsilon: float = 1e-6) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows D"]:
        """As above."""
        centred = x - x.mean(-1, keepdim=True)
        # at 0 the gradient of a root is infinite; here it is 0
        variance = x.var(-1, keepdim=True).clamp(min=torch.finfo(x.dtype).tiny)
        return self.weight * centred / (variance.sqrt() + self.epsilon) + self.bias


TRANSFORMER_DEFAULTS = {"projection_bias": True, "norm_epsilon": 1e-6}
"""Defaults of the sections of an encoder or a decoder that differ from ours."""


def change_transformer(module: nn.Module) -> None:
    """Replaces the layer norms of a new encoder or decoder, and draws all its matrices again, embeddings included.

    The other differences are options: `norm="pre"`, `projection_bias=True`, `norm_epsilon=1e-6`, dropout on the weights
    of attention, and label smoothing over all other symbols.

    Args:
        module: a `TransformerEncoder` or a `TransformerDecoder`; is changed.
    """
    for parent in list(module.modules()):
        for name, child in parent.named_children():
            if isinstance(child, nn.LayerNorm):
                parent._modules[name] = AnnotatedLayerNorm(child.normalized_shape[0], child.eps)
    for parameter in module.parameters():
        if parameter.dim() > 1:
            nn.init.xavier_uniform_(parameter)
    for embedding in module.modules():
        if isinstance(embedding, TokenEmbedding) and embedding.table.padding_idx is not None:
            with torch.no_grad():
                embedding.table.weight[embedding.table.padding_idx].zero_()
