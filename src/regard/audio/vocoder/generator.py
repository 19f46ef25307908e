r"""HiFi-GAN's generator: samples of a wave from the frames of a mel spectrogram, by convolutions only.

The network is `SpeechT5HifiGan` of the package transformers (the extra `vocoder`), which computes what the authors'
program does: $x_0 = W_{\text{first}} * \text{mel}$, then stages of a transposed convolution and residual blocks side by
side, and $\tanh(W_{\text{last}} * x_N)$.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard.audio.vocoder.options import GeneratorOptions
from regard.errors import ShapeError
from regard.lazy import optional
from regard.shapes import Float, describe

SLOPE = 0.1
"""Of the leaky rectifiers before all convolutions but the first and the last."""
REACH = 3
"""How many positions to either side the first and the last convolution read."""


class Layer(NamedTuple):
    """A convolution's names: in saved folders, in checkpoints of the authors' program, and in transformers' network."""

    saved: str
    published: str
    network: str


def layers(options: GeneratorOptions) -> list[Layer]:
    """The convolutions of a generator by name, each with a `weight` and a `bias`; with J blocks in each stage:

    | saved | published | network |
    |---|---|---|
    | `first`, `last` | `conv_pre`, `conv_post` | `conv_pre`, `conv_post` |
    | `stages.N.upsample` | `ups.N` | `upsampler.N` |
    | `stages.N.blocks.j.dilated.i` | `resblocks.(N J + j).convs1.i`; `convs.i` in V3 | `resblocks.(N J + j).convs1.i` |
    | `stages.N.blocks.j.plain.i` | `resblocks.(N J + j).convs2.i` | `resblocks.(N J + j).convs2.i` |

    >>> layers(GeneratorOptions())[12].saved, layers(GeneratorOptions())[12].published
    ('stages.0.blocks.1.plain.1', 'resblocks.1.convs2.1')
    """
    found = [Layer("first", "conv_pre", "conv_pre"), Layer("last", "conv_post", "conv_post")]
    for stage in range(len(options.upsample_rates)):
        found.append(Layer(f"stages.{stage}.upsample", f"ups.{stage}", f"upsampler.{stage}"))
        for block, dilations in enumerate(options.dilations):
            saved, theirs = f"stages.{stage}.blocks.{block}", f"resblocks.{stage * len(options.dilations) + block}"
            for number in range(len(dilations)):
                dilated = "convs1" if options.paired else "convs"
                names = f"{saved}.dilated.{number}", f"{theirs}.{dilated}.{number}", f"{theirs}.convs1.{number}"
                found.append(Layer(*names))
                if options.paired:
                    name = f"{theirs}.convs2.{number}"
                    found.append(Layer(f"{saved}.plain.{number}", name, name))
    return found


class Generator(nn.Module):
    """HiFi-GAN's generator, its weights without weight norm.

    Calling it computes all frames at once, with gradients if torch records them. `synthesise` computes long inputs in
    parts and without gradients.

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
            # V3 has no second convolution and no rectifier before it; in its place stands that rectifier's inverse.
            for block in self.network.resblocks:
                block.convs2 = nn.ModuleList(nn.LeakyReLU(1 / SLOPE) for _ in block.convs1)

    @classmethod
    def without_weights(cls, options: GeneratorOptions | None = None) -> Generator:
        """A generator on the device meta, for `load_weights`."""
        with torch.device("meta"):
            return cls(options)

    def weights(self) -> dict[str, Tensor]:
        """Weights by the names that they have in saved folders."""
        return {
            f"{layer.saved}.{kind}": self.network.get_parameter(f"{layer.network}.{kind}")
            for layer in layers(self.options)
            for kind in ("weight", "bias")
        }

    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Takes weights, by the names that they have in saved folders, in place of its own."""
        state = {
            f"{layer.network}.{kind}": weights[f"{layer.saved}.{kind}"]
            for layer in layers(self.options)
            for kind in ("weight", "bias")
        }
        # statistics of mel spectrograms, which the network only uses where it standardises them
        unused = {"mean": torch.zeros(self.options.num_mels), "scale": torch.ones(self.options.num_mels)}
        self.network.load_state_dict(state | unused, assign=True)

    def forward(self, mels: Float[Tensor, "B T M"]) -> Float[Tensor, "B samples"]:
        """Samples between -1 and 1 of mel spectrograms, T · hop_length for each.

        Args:
            mels: frames as the vocoder was trained on.

        Raises:
            ShapeError: for frames of another size.
        """
        check(self.options, mels)
        samples: Tensor = self.network(mels)
        return samples

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


def check(options: GeneratorOptions, mels: Tensor) -> None:
    """Refuses mel spectrograms that a generator cannot take.

    Raises:
        ShapeError: for frames of another size.
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
