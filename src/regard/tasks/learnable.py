"""Checks that the loss of a training can teach a mechanism where to attend."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard import tree
from regard.attention import Mechanism, Projected, Refined
from regard.attention.alignments import Choice
from regard.attention.interface import AbstractAttention
from regard.config.place import KeyPath, dotted
from regard.config.schema import AlignmentTrainingConfig, AttentionConfig
from regard.errors import ConfigError
from regard.models import RecurrentDecoder

ROWS, STEPS, SOURCE = 64, 4, 5
ATTENTION = ("model", "attention")
LOSSES = ("training", "alignment_losses")
REINFORCE = ("training", "reinforce")


@dataclass(frozen=True, slots=True)
class LearningSignals:
    """The signals from which the score of a mechanism can learn.

    Args:
        context: whether the context has a gradient with respect to it, as cross-entropy needs.
        weights: whether the weights have one, as losses on alignments need.
        draws: whether positions are drawn, as REINFORCE needs.
    """

    context: bool
    weights: bool
    draws: bool


def check_learnable(
    decoder: RecurrentDecoder,
    config: AttentionConfig | None,
    training: AlignmentTrainingConfig | None = None,
    *,
    memory_size: int,
) -> None:
    """Refuses a mechanism whose score would keep its random initial values, and losses without effect on it.

    Args:
        config: the recipe and its options; None without attention.
        training: the losses on alignments; None for a task without them.
        memory_size: M, of the encoder's states.

    Raises:
        ConfigError: if the context has no gradient with respect to the score, for example because the mechanism chooses
            a single position, and REINFORCE does not train it; or for a loss that cannot train it.
    """
    mechanism, stack = decoder.attention, decoder.stack
    if config is None or not isinstance(mechanism, Mechanism):
        if training is not None:
            signals = LearningSignals(context=True, weights=False, draws=False)
            _check_losses(training, signals, "a model without attention")
        return
    query_size = RecurrentDecoder.query_size(stack.size, stack.num_layers, cell=stack.cell, query=decoder.query)
    signals = learning_signals(mechanism, query_size, memory_size, decoder.embedding.size)
    _check(signals, config, training, ATTENTION, has_reinforce=training is not None)


def check_layer(
    attention: AbstractAttention,
    config: AttentionConfig,
    training: AlignmentTrainingConfig | None = None,
    *,
    sizes: tuple[int, int, int],
    path: KeyPath = ATTENTION,
) -> None:
    """As `check_learnable`, for the attention of a Transformer's layer, which REINFORCE cannot train.

    Args:
        training: the losses on its alignments; None where there are none.
        sizes: Q, M and the width of the inputs.
        path: of the section of the attention, for messages.
    """
    mechanism = attention.attention if isinstance(attention, Projected | Refined) else attention
    if not isinstance(mechanism, Mechanism):
        return
    if training is not None and training.reinforce is not None:
        raise ConfigError("reinforce needs a recurrent decoder, and this one is a Transformer; leave it out", REINFORCE)
    _check(learning_signals(mechanism, *sizes), config, training, path, has_reinforce=False)


def _check(
    signals: LearningSignals,
    config: AttentionConfig,
    training: AlignmentTrainingConfig | None,
    path: KeyPath,
    *,
    has_reinforce: bool,
) -> None:
    """Refuses losses without effect, and a score that does not learn."""
    if training is not None:
        _check_losses(training, signals, f"{config.recipe} with these options")
    if signals.context or (training is not None and training.reinforce is not None):
        return
    remedies = "Leave `hard` out, or set `hard: evaluation` or a `mix` above 0, whichever the recipe has"
    if signals.draws:
        remedies += (
            f"; or set {dotted(REINFORCE)}: {{}}"
            if has_reinforce
            else "; or train in Python with regard.losses.reinforce"
        )
    raise ConfigError(
        f"{config.recipe} with these options chooses a single position, and no gradient flows through that choice to "
        "the score. Training minimises the error of the outputs only, so where the model attends would stay random. "
        f"{remedies}",
        path,
    )


def _check_losses(training: AlignmentTrainingConfig, signals: LearningSignals, subject: str) -> None:
    """Refuses losses on alignments, and REINFORCE, that have no effect."""
    if not signals.weights and (name := next(iter(training.alignment_weights), None)) is not None:
        raise ConfigError(
            f"{name} has no effect on {subject}: there are no alignments with a gradient; leave it out", (*LOSSES, name)
        )
    if not signals.draws and training.reinforce is not None:
        raise ConfigError(
            f"reinforce has no effect on {subject}, which draws no positions; leave it out, or set model.attention to "
            "{recipe: show_attend_tell, hard: true}",
            REINFORCE,
        )


def learning_signals(mechanism: Mechanism, query_size: int, memory_size: int, input_size: int) -> LearningSignals:
    """The signals of a mechanism in training, tried with noise; a score without parameters needs no gradient.

    With sixty-four rows of four steps, a choice that is only sometimes soft is soft in one of them.
    """
    parameters = list(mechanism.score.parameters())
    was_training = mechanism.training
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(0)
        memory = mechanism.train().prepare(torch.randn(ROWS, SOURCE, memory_size))
        queries, inputs = torch.randn(ROWS, STEPS, query_size), torch.randn(ROWS, STEPS, input_size)
        attended, _ = mechanism(queries, memory, inputs=inputs, alignment=True)
        results = [attended.context, *tree.leaves(attended.alignment)]
        context, *weights = (not parameters or _reaches(result, parameters) for result in results)
    mechanism.train(was_training)
    return LearningSignals(context, any(weights), isinstance(attended.auxiliary, Choice))


def _reaches(result: Tensor, parameters: list[nn.Parameter]) -> bool:
    """Whether a result has a gradient with respect to any parameter."""
    total = (result * torch.randn_like(result)).sum()
    if not total.requires_grad:
        return False
    gradients = torch.autograd.grad(total, parameters, allow_unused=True, retain_graph=True)
    return any(gradient is not None and bool(gradient.any()) for gradient in gradients)
