"""Samplers from functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from regard.interop.tfa.samplers.contract import Sampler, none_finished


class CustomSampler(Sampler):
    """A sampler from functions.

    Args:
        initialize_fn: from the arguments of `initialize` to (finished, inputs).
        sample_fn: from `time`, `outputs` and `state` to samples; arguments by name.
        next_inputs_fn: from `time`, `outputs`, `state` and `sample_ids` to (finished, inputs, state); by name.
        sample_ids_shape: of a sample, without the batch.
        sample_ids_dtype: of samples; long if None.
    """

    def __init__(
        self,
        initialize_fn: Callable[..., tuple[Tensor, Any]],
        sample_fn: Callable[..., Any],
        next_inputs_fn: Callable[..., tuple[Tensor, Any, Any]],
        sample_ids_shape: Sequence[int] | None = None,
        sample_ids_dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self._initialize_fn, self._sample_fn, self._next_inputs_fn = initialize_fn, sample_fn, next_inputs_fn
        self._sample_ids_shape = torch.Size(sample_ids_shape or [])
        self._sample_ids_dtype = sample_ids_dtype or torch.long

    @property
    def sample_ids_shape(self) -> torch.Size:
        return self._sample_ids_shape

    @property
    def sample_ids_dtype(self) -> torch.dtype:
        return self._sample_ids_dtype

    def initialize(self, inputs: Any = None, **kwargs: Any) -> tuple[Tensor, Any]:
        finished, following = self._initialize_fn(inputs, **kwargs)
        self._batch_size = finished.numel()
        return finished, following

    def sample(self, time: int, outputs: Any, state: Any) -> Any:
        return self._sample_fn(time=time, outputs=outputs, state=state)

    def next_inputs(self, time: int, outputs: Any, state: Any, sample_ids: Any) -> tuple[Tensor, Any, Any]:
        return self._next_inputs_fn(time=time, outputs=outputs, state=state, sample_ids=sample_ids)


class InferenceSampler(Sampler):
    """Feeds a function's samples of the outputs, until another function detects an end.

    Args:
        sample_fn: from outputs to samples.
        sample_shape: of a sample, without the batch.
        sample_dtype: of samples.
        end_fn: from samples to (B,) bool, whether each is an end.
        next_inputs_fn: from samples to the next inputs; the identity if None.

    >>> sampler = InferenceSampler(lambda outputs: outputs * 2, [1], torch.float32, lambda samples: samples[:, 0] > 3)
    >>> finished, inputs = sampler.initialize(torch.ones(1, 1))
    >>> sampler.next_inputs(0, inputs, None, sampler.sample(0, inputs, None))[:2]
    (tensor([False]), tensor([[2.]]))
    """

    def __init__(
        self,
        sample_fn: Callable[[Any], Any],
        sample_shape: Sequence[int],
        sample_dtype: torch.dtype,
        end_fn: Callable[[Any], Tensor],
        next_inputs_fn: Callable[[Any], Any] | None = None,
    ) -> None:
        super().__init__()
        self.sample_fn, self.end_fn, self.next_inputs_fn = sample_fn, end_fn, next_inputs_fn
        self.sample_shape, self.sample_dtype = torch.Size(sample_shape), sample_dtype

    @property
    def sample_ids_shape(self) -> torch.Size:
        return self.sample_shape

    @property
    def sample_ids_dtype(self) -> torch.dtype:
        return self.sample_dtype

    def initialize(self, start_inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Starts a decoding with inputs (B, …)."""
        self.start_inputs = start_inputs
        self._batch_size = len(start_inputs)
        return none_finished(len(start_inputs), start_inputs.device), start_inputs

    def sample(self, time: int, outputs: Any, state: Any) -> Any:
        return self.sample_fn(outputs)

    def next_inputs(self, time: int, outputs: Any, state: Any, sample_ids: Any) -> tuple[Tensor, Any, Any]:
        following = sample_ids if self.next_inputs_fn is None else self.next_inputs_fn(sample_ids)
        return self.end_fn(sample_ids), following, state
