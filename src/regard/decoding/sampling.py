"""Sampling: outputs drawn from the model's distribution."""

from __future__ import annotations

from math import inf

import torch
from torch import Generator, Tensor

from regard import tree
from regard.decoding.options import Sampling
from regard.decoding.penalty import NoPenalty
from regard.decoding.result import Hypothesis
from regard.decoding.rollout import roll_out
from regard.errors import ConfigError
from regard.models.contract import Decoder, Tree
from regard.ops import largest


def sample(
    decoder: Decoder,
    memory: Tree,
    options: Sampling | None = None,
    *,
    bos: int,
    eos: int,
    max_length: int | Tensor,
    alignment: bool = False,
    generator: Generator | None = None,
) -> list[list[Hypothesis]]:
    """Draws `num_samples` hypotheses per sentence and sorts them, best first.

    As they are sorted, the first of several is not a fair draw; `num_samples=1` gives one. Log-probabilities are those
    of the model, before temperature, top_k and top_p.

    Args and Raises: as in `search`.
        generator: instead of a seed, on the device of the memory; a decoder that draws (hard attention) uses it, too.
    """
    options = Sampling() if options is None else options
    if options.seed is not None:
        if generator is not None:
            raise ConfigError("Give a seed or a generator, not both.", ("decoding", "seed"))
        device = next(tree.leaves(memory)).device
        generator = torch.Generator(device).manual_seed(options.seed)

    def draw(log_probabilities: Tensor) -> Tensor:
        logits = truncated(heated(log_probabilities, options.temperature), options.top_k, options.top_p)
        noise = torch.empty_like(logits).exponential_(generator=generator)
        return (logits - noise.clamp(min=torch.finfo(noise.dtype).tiny).log()).argmax(1)

    return roll_out(
        decoder,
        memory,
        options,
        draw,
        NoPenalty(),
        width=options.num_samples,
        bos=bos,
        eos=eos,
        max_length=max_length,
        alignment=alignment,
        generator=generator,
    )


def heated(log_probabilities: Tensor, temperature: float) -> Tensor:
    """log p / τ, shifted so that the largest of each row is 0: as τ goes to 0, only the most probable tokens remain.

    >>> heated(torch.tensor([[0.5, 0.25, 0.25]]).log(), 1e-39).exp()
    tensor([[1., 0., 0.]])
    """
    if temperature == 1:
        return log_probabilities
    limits = torch.finfo(log_probabilities.dtype)
    top = log_probabilities.amax(1, keepdim=True)
    below = log_probabilities - top.masked_fill(top.isneginf(), 0)
    return below / min(max(temperature, limits.tiny), limits.max)


def truncated(log_probabilities: Tensor, top_k: int | None = None, top_p: float = 1.0) -> Tensor:
    """Keeps the `top_k` most probable tokens, and of these the fewest that reach `top_p`; others get -inf.

    Args:
        log_probabilities: (R, N), not necessarily normalised: `top_p` is a share of what `top_k` keeps. At least one
            token per row is kept.

    >>> truncated(torch.tensor([[0.5, 0.3, 0.2]]).log(), top_p=0.7).exp()
    tensor([[0.5000, 0.3000, 0.0000]])
    """
    if top_k is None and top_p == 1:
        return log_probabilities
    values, indices = largest(log_probabilities, log_probabilities.shape[1] if top_k is None else top_k)
    probabilities = values.softmax(1)
    before = probabilities.cumsum(1) - probabilities
    values = values.masked_fill((before >= top_p) & (before > 0), -inf)
    return torch.full_like(log_probabilities, -inf).scatter(1, indices, values)
