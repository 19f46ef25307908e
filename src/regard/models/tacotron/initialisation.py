"""First weights of a Tacotron as NVIDIA's implementation draws them."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.nn.init import calculate_gain, xavier_uniform_

from regard.attention import AbstractAttention
from regard.attention.scores import AdditiveScore, LocationScore
from regard.layers import ConvolutionBlock, RecurrentStack, TokenEmbedding
from regard.models.tacotron.heads import StopHead

GAINS = {"none": 1.0, "relu": calculate_gain("relu"), "tanh": calculate_gain("tanh")}
"""Of the activations after a convolution."""


def initialise_tacotron(model: nn.Module) -> None:
    """Draws the weights of a model anew, as NVIDIA's Tacotron 2 does.

    Matrices and filters are Xavier-uniform with the gain of the function that follows: tanh for the layers of attention
    and the postnet, ReLU for the encoder's convolutions, σ for the stop logits, 1 for all others, the prenet's too.
    Embeddings of V symbols and E features lie between ±√(6 / (V + E)). Recurrent layers are torch's. Biases stay, as do
    the weights of other parts of attention than the additive and the location score.

    Source: NVIDIA/tacotron2, `layers.py` and `model.py`.
    """
    within = {part for outer in model.modules() if isinstance(outer, AbstractAttention) for part in outer.modules()}
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, nn.Linear | nn.Conv1d) and module not in within:
                xavier_uniform_(module.weight)
        for module in model.modules():
            if isinstance(module, ConvolutionBlock):
                xavier_uniform_(module.convolution.filters.weight, GAINS[module.activation])
            elif isinstance(module, StopHead):
                xavier_uniform_(module.projection.weight, calculate_gain("sigmoid"))
            elif isinstance(module, AdditiveScore | LocationScore):
                _draw_score(module)
            elif isinstance(module, TokenEmbedding):
                bound = math.sqrt(6 / sum(module.table.weight.shape))
                module.table.weight.uniform_(-bound, bound)
                if module.table.padding_idx is not None:
                    module.table.weight[module.table.padding_idx].zero_()
            elif isinstance(module, RecurrentStack):
                layers: Any = module.layers
                for layer in layers:
                    layer.reset_parameters()


def _draw_score(score: AdditiveScore | LocationScore) -> None:
    """The layers of attention, whose sum goes through tanh; the filters and v have a gain of 1."""
    gain = calculate_gain("tanh")
    if isinstance(score, LocationScore):
        for head in score.location_projection:
            xavier_uniform_(head, gain)
        xavier_uniform_(score.filters.weight)
        return
    xavier_uniform_(score.query_projection.weight, gain)
    xavier_uniform_(score.key_projection.weight, gain)
    xavier_uniform_(score.v)
