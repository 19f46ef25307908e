"""Samplers with their inputs: the helpers of `tf.contrib.seq2seq`, and those of Texar."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from regard.interop.tfa.samplers.contract import Sampler
from regard.interop.tfa.samplers.custom import CustomSampler, InferenceSampler
from regard.interop.tfa.samplers.embedding import (
    GreedyEmbeddingSampler,
    GumbelSoftmaxEmbeddingSampler,
    SampleEmbeddingSampler,
    SoftmaxEmbeddingSampler,
    TopKSampleEmbeddingSampler,
    TopPSampleEmbeddingSampler,
)
from regard.interop.tfa.samplers.training import (
    ScheduledEmbeddingTrainingSampler,
    ScheduledOutputTrainingSampler,
    TrainingSampler,
)


class Helper(Sampler):
    """A sampler whose `initialize` needs no arguments, as in TensorFlow 1; also the base of users' own helpers.

    The argument `name` of all helpers has no effect.
    """


class GivenHelper(Helper):
    """A helper around a sampler, whose `initialize` gets arguments of the constructor."""

    def _give(self, *arguments: Any, **named: Any) -> None:
        self._arguments, self._named = arguments, named

    def initialize(self, name: str | None = None) -> tuple[Tensor, Any]:
        return super().initialize(*self._arguments, **self._named)  # type: ignore[safe-super]


class TrainingHelper(GivenHelper, TrainingSampler):  # type: ignore[misc]
    """`TrainingSampler` of given inputs.

    Args:
        inputs: (B, T, …), or (T, B, …) if time-major.
        sequence_length: (B,) whole numbers from 0 to T.
        time_major: as in `TrainingSampler`.
        name: without effect.
    """

    def __init__(
        self, inputs: Any, sequence_length: Tensor | Sequence[int], time_major: bool = False, name: str | None = None
    ) -> None:
        super().__init__(time_major)
        self._give(inputs=inputs, sequence_length=sequence_length)


class ScheduledEmbeddingTrainingHelper(GivenHelper, ScheduledEmbeddingTrainingSampler):  # type: ignore[misc]
    """`ScheduledEmbeddingTrainingSampler` of given inputs.

    Args:
        inputs, sequence_length, time_major, name: as in `TrainingHelper`.
        embedding: (N, E), or a function from ids to inputs.
        sampling_probability, seed, scheduling_seed: as in `ScheduledEmbeddingTrainingSampler`.
    """

    def __init__(
        self,
        inputs: Any,
        sequence_length: Tensor | Sequence[int],
        embedding: Any,
        sampling_probability: float | Tensor,
        time_major: bool = False,
        seed: int | None = None,
        scheduling_seed: int | Tensor | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(sampling_probability, None, time_major, seed, scheduling_seed)
        self._give(inputs=inputs, sequence_length=sequence_length, embedding=embedding)


class ScheduledOutputTrainingHelper(GivenHelper, ScheduledOutputTrainingSampler):  # type: ignore[misc]
    """`ScheduledOutputTrainingSampler` of given inputs.

    Args:
        inputs, sequence_length, time_major, name: as in `TrainingHelper`.
        sampling_probability, seed, next_inputs_fn: as in `ScheduledOutputTrainingSampler`.
        auxiliary_inputs: (B, T, …), concatenated to inputs and fed outputs, or None.
    """

    def __init__(
        self,
        inputs: Any,
        sequence_length: Tensor | Sequence[int],
        sampling_probability: float | Tensor,
        time_major: bool = False,
        seed: int | None = None,
        next_inputs_fn: Callable[[Tensor], Tensor] | None = None,
        auxiliary_inputs: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__(sampling_probability, time_major, seed, next_inputs_fn)
        self._give(inputs=inputs, sequence_length=sequence_length, auxiliary_inputs=auxiliary_inputs)


class CustomHelper(GivenHelper, CustomSampler):  # type: ignore[misc]
    """`CustomSampler` whose `initialize_fn` takes nothing.

    Args:
        initialize_fn: returns (finished, inputs).
        sample_fn, next_inputs_fn, sample_ids_shape, sample_ids_dtype: as in `CustomSampler`.
    """

    def __init__(
        self,
        initialize_fn: Callable[[], tuple[Tensor, Any]],
        sample_fn: Callable[..., Any],
        next_inputs_fn: Callable[..., tuple[Tensor, Any, Any]],
        sample_ids_shape: Sequence[int] | None = None,
        sample_ids_dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(lambda inputs: initialize_fn(), sample_fn, next_inputs_fn, sample_ids_shape, sample_ids_dtype)
        self._give(None)


class InferenceHelper(GivenHelper, InferenceSampler):  # type: ignore[misc]
    """`InferenceSampler` of given inputs.

    Args:
        start_inputs: (B, …), the inputs of the first step.
        sample_fn, sample_shape, sample_dtype, end_fn, next_inputs_fn: as in `InferenceSampler`.
    """

    def __init__(
        self,
        sample_fn: Callable[[Any], Any],
        sample_shape: Sequence[int],
        sample_dtype: torch.dtype,
        start_inputs: Tensor,
        end_fn: Callable[[Any], Tensor],
        next_inputs_fn: Callable[[Any], Any] | None = None,
    ) -> None:
        super().__init__(sample_fn, sample_shape, sample_dtype, end_fn, next_inputs_fn)
        self._give(start_inputs)


class EmbeddingHelper(GivenHelper):
    """A helper around a sampler that feeds embeddings.

    Args:
        embedding: (N, E), or a function from ids to inputs; only (N, E) for the two of softmax.
        start_tokens: (B,) ids.
        end_token: one id.
        arguments, options: those of the sampler in its order, without `embedding_fn`.
    """

    before: tuple[None, ...] = (None,)
    """The arguments of the sampler before those of the helper: `embedding_fn`, if it has one."""

    def __init__(self, embedding: Any, start_tokens: Any, end_token: Any, *arguments: Any, **options: Any) -> None:
        super().__init__(*self.before, *arguments, **options)
        self._give(embedding, start_tokens, end_token)


class GreedyEmbeddingHelper(EmbeddingHelper, GreedyEmbeddingSampler):  # type: ignore[misc]
    """`GreedyEmbeddingSampler` of given tokens: embedding, start_tokens, end_token."""


class SampleEmbeddingHelper(EmbeddingHelper, SampleEmbeddingSampler):  # type: ignore[misc]
    """`SampleEmbeddingSampler` of given tokens: embedding, start_tokens, end_token, softmax_temperature, seed."""


class TopKSampleEmbeddingHelper(EmbeddingHelper, TopKSampleEmbeddingSampler):  # type: ignore[misc]
    """`TopKSampleEmbeddingSampler` of given tokens (Texar): …, end_token, top_k, softmax_temperature, seed."""


class TopPSampleEmbeddingHelper(EmbeddingHelper, TopPSampleEmbeddingSampler):  # type: ignore[misc]
    """`TopPSampleEmbeddingSampler` of given tokens (Texar): …, end_token, p, softmax_temperature, seed."""


class SoftmaxEmbeddingHelper(EmbeddingHelper, SoftmaxEmbeddingSampler):  # type: ignore[misc]
    """`SoftmaxEmbeddingSampler` of given tokens (Texar): …, end_token, tau, stop_gradient, use_finish."""

    before = ()


class GumbelSoftmaxEmbeddingHelper(EmbeddingHelper, GumbelSoftmaxEmbeddingSampler):  # type: ignore[misc]
    """`GumbelSoftmaxEmbeddingSampler` of given tokens (Texar): …, tau, straight_through, stop_gradient, use_finish."""

    before = ()
