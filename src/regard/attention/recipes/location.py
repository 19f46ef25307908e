"""Attention by location: filters and sums of earlier weights, and mixtures that move."""

from __future__ import annotations

from typing import Literal, cast

from regard.attention.alignments import ExponentialAlignment, SigmoidAlignment, SoftmaxAlignment
from regard.attention.alignments.normalisers import AlignmentName, alignment_named
from regard.attention.contract import AbstractWindow
from regard.attention.mechanism import Mechanism
from regard.attention.memory import FirstAlignment
from regard.attention.reads import GatedSum, WeightedSum
from regard.attention.recipes.imitable import imitable
from regard.attention.scores import (
    CoverageScore,
    DynamicConvolutionScore,
    LocationScore,
    MixtureScore,
    PlaneCoverageScore,
)
from regard.attention.windows import ForwardPriorWindow, Intersection
from regard.errors import UnsupportedError


@imitable
def location_sensitive(
    *,
    query_size: int,
    memory_size: int,
    size: int = 128,
    num_heads: int = 1,
    location: Literal["previous", "cumulative", "both"] = "cumulative",
    num_filters: int = 32,
    kernel_size: int = 31,
    num_previous: int = 1,
    first_alignment: FirstAlignment = "zeros",
    accumulate_first: bool = False,
    alignment: AlignmentName = "softmax",
    sharpening: float = 1.0,
    bias: bool = True,
    output_bias: bool = False,
    detached: bool = False,
    like: str | None = None,
    window: AbstractWindow | None = None,
) -> Mechanism:
    """Additive attention that depends on earlier alignments: e_ij = vᵀ tanh(W q_i + U h_j + L f_ij + b), f_i = F * α.

    Args:
        query_size, memory_size: Q and M.
        size: width of the hidden layer, all heads together.
        num_heads: each head has its own filters on its own alignments; the contexts are concatenated.
        location: the input of the filters F: the `previous` weights, the `cumulative` ones, or `both`.
        num_filters, kernel_size: of F.
        num_previous: the number of steps in `previous`, each a channel.
        first_alignment: the weights before the first step: `zeros`, `uniform`, or all on the `first` position.
        accumulate_first: whether they stay in the sum.
        alignment: the alignment, by name (`alignment_named`); `smoothed_sigmoid` is Chorowski's smoothing.
        sharpening: a factor on the energies.
        bias: whether there is b.
        output_bias: whether v has a bias, which changes a sigmoid and not a softmax.
        detached: whether gradients stop at the weights of earlier steps.
        like: another program (`regard.interop.variants`).
        window: which positions may be attended to; all if None.

    Inputs longer than in training are read at several times their length, forwards and backwards (`docs/lengths.md`):
    `cumulative` also if some symbols have no output, `previous` and `both` at ten times it if each has one.

    Source: Chorowski et al. 2015, Attention-Based Models for Speech Recognition (arXiv 1506.07503); the defaults are
    Tacotron 2's (arXiv 1712.05884).
    """
    smooth = alignment in ("sigmoid", "smoothed_sigmoid")
    if output_bias and not smooth:
        raise UnsupportedError(f"alignment={alignment!r} does not depend on a bias of v; leave output_bias out.")
    weights = (
        SigmoidAlignment(normalised=alignment == "smoothed_sigmoid", bias=0.0, sharpening=sharpening)
        if output_bias
        else alignment_named(alignment, sharpening=sharpening, num_heads=num_heads)
    )
    return Mechanism(
        LocationScore(
            query_size,
            memory_size,
            size,
            num_heads=num_heads,
            location=location,
            num_filters=num_filters,
            kernel_size=kernel_size,
            num_previous=num_previous,
            first_alignment=first_alignment,
            accumulate_first=accumulate_first,
            bias=bias,
            detached=detached,
        ),
        weights,
        WeightedSum(memory_size, num_heads=num_heads),
        window,
    )


@imitable
def coverage(
    *,
    query_size: int,
    memory_size: int,
    size: int = 256,
    num_heads: int = 1,
    alignment: AlignmentName = "softmax",
    sharpening: float = 1.0,
    first_alignment: Literal["zeros", "uniform"] = "zeros",
    like: str | None = None,
    window: AbstractWindow | None = None,
) -> Mechanism:
    """Additive attention with coverage: e_ij = vᵀ tanh(W q_i + U h_j + w c_ij + b), c_i = Σ_{i' < i} α_i'.

    Args:
        query_size, memory_size: Q and M.
        size: width of the hidden layer, all heads together.
        num_heads: each head has its own coverage; the contexts are concatenated.
        alignment: the alignment, by name (`alignment_named`).
        sharpening: a factor on the energies.
        first_alignment: the initial sum: `zeros`, or weights `uniform` over the source.
        like: another program (`regard.interop.variants`).
        window: which positions may be attended to; all if None.

    Inputs longer than in training are rarely read at twice their length (`docs/lengths.md`).

    Source: See, Liu & Manning 2017, Get To The Point: Summarization with Pointer-Generator Networks (arXiv 1704.04368).
    """
    return Mechanism(
        CoverageScore(query_size, memory_size, size, num_heads=num_heads, first_alignment=first_alignment),
        alignment_named(alignment, sharpening=sharpening, num_heads=num_heads),
        WeightedSum(memory_size, num_heads=num_heads),
        window,
    )


def plane_coverage(
    *,
    query_size: int,
    memory_size: int,
    size: int = 256,
    num_heads: int = 1,
    num_filters: int = 128,
    kernel_size: int | tuple[int, int] = 11,
    alignment: AlignmentName = "softmax",
    sharpening: float = 1.0,
    gate: Literal["scalar", "vector"] | None = None,
    window: AbstractWindow | None = None,
) -> Mechanism:
    """Additive attention with coverage of a plane: e_ij = vᵀ tanh(W q_i + U h_j + U_f f_ij + b), f_i = F * Σ α_i'.

    The α are the weights of all earlier steps. F is a two-dimensional convolution over the cells of an image, whose
    grid is given to `prepare(..., grid=(h, w))`; without a grid they are one row.

    Args:
        query_size, memory_size: Q and M.
        size: width of the hidden layer, all heads together.
        num_heads: each head has its own coverage and filters; the contexts are concatenated.
        num_filters, kernel_size: of F; the kernel size is odd, a number or (rows, columns).
        alignment: the alignment, by name (`alignment_named`).
        sharpening: a factor on the energies.
        gate: "scalar" or "vector": the context is multiplied by σ(w q + b'), as in `show_attend_tell`; None: no gate.
        window: which positions may be attended to; all if None.

    Source: Zhang, Du, Zhang, Liu, Hu, Hu, Wei & Dai 2017, Watch, attend and parse: An end-to-end neural network based
    approach to handwritten mathematical expression recognition, Pattern Recognition 71
    (doi 10.1016/j.patcog.2017.06.017).
    """
    score = PlaneCoverageScore(
        query_size, memory_size, size, num_heads=num_heads, num_filters=num_filters, kernel_size=kernel_size
    )
    return Mechanism(
        score,
        alignment_named(alignment, sharpening=sharpening, num_heads=num_heads),
        WeightedSum(memory_size, num_heads=num_heads)
        if gate is None
        else GatedSum(query_size, memory_size, gate=gate, num_heads=num_heads),
        window,
    )


@imitable
def dynamic_convolution(
    *,
    query_size: int,
    memory_size: int,
    size: int = 128,
    num_heads: int = 1,
    static_filters: int = 8,
    static_kernel: int = 21,
    dynamic_filters: int = 8,
    dynamic_kernel: int = 21,
    reach: int = 10,
    alpha: float = 0.1,
    beta: float = 0.9,
    like: str | None = None,
    window: AbstractWindow | None = None,
) -> Mechanism:
    """Attention only by location, with a forward prior: e_i = vᵀ tanh(U (F * α) + T (G_i * α) + b) + log(P * α).

    α are the weights of the previous step.

    Args:
        query_size, memory_size: Q and M.
        size: width of the hidden layers, all heads together.
        num_heads: each head follows its own weights; the contexts are concatenated.
        static_filters, static_kernel, dynamic_filters, dynamic_kernel: of F, and of G_i, a function of the query.
        reach, alpha, beta: of the beta-binomial prior P: its largest move is reach, its mean
            reach · alpha / (alpha + beta).
        like: another program (`regard.interop.variants`).
        window: a further window; both apply.

    Inputs longer than in training are read forwards at ten times their length if each symbol has one output
    (`docs/lengths.md`).

    Source: Battenberg et al. 2020, Location-Relative Attention Mechanisms for Robust Long-Form Speech Synthesis
    (arXiv 1910.10288).
    """
    prior = ForwardPriorWindow(reach=reach, alpha=alpha, beta=beta, num_heads=num_heads)
    return Mechanism(
        DynamicConvolutionScore(
            query_size,
            size,
            num_heads=num_heads,
            static_filters=static_filters,
            static_kernel=static_kernel,
            dynamic_filters=dynamic_filters,
            dynamic_kernel=dynamic_kernel,
        ),
        SoftmaxAlignment(),
        WeightedSum(memory_size, num_heads=num_heads),
        prior if window is None else Intersection([prior, window]),
    )


@imitable
def gmm(
    *,
    query_size: int,
    memory_size: int,
    size: int = 128,
    num_components: int = 5,
    num_heads: int = 1,
    version: Literal["V0", "V1", "V2", "V1b", "V2b"] = "V2b",
    family: Literal["gaussian", "logistic"] = "gaussian",
    initial_step: float = 1.0,
    initial_width: float = 10.0,
    like: str | None = None,
) -> Mechanism:
    """Mixtures of densities that only move forward along the source: α_ij = Σ_c ω_ic N(j; μ_ic, σ_ic²).

    Args:
        query_size, memory_size: Q and M.
        size: width of the hidden layer.
        num_components: C, for each head.
        num_heads: each head moves by itself; the contexts are concatenated.
        version: how weights, steps and widths are computed (`MixtureScore`); "b" adds biases for the initial steps and
            widths. V0 is Graves', whose weights have no bound.
        family: of the densities.
        initial_step, initial_width: before training, in positions, of versions with "b"; 1 and 10 in the paper. Speech
            of phones in steps of two frames moves by about 0.4 positions.
        like: another program (`regard.interop.variants`).

    Inputs longer than in training are read forwards at twice their length if each symbol has one output
    (`docs/lengths.md`).

    Source: Graves 2013, Generating Sequences With Recurrent Neural Networks (arXiv 1308.0850); V2b: Battenberg et al.
    2020 (arXiv 1910.10288).
    """
    begins = version.endswith("b")
    if not begins and (initial_step, initial_width) != (1.0, 10.0):
        raise UnsupportedError(f"initial_step and initial_width have no effect on version={version!r}: use V1b or V2b.")
    if initial_step <= 0 or initial_width <= 0:
        raise ValueError(f"initial_step={initial_step} and initial_width={initial_width} must be positive.")
    mixture = MixtureScore(
        query_size,
        size,
        num_heads=num_heads,
        num_components=num_components,
        family=family,
        version=cast(Literal["V0", "V1", "V2"], version.removesuffix("b")),
        initial_step=initial_step if begins else None,
        initial_width=initial_width if begins else None,
    )
    return Mechanism(mixture, ExponentialAlignment(), WeightedSum(memory_size, num_heads=num_heads))
