"""Postnets: from the frames of a sentence to refined frames or a linear spectrogram."""

from __future__ import annotations

from torch import Tensor, nn

from regard.layers import CBHG, ConvolutionBlock
from regard.layers.linear import Linear
from regard.shapes import Bool, Float


class ConvolutionalPostnet(nn.Module):
    """y + net(y): Tacotron 2's residual over the frames, five convolutions with tanh between them.

    Args:
        num_features: F, of a frame.
        size: filters of the inner layers.
        num_layers, kernel_size: of the convolutions.
        dropout: after each of them, in training.
        bias, momentum, epsilon: as in `ConvolutionBlock`.

    Source: Shen et al. 2018 (arXiv 1712.05884), section 2.2.

    >>> import torch
    >>> ConvolutionalPostnet(4, 6)(torch.zeros(2, 9, 4)).shape
    torch.Size([2, 9, 4])
    """

    def __init__(
        self,
        num_features: int,
        size: int = 512,
        *,
        num_layers: int = 5,
        kernel_size: int = 5,
        dropout: float = 0.5,
        bias: bool = True,
        momentum: float = 0.1,
        epsilon: float = 1e-5,
    ) -> None:
        super().__init__()
        self.num_outputs = num_features
        widths = [num_features, *[size] * (num_layers - 1), num_features]
        self.convolutions = nn.ModuleList(
            ConvolutionBlock(
                widths[number],
                widths[number + 1],
                kernel_size,
                activation="none" if number == num_layers - 1 else "tanh",
                dropout=dropout,
                bias=bias,
                momentum=momentum,
                epsilon=epsilon,
            )
            for number in range(num_layers)
        )

    def forward(self, frames: Float[Tensor, "B T F"], mask: Bool[Tensor, "B T"] | None = None) -> Tensor:
        """Refined frames (B, T, F); arbitrary at padding.

        Args:
            mask: True at real frames; all if None.
        """
        x = frames
        for block in self.convolutions:
            x = block(x, mask)
        return frames + x


class CbhgPostnet(nn.Module):
    """Tacotron 1's postnet: a CBHG over the frames, then W x + b, a linear spectrogram of N frequencies.

    Args:
        cbhg: over F features.
        num_outputs: N.

    Source: Wang et al. 2017 (arXiv 1703.10135), section 3.4.

    >>> import torch
    >>> CbhgPostnet(CBHG(4, num_filters=3, bank_size=5, highway_size=6, size=3), 11)(torch.zeros(2, 9, 4)).shape
    torch.Size([2, 9, 11])
    """

    def __init__(self, cbhg: CBHG, num_outputs: int) -> None:
        super().__init__()
        self.num_outputs = num_outputs
        self.cbhg = cbhg
        self.projection = Linear(cbhg.output_size, num_outputs)

    def forward(self, frames: Float[Tensor, "B T F"], mask: Bool[Tensor, "B T"] | None = None) -> Tensor:
        """The spectrogram (B, T, N); arbitrary at padding.

        Args:
            mask: right-padded, True at real frames; all if None.
        """
        frames = frames if mask is None else frames.masked_fill(~mask[..., None], 0)
        features, _ = self.cbhg(frames, mask)
        outputs: Tensor = self.projection(features)
        return outputs
