"""The helpers of Tacotron: a step has r frames, the last of which is fed next."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.errors import ConfigError, ShapeError
from regard.interop.tfa.samplers.contract import none_finished
from regard.interop.tfa.samplers.contrib import Helper
from regard.shapes import Float, describe


class TacoTrainingHelper(Helper):
    """Feeds every r-th frame of the targets: r - 1, 2 r - 1, … after a first frame of zeros.

    All items, including shorter ones, take T_out / r steps. Samples are zeros.

    Args:
        inputs: (B, …), of which only B is used.
        targets: (B, T_out, F), the frames; those beyond a multiple of r are not used.
        output_dim: F, channels of a frame.
        r: frames of a step.

    Raises:
        ShapeError: for targets that are not (B, T_out, F), or shorter than r.

    Source: keithito/tacotron, models/helpers.py.

    >>> helper = TacoTrainingHelper(torch.zeros(1, 5), torch.arange(1.0, 7.0).view(1, 6, 1), 1, 2)
    >>> helper.initialize()[1], helper.next_inputs(0, None, None, None)[:2]
    (tensor([[0.]]), (tensor([False]), tensor([[2.]])))
    """

    def __init__(self, inputs: Tensor, targets: Float[Tensor, "B T F"], output_dim: int, r: int) -> None:
        super().__init__()
        if targets.dim() != 3 or targets.shape[2] != output_dim or len(targets) != len(inputs) or targets.shape[1] < r:
            raise ShapeError(
                f"targets must be frames (B={len(inputs)}, T of at least r={r}, F={output_dim}).\n"
                + describe({"targets": ("B T F", targets)})
            )
        self._batch_size = len(inputs)
        self._targets = targets[:, r - 1 :: r]
        self._num_steps = self._targets.shape[1]

    def initialize(self, name: str | None = None) -> tuple[Tensor, Tensor]:
        first = self._targets
        return none_finished(len(first), first.device), first.new_zeros(len(first), first.shape[2])

    def sample(self, time: int, outputs: Any, state: Any) -> Tensor:
        return torch.zeros(self.batch_size, dtype=torch.long, device=self._targets.device)

    def next_inputs(self, time: int, outputs: Any, state: Any, sample_ids: Any) -> tuple[Tensor, Any, Any]:
        finished = none_finished(self.batch_size, self._targets.device) | (time + 1 >= self._num_steps)
        return finished, self._targets[:, time], state


class TacoTestHelper(Helper):
    """Feeds the last of the r frames of a step, until all of them are silent. Samples are zeros.

    Args:
        batch_size: B.
        output_dim: F, channels of a frame.
        r: frames of a step.
        silence: an item has finished when the absolute values of its r frames are at most this. With 0, the original's
            test, a network's outputs practically never end before `maximum_iterations`; 0.05 suits spectrograms between
            0 and 1.
        dtype: of the first frame; torch's default if None.
        device: of the first frame.

    Raises:
        ConfigError: for a silence below 0.

    Source: keithito/tacotron, models/helpers.py.
    """

    def __init__(
        self,
        batch_size: int,
        output_dim: int,
        r: int,
        silence: float = 0.0,
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        if silence < 0:
            raise ConfigError(f"silence={silence} must be 0 or more.")
        self._batch_size, self._output_dim, self._r, self._silence = batch_size, output_dim, r, silence
        self._first = torch.zeros(batch_size, output_dim, dtype=dtype, device=device)

    def initialize(self, name: str | None = None) -> tuple[Tensor, Tensor]:
        return none_finished(self.batch_size, self._first.device), self._first

    def sample(self, time: int, outputs: Any, state: Any) -> Tensor:
        return torch.zeros(self.batch_size, dtype=torch.long, device=self._first.device)

    def next_inputs(self, time: int, outputs: Any, state: Any, sample_ids: Any) -> tuple[Tensor, Any, Any]:
        """The last frame.

        Raises:
            ShapeError: for outputs that are not r frames.
        """
        if outputs.shape != (self._batch_size, self._r * self._output_dim):
            raise ShapeError(
                f"A step must have r={self._r} frames of F={self._output_dim}, (B={self._batch_size}, "
                f"{self._r * self._output_dim}).\n" + describe({"outputs": ("B F", outputs)})
            )
        return (outputs.abs() <= self._silence).all(1), outputs[:, -self._output_dim :], state
