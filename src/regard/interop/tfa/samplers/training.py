"""Samplers that read inputs: teacher forcing, and scheduled sampling from ids or outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from regard.errors import ConfigError, ShapeError
from regard.interop.tfa.layers.deferred import tensors
from regard.interop.tfa.samplers.contract import Draws, Sampler
from regard.interop.tfa.samplers.embedding import embedding_of
from regard.interop.tfa.structure import TensorArray, checked_lengths, flatten, map_structure
from regard.shapes import Bool, Int, describe


class TrainingSampler(Sampler):
    """Feeds its inputs step by step; samples are the most probable ids.

    An item has finished when its length is reached, at once if it is 0. When all have finished, the next inputs are
    zeros.

    Args:
        time_major: whether inputs are (T, B, …) instead of (B, T, …).

    >>> sampler = TrainingSampler()
    >>> finished, inputs = sampler.initialize(torch.arange(6.0).view(2, 3, 1), sequence_length=[3, 1])
    >>> finished, inputs, _ = sampler.next_inputs(0, None, None, None)
    >>> finished, inputs
    (tensor([False,  True]), tensor([[1.],
            [4.]]))
    """

    def __init__(self, time_major: bool = False) -> None:
        super().__init__()
        self.time_major = time_major

    def initialize(
        self,
        inputs: Any,
        sequence_length: Tensor | Sequence[int] | None = None,
        mask: Bool[Tensor, "B T"] | None = None,
    ) -> tuple[Bool[Tensor, " B"], Any]:
        """Starts a decoding.

        Args:
            inputs: (B, T, …) or a structure of these.
            sequence_length: (B,) whole numbers from 0 to T; T for all if None.
            mask: (B, T) bool instead, True at real steps, which must come first; (T, B) if time-major.

        Raises:
            ShapeError: for inputs, lengths or a mask of another shape, type or range, for both lengths and a mask, and
                for a mask with a real step after padding.
        """
        time = 0 if self.time_major else 1
        self.inputs = inputs = tensors(inputs)
        first = next(iter(flatten(inputs)), None)
        if not isinstance(first, Tensor) or first.dim() < 2:
            got = type(first).__name__ if not isinstance(first, Tensor) else tuple(first.shape)
            raise ShapeError(
                f"inputs must be (B, T, …), (T, B, …) if time-major, or a structure of such tensors; got {got}."
            )
        steps, self._batch_size = first.shape[time], first.shape[1 - time]
        if sequence_length is not None and mask is not None:
            raise ShapeError("Give sequence_length or mask, not both.")
        if mask is not None:
            sequence_length = _lengths_of(mask, time)
        elif sequence_length is None:
            sequence_length = torch.full((self._batch_size,), steps)
        self.sequence_length = checked_lengths(sequence_length, self._batch_size, steps, first)
        self._longest = int(self.sequence_length.max()) if self._batch_size else 0
        self._arrays = map_structure(lambda each: TensorArray(each.unbind(time)), inputs)
        self.zero_inputs = map_structure(lambda each: each.new_zeros(_without(each, time)), inputs)
        return self.sequence_length == 0, self._read(self._arrays, 0)

    def sample(self, time: int, outputs: Any, state: Any) -> Int[Tensor, " B"]:
        """The most probable ids."""
        ids: Tensor = outputs.argmax(-1)
        return ids

    def next_inputs(self, time: int, outputs: Any, state: Any, sample_ids: Any) -> tuple[Tensor, Any, Any]:
        return time + 1 >= self.sequence_length, self._read(self._arrays, time + 1), state

    def _read(self, arrays: Any, time: int) -> Any:
        """The inputs of a step, or zeros after the last real one."""
        return self.zero_inputs if self._over(time) else map_structure(lambda array: array.read(time), arrays)

    def _over(self, time: int) -> bool:
        """Whether all items have finished before this step."""
        return time >= self._longest


class ScheduledEmbeddingTrainingSampler(TrainingSampler):
    """Scheduled sampling: with a given probability an id is drawn from the outputs and its embedding is fed next.

    Samples are -1 where none was drawn.

    Args:
        sampling_probability: the probability of a draw, one for all or (B,). A given tensor may be changed between
            decodings.
        embedding_fn: from ids (R,) to inputs (R, …).
        time_major: as in `TrainingSampler`.
        seed: of the draws of ids.
        scheduling_seed: of the decisions to draw.

    Raises:
        ShapeError: for a probability that is neither a scalar nor a vector.
        ConfigError: for one below 0 or above 1.

    Source: Bengio et al. 2015, Scheduled Sampling for Sequence Prediction with Recurrent Neural Networks.
    """

    def __init__(
        self,
        sampling_probability: float | Tensor,
        embedding_fn: Callable[[Tensor], Tensor] | None = None,
        time_major: bool = False,
        seed: int | None = None,
        scheduling_seed: int | Tensor | None = None,
    ) -> None:
        super().__init__(time_major)
        self.sampling_probability = checked_probability(sampling_probability)
        self.embedding_fn = embedding_fn
        self.seed, self.scheduling_seed = seed, scheduling_seed
        self._draws, self._decisions = Draws(seed), Draws(scheduling_seed)

    def initialize(
        self,
        inputs: Any,
        sequence_length: Tensor | Sequence[int] | None = None,
        mask: Bool[Tensor, "B T"] | None = None,
        embedding: Any = None,
    ) -> tuple[Bool[Tensor, " B"], Any]:
        """Starts a decoding.

        Args:
            inputs, sequence_length, mask: as in `TrainingSampler`.
            embedding: (N, E), or a function, needed without `embedding_fn`.

        Raises:
            RegardError: without either.
        """
        self._embed = embedding_of(self.embedding_fn, embedding)
        return super().initialize(inputs, sequence_length, mask)

    def sample(self, time: int, outputs: Any, state: Any) -> Int[Tensor, " B"]:
        """Drawn ids, -1 where none was drawn."""
        chosen = self._decisions.flips(self.sampling_probability, self.batch_size, outputs.device)
        return self._draws.tokens(outputs).masked_fill(~chosen, -1)

    def next_inputs(self, time: int, outputs: Any, state: Any, sample_ids: Any) -> tuple[Tensor, Any, Any]:
        """Embeddings of drawn ids, and the inputs of the next step elsewhere."""
        finished, following, state = super().next_inputs(time, outputs, state, sample_ids)
        rows = (sample_ids > -1).nonzero()[:, 0]
        if not self._over(time + 1) and len(rows):
            following = following.index_copy(0, rows, self._embed(sample_ids[rows]).to(following.dtype))
        return finished, following, state


class ScheduledOutputTrainingSampler(TrainingSampler):
    """Scheduled sampling for values: with a given probability the outputs are fed next.

    Samples are 1 where outputs are fed and 0 elsewhere.

    Args:
        sampling_probability: one for all or (B,).
        time_major: as in `TrainingSampler`.
        seed: of the decisions.
        next_inputs_fn: from the outputs of the chosen items to inputs; the identity if None.

    Raises:
        ShapeError: for a probability that is neither a scalar nor a vector.
        ConfigError: for one below 0 or above 1.
    """

    def __init__(
        self,
        sampling_probability: float | Tensor,
        time_major: bool = False,
        seed: int | None = None,
        next_inputs_fn: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        super().__init__(time_major)
        self.sampling_probability = checked_probability(sampling_probability)
        self.seed, self.next_inputs_fn = seed, next_inputs_fn
        self._decisions = Draws(seed)

    def initialize(
        self,
        inputs: Any,
        sequence_length: Tensor | Sequence[int] | None = None,
        mask: Bool[Tensor, "B T"] | None = None,
        auxiliary_inputs: Any = None,
    ) -> tuple[Bool[Tensor, " B"], Any]:
        """Starts a decoding.

        Args:
            inputs, sequence_length, mask: as in `TrainingSampler`.
            auxiliary_inputs: (B, T, …), concatenated to the inputs and to fed outputs on the last axis.
        """
        time = 0 if self.time_major else 1
        self._auxiliary = None
        if auxiliary_inputs is not None:
            inputs, auxiliary_inputs = tensors(inputs), tensors(auxiliary_inputs)
            inputs = map_structure(lambda x, y: torch.cat([x, y], -1), inputs, auxiliary_inputs)
            self._auxiliary = map_structure(lambda each: TensorArray(each.unbind(time)), auxiliary_inputs)
        return super().initialize(inputs, sequence_length, mask)

    def sample(self, time: int, outputs: Any, state: Any) -> Int[Tensor, " B"]:
        """1 where outputs are fed next, else 0."""
        device = flatten(outputs)[0].device
        return self._decisions.flips(self.sampling_probability, self.batch_size, device).long()

    def next_inputs(self, time: int, outputs: Any, state: Any, sample_ids: Any) -> tuple[Tensor, Any, Any]:
        """Outputs where a sample is 1, and the inputs of the next step elsewhere."""
        finished, following, state = super().next_inputs(time, outputs, state, sample_ids)
        rows = sample_ids.bool().nonzero()[:, 0]
        if self._over(time + 1) or not len(rows):
            return finished, following, state
        fed = map_structure(lambda each: each[rows], outputs)
        fed = fed if self.next_inputs_fn is None else self.next_inputs_fn(fed)
        if self._auxiliary is not None:
            fed = map_structure(lambda x, array: torch.cat([x, array.read(time + 1)[rows]], -1), fed, self._auxiliary)
        return finished, map_structure(lambda base, new: base.index_copy(0, rows, new), following, fed), state


def checked_probability(probability: float | Tensor) -> Tensor:
    """The probability as a tensor, the same object if it is one.

    Raises:
        ShapeError: if it is neither a scalar nor a vector.
        ConfigError: if it is no probability.
    """
    try:
        tensor = torch.as_tensor(probability)
    except (TypeError, ValueError, RuntimeError):
        raise ConfigError(
            f"sampling_probability must be a number from 0 to 1, or a tensor (B,); got {type(probability).__name__}."
        ) from None
    if tensor.dim() > 1:
        raise ShapeError(
            "sampling_probability must be a scalar or a vector (B,).\n"
            + describe({"sampling_probability": ("B", tensor)})
        )
    if not bool(((tensor >= 0) & (tensor <= 1)).all()):
        raise ConfigError(f"sampling_probability={tensor.tolist()} must lie between 0 and 1.")
    return tensor


def _lengths_of(mask: Tensor, time: int) -> Tensor:
    mask = torch.as_tensor(mask)
    letters = "T B" if time == 0 else "B T"
    if mask.dim() != 2 or mask.dtype != torch.bool:
        raise ShapeError(f"mask must be bool ({', '.join(letters.split())}).\n" + describe({"mask": (letters, mask)}))
    rows = mask if time == 1 else mask.t()
    lengths = rows.sum(1)
    right = torch.arange(rows.shape[1], device=mask.device) < lengths[:, None]
    if not torch.equal(rows, right):
        item = int((rows != right).any(1).nonzero()[0, 0])
        raise ShapeError(f"The inputs must be right-padded, but the mask of item {item} is {rows[item].tolist()}.")
    return lengths


def _without(tensor: Tensor, axis: int) -> list[int]:
    return [size for i, size in enumerate(tensor.shape) if i != axis]
