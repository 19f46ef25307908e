r"""HiFi-GAN's generator: samples of a wave from the frames of a mel spectrogram, by convolutions only.

With $\lambda_a(x) = \max(x, a x)$, and N stages of which stage n makes $u_n$ positions of one:

$$ x_0 = W_{\text{first}} * \text{mel}, \qquad
   y_n = U_n *^{\top} \lambda_{0.1}(x_{n-1}), \qquad
   x_n = \tfrac1J \sum_{j=1}^{J} R_{nj}(y_n), \qquad
   \text{samples} = \tanh(W_{\text{last}} * \lambda_{0.01}(x_N)) $$

A residual block $R_{nj}$ has one width of convolutions and several dilations d. For each in turn

$$ x \leftarrow x + P_d * \lambda_{0.1}(D_d * \lambda_{0.1}(x)) \quad \text{(V1, V2)}, \qquad
   x \leftarrow x + D_d * \lambda_{0.1}(x) \quad \text{(V3)} $$

Before the last convolution the slope is torch's default, 0.01, in the authors' program and so in all published weights.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu

from regard.audio.vocoder.options import GeneratorOptions
from regard.errors import ShapeError
from regard.shapes import Float, Int, describe, keep_mask

SLOPE, LAST_SLOPE = 0.1, 0.01
REACH = 3
"""How far the first and the last convolution look to either side."""


@dataclass(frozen=True, eq=False, slots=True)
class Span:
    """Consecutive positions of sentences at the resolution of a layer: `start`, start + 1, ….

    Args:
        x: (R, channels, …, positions).
        start: the first position.
        end: where all sentences have ended; positions before 0 and from `end` on are zeros to every convolution.
        lengths: (R,) where each sentence has ended; None: at `end`.
    """

    x: Tensor
    start: int
    end: int
    lengths: Tensor | None = None

    @property
    def stop(self) -> int:
        """The position after the last one."""
        return self.start + self.x.shape[-1]

    def activated(self, slope: float = SLOPE) -> Span:
        """λ(x)."""
        return replace(self, x=leaky_relu(self.x, slope))

    def cut(self, start: int, stop: int) -> Span:
        """A part of the positions."""
        return replace(self, x=self.x[..., start - self.start : stop - self.start], start=start)

    def trusted(self, margin: int) -> Span:
        """What a convolution made, where it is what it would have made of whole sentences.

        Args:
            margin: how many of its results at either end looked at the zeros around its input. Where sentences go on
                there, these results are cut off.
        """
        start = self.start + (margin if self.start > 0 else 0)
        stop = self.stop - (margin if self.stop < self.end else 0)
        return self.cut(start, stop).masked()

    def scaled(self, upsample: Callable[[Tensor], Tensor], rate: int) -> Span:
        """What a transposed convolution made, `rate` positions of each."""
        lengths = None if self.lengths is None else self.lengths * rate
        return Span(upsample(self.x), self.start * rate, self.end * rate, lengths)

    def masked(self) -> Span:
        """Zeros where sentences have ended, so that every convolution sees what it sees of a sentence alone."""
        if self.lengths is None:
            return self
        ended = torch.arange(self.start, self.stop, device=self.x.device) >= self.lengths[:, None]
        return replace(self, x=self.x.masked_fill(ended[:, None], 0.0))


class ResidualBlock(nn.Module):
    """Convolutions of one width and several dilations, each within a residual connection (`R` above).

    Args:
        channels: of the input and the output.
        kernel_size: odd.
        dilations: of the residual connections, in order.
        paired: as in `GeneratorOptions`.
    """

    def __init__(self, channels: int, kernel_size: int, dilations: tuple[int, ...], *, paired: bool) -> None:
        super().__init__()
        self.margin = (kernel_size - 1) // 2
        self.dilations = dilations
        plain = (1,) * len(dilations) if paired else ()
        self.dilated, self.plain = (
            nn.ModuleList(_convolution(channels, channels, kernel_size, dilation) for dilation in each)
            for each in (dilations, plain)
        )

    def forward(self, span: Span) -> Span:
        """The block's output, where it is that of whole sentences."""
        for number, dilation in enumerate(self.dilations):
            change = convolved(self.dilated[number], span.activated(), self.margin * dilation)
            if len(self.plain):
                change = convolved(self.plain[number], change.activated(), self.margin)
            span = replace(change, x=span.cut(change.start, change.stop).x + change.x)
        return span


class Stage(nn.Module):
    """A transposed convolution, which makes several positions of one, and residual blocks side by side.

    Args:
        channels: of the input; the output has half as many.
        rate: positions of the output for each of the input.
        kernel_size: of the transposed convolution.
        options: those of the blocks.
    """

    def __init__(self, channels: int, rate: int, kernel_size: int, options: GeneratorOptions) -> None:
        super().__init__()
        self.rate, self.margin = rate, (kernel_size - rate) // 2
        self.upsample = nn.ConvTranspose1d(channels, channels // 2, kernel_size, rate, self.margin)
        self.blocks = nn.ModuleList(
            ResidualBlock(channels // 2, width, dilations, paired=options.paired)
            for width, dilations in zip(options.kernel_sizes, options.dilations, strict=True)
        )

    def forward(self, span: Span) -> Span:
        """The mean of the blocks' outputs, where it is that of whole sentences."""
        span = span.activated().scaled(self.upsample, self.rate).trusted(self.margin)
        spans = [block(span) for block in self.blocks]
        start, stop = max(each.start for each in spans), min(each.stop for each in spans)
        total = sum(each.cut(start, stop).x for each in spans)
        return replace(span, x=total / len(spans), start=start)


class Generator(nn.Module):
    """HiFi-GAN's generator, its weights without weight norm.

    Calling it computes all frames at once, with gradients if torch records them. `synthesise` computes long inputs in
    parts, faster and without gradients.

    Args:
        options: the sizes; None: those of V1.

    Source: Kong, Kim, Bae, HiFi-GAN (2020), section 2.2; slopes and paddings as in the authors' program.

    >>> generator = Generator(GeneratorOptions(channels=16, upsample_rates=(4, 2), upsample_kernel_sizes=(8, 4)))
    >>> generator(torch.randn(1, 5, 80)).shape
    torch.Size([1, 40])
    """

    def __init__(self, options: GeneratorOptions | None = None) -> None:
        super().__init__()
        self.options = options = GeneratorOptions() if options is None else options
        self.first = _convolution(options.num_mels, options.channels, 2 * REACH + 1)
        self.stages = nn.ModuleList(
            Stage(options.channels >> number, rate, width, options)
            for number, (rate, width) in enumerate(
                zip(options.upsample_rates, options.upsample_kernel_sizes, strict=True)
            )
        )
        self.last = _convolution(options.channels >> len(options.upsample_rates), 1, 2 * REACH + 1)

    @classmethod
    def without_weights(cls, options: GeneratorOptions | None = None) -> Generator:
        """A generator on the device meta, for `load_state_dict(…, assign=True)`."""
        with torch.device("meta"):
            return cls(options)

    def forward(
        self, mels: Float[Tensor, "B T M"], lengths: Int[Tensor, " B"] | None = None
    ) -> Float[Tensor, "B samples"]:
        """Samples between -1 and 1 of mel spectrograms.

        A sentence has the samples that it has alone: whatever its padding holds is replaced by zeros, in which each
        convolution sees what it sees beyond the end of a sentence alone. After its end samples are 0.

        Args:
            mels: frames as the vocoder was trained on.
            lengths: the frames of each sentence; None: all T.

        Returns:
            T · hop_length samples for each sentence.

        Raises:
            ShapeError: for frames of another size or lengths that do not fit.
        """
        check(self.options, mels, lengths)
        if mels.numel() == 0:
            return mels.new_zeros(len(mels), mels.shape[1] * self.options.hop_length)
        return self.compute(Span(mels.transpose(1, 2), 0, mels.shape[1], lengths)).x.squeeze(1)

    def compute(self, frames: Span) -> Span:
        """The samples of a span of frames (R, num_mels, T), at the positions where they are those of whole sentences.

        Where the sentences go on beyond the span, the samples of `context` frames there are missing.
        """
        span = convolved(self.first, frames.masked(), REACH)
        for stage in self.stages:
            span = stage(span)
        span = convolved(self.last, span.activated(LAST_SLOPE), REACH)
        return replace(span, x=span.x.tanh())

    @property
    def context(self) -> int:
        """How many frames on either side a frame's samples depend on.

        >>> Generator(GeneratorOptions(channels=16)).context
        13
        """
        options = self.options
        reach = REACH
        for rate, width in zip(reversed(options.upsample_rates), reversed(options.upsample_kernel_sizes), strict=True):
            reach += max(
                (size - 1) // 2 * (sum(dilations) + len(dilations) * options.paired)
                for size, dilations in zip(options.kernel_sizes, options.dilations, strict=True)
            )
            # a transposed convolution adds (width - rate) / 2 of its outputs; rounded up to whole inputs
            reach = -(-(reach + (width - rate) // 2) // rate)
        return reach + REACH


def check(options: GeneratorOptions, mels: Tensor, lengths: Tensor | None) -> None:
    """Refuses mel spectrograms that a generator cannot take.

    Raises:
        ShapeError: for frames of another size, or lengths that do not fit.
    """
    if mels.dim() != 3 or mels.shape[2] != options.num_mels or not mels.is_floating_point():
        hint = ""
        if mels.dim() == 3 and mels.shape[1] == options.num_mels:
            hint = "\n  Frames come before mel bands; use mels.transpose(1, 2)."
        elif mels.dim() == 2:
            hint = "\n  For one sentence use mels[None]."
        letters = "B T M" if mels.dim() == 3 else "T M"
        raise ShapeError(
            f"mels must be (B, T, M={options.num_mels}) floating point numbers.\n"
            + describe({"mels": (letters, mels)})
            + hint
        )
    keep_mask(mels, lengths=lengths, name="mels")


def convolved(convolution: nn.Module, span: Span, margin: int) -> Span:
    """A convolution of a span that keeps the number of positions and looks `margin` positions to either side."""
    return replace(span, x=convolution(span.x)).trusted(margin)


def _convolution(inputs: int, outputs: int, kernel_size: int, dilation: int = 1) -> nn.Conv1d:
    return nn.Conv1d(inputs, outputs, kernel_size, padding=(kernel_size - 1) // 2 * dilation, dilation=dilation)
