"""Hard attention to one position that is drawn at random."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from regard import ops
from regard.attention.contract import AbstractAlignment, StepInputs, Tree
from regard.layers import items
from regard.shapes import Bool, Float, Int


@dataclass(frozen=True, slots=True)
class Choice:
    """The positions of hard attention, in float32 or wider; after a sequence each field is (R, T, H).

    Args:
        index: (R, H) long, the position; -1 if the expectation was read, or the support is empty.
        log_probability: (R, H), log p of that position, which `losses.reinforce` increases; 0 where the index is -1.
        entropy: (R, H), of p, in nats.
    """

    index: Int[Tensor, "*rows H"]
    log_probability: Float[Tensor, "*rows H"]
    entropy: Float[Tensor, "*rows H"]


class StochasticAlignment(AbstractAlignment):
    """In training α is 1 at one position, drawn from p = softmax(e / temperature), and 0 elsewhere.

    The drawn weights are constants, so no gradient flows through them. The score learns from the auxiliary, a `Choice`,
    by `losses.reinforce`; without this loss everything but the score is trained. Evaluation takes the most probable
    position (the first of equal ones).

    Draws use the `generator` of the call: one number for each row and head, however long the source is. Without one,
    and within `layers.items.drawing`, they depend on neither the batch nor the number of processes.

    Args:
        temperature: above 1 the draws are more even.
        mix: the probability that a row in training has α = p instead, which is differentiable; the paper uses 0.5 to
            reduce variance.
        evaluation: "argmax", or "expectation" for α = p.

    Source: Xu et al. 2015 (arXiv 1502.03044), section 4.1 (their s_t is our α).
    """

    sources = ("xu2015",)

    is_random = True
    trains_differently = True

    def __init__(
        self, *, temperature: float = 1.0, mix: float = 0.0, evaluation: Literal["argmax", "expectation"] = "argmax"
    ) -> None:
        super().__init__()
        if temperature <= 0:
            raise ValueError(f"temperature={temperature} must be above 0.")
        if not 0 <= mix <= 1:
            raise ValueError(f"mix={mix} is a probability, between 0 and 1.")
        if evaluation not in ("argmax", "expectation"):
            raise ValueError(f"evaluation={evaluation!r} must be 'argmax' or 'expectation'.")
        self.temperature = temperature
        self.mix = mix
        self.evaluation = evaluation

    def forward(
        self, energies: Float[Tensor, "R H S"], support: Bool[Tensor, "R G S"] | None, inputs: StepInputs, state: Tree
    ) -> tuple[Float[Tensor, "R H S"], Tree, Tree]:
        """Weights (R, H, S), and a `Choice`."""
        working = energies.to(torch.promote_types(energies.dtype, torch.float32)) / self.temperature
        expected = ops.masked_softmax(working, support)
        if self.training:
            uniform, coin = self._draw_numbers(expected, inputs)
            chosen = _draw(expected.detach(), uniform)
            if coin is not None:
                chosen = chosen.masked_fill(coin < self.mix, 0)
        elif self.evaluation == "argmax":
            chosen = ops.hardmax(working, support)
        else:
            chosen = torch.zeros_like(expected)
        hard = chosen.any(-1, keepdim=True)
        weights = torch.where(hard, chosen, expected)
        return weights.to(energies.dtype), state, _choice(chosen, expected)

    def _draw_numbers(self, like: Float[Tensor, "R H S"], inputs: StepInputs) -> tuple[Tensor, Tensor | None]:
        """Uniform numbers: (R, H, 1) for the positions and, with `mix`, (R, 1, 1) for the coin."""
        rows, heads, _ = like.shape
        draws = items.current() if inputs.generator is None and not torch.compiler.is_compiling() else None
        if draws is not None and self in draws.sites:
            numbers = draws.uniform(inputs.position, heads + 1, draws.sites[self]).to(like.dtype)[..., None]
            return numbers[:, :heads], numbers[:, heads:] if self.mix > 0 else None
        rand = partial(torch.rand, generator=inputs.generator, device=like.device)
        return rand(rows, heads, 1, dtype=like.dtype), rand(rows, 1, 1) if self.mix > 0 else None


def _draw(probabilities: Float[Tensor, "R H S"], uniform: Float[Tensor, "R H 1"]) -> Float[Tensor, "R H S"]:
    """1 at the first position whose cumulative probability exceeds the uniform number, scaled to the sum."""
    if probabilities.shape[-1] == 0:
        return torch.zeros_like(probabilities)
    cumulative = probabilities.cumsum(-1)
    beyond = (cumulative > uniform * cumulative[..., -1:]) & (probabilities > 0)
    return ops.hardmax(beyond.to(cumulative.dtype), beyond)


def _choice(chosen: Float[Tensor, "R H S"], probabilities: Float[Tensor, "R H S"]) -> Choice:
    logarithms = ops.safe_log(probabilities)
    logarithms = logarithms.masked_fill(logarithms.isneginf(), 0)
    positions = torch.arange(1, chosen.shape[-1] + 1, device=chosen.device)
    return Choice(
        (chosen.bool() * positions).sum(-1) - 1,
        logarithms.masked_fill(chosen == 0, 0).sum(-1),
        -(probabilities * logarithms).sum(-1),
    )
