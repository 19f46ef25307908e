"""ESPnet: attention, Tacotron 2, and its front end."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from regard import ops
from regard.attention import AbstractAttention, recipes
from regard.attention.alignments.forward import ForwardAlignment, ForwardState
from regard.attention.mechanism import Mechanism
from regard.attention.recipes.monotonic import agent_of
from regard.audio.compression import logarithm
from regard.interop import nvidia
from regard.interop.tacotron import (
    TACOTRON2,
    ZONEOUT_FIXED,
    Names,
    Weights,
    context_last,
    convolution_blocks,
    frame_by_frame,
    numbered,
    tacotron2_options,
    transposed,
)
from regard.layers import CellStack, ConvolutionBlock, Prenet, RecurrentStack, TokenEmbedding
from regard.models.tacotron import (
    ConvolutionalEncoder,
    ConvolutionalPostnet,
    FrameHead,
    StopHead,
    Tacotron,
    TacotronDecoder,
)
from regard.ops.forward import move_on
from regard.shapes import Bool, Float
from regard.tasks.text_to_speech.config import TacotronConfig
from regard.tasks.text_to_speech.forms import TacotronForm

LEAST = 1e-6

coverage = partial(recipes.coverage, first_alignment="uniform", sharpening=2.0)
location_sensitive = partial(recipes.location_sensitive, first_alignment="uniform", sharpening=2.0)


class ClampedForwardAlignment(ForwardAlignment):
    """α̂_t = max(m_t y_t, 1e-6), without an agent max(2 m_t y_t, 1e-6), divided by its sum over all positions.

    Padding and positions outside the window have weights above 0, which breaks every invariant about padding: use it
    for comparisons only. The agent has no hidden layer and predicts staying, so our W and b are the negatives of
    ESPnet's.
    """

    def move(
        self, energies: Float[Tensor, "R H S"], state: ForwardState, support: Bool[Tensor, "R G S"] | None
    ) -> tuple[Float[Tensor, "R H S"], Float[Tensor, "R H S"]]:
        """The weights, zeros in a row without support, and the alignment afterwards."""
        dtype = torch.promote_types(energies.dtype, state.alignment.dtype)
        working = torch.promote_types(dtype, torch.float32)
        reach = (2 if self.agent is None else 1) * move_on(state.alignment.to(working), state.move.to(working))
        weights = (reach * ops.masked_softmax(energies.to(working), support)).clamp(min=LEAST)
        if support is not None:
            weights = weights * support.any(-1, keepdim=True)
        weights = (weights / weights.sum(-1, keepdim=True).clamp(min=LEAST)).to(dtype)
        return weights, torch.where(weights.any(-1, keepdim=True), weights, state.alignment)


def forward_attention(
    *, input_size: int | None = None, transition_agent: bool = False, num_heads: int = 1, **options: Any
) -> Mechanism:
    """AttForward, and AttForwardTA with an agent, which has no hidden layer."""
    plain = recipes.forward_attention(num_heads=num_heads, **options)
    agent = None
    if transition_agent:
        agent = agent_of(plain.read, options["query_size"], input_size, hidden_size=None, num_heads=num_heads)
    alignment = ClampedForwardAlignment(num_heads=num_heads, agent=agent)
    return Mechanism(plain.score, alignment, plain.read, plain.window)


def tacotron2(
    num_symbols: int,
    *,
    num_features: int = 80,
    num_frames: int = 1,
    embedding_size: int = 512,
    encoder_size: int = 512,
    num_convolutions: int = 3,
    convolution_size: int = 512,
    kernel_size: int = 5,
    prenet_size: int = 256,
    prenet_layers: int = 2,
    size: int = 1024,
    dropout: float = 0.5,
    zoneout: float = 0.1,
    attention: Callable[..., AbstractAttention] | None = None,
    postnet_size: int = 512,
    postnet_layers: int = 5,
) -> Tacotron:
    """Two LSTMs with zoneout, the query is the first one's old state; convolutions and frames without biases.

    Attention is location-sensitive on the sum of the weights, 512 wide, with twice the sharpening. `dropout` is that of
    the encoder, the prenet (which always drops) and the postnet. Id 0 has a vector of zeros.
    """
    widths = [embedding_size, *[convolution_size] * num_convolutions]
    unbiased: dict[str, Any] = {"dropout": dropout, "bias": False}
    encoder = ConvolutionalEncoder(
        TokenEmbedding(num_symbols, embedding_size, padding=0),
        [ConvolutionBlock(before, convolution_size, kernel_size, **unbiased) for before in widths[:-1]],
        RecurrentStack(widths[-1], encoder_size // 2, bidirectional=True),
    )
    attend = partial(location_sensitive, size=512) if attention is None else attention
    mechanism = attend(query_size=size, memory_size=encoder_size)
    context = mechanism.context_size
    prenet = Prenet(num_features, (prenet_size,) * prenet_layers, dropout=dropout, drops="always")
    stop = StopHead(size, context, num_frames)
    decoder = TacotronDecoder(
        prenet,
        mechanism,
        FrameHead(size, context, num_features, num_frames, bias=False, stop=stop),
        output_cells=CellStack(prenet_size + context, size, 2, zoneout=zoneout),
    )
    postnet = ConvolutionalPostnet(num_features, postnet_size, num_layers=postnet_layers, **unbiased)
    _draw(encoder.convolutions, nn.init.calculate_gain("relu"))
    _draw(postnet.convolutions, nn.init.calculate_gain("tanh"))
    return Tacotron(encoder, decoder, {"mel": postnet})


def _draw(blocks: Iterable[Any], gain: float) -> None:
    """Draws filters Xavier-uniformly."""
    for block in blocks:
        nn.init.xavier_uniform_(block.convolution.filters.weight, gain)


def _names(model: Tacotron) -> Names:
    """The names of their modules by ours. There the context comes first in the cells' input, features in frames."""
    cells: Any = model.decoder.output_cells
    inner = ".cell" if cells.zoneout.p else ""
    return {
        **numbered("decoder.prenet.layers.{}", "dec.prenet.prenet.{}.0", len(model.decoder.prenet.layers)),
        **numbered("decoder.output_cells.cells.{}.layers.0", f"dec.lstm.{{}}{inner}", cells.num_layers),
        **convolution_blocks(model, encoder="enc.convs", postnet="dec.postnet.postnet"),
        "encoder.embedding.table": "enc.embed",
        "encoder.stack.layers.0": "enc.blstm",
        "decoder.attention.score.content.query_projection.weight": "dec.att.mlp_dec.weight",
        "decoder.attention.score.content.query_projection.bias": "dec.att.mlp_enc.bias",
        "decoder.attention.score.content.key_projection": "dec.att.mlp_enc",
        "decoder.attention.score.content.v": "dec.att.gvec.weight",
        "decoder.attention.score.filters.weight": lambda find: find("dec.att.loc_conv.weight").squeeze(2),
        "decoder.attention.score.location_projection": transposed("dec.att.mlp_att.weight"),
        "decoder.head.projection.weight": frame_by_frame("dec.feat_out.weight", model.decoder.num_features),
        "decoder.head.stop.projection": "dec.prob_out",
        "decoder.output_cells.cells.0.layers.0.weight_ih_l0": context_last(
            f"dec.lstm.0{inner}.weight_ih", model.decoder.attention.context_size
        ),
    }


TACOTRON2_WEIGHTS = Weights(_names, unused=("dec.att.gvec.bias",))  # a softmax is invariant to it


def _options(config: TacotronConfig) -> dict[str, Any]:
    sizes = {"encoder_size": config.encoder.size, "convolution_size": config.encoder.size}
    return tacotron2_options(config) | sizes | {"zoneout": config.decoder.zoneout}


TACOTRON2_FORM = TacotronForm(
    TACOTRON2
    | {
        "decoder.query": "old",
        "decoder.dropout": None,
        "decoder.zoneout": 0.1,
        "attention.like": "espnet",
        "attention.size": 512,
    },
    ZONEOUT_FIXED,
    _options,
)
FRONT_END = replace(
    nvidia.FRONT_END, f_min=80.0, f_max=7600.0, magnitude_floor=1e-5, compression=logarithm(1e-10, base=10)
)
