"""What the analysis is given beyond both ends of a sound."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from regard.shapes import Float, Int

Padding = Literal["reflect", "zeros"]


def padded(
    samples: Float[Tensor, "B samples"], width: int, padding: Padding, lengths: Int[Tensor, " B"] | None = None
) -> Float[Tensor, "B wider"]:
    """Sounds with `width` more samples at both ends: zeros, or the sound reflected in its first and its last sample.

    A sound shorter than the reflection is reflected again and again. What follows a padded sound is 0.

    Args:
        lengths: of each sound, at least 1; None: all are as long as the tensor.

    >>> padded(torch.tensor([[1.0, 2.0, 3.0]]), 2, "reflect")
    tensor([[3., 2., 1., 2., 3., 2., 1.]])
    >>> padded(torch.tensor([[1.0, 2.0, 9.0]]), 2, "reflect", torch.tensor([2]))
    tensor([[1., 2., 1., 2., 1., 2., 0.]])
    """
    longest = samples.shape[1]
    if lengths is None and (padding == "zeros" or width < longest):
        return functional.pad(samples, (width, width), mode="constant" if padding == "zeros" else "reflect")
    if lengths is None:
        lengths = samples.new_full((len(samples),), longest, dtype=torch.long)
    places = torch.arange(-width, longest + width, device=samples.device)
    if padding == "zeros":
        inside = (places >= 0) & (places < lengths[:, None])
        return functional.pad(samples, (width, width)).where(inside, 0)
    # a triangular wave: 0 1 … L-1 … 1 0 1 …
    last = (lengths[:, None] - 1).clamp(min=1)
    phase = places % (2 * last)
    index = torch.minimum(phase, 2 * last - phase).clamp(max=longest - 1)
    index = index.where(lengths[:, None] > 1, 0)
    return samples.gather(1, index).where(places < lengths[:, None] + width, 0)
