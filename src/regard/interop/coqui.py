"""Coqui TTS: its own parts of attention, Tacotron 1 and 2, front ends.

Other rooms have from it double-decoder consistency (`losses.alignment_consistency`), gradual r of `FrameHead`, dropout
on h and c of `CellStack`, the loss `attention_entropy` (its `AttentionEntropyLoss`), and `structural_dissimilarity` as
a loss of Tacotrons, with each spectrogram scaled by its range. Its guided attention has a width of 0.4. Its Tacotron 1
takes at least a quarter as many steps as there are symbols (`min_length` of a free run).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard import ops
from regard.attention import AbstractAttention, recipes
from regard.attention.alignments import ExponentialAlignment, TransitionAgent
from regard.attention.alignments.forward import ForwardAlignment, ForwardState
from regard.attention.contract import (
    AbstractAlignment,
    AbstractScore,
    AbstractWindow,
    AbstractWrapper,
    Attended,
    Memory,
    Source,
    StepInputs,
    Tree,
)
from regard.attention.mechanism import Mechanism
from regard.attention.reads import WeightedSum
from regard.attention.scores import AdditiveScore
from regard.attention.scores.location import LocationScore, Trace
from regard.audio.compression import decibels, logarithm
from regard.audio.front_end import FrontEnd
from regard.errors import UnsupportedError
from regard.interop import nvidia
from regard.interop.tacotron import (
    ONE_WIDTH,
    QUEUE_FIXED,
    TACOTRON1,
    TACOTRON2,
    TACOTRON2_FIXED,
    Find,
    Names,
    Weights,
    convolution_blocks,
    dropout_options,
    numbered,
    queue_options,
    transposed,
)
from regard.layers import CBHG, CellStack, ConvolutionBlock, Dropout, Prenet, RecurrentStack, TokenEmbedding
from regard.layers.linear import Linear
from regard.models.tacotron import (
    CbhgEncoder,
    CbhgPostnet,
    ConvolutionalEncoder,
    ConvolutionalPostnet,
    FrameHead,
    Tacotron,
    TacotronDecoder,
    initialise_tacotron,
)
from regard.models.tacotron.heads import FrameActivation
from regard.shapes import Bool, Float, num_hypotheses
from regard.tasks.text_to_speech.forms import TacotronForm


class UnmaskedAlignment(AbstractWrapper, AbstractAlignment):
    """Another alignment over all positions, including padding, with a fixed weight outside the support.

    Weights are not renormalised, so those of a sentence depend on its padding. This breaks the library's invariants
    about padding: use it only for models that were trained with Coqui TTS.

    Args:
        alignment: the other alignment, called without a support.
        outside: the weight of positions outside the support.
    """

    alignment: AbstractAlignment
    is_normalised = False

    def __init__(self, alignment: AbstractAlignment, *, outside: float = 1e-8) -> None:
        super().__init__(alignment, "alignment")
        self.outside = outside

    def forward(
        self, energies: Float[Tensor, "R H S"], support: Bool[Tensor, "R G S"] | None, inputs: StepInputs, state: Tree
    ) -> tuple[Float[Tensor, "R H S"], Tree, Tree]:
        """Weights (R, H, S)."""
        weights, state, auxiliary = self.alignment(energies, None, inputs, state)
        return weights if support is None else weights.masked_fill(~support, self.outside), state, auxiliary


_STEP_BIAS, _WIDTH_BIAS = 1.0, 10.0
_MARGIN, _LEAST = 1e-5, 1e-8


class SigmoidMixtureScore(AbstractScore):
    """e_ij = log Σ_c (φ_c(j + 3/2) - φ_c(j + ½)),  φ_c(x) = ω_c / (1 + σ((μ_c - x) / s_c)).

    (ω̂, ŝ, Δ̂) = V relu(W q + b);  ω = softmax(dropout(ω̂)) + 10⁻⁵, s = softplus(ŝ) + 10⁻⁵, μ grows by softplus(Δ̂).
    A logistic distribution has exp instead of the sigmoid σ. The weights of a row therefore sum to about ½ at most, and
    wide components peak beyond μ; use it only for models that were trained with it. `MixtureScore(family="logistic")`
    is the correct form. A weight of 0 becomes 10⁻⁸.

    Args:
        query_size: Q, also the width of the hidden layer.
        num_components: C, for each head.
        dropout: on ω̂, in training.

    Source: `GravesAttention` of Coqui TTS, after Vasquez & Lewis 2019 (arXiv 1906.01083), section 4.
    """

    sources = ("graves2013", "vasquez2019")

    is_recurrent = True
    is_log_density = True
    has_pace = True

    def __init__(self, query_size: int, *, num_heads: int = 1, num_components: int = 5, dropout: float = 0.5) -> None:
        super().__init__()
        self.query_size = query_size
        self.num_heads = num_heads
        self.num_components = num_components
        self.hidden = Linear(query_size, query_size)
        self.parameters_of_mixture = Linear(query_size, num_heads * 3 * num_components)
        self.dropout = Dropout(dropout)
        with torch.no_grad():
            bias = self.parameters_of_mixture.bias.view(num_heads, 3, num_components)
            bias[:, 1], bias[:, 2] = _WIDTH_BIAS, _STEP_BIAS

    def initial(self, memory: Memory, num_rows: int) -> Tensor:
        """μ = 0, (R, H, C)."""
        zeros = memory.read.new_zeros(num_rows, self.num_heads, self.num_components)
        return zeros.float() if zeros.element_size() < 4 else zeros

    def forward(self, inputs: StepInputs, state: Tensor) -> tuple[Float[Tensor, "R H S"], Tree]:
        """Logarithms of the weights (R, H, S), and the moved means."""
        raw = self.parameters_of_mixture(torch.relu(self.hidden(inputs.query))).to(state.dtype)
        weight, width, step = raw.view(-1, self.num_heads, 3, self.num_components).unbind(2)
        mean = state + inputs.paced(functional.softplus(step))
        deviation = functional.softplus(width) + _MARGIN
        edges = torch.arange(inputs.memory.num_positions + 1, device=inputs.query.device, dtype=state.dtype) + 0.5
        passed = torch.sigmoid((mean[..., None] - edges) / deviation[..., None])
        weights = (self.dropout(weight.flatten(1)).view_as(weight).softmax(-1) + _MARGIN)[..., None] / (1 + passed)
        mass = weights.sum(2).diff(dim=-1)
        return mass.masked_fill(mass <= 0, _LEAST).log().to(inputs.query.dtype), mean


@dataclass(frozen=True, slots=True)
class Unmoved:
    """The state of `UnmovedLocationScore`.

    Args:
        trace: the last weights, and the sum of softmax(e) of all steps.
        energies: (R, H, S), e of the last step.
        mask: (R, 1, S), the memory's.
    """

    trace: Trace
    energies: Float[Tensor, "R H S"]
    mask: Bool[Tensor, "R G S"]


class UnmovedLocationScore(AbstractScore):
    """`LocationScore` with both channels; the cumulative channel is the sum of softmax(e) instead of the weights.

    The two are equal with a softmax alignment, but not with forward attention. The window does not affect the sum.

    Args:
        query_size, memory_size, size, num_heads, num_filters, kernel_size, bias: as in `LocationScore`.

    Source: `OriginalAttention` of Coqui TTS with forward attention.
    """

    sources = ("chorowski2015", "shen2018")

    is_recurrent = True
    ignores_context = True

    def __init__(
        self,
        query_size: int,
        memory_size: int,
        size: int,
        *,
        num_heads: int = 1,
        num_filters: int = 32,
        kernel_size: int = 31,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.query_size, self.memory_size = query_size, memory_size
        self.num_heads = num_heads
        self.location = LocationScore(
            query_size,
            memory_size,
            size,
            num_heads=num_heads,
            location="both",
            num_filters=num_filters,
            kernel_size=kernel_size,
            bias=bias,
        )

    def prepare(self, source: Source) -> Tree:
        """U h, split into heads."""
        return self.location.prepare(source)

    def initial(self, memory: Memory, num_rows: int) -> Unmoved:
        """Zeros, and the mask."""
        trace = self.location.initial(memory, num_rows)
        mask = torch.ones_like(trace.cumulative[:, :1], dtype=torch.bool)
        if memory.mask is not None:
            mask = memory.mask.repeat_interleave(num_hypotheses(num_rows, len(memory.mask)), 0)[:, None]
        return Unmoved(trace, torch.zeros_like(trace.cumulative), mask)

    def forward(self, inputs: StepInputs, state: Unmoved) -> tuple[Float[Tensor, "R H S"], Tree]:
        """Energies (R, H, S)."""
        energies, trace = self.location(inputs, state.trace)
        return energies, replace(state, trace=trace, energies=energies)

    def observe(self, attended: Attended, inputs: StepInputs, state: Unmoved) -> Unmoved:
        """Stores the step's weights and adds softmax(e) to the sum."""
        trace = self.location.observe(attended, inputs, state.trace)
        added = ops.masked_softmax(state.energies, state.mask)
        return replace(state, trace=replace(trace, cumulative=state.trace.cumulative + added))


FLOOR, ELSEWHERE = 1e-8, 1e-7
SMOOTH = ("sigmoid", "smoothed_sigmoid")
"""Alignments that depend on a bias of v."""


class RestartingForwardAlignment(ForwardAlignment):
    """Forward attention with m_t + 1e-8 instead of m_t; α̂_0 is 1e-7 at the other positions.

    The agent has no hidden layer and does not use the decoder's input.
    """

    floor = FLOOR

    def initial(self, memory: Memory, num_rows: int) -> ForwardState:
        """α̂_0 and u_0 = 1/2."""
        first = super().initial(memory, num_rows)
        return replace(first, alignment=first.alignment.clamp(min=ELSEWHERE))


def location_sensitive(**options: Any) -> Mechanism:
    """The attention of Coqui's Tacotron 1 and 2."""
    changed: dict[str, Any] = {"location": "both", "alignment": "smoothed_sigmoid", "bias": False}
    chosen = changed | options
    return recipes.location_sensitive(**({"output_bias": chosen["alignment"] in SMOOTH} | chosen))


def forward_attention(
    *,
    query_size: int,
    memory_size: int,
    input_size: int | None = None,
    size: int = 128,
    score: Literal["location", "additive"] = "location",
    transition_agent: bool = False,
    num_heads: int = 1,
    window: AbstractWindow | None = None,
    **filters: Any,
) -> Mechanism:
    """`OriginalAttention` with forward attention; the agent never uses the decoder's input, even with `input_size`."""
    plain = recipes.forward_attention(
        query_size=query_size, memory_size=memory_size, size=size, score=score, num_heads=num_heads, **filters
    )
    scoring: AbstractScore
    if score == "location":
        scoring = UnmovedLocationScore(query_size, memory_size, size, bias=False, num_heads=num_heads, **filters)
    else:
        scoring = AdditiveScore(query_size, memory_size, size, num_heads=num_heads)
    agent = None
    if transition_agent:
        agent = TransitionAgent(plain.context_size, query_size, hidden_size=None, num_heads=num_heads)
    return Mechanism(scoring, RestartingForwardAlignment(num_heads=num_heads, agent=agent), plain.read, window)


def dynamic_convolution(**options: Any) -> Mechanism:
    """Attention whose results depend on padding; bshall's original agrees with the recipe's default."""
    plain = recipes.dynamic_convolution(**options)
    return Mechanism(plain.score, UnmaskedAlignment(plain.alignment), plain.read, plain.window)


def gmm(*, query_size: int, memory_size: int, num_components: int = 5, num_heads: int = 1, **others: Any) -> Mechanism:
    """GravesAttention: another logistic mixture, with a hidden layer of the query's width and dropout on ω̂."""
    for name, value in others.items():
        raise UnsupportedError(f"{name}={value!r}: like='coqui' has no such option; leave it out.")
    score = SigmoidMixtureScore(query_size, num_heads=num_heads, num_components=num_components)
    read = WeightedSum(memory_size, num_heads=num_heads)
    return Mechanism(score, UnmaskedAlignment(ExponentialAlignment()), read)


class FrameStop(nn.Module):
    """One stop logit per step from the decoder's output and the frames: W dropout([d; y]) + b.

    Args:
        size: D, of the decoder's output.
        frame_size: R·F, of all frames of the head's projection.
        dropout: of both, in training.
        detached: whether the logit has no gradient for its inputs.

    Source: `stopnet` of Coqui TTS and Mozilla TTS.
    """

    def __init__(self, size: int, frame_size: int, *, dropout: float = 0.1, detached: bool = True) -> None:
        super().__init__()
        self.detached = detached
        self.dropout = Dropout(dropout)
        self.projection = Linear(size + frame_size, 1)
        nn.init.xavier_uniform_(self.projection.weight, nn.init.calculate_gain("sigmoid"))

    def forward(
        self,
        output: Float[Tensor, "*rows D"],
        context: Float[Tensor, "*rows V"],
        frames: Float[Tensor, "*rows rF"],
        num_frames: int,
    ) -> Float[Tensor, "*rows 1"]:
        """The logit (…, 1)."""
        features = torch.cat([output, frames], -1)
        logits: Tensor = self.projection(self.dropout(features.detach() if self.detached else features))
        return logits


def tacotron2(
    num_symbols: int,
    *,
    num_features: int = 80,
    num_frames: int = 2,
    embedding_size: int = 512,
    num_convolutions: int = 3,
    prenet_size: int = 256,
    prenet_layers: int = 2,
    size: int = 1024,
    dropout: float = 0.1,
    separate_stop: bool = True,
    attention: Callable[..., AbstractAttention] | None = None,
    postnet_size: int = 512,
    postnet_layers: int = 5,
) -> Tacotron:
    """NVIDIA's with dropout on h and c, a prenet that drops only in training, a stop logit from the frames, and
    location-sensitive attention with smoothing (σ divided by its sum).
    """
    encoder = ConvolutionalEncoder(
        TokenEmbedding(num_symbols, embedding_size, padding=0),
        [ConvolutionBlock(embedding_size, embedding_size, 5, dropout=0.5) for _ in range(num_convolutions)],
        RecurrentStack(embedding_size, embedding_size // 2, bidirectional=True),
    )
    attend = partial(location_sensitive, size=128) if attention is None else attention
    mechanism = attend(query_size=size, memory_size=embedding_size)
    context = mechanism.context_size
    stop = FrameStop(size, num_frames * num_features, detached=separate_stop)
    decoder = TacotronDecoder(
        Prenet(num_features, (prenet_size,) * prenet_layers, bias=False),
        mechanism,
        FrameHead(size, context, num_features, num_frames, stop=stop),
        query_cells=CellStack(prenet_size + context, size, dropout=dropout, dropped="state"),
        output_cells=CellStack(size + context, size, dropout=dropout),
    )
    postnet = ConvolutionalPostnet(num_features, postnet_size, num_layers=postnet_layers)
    model = Tacotron(encoder, decoder, {"mel": postnet})
    initialise_tacotron(model)
    return model


def tacotron1(
    num_symbols: int,
    *,
    num_features: int = 80,
    num_frames: int = 2,
    num_fed_frames: int = 1,
    num_linear: int = 513,
    embedding_size: int = 256,
    encoder_prenet_sizes: tuple[int, ...] = (256, 128),
    num_filters: int = 16,
    bank_size: int = 128,
    recurrent_size: int = 128,
    prenet_sizes: tuple[int, ...] = (256, 128),
    size: int = 256,
    activation: FrameActivation | None = None,
    separate_stop: bool = True,
    attention: Callable[..., AbstractAttention] | None = None,
    postnet_filters: int = 8,
    postnet_projection: int = 256,
    momentum: float = 0.99,
) -> Tacotron:
    """Tacotron 1 with CBHGs that normalise before ReLU and have no maximum, and a momentum of 0.99.

    That momentum, TensorFlow's, leaves in torch statistics of little more than the last batch, as in the original.
    """
    norm: dict[str, Any] = {
        "pool": False,
        "norm": "before",
        "convolution_bias": False,
        "map_bias": False,
        "momentum": momentum,
        "epsilon": 1e-3,
    }
    sizes: dict[str, Any] = {"bank_size": bank_size, "highway_size": recurrent_size, "size": recurrent_size}
    inner = encoder_prenet_sizes[-1]
    encoder = CbhgEncoder(
        TokenEmbedding(num_symbols, embedding_size, padding=0),
        Prenet(embedding_size, encoder_prenet_sizes),
        CBHG(inner, num_filters=num_filters, projections=(inner,), **sizes, **norm),
    )
    attend = partial(location_sensitive, size=128) if attention is None else attention
    mechanism = attend(query_size=size, memory_size=encoder.output_size)
    stop = FrameStop(size, num_frames * num_features, detached=separate_stop)
    decoder = TacotronDecoder(
        Prenet(num_fed_frames * num_features, prenet_sizes),
        mechanism,
        FrameHead(size, 0, num_features, num_frames, activation=activation, stop=stop),
        query_cells=CellStack(prenet_sizes[-1] + mechanism.context_size, size, cell="gru"),
        output_cells=CellStack(size + mechanism.context_size, size, 2, cell="gru", residual=True),
        num_fed_frames=num_fed_frames,
    )
    after = CBHG(num_features, num_filters=postnet_filters, projections=(postnet_projection,), **sizes, **norm)
    return Tacotron(encoder, decoder, {"linear": CbhgPostnet(after, num_linear)})


def _names2(model: Tacotron) -> Names:
    """The names of the modules of their Tacotron 2, by ours."""
    return {
        **_attention(),
        **_prenet("decoder", model.decoder.prenet),
        **convolution_blocks(
            model,
            encoder="encoder.convolutions",
            postnet="postnet.convolutions",
            filters="convolution1d",
            norm="batch_normalization",
        ),
        "encoder.embedding.table": "embedding",
        "encoder.stack.layers.0": "encoder.lstm",
        "decoder.query_cells.cells.0.layers.0": "decoder.attention_rnn",
        "decoder.output_cells.cells.0.layers.0": "decoder.decoder_rnn",
        "decoder.head.projection": "decoder.linear_projection.linear_layer",
        "decoder.head.stop.projection": "decoder.stopnet.1.linear_layer",
    }


def _names1(model: Tacotron) -> Names:
    """The names of the modules of their Tacotron 1, by ours."""
    encoder: Any = model.encoder
    postnet: Any = model.postnets["linear"]
    return {
        **_attention(),
        **_prenet("encoder", encoder.prenet),
        **_prenet("decoder", model.decoder.prenet),
        **_cbhg("encoder.cbhg", "encoder.cbhg.cbhg", encoder.cbhg),
        **_cbhg("postnets.linear.cbhg", "postnet.cbhg", postnet.cbhg),
        "encoder.embedding.table": "embedding",
        "decoder.query_cells.cells.0.layers.0": "decoder.attention_rnn",
        "decoder.output_cells.projection": "decoder.project_to_decoder_in",
        "decoder.output_cells.cells.0.layers.0": "decoder.decoder_rnns.0",
        "decoder.output_cells.cells.1.layers.0": "decoder.decoder_rnns.1",
        "decoder.head.projection": "decoder.proj_to_mel",
        "decoder.head.stop.projection": "decoder.stopnet.linear",
        "postnets.linear.projection": "last_linear",
    }


TACOTRON1_WEIGHTS, TACOTRON2_WEIGHTS = Weights(_names1), Weights(_names2)


def _attention() -> dict[str, Find]:
    """Location-sensitive attention; the bias of v is that of the sigmoid."""
    score, theirs = "decoder.attention.score", "decoder.attention"
    return {
        f"{score}.content.query_projection": f"{theirs}.query_layer.linear_layer",
        f"{score}.content.key_projection": f"{theirs}.inputs_layer.linear_layer",
        f"{score}.content.v": f"{theirs}.v.linear_layer.weight",
        f"{score}.filters": f"{theirs}.location_layer.location_conv1d",
        f"{score}.location_projection": transposed(f"{theirs}.location_layer.location_dense.linear_layer.weight"),
        "decoder.attention.alignment.bias": lambda find: find(f"{theirs}.v.linear_layer.bias").squeeze(0),
    }


def _prenet(side: str, prenet: Any) -> dict[str, Find]:
    """The prenet of the encoder or of the decoder."""
    theirs = f"{side}.prenet.linear_layers.{{}}.linear_layer"
    return numbered(f"{side}.prenet.layers.{{}}", theirs, len(prenet.layers))


def _cbhg(ours: str, theirs: str, module: Any) -> dict[str, Find]:
    """A CBHG; it has a linear layer before the highways only if widths differ."""
    table: dict[str, Find] = {f"{ours}.stack.layers.0": f"{theirs}.gru"}
    for blocks, our_part, kind, their_part in (
        (module.bank, "bank.{}.convolution.filters", "conv1d_banks", "conv1d"),
        (module.bank, "bank.{}.norm", "conv1d_banks", "bn"),
        (module.projections, "projections.{}.convolution.filters", "conv1d_projections", "conv1d"),
        (module.projections, "projections.{}.norm", "conv1d_projections", "bn"),
        (module.highways, "highways.{}.transform", "highways", "H"),
        (module.highways, "highways.{}.gate", "highways", "T"),
    ):
        table |= numbered(f"{ours}.{our_part}", f"{theirs}.{kind}.{{}}.{their_part}", len(blocks))
    if module.map is not None:
        table[f"{ours}.map"] = f"{theirs}.pre_highway"
    return table


TACOTRON1_FORM = TacotronForm(
    TACOTRON1 | {"attention.like": "coqui"},
    QUEUE_FIXED,
    queue_options,
    equal=(("postnet.size", "encoder.size"),),
    uniform=False,
)
TACOTRON2_FORM = TacotronForm(
    TACOTRON2 | {"decoder.prenet_drops": "training", "decoder.num_frames": 2, "attention.like": "coqui"},
    TACOTRON2_FIXED,
    dropout_options,
    equal=ONE_WIDTH,
)
FRONT_END = FrontEnd(
    sample_rate=22050,
    win_length=1024,
    hop_length=256,
    f_min=0.0,
    f_max=None,
    compression=decibels(floor=1e-8, bound=4, symmetric=True),
)
LOGARITHMIC_FRONT_END = replace(nvidia.FRONT_END, compression=logarithm(1e-8))
