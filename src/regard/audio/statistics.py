"""Mean and deviation of each channel of spectrograms."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.errors import DataError, ShapeError
from regard.shapes import Float, describe


@dataclass(frozen=True, eq=False)
class Standardisation:
    """Standardisation of each channel to mean 0 and deviation 1: (x - μ) / σ.

    Args:
        mean, deviation: (F,), float64; the deviation of a constant channel is 1.

    >>> mels = [torch.tensor([[1.0, 5.0], [3.0, 5.0]])]
    >>> scale = Standardisation.fit(mels)
    >>> scale(mels[0])
    tensor([[-1.,  0.],
            [ 1.,  0.]])
    >>> scale.inverse(scale(mels[0]))
    tensor([[1., 5.],
            [3., 5.]])
    """

    mean: Float[Tensor, " F"]
    deviation: Float[Tensor, " F"]

    @classmethod
    def fit(cls, spectrograms: Iterable[Float[Tensor, "T F"]]) -> Standardisation:
        """The mean and population deviation of all frames, in one pass over the spectrograms.

        Raises:
            DataError: if there is no frame.
            ShapeError: for a spectrogram with another number of channels than the first.
        """
        count = 0
        mean = squares = torch.zeros(0, dtype=torch.float64)
        for spectrogram in spectrograms:
            frames = spectrogram.double()
            if not count:
                mean = squares = frames.new_zeros(frames.shape[-1])
            if frames.dim() != 2 or frames.shape[1] != len(mean):
                shown = describe({"spectrogram": ("T F", spectrogram)})
                raise ShapeError(f"Spectrograms must be (T, F) with F as in the first, {len(mean)}.\n{shown}")
            if not len(frames):
                continue
            # the sum of squared differences from the mean, merged from two groups of frames
            total = count + len(frames)
            mean_of_frames = frames.mean(0)
            change, deviations = mean_of_frames - mean, frames - mean_of_frames
            squares = squares + deviations.square().sum(0) + change.square() * (count * len(frames) / total)
            mean = mean + change * (len(frames) / total)
            count = total
        if not count:
            raise DataError("Mean and deviation need at least one frame; got none.")
        deviation = (squares / count).sqrt()
        return cls(mean, deviation.where(deviation > 1e-8, 1))

    def __call__(self, spectrogram: Float[Tensor, "... F"]) -> Float[Tensor, "... F"]:
        """Standardised values."""
        return (spectrogram - self.mean.to(spectrogram)) / self.deviation.to(spectrogram)

    def inverse(self, standardised: Float[Tensor, "... F"]) -> Float[Tensor, "... F"]:
        """The original values of standardised ones."""
        return standardised * self.deviation.to(standardised) + self.mean.to(standardised)
