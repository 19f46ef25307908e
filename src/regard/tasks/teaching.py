"""A check that a mechanism learns where to attend from cross-entropy."""

from __future__ import annotations

import torch

from regard.attention import Mechanism
from regard.config.place import KeyPath
from regard.config.schema import AttentionConfig
from regard.errors import ConfigError
from regard.models import RecurrentDecoder

ROWS, STEPS, SOURCE = 64, 4, 5


def check_teachable(
    decoder: RecurrentDecoder,
    config: AttentionConfig | None,
    *,
    memory_size: int,
    path: KeyPath = ("model", "attention"),
) -> None:
    """Refuses a mechanism whose score would keep its random initial values in a training by cross-entropy.

    Args:
        decoder: with the mechanism.
        config: the recipe and its options.
        memory_size: M, of the encoder's states.
        path: of the section, for messages.

    Raises:
        ConfigError: if no parameter of the score gets a gradient from the context, for example because the mechanism
            chooses a single position.
    """
    mechanism, stack = decoder.attention, decoder.stack
    if config is None or not isinstance(mechanism, Mechanism):
        return
    query_size = RecurrentDecoder.query_size(stack.size, stack.num_layers, cell=stack.cell, query=decoder.query)
    if score_learns(mechanism, query_size, memory_size, decoder.embedding.size):
        return
    raise ConfigError(
        f"{config.recipe} with these options chooses a single position, and no gradient flows through that "
        "choice to the score. Training minimises cross-entropy only, so where the model attends would stay random. "
        "Leave `hard` out, or set `hard: evaluation` or a `mix` above 0, whichever the recipe has; or train in Python "
        "with regard.losses.reinforce",
        path,
    )


def score_learns(mechanism: Mechanism, query_size: int, memory_size: int, input_size: int) -> bool:
    """Whether the context has a gradient for any parameter of the score; True for a score without parameters.

    The inputs are noise: sixty-four rows of four steps, so that a choice that is only sometimes soft is soft in one.
    """
    parameters = list(mechanism.score.parameters())
    if not parameters:
        return True
    was_training = mechanism.training
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(0)
        memory = mechanism.train().prepare(torch.randn(ROWS, SOURCE, memory_size))
        queries, inputs = torch.randn(ROWS, STEPS, query_size), torch.randn(ROWS, STEPS, input_size)
        attended, _ = mechanism(queries, memory, inputs=inputs)
        total = (attended.context * torch.randn_like(attended.context)).sum()
        gradients = torch.autograd.grad(total, parameters, allow_unused=True) if total.requires_grad else ()
    mechanism.train(was_training)
    return any(gradient is not None and bool(gradient.any()) for gradient in gradients)
