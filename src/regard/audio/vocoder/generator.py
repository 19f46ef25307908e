r"""HiFi-GAN's generator, a convolutional network from mel spectrograms to samples.

The network is `SpeechT5HifiGan` of the package transformers (the extra `vocoder`), which equals the authors' program:
$x_0 = W_{\text{first}} * \text{mel}$, then stages of a transposed convolution and parallel residual blocks, and
$\tanh(W_{\text{last}} * x_N)$.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard.audio.vocoder.options import GeneratorOptions
from regard.errors import ConfigError, ShapeError
from regard.lazy import optional
from regard.shapes import Float, Int, describe, keep_mask

SLOPE = 0.1
"""The slope of the leaky rectifiers before all convolutions except the first and the last."""
CHUNK_CPU, CHUNK_GPU = 256, 2048
"""The default frames of a part: few enough for a CPU's caches, enough to keep a GPU busy."""
REACH = 3
"""The positions on either side that the first and the last convolution read."""


class Layer(NamedTuple):
    """The names of a convolution in saved folders, in the authors' checkpoints, and in transformers' network."""

    saved: str
    published: str
    network: str


def layers(options: GeneratorOptions) -> list[Layer]:
    """The names of the convolutions, each with a `weight` and a `bias`, for J blocks in each stage:

    | saved | published | network |
    |---|---|---|
    | `first`, `last` | `conv_pre`, `conv_post` | `conv_pre`, `conv_post` |
    | `stages.N.upsample` | `ups.N` | `upsampler.N` |
    | `stages.N.blocks.j.dilated.i` | `resblocks.(N J + j).convs1.i`; `convs.i` in V3 | `resblocks.(N J + j).convs1.i` |
    | `stages.N.blocks.j.plain.i` | `resblocks.(N J + j).convs2.i` | `resblocks.(N J + j).convs2.i` |

    >>> layers(GeneratorOptions())[12].saved, layers(GeneratorOptions())[12].published
    ('stages.0.blocks.1.plain.1', 'resblocks.1.convs2.1')
    """
    names = [Layer("first", "conv_pre", "conv_pre"), Layer("last", "conv_post", "conv_post")]
    for stage in range(len(options.upsample_rates)):
        names.append(Layer(f"stages.{stage}.upsample", f"ups.{stage}", f"upsampler.{stage}"))
        for block, dilations in enumerate(options.dilations):
            saved, theirs = f"stages.{stage}.blocks.{block}", f"resblocks.{stage * len(options.dilations) + block}"
            for number in range(len(dilations)):
                published, network = f"{theirs}.convs{'1' * options.paired}.{number}", f"{theirs}.convs1.{number}"
                names.append(Layer(f"{saved}.dilated.{number}", published, network))
                if options.paired:
                    name = f"{theirs}.convs2.{number}"
                    names.append(Layer(f"{saved}.plain.{number}", name, name))
    return names


class Generator(nn.Module):
    """HiFi-GAN's generator without weight norm.

    A call computes all frames at once, with gradients if torch records them; `synthesise` computes long inputs in parts
    without gradients.

    Args:
        options: the sizes; None: those of V1.

    Raises:
        UnsupportedError: if the package transformers is not installed.

    Source: Kong, Kim, Bae, HiFi-GAN (2020), section 2.2; slopes and paddings as in the authors' program.

    >>> generator = Generator(GeneratorOptions(channels=16, upsample_rates=(4, 2), upsample_kernel_sizes=(8, 4)))
    >>> generator(torch.randn(1, 5, 80)).shape
    torch.Size([1, 40])
    """

    def __init__(self, options: GeneratorOptions | None = None) -> None:
        super().__init__()
        self.options = options = GeneratorOptions() if options is None else options
        package = optional("transformers", "HiFi-GAN's generator needs", extra="vocoder")
        self.network = package.SpeechT5HifiGan(
            package.SpeechT5HifiGanConfig(
                model_in_dim=options.num_mels,
                upsample_initial_channel=options.channels,
                upsample_rates=list(options.upsample_rates),
                upsample_kernel_sizes=list(options.upsample_kernel_sizes),
                resblock_kernel_sizes=list(options.kernel_sizes),
                resblock_dilation_sizes=[list(dilations) for dilations in options.dilations],
                leaky_relu_slope=SLOPE,
                normalize_before=False,
            )
        )
        if not options.paired:
            # V3 has no second convolution nor its rectifier; the inverse of the rectifier replaces the convolution
            for block in self.network.resblocks:
                block.convs2 = nn.ModuleList(nn.LeakyReLU(1 / SLOPE) for _ in block.convs1)

    @classmethod
    def without_weights(cls, options: GeneratorOptions | None = None) -> Generator:
        """A generator on the meta device, for `load_weights`."""
        with torch.device("meta"):
            return cls(options)

    def weights(self) -> dict[str, Tensor]:
        """The weights by their names in saved folders."""
        return {
            f"{layer.saved}.{kind}": self.network.get_parameter(f"{layer.network}.{kind}")
            for layer in layers(self.options)
            for kind in ("weight", "bias")
        }

    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Replaces the weights by others with their names in saved folders."""
        state = {
            f"{layer.network}.{kind}": weights[f"{layer.saved}.{kind}"]
            for layer in layers(self.options)
            for kind in ("weight", "bias")
        }
        # statistics of mel spectrograms, which the network only uses for standardisation
        unused = {"mean": torch.zeros(self.options.num_mels), "scale": torch.ones(self.options.num_mels)}
        self.network.load_state_dict(state | unused, assign=True)

    def forward(self, mels: Float[Tensor, "B T M"]) -> Float[Tensor, "B samples"]:
        """Samples between -1 and 1, T · hop_length for each mel spectrogram.

        Raises:
            ShapeError: for frames of another size.
        """
        _check(self.options, mels)
        samples: Tensor = self.network(mels)
        return samples

    @property
    def context(self) -> int:
        """The number of frames on either side that the samples of a frame depend on.

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
            # a transposed convolution adds (width - rate) / 2 outputs, rounded up to inputs
            reach = -(-(reach + (width - rate) // 2) // rate)
        return reach + REACH


def synthesise(
    generator: Generator,
    mels: Float[Tensor, "B T M"],
    lengths: Int[Tensor, " B"] | None = None,
    *,
    chunk: int | None = None,
) -> Float[Tensor, "B samples"]:
    """The samples of mel spectrograms without gradients, in bounded memory.

    They equal those of `generator` up to rounding for every `chunk`, as each part is computed with the frames that its
    samples depend on (`Generator.context` on either side). Every sentence is computed separately, so its samples do not
    depend on the batch to the bit, and padding costs nothing.

    Args:
        lengths: the frames of each sentence; None: all T.
        chunk: the most frames that are computed at once; None: 256 on a CPU, 2,048 elsewhere.

    Returns:
        T · hop_length samples for each sentence, 0 after its end.

    Raises:
        ShapeError: for frames of another size or lengths that do not fit.
        ConfigError: for a `chunk` below 1.

    >>> from regard.audio.vocoder import GeneratorOptions
    >>> generator = Generator(GeneratorOptions(channels=16, upsample_rates=(4, 2), upsample_kernel_sizes=(8, 4)))
    >>> mels = torch.randn(1, 90, 80)
    >>> torch.allclose(synthesise(generator, mels, chunk=20), generator(mels), atol=1e-5)
    True
    """
    if chunk is not None and chunk < 1:
        raise ConfigError(f"chunk must be at least 1 frame; got {chunk}.", ("chunk",))
    _check(generator.options, mels)
    keep_mask(mels, lengths=lengths, name="mels")
    hop, context = generator.options.hop_length, generator.context
    samples = mels.new_zeros(len(mels), mels.shape[1] * hop)
    most = chunk or (CHUNK_CPU if mels.device.type == "cpu" else CHUNK_GPU)
    with torch.no_grad():
        for row, end in enumerate([mels.shape[1]] * len(mels) if lengths is None else lengths.tolist()):
            parts = -(-end // most)
            for part in range(parts):  # of equal size, up to a frame
                start, stop = end * part // parts, end * (part + 1) // parts
                first = max(0, start - context)
                computed = generator(mels[row, None, first : min(end, stop + context)])
                samples[row, start * hop : stop * hop] = computed[0, (start - first) * hop : (stop - first) * hop]
    return samples


def _check(options: GeneratorOptions, mels: Tensor) -> None:
    """Raises a ShapeError for frames of another size."""
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
