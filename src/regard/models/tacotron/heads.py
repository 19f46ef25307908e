"""The heads of decoders of speech: r frames and stop logits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn

from regard.errors import ConfigError
from regard.layers.linear import Linear
from regard.shapes import Float

STOP = "stop"
"""The name of the stop logits among a decoder's auxiliary outputs."""
FrameActivation = Literal["sigmoid", "tanh", "relu"]
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"sigmoid": torch.sigmoid, "tanh": torch.tanh, "relu": torch.relu}


class StopHead(nn.Module):
    """A logit for each of r frames: W [d; c] + b, of which the first r are used.

    Args:
        size: D, the width of the decoder's output d.
        context_size: V, the width of the context c; 0 if it is not read.
        num_frames: the largest r.
    """

    def __init__(self, size: int, context_size: int, num_frames: int) -> None:
        super().__init__()
        self.context_size = context_size
        self.projection = Linear(size + context_size, num_frames)

    def forward(
        self,
        output: Float[Tensor, "*rows D"],
        context: Float[Tensor, "*rows V"],
        frames: Float[Tensor, "*rows rF"],
        num_frames: int,
    ) -> Float[Tensor, "*rows r"]:
        """Logits of r frames."""
        features = torch.cat([output, context], -1) if self.context_size else output
        return self.projection(features)[..., :num_frames]


class FrameHead(nn.Module):
    """r frames, W [d; c] + b, and the stop logits.

    The projection is as wide as the largest r; with a smaller r ("gradual r") the first r·F outputs are used.

    Args:
        size: D, the width of the decoder's output d.
        context_size: V, the width of the context c; 0 if it is not read.
        num_features: F, of a frame.
        num_frames: the largest r.
        bias: whether there is b.
        activation: of the frames; none if None.
        stop: a module like `StopHead`, called with d, c, all frames of the projection, and r; None for a decoder
            without stop logits.

    Source: Wang et al. 2017 (arXiv 1703.10135), section 3.3; stop token: Shen et al. 2018 (arXiv 1712.05884).

    >>> head = FrameHead(4, 3, 2, 5, stop=StopHead(4, 3, 5))
    >>> frames, further = head(torch.zeros(1, 4), torch.zeros(1, 3), 2)
    >>> frames.shape, further["stop"].shape
    (torch.Size([1, 4]), torch.Size([1, 2]))
    """

    stop: Any

    def __init__(
        self,
        size: int,
        context_size: int,
        num_features: int,
        num_frames: int = 1,
        *,
        bias: bool = True,
        activation: FrameActivation | None = None,
        stop: nn.Module | None = None,
    ) -> None:
        super().__init__()
        if num_frames < 1:
            raise ConfigError(f"num_frames={num_frames}: a step has at least one frame.")
        if activation is not None and activation not in ACTIVATIONS:
            raise ConfigError(f"activation={activation!r} must be one of {', '.join(ACTIVATIONS)}, or None.")
        self.num_features = num_features
        self.num_frames = num_frames
        self.context_size = context_size
        self.activation = activation
        self.projection = Linear(size + context_size, num_frames * num_features, bias=bias)
        self.stop = stop

    def forward(
        self, output: Float[Tensor, "*rows D"], context: Float[Tensor, "*rows V"], num_frames: int
    ) -> tuple[Float[Tensor, "*rows rF"], Mapping[str, Tensor]]:
        """Frames (…, r·F), and by name the `stop` logits (…, r)."""
        frames = self.projection(torch.cat([output, context], -1) if self.context_size else output)
        if self.activation is not None:
            frames = ACTIVATIONS[self.activation](frames)
        further = {} if self.stop is None else {STOP: self.stop(output, context, frames, num_frames)}
        return frames[..., : num_frames * self.num_features], further
