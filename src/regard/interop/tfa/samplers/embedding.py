"""Samplers that feed the embedding of the most probable token, of a drawn one, or of a distribution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import embedding as looked_up
from torch.nn.functional import gumbel_softmax

from regard.errors import ConfigError, RegardError, ShapeError
from regard.interop.tfa.layers.deferred import tensors
from regard.interop.tfa.samplers.contract import Draws, Sampler, none_finished, tokens_and_end
from regard.shapes import Bool, Int

Embedding = Callable[[Tensor], Any]


class GreedyEmbeddingSampler(Sampler):
    """Chooses the most probable token and feeds its embedding, until the end token.

    Args:
        embedding_fn: from ids (B,) to inputs (B, …).

    >>> sampler = GreedyEmbeddingSampler()
    >>> finished, inputs = sampler.initialize(torch.eye(3), start_tokens=torch.tensor([0, 0]), end_token=2)
    >>> ids = sampler.sample(0, torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), None)
    >>> ids, sampler.next_inputs(0, None, None, ids)[0]
    (tensor([1, 2]), tensor([False,  True]))
    """

    def __init__(self, embedding_fn: Embedding | None = None) -> None:
        super().__init__()
        self.embedding_fn = embedding_fn

    def initialize(
        self, embedding: Any = None, start_tokens: Any = None, end_token: Any = None
    ) -> tuple[Bool[Tensor, " B"], Any]:
        """Starts a decoding.

        Args:
            embedding: (N, E), or a function from ids to inputs; ignored with an `embedding_fn`. It is used in this
                decoding only; the original keeps the first one.
            start_tokens: (B,) ids.
            end_token: one id.

        Raises:
            RegardError: without an embedding, or tokens of another shape.
        """
        embedding = tensors(embedding)
        self._embed = embedding_of(self.embedding_fn, embedding)
        table = embedding if isinstance(embedding, Tensor) and self.embedding_fn is None else None
        device = None if table is None else table.device
        self.start_tokens, self.end_token = tokens_and_end(start_tokens, end_token, device, table)
        self._batch_size = len(self.start_tokens)
        self.start_inputs = self._embed(self.start_tokens)
        return none_finished(self._batch_size, self.start_tokens.device), self.start_inputs

    def sample(self, time: int, outputs: Any, state: Any) -> Int[Tensor, " B"]:
        """The most probable ids."""
        return _single(outputs).argmax(-1)

    def next_inputs(self, time: int, outputs: Any, state: Any, sample_ids: Any) -> tuple[Tensor, Any, Any]:
        """The embeddings of the samples; the first inputs again when all are ends."""
        finished = sample_ids == self.end_token
        following = self.start_inputs if bool(finished.all()) else self._embed(sample_ids)
        return finished, following, state


class SampleEmbeddingSampler(GreedyEmbeddingSampler):
    """Draws a token and feeds its embedding, until the end token.

    Args:
        embedding_fn: as in `GreedyEmbeddingSampler`.
        softmax_temperature: logits are divided by it; 1 if None.
        seed: of the draws, which continue from one decoding to the next.

    Raises:
        ConfigError: for a temperature that is not above 0.
    """

    def __init__(
        self,
        embedding_fn: Embedding | None = None,
        softmax_temperature: float | Tensor | None = None,
        seed: int | Tensor | None = None,
    ) -> None:
        super().__init__(embedding_fn)
        self.softmax_temperature = softmax_temperature
        self.seed = seed
        self._temperature = 1.0 if softmax_temperature is None else float(softmax_temperature)
        if not self._temperature > 0:
            raise ConfigError(f"softmax_temperature={self._temperature} must be above 0.")
        self._draws = Draws(seed)

    def sample(self, time: int, outputs: Any, state: Any) -> Int[Tensor, " B"]:
        """Drawn ids."""
        return self._draws.tokens(_single(outputs), self._temperature)


class TopKSampleEmbeddingSampler(SampleEmbeddingSampler):
    """Draws from the `top_k` most probable tokens, as Texar's `TopKSampleEmbeddingHelper`.

    Args:
        embedding_fn, softmax_temperature, seed: as in `SampleEmbeddingSampler`.
        top_k: their number; all if None.
    """

    def __init__(
        self,
        embedding_fn: Embedding | None = None,
        top_k: int | None = 10,
        softmax_temperature: float | Tensor | None = None,
        seed: int | Tensor | None = None,
    ) -> None:
        super().__init__(embedding_fn, softmax_temperature, seed)
        if top_k is not None and top_k < 1:
            raise ConfigError(f"top_k={top_k} must be at least 1.")
        self.top_k = top_k

    def sample(self, time: int, outputs: Any, state: Any) -> Int[Tensor, " B"]:
        return self._draws.tokens(_single(outputs), self._temperature, top_k=self.top_k)


class TopPSampleEmbeddingSampler(SampleEmbeddingSampler):
    """Draws from the fewest tokens with a total probability of `p`, as Texar's `TopPSampleEmbeddingHelper`.

    Args:
        embedding_fn, softmax_temperature, seed: as in `SampleEmbeddingSampler`.
        p: above 0, at most 1.
    """

    def __init__(
        self,
        embedding_fn: Embedding | None = None,
        p: float = 0.9,
        softmax_temperature: float | Tensor | None = None,
        seed: int | Tensor | None = None,
    ) -> None:
        super().__init__(embedding_fn, softmax_temperature, seed)
        if not 0 < p <= 1:
            raise ConfigError(f"p={p} must be a probability above 0, at most 1.")
        self.p = p

    def sample(self, time: int, outputs: Any, state: Any) -> Int[Tensor, " B"]:
        return self._draws.tokens(_single(outputs), self._temperature, top_p=self.p)


class SoftmaxEmbeddingSampler(GreedyEmbeddingSampler):
    """Feeds the mean of all embeddings under softmax(logits / tau), as Texar's `SoftmaxEmbeddingHelper`.

    Samples are the distributions (B, N), with gradients. An item has finished when its most probable token is the end.

    Args:
        stop_gradient: whether the samples have no gradient.
        use_finish: whether the end token finishes an item; otherwise only the maximum number of steps does.

    Raises:
        ConfigError: for a temperature that is not above 0.
    """

    def __init__(self, tau: float, stop_gradient: bool = False, use_finish: bool = True) -> None:
        super().__init__()
        if not tau > 0:
            raise ConfigError(f"tau={tau} must be above 0.")
        self.tau, self.stop_gradient, self.use_finish = tau, stop_gradient, use_finish

    @property
    def sample_ids_shape(self) -> torch.Size:
        """(N,)."""
        return self._table.shape[:1]

    @property
    def sample_ids_dtype(self) -> torch.dtype:
        """That of the embedding."""
        return self._table.dtype

    def initialize(  # type: ignore[override]
        self, embedding: Tensor, start_tokens: Any = None, end_token: Any = None
    ) -> tuple[Bool[Tensor, " B"], Any]:
        """Starts a decoding.

        Args:
            embedding: (N, E).
            start_tokens: (B,) ids.
            end_token: one id.
        """
        embedding = tensors(embedding)
        if not isinstance(embedding, Tensor) or embedding.dim() != 2:
            raise ShapeError("embedding must be a table (N, E), by which distributions are multiplied.")
        self._table = embedding
        return super().initialize(embedding, start_tokens, end_token)

    def sample(self, time: int, outputs: Any, state: Any) -> Tensor:
        """softmax(outputs / tau), (B, N)."""
        return (_single(outputs) / self.tau).softmax(-1)

    def next_inputs(self, time: int, outputs: Any, state: Any, sample_ids: Any) -> tuple[Tensor, Any, Any]:
        """The samples times the table."""
        finished = sample_ids.argmax(-1) == self.end_token
        if not self.use_finish:
            finished = finished.new_zeros(finished.shape)
        chosen = sample_ids.detach() if self.stop_gradient else sample_ids
        return finished, chosen @ self._table, state


class GumbelSoftmaxEmbeddingSampler(SoftmaxEmbeddingSampler):
    """As `SoftmaxEmbeddingSampler`, with Gumbel noise on the logits, as Texar's `GumbelSoftmaxEmbeddingHelper`.

    Args:
        tau, stop_gradient, use_finish: as in `SoftmaxEmbeddingSampler`.
        straight_through: whether samples are one-hot, with the gradient of the distribution.

    Source: Jang et al. 2017, Categorical Reparameterization with Gumbel-Softmax; Maddison et al. 2017, The Concrete
    Distribution.
    """

    def __init__(
        self, tau: float, straight_through: bool = False, stop_gradient: bool = False, use_finish: bool = True
    ) -> None:
        super().__init__(tau, stop_gradient, use_finish)
        self.straight_through = straight_through

    def sample(self, time: int, outputs: Any, state: Any) -> Tensor:
        """Drawn distributions (B, N)."""
        return gumbel_softmax(_single(outputs), self.tau, hard=self.straight_through)


def embedding_of(function: Embedding | None, embedding: Any) -> Embedding:
    """A function from ids to inputs: the given one, or a look-up in a table.

    Raises:
        RegardError: without either.
        ShapeError: for a table that is not (N, E).
    """
    if function is not None:
        return function
    embedding = tensors(embedding)
    if embedding is None:
        raise RegardError("Give an embedding, a table (N, E), or an embedding_fn from ids to inputs.")
    if not isinstance(embedding, Tensor):
        if not callable(embedding):
            raise RegardError(f"embedding must be a table (N, E) or a function; got {type(embedding).__name__}.")
        lookup: Embedding = embedding
        return lookup
    if embedding.dim() < 2:
        raise ShapeError(f"embedding must be a table (N, E); got {tuple(embedding.shape)}.")
    table = embedding
    if table.dim() == 2:
        return lambda ids: looked_up(ids, table)
    return lambda ids: table[ids]


def _single(outputs: Any) -> Tensor:
    if not isinstance(outputs, Tensor):
        raise TypeError(f"Ids are sampled from one tensor of logits (B, N); got {type(outputs).__name__}.")
    return outputs
