"""A decoder of changes of values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import Generator, Tensor, nn

from regard.attention.contract import Tree
from regard.errors import UnsupportedError
from regard.layers.values import QUANTILES
from regard.models.contract import Decoder, DecoderOutput, Encoded
from regard.models.loop import for_search


class ChangeDecoder(nn.Module):
    """A decoder of values whose core predicts changes: y_t = x_t + core(x_t).

    x_t are the first F inputs of step t: the last observation, then the last output or its reference. Further inputs,
    such as known futures, are only inputs of the core. If the core returns 0, the last observation is repeated, so a
    series continues at its level even if training had no such level. The `quantiles` of a `QuantileHead` are shifted
    like the values; other auxiliaries are not changed. Missing values (NaN) must be filled before.

    Args:
        core: a decoder of values, with the methods of `Decoder`.

    Raises:
        UnsupportedError: for a core whose `continuous` is False.

    Source: the residual connection over a recurrent decoder of Martinez, Black & Romero 2017 (arXiv 1705.02445).
    """

    core: Any

    def __init__(self, core: Decoder) -> None:
        super().__init__()
        if not getattr(core, "continuous", True):
            raise UnsupportedError("The core must be continuous: changes are added to values.")
        self.core = core
        self.continuous = True
        self.main_attention = getattr(core, "main_attention", None)

    def prepare(self, encoded: Encoded) -> Tree:
        """The core's memory."""
        return self.core.prepare(encoded)

    def initial_state(self, memory: Tree, num_hypotheses: int = 1) -> Tree:
        """The core's state before the first step."""
        return self.core.initial_state(memory, num_hypotheses)

    def step(
        self, inputs: Tensor, memory: Tree, state: Tree, *, alignment: bool = False, generator: Generator | None = None
    ) -> tuple[DecoderOutput, Tree]:
        """One output step from inputs (R, I), I ≥ F."""
        output, state = self.core.step(inputs, memory, state, alignment=alignment, generator=generator)
        return _changed(inputs, output), state

    def forward(
        self, inputs: Tensor, memory: Tree, *, alignment: bool = False, generator: Generator | None = None
    ) -> DecoderOutput:
        """All steps, teacher-forced: inputs (B, T, I), I ≥ F."""
        return _changed(inputs, self.core.forward(inputs, memory, alignment=alignment, generator=generator))

    def for_search(self, memory: Tree, num_rows: int) -> tuple[Any, Tree]:
        """This decoder around the object that takes the core's steps in a search, and its memory."""
        core, memory = for_search(self.core, memory, num_rows)
        return (self if core is self.core else ChangeDecoder(core)), memory


def _changed(inputs: Tensor, output: DecoderOutput) -> DecoderOutput:
    """The output of a core, shifted by its last inputs."""
    if output.values is None:
        raise UnsupportedError("The core returns log-probabilities; changes are added to values.")
    last = inputs[..., : output.values.shape[-1]]
    auxiliary = dict(output.auxiliary)
    if QUANTILES in auxiliary:
        auxiliary[QUANTILES] = auxiliary[QUANTILES] + last[..., None]
    return replace(output, values=output.values + last, auxiliary=auxiliary)
