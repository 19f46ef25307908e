"""Sampling: tokens drawn from the model's distribution, which may be truncated first.

Truncations set the log-probabilities of other tokens to -inf. They are applied in the order of this file, each to the
tokens that are left.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf, log

import torch
from torch import Tensor

from regard import tree
from regard.config.search import Search
from regard.decoding.live_beam import LiveBeam
from regard.decoding.penalty import NoPenalty
from regard.decoding.request import Request, Steps
from regard.decoding.rollout import roll_out
from regard.decoding.rules import rules_of
from regard.errors import ConfigError, ShapeError
from regard.models.contract import Tree
from regard.ops import largest
from regard.ops.dropout import LOW, philox
from regard.shapes import Float, Int

BLOCK = 1 << 16
"""About how many random numbers are computed together; with few hypotheses, those of several steps."""
SITE = 0x53414D50
"""The constant that separates these hashes from those of dropout."""
FEW = 100
"""Tokens that a truncation sorts first; they usually have the requested probability."""


def drawing_steps(request: Request, options: Search, width: int) -> Steps:
    """Draws `width` samples per sentence, whatever the method of the options, and sorts them, best first.

    Because they are sorted, the first of several is not a fair draw; a width of 1 gives one. Log-probabilities are
    those of the model, before temperature and truncations.

    A token is selected by a number u, uniform between 0 and 1, in the cumulative probabilities. As u is a hash of seed,
    item, sample and step, the samples of an item do not depend on its batch.
    """
    memory, generator = request.memory, request.generator
    if request.penalty is not None and options.method != "beam":
        raise ConfigError(
            f"A penalty ranks the hypotheses of method beam; got method={options.method!r}.", ("decoding", "method")
        )
    if options.seed is not None and generator is not None:
        raise ConfigError("Give a seed or a generator, not both.", ("decoding", "seed"))
    device = next(tree.leaves(memory)).device
    seed = options.seed
    if seed is None:
        seed = int(torch.randint(2**31, (), generator=generator, device=device if generator else "cpu"))
    items = items_of(memory, request.items)
    needs = "a beam of at least 2; samples are drawn one by one"
    rules = rules_of(request, options, penalty=NoPenalty(), no_include=needs)
    if options.seed is None:
        rules = replace(rules, constant=None)
    else:
        generator = torch.Generator(device).manual_seed(seed)
    choose = chooser(options, width, items, seed)
    return roll_out(replace(request, items=items), options, rules, choose, width=width, generator=generator)


def items_of(memory: Tree, items: Tensor | None) -> Int[Tensor, " B"]:
    """The numbers that make the samples of sentences differ, from 0 if None.

    Raises:
        ShapeError: unless they are (B,) long.
    """
    count, device = tree.rows(memory), next(tree.leaves(memory)).device
    items = torch.arange(count, device=device) if items is None else items.to(device)
    if items.shape != (count,) or items.dtype != torch.long:
        raise ShapeError(f"items must be (B={count},) numbers of type long; got {tuple(items.shape)}, {items.dtype}.")
    return items


def chooser(options: Search, width: int, items: Int[Tensor, " B"], seed: int) -> Callable[[Tensor, LiveBeam], Tensor]:
    """The function that draws tokens (R,) from log-probabilities (R, N), for `roll_out`."""
    ahead = min(max(BLOCK // max(len(items) * width, 1), 1), 32)
    numbers = torch.empty(0, 0)

    def choose(log_probabilities: Tensor, live_beam: LiveBeam) -> Tensor:
        nonlocal numbers
        rows = live_beam.sentences[:, None] * width + torch.arange(width, device=items.device)
        if isinstance(live_beam.step, Tensor):  # a recording reads tensors of the live beam only
            assert live_beam.items is not None
            now = uniform(live_beam.items, width, live_beam.step[None] - 1, seed).flatten()[rows.flatten()]
            return draw(log_probabilities, now)
        if (step := (live_beam.step - 1) % ahead) == 0:
            steps = torch.arange(ahead, device=items.device) + live_beam.step - 1
            numbers = uniform(items, width, steps, seed).flatten(0, 1)
        return draw(log_probabilities, numbers[rows.flatten(), step])

    def draw(log_probabilities: Tensor, numbers: Tensor) -> Tensor:
        logits = truncated(
            heated(log_probabilities, options.temperature),
            options.top_k,
            options.top_p,
            options.min_p,
            options.typical_p,
        )
        return drawn(logits, numbers)

    return choose


def uniform(items: Int[Tensor, " B"], width: int, steps: Int[Tensor, " T"], seed: int) -> Float[Tensor, "B K T"]:
    """Numbers in [0, 1) for `width` samples of each item at given steps: hashes with 53 bits.

    Source: `regard.ops.dropout.philox`.
    """
    samples = torch.arange(width, device=items.device)
    shape = len(items), width, len(steps)
    low, high = ((word & LOW)[:, None, None].expand(shape) for word in (items, items >> 32))
    first, second, _, _ = philox((steps.expand(shape), samples[:, None].expand(shape), low, high), (seed, SITE))
    if items.device.type == "mps":  # it has no float64
        return (first >> 8).float() * 2.0**-24
    return ((first << 21) | (second >> 11)).double() * 2.0**-53


def drawn(logits: Float[Tensor, "R N"], numbers: Float[Tensor, " R"]) -> Int[Tensor, " R"]:
    """The token of each row at which the cumulative probability exceeds a number from 0 to 1.

    Where a logit is NaN, or all are -inf, the token has that logit.

    >>> drawn(torch.tensor([[0.5, 0.25, 0.25]]).log().expand(3, 3), torch.tensor([0.4, 0.6, 0.8]))
    tensor([0, 1, 2])
    """
    top = logits.amax(1, keepdim=True)
    cumulative = (logits - top.masked_fill(top.isneginf(), 0)).exp().cumsum(1, dtype=numbers.dtype)
    total = cumulative[:, -1:]
    below = torch.minimum(numbers[:, None] * total, total * (1 - torch.finfo(numbers.dtype).eps / 2))
    tokens = torch.searchsorted(cumulative, below, right=True)[:, 0].clamp(max=logits.shape[1] - 1)
    return torch.where(total[:, 0] > 0, tokens, logits.argmax(1))


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


def truncated(
    log_probabilities: Float[Tensor, "R N"],
    top_k: int | None = None,
    top_p: float = 1.0,
    min_p: float = 0.0,
    typical_p: float = 1.0,
) -> Float[Tensor, "R N"]:
    """Keeps `top_k` tokens, of these `top_p`, of these `min_p`, of these `typical_p`; at least one in each row.

    Args:
        log_probabilities: (R, N), not necessarily normalised.
        top_k, top_p, min_p, typical_p: as in the functions `keep_…`; by default all tokens are kept.

    >>> truncated(torch.tensor([[0.5, 0.3, 0.2]]).log(), top_p=0.7).exp()
    tensor([[0.5000, 0.3000, 0.0000]])
    """
    if top_k is not None and top_k < log_probabilities.shape[1]:
        log_probabilities = keep_top_k(log_probabilities, top_k)
    if top_p < 1:
        log_probabilities = keep_top_p(log_probabilities, top_p)
    if min_p > 0:
        log_probabilities = keep_min_p(log_probabilities, min_p)
    if typical_p < 1:
        log_probabilities = keep_typical(log_probabilities, typical_p)
    return log_probabilities


def keep_top_k(log_probabilities: Float[Tensor, "R N"], count: int) -> Float[Tensor, "R N"]:
    """The `count` most probable tokens, the first ones among equals (Fan 2018)."""
    values, indices = largest(log_probabilities, count)
    return torch.full_like(log_probabilities, -inf).scatter(1, indices, values)


def keep_top_p(log_probabilities: Float[Tensor, "R N"], mass: float) -> Float[Tensor, "R N"]:
    """The fewest, most probable tokens that together have the probability `mass` (nucleus sampling, Holtzman 2020)."""
    return _keep_mass(log_probabilities, log_probabilities, mass)


def keep_min_p(log_probabilities: Float[Tensor, "R N"], share: float) -> Float[Tensor, "R N"]:
    """Tokens at least `share` times as probable as the most probable one.

    Source: Nguyen et al. 2024, Turning Up the Heat: Min-p Sampling for Creative and Coherent LLM Outputs
    (arXiv 2407.01082), section 3.
    """
    top = log_probabilities.amax(1, keepdim=True)
    return log_probabilities.masked_fill(log_probabilities < top + log(share), -inf)


def keep_typical(log_probabilities: Float[Tensor, "R N"], mass: float) -> Float[Tensor, "R N"]:
    """The fewest tokens that together have the probability `mass`, in the order of |-log p - H|, the distance of their
    information from the entropy H = -Σ p log p.

    Source: Meister et al. 2022, Locally Typical Sampling (arXiv 2202.00666), section 4.

    >>> keep_typical(torch.tensor([[0.4, 0.3, 0.15, 0.15]]).log(), 0.25).exp()
    tensor([[0.0000, 0.3000, 0.0000, 0.0000]])
    """
    normalised = log_probabilities.log_softmax(1)
    information = -normalised
    entropy = (normalised.exp() * information).masked_fill(normalised.isneginf(), 0).sum(1, keepdim=True)
    return _keep_mass(log_probabilities, -(information - entropy).abs(), mass)


def _keep_mass(
    log_probabilities: Float[Tensor, "R N"], order: Float[Tensor, "R N"], mass: float
) -> Float[Tensor, "R N"]:
    """The fewest tokens that together have the probability `mass`, those with the largest `order` first.

    `FEW` tokens of each row are sorted first, and all tokens only in rows where those have less.
    """
    total = log_probabilities.logsumexp(1, keepdim=True)

    def kept(rows: Tensor, count: int) -> tuple[Tensor, Tensor]:
        _, indices = largest(order[rows], count)
        values = log_probabilities[rows].gather(1, indices)
        probabilities = (values - total[rows]).exp()
        reached = probabilities.cumsum(1)
        before = reached - probabilities
        values = values.masked_fill((before >= mass) & (before > 0), -inf)
        return torch.full_like(log_probabilities[rows], -inf).scatter(1, indices, values), reached[:, -1] < mass

    everything, num_tokens = torch.arange(len(order), device=order.device), order.shape[1]
    few = FEW if order.device.type == "cpu" else num_tokens  # on a GPU, reading which rows have less would wait
    result, short = kept(everything, min(few, num_tokens))
    if num_tokens > few and len(more := short.nonzero()[:, 0]):
        result[more] = kept(more, num_tokens)[0]
    return result
