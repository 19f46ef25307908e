"""The interface of samplers, and the random numbers that they draw."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor

from regard.decoding.sampling import drawn, heated, truncated
from regard.errors import DataError, RegardError, ShapeError
from regard.shapes import Bool, Float, Int, describe


class Sampler(ABC):
    """Samples of a decoder's outputs, and the inputs of the next step.

    As in the original, `initialize` stores the state of a decoding on the object, so a sampler serves one decoding at a
    time. Ids are of type long.
    """

    def __init__(self) -> None:
        self._batch_size: int | None = None

    @abstractmethod
    def initialize(self, *inputs: Any, **kwargs: Any) -> tuple[Tensor, Any]:
        """Starts a decoding: which items have finished, (B,) bool, and the inputs of the first step."""

    @abstractmethod
    def sample(self, time: int, outputs: Any, state: Any) -> Any:
        """The samples of a step's outputs.

        Args:
            time: the number of the step, from 0.
            outputs: (B, …), of the decoder.
            state: that of the cell after the step.
        """

    @abstractmethod
    def next_inputs(self, time: int, outputs: Any, state: Any, sample_ids: Any) -> tuple[Tensor, Any, Any]:
        """Which items have finished with this step, (B,) bool, the inputs of the next one, and the state.

        Args:
            time, outputs, state: as in `sample`.
            sample_ids: from `sample`.
        """

    @property
    def batch_size(self) -> int:
        """B.

        Raises:
            RegardError: before `initialize`.
        """
        if self._batch_size is None:
            raise RegardError("The batch size is unknown before initialize is called.")
        return self._batch_size

    @property
    def sample_ids_shape(self) -> torch.Size:
        """The shape of a sample, without the batch: a scalar."""
        return torch.Size([])

    @property
    def sample_ids_dtype(self) -> torch.dtype:
        """The type of samples."""
        return torch.long


def none_finished(count: int, device: torch.device | None = None) -> Tensor:
    """(B,) False."""
    return torch.zeros(count, dtype=torch.bool, device=device)


def tokens_and_end(
    start_tokens: Any, end_token: Any, device: torch.device | None, embedding: Any = None
) -> tuple[Tensor, int]:
    """Start tokens (B,) of type long, and the end token.

    Raises:
        ShapeError: for start tokens that are no vector of ids, or an end token that is no scalar.
        DataError: for start tokens without a row in the embedding, if it is a table (N, E).
    """
    if start_tokens is None or end_token is None:
        absent = "start_tokens" if start_tokens is None else "end_token"
        raise ShapeError(f"{absent} is missing: give start_tokens, a vector (B,) of ids, and end_token, one id.")
    starts, end = torch.as_tensor(start_tokens, device=device), torch.as_tensor(end_token)
    if starts.dim() != 1 or starts.is_floating_point():
        raise ShapeError(
            "start_tokens must be a vector (B,) of ids.\n"
            + describe({"start_tokens": ("B", starts)})
            + "\n  For one token for all items: torch.full((batch_size,), token)."
        )
    if end.dim() != 0 or end.is_floating_point():
        raise ShapeError("end_token must be a scalar, one id for all items.\n" + describe({"end_token": ("", end)}))
    if isinstance(embedding, Tensor) and len(starts):
        first, last = int(starts.min()), int(starts.max())
        if first < 0 or last >= len(embedding):
            raise DataError(
                f"start_tokens has ids from {first} to {last}, and the embedding has N={len(embedding)} rows."
            )
    return starts.long(), int(end)


class Draws:
    """A sequence of random numbers that continues from one decoding to the next.

    Args:
        seed: of the sequence; torch's global generator if None.
    """

    def __init__(self, seed: int | Tensor | None = None) -> None:
        self._seed = None if seed is None else int(seed)
        self._generators: dict[torch.device, torch.Generator] = {}

    def uniform(self, count: int, device: torch.device) -> Float[Tensor, " R"]:
        """Numbers from 0 to 1, 1 excluded."""
        generator = None
        if self._seed is not None:
            if device not in self._generators:
                self._generators[device] = torch.Generator(device).manual_seed(self._seed)
            generator = self._generators[device]
        dtype = torch.float32 if device.type == "mps" else torch.float64
        return torch.rand(count, generator=generator, device=device, dtype=dtype)

    def flips(self, probability: Tensor, count: int, device: torch.device) -> Bool[Tensor, " R"]:
        """True with a probability, one for all or for each."""
        return self.uniform(count, device) < probability.to(device)

    def tokens(
        self, logits: Float[Tensor, "R N"], temperature: float = 1.0, top_k: int | None = None, top_p: float = 1.0
    ) -> Int[Tensor, " R"]:
        """Tokens drawn from softmax(logits / temperature), truncated as in `regard.decoding.sampling`."""
        with torch.no_grad():
            logits = truncated(heated(logits.detach(), temperature), top_k, top_p)
            return drawn(logits, self.uniform(len(logits), logits.device))
