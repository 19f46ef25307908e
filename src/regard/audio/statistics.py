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
    """Each channel with mean 0 and deviation 1 over some spectrograms: (x - μ) / σ.

    Args:
        mean, deviation: (F,), float64; the deviation of a channel that never changes is 1.

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
        """The mean and deviation (of the population) of all frames; spectrograms are looked at one by one, once.

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
                raise ShapeError(f"Spectrograms are (T, F) with F as in the first, {len(mean)}.\n{shown}")
            if not len(frames):
                continue
            # two groups of frames become one: squares are those of differences from the mean
            total = count + len(frames)
            own = frames.mean(0)
            change = own - mean
            squares = squares + (frames - own).square().sum(0) + change.square() * (count * len(frames) / total)
            mean = mean + change * (len(frames) / total)
            count = total
        if not count:
            raise DataError("There is no frame whose mean and deviation could be taken.")
        deviation = (squares / count).sqrt()
        return cls(mean, deviation.where(deviation > 1e-8, 1))

    def __call__(self, spectrogram: Float[Tensor, "... F"]) -> Float[Tensor, "... F"]:
        """Standardised values."""
        return (spectrogram - self.mean.to(spectrogram)) / self.deviation.to(spectrogram)

    def inverse(self, standardised: Float[Tensor, "... F"]) -> Float[Tensor, "... F"]:
        """The values of standardised ones."""
        return standardised * self.deviation.to(standardised) + self.mean.to(standardised)
