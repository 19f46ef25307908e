"""Whether cross-entropy teaches a mechanism where to look."""

from __future__ import annotations

import torch

from regard.attention import Mechanism
from regard.config.schema import ModelConfig
from regard.errors import ConfigError
from regard.models import EncoderDecoder, RecurrentDecoder

ROWS, STEPS, SOURCE = 64, 4, 5


def check_teachable(model: EncoderDecoder, config: ModelConfig) -> None:
    """Refuses a mechanism whose score a training by cross-entropy would leave as it was at random.

    Raises:
        ConfigError: where no parameter of the score gets a gradient from what is read, as of a choice of one position.
    """
    mechanism, decoder = model.decoder.attention, config.decoder
    if config.attention is None or not isinstance(mechanism, Mechanism):
        return
    query_size = RecurrentDecoder.query_size(decoder.size, decoder.layers, cell=decoder.cell, query=decoder.query)
    if score_learns(mechanism, query_size, model.encoder.stack.output_size, decoder.embedding_size):
        return
    raise ConfigError(
        f"{config.attention.recipe}, as it is set here, chooses one position, and a choice passes no gradient to the "
        "score that makes it. A training from a configuration minimises only cross-entropy: where it looks would stay "
        "random. Leave `hard` out, or take `hard: evaluation` or a `mix` above 0, whichever the recipe has; or train "
        "from Python with regard.losses.reinforce",
        ("model", "attention"),
    )


def score_learns(mechanism: Mechanism, query_size: int, memory_size: int, input_size: int) -> bool:
    """Whether what is read has a gradient for any parameter of the score; True for a score that has none.

    Sixty-four rows and four steps of noise: enough that a choice that is soft now and then is soft here too.
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
        read = (attended.context * torch.randn_like(attended.context)).sum()
        gradients = torch.autograd.grad(read, parameters, allow_unused=True) if read.requires_grad else ()
    mechanism.train(was_training)
    return any(gradient is not None and bool(gradient.any()) for gradient in gradients)
