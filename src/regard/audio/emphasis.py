"""Pre-emphasis, which raises high frequencies before the analysis, and its inverse."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from regard.shapes import Float

Start = Literal["silence", "extrapolation"]


def pre_emphasis(
    samples: Float[Tensor, "... samples"], coefficient: float, start: Start = "silence"
) -> Float[Tensor, "... samples"]:
    """The high-pass filter y_t = x_t - κ x_{t-1}.

    Args:
        coefficient: κ.
        start: what precedes the first sample. silence: y_0 = x_0. extrapolation: y_0 = x_0 + (2 x_0 - x_1), as
            librosa's `effects.preemphasis` starts.

    >>> pre_emphasis(torch.tensor([1.0, 1.0, 1.0]), 0.5)
    tensor([1.0000, 0.5000, 0.5000])
    """
    first = samples[..., :1]
    if start == "extrapolation" and samples.shape[-1] > 1:
        first = first + 2 * first - samples[..., 1:2]
    return torch.cat([first, samples[..., 1:] - coefficient * samples[..., :-1]], -1)


def de_emphasis(samples: Float[Tensor, "... samples"], coefficient: float) -> Float[Tensor, "... samples"]:
    """The inverse filter x_t = y_t + κ x_{t-1}, which starts from silence.

    The recurrence is a product of filters that reach back 1, 2, 4, … samples, as 1 / (1 - κz) = (1 + κz) (1 + κ²z²)
    (1 + κ⁴z⁴) …, of which those that change nothing in double precision are left out: 11 passes for κ = 0.97.

    >>> de_emphasis(torch.tensor([1.0, 0.5, 0.5]), 0.5)
    tensor([1., 1., 1.])
    """
    reach, factor = 1, coefficient
    while reach < samples.shape[-1] and abs(factor) > 1e-17:
        samples = torch.cat([samples[..., :reach], samples[..., reach:] + factor * samples[..., :-reach]], -1)
        reach, factor = 2 * reach, factor * factor
    return samples
