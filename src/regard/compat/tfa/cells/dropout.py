"""Dropout around a cell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from regard import tree
from regard.attention.contract import Tree
from regard.compat.tfa.cells.contract import AbstractCellWrapper, LSTMStateTuple
from regard.compat.tfa.layers.deferred import Type
from regard.errors import ConfigError, UnsupportedError
from regard.layers import Dropout


class DropoutWrapper(AbstractCellWrapper):
    """Dropout on inputs, outputs and state of a cell: each number is kept with a probability, and divided by it.

    Numbers are dropped in training only (`train()` and `eval()` decide), by `regard.layers.Dropout`; in TensorFlow 1
    the probabilities themselves had to be 1 in evaluation.

    Args:
        input_keep_prob, output_keep_prob, state_keep_prob: probabilities above 0, at most 1. Of an LSTM's state only h
            is dropped in an `LSTMStateTuple`, as there; the output of the same step is dropped on its own.
        variational_recurrent: refused: the original keeps one mask for all steps and calls.
        input_size, dtype: without effect: the inputs tell.
        seed: of the masks; None leaves them to torch's generator, or to `regard.layers.items.drawing`.
        dropout_state_filter_visitor: from a node of the state to whether it is dropped, for a tensor, or for a tuple a
            tuple of such answers; None drops all but c of an `LSTMStateTuple`.

    Source: Zaremba, Sutskever & Vinyals 2014 (arXiv 1409.2329); `tf.nn.rnn_cell.DropoutWrapper`.
    """

    def __init__(
        self,
        cell: Any,
        input_keep_prob: float = 1.0,
        output_keep_prob: float = 1.0,
        state_keep_prob: float = 1.0,
        variational_recurrent: bool = False,
        input_size: Any = None,
        dtype: Type = None,
        seed: int | None = None,
        dropout_state_filter_visitor: Callable[[Any], Any] | None = None,
    ) -> None:
        super().__init__(cell)
        if variational_recurrent:
            raise UnsupportedError(
                "variational_recurrent=True: one mask for all steps is not supported; leave it out, or use zoneout or "
                "dropout on the state of regard.layers.CellStack."
            )
        kept = {"input": input_keep_prob, "output": output_keep_prob, "state": state_keep_prob}
        for name, probability in kept.items():
            if not 0 < probability <= 1:
                raise ConfigError(f"{name}_keep_prob={probability} is a probability: give a number above 0, at most 1.")
        self.input_dropout, self.output_dropout, self.state_dropout = (
            Dropout(1 - probability) if seed is None else SeededDropout(1 - probability, seed + number)
            for number, probability in enumerate(kept.values())
        )
        self.filter = dropout_state_filter_visitor or _drops_all_but_c

    def forward(self, inputs: Tree, state: Tree) -> tuple[Tensor, Tree]:
        if self.input_dropout.p:
            inputs = tree.map(lambda leaf: self.input_dropout(leaf), inputs)
        output, new = self.cell(inputs, state)
        if self.state_dropout.p:
            new = self._drop_state(new, self.filter(new), [0])
        return (self.output_dropout(output) if self.output_dropout.p else output), new

    def _drop_state(self, state: Tree, wanted: Any, count: list[int]) -> Tree:
        """The state with dropped tensors; `count` numbers them, so that each is dropped on its own."""
        if isinstance(state, Tensor):
            count[0] += 1
            return self.state_dropout(state, layer=count[0]) if wanted else state
        parts = [
            self._drop_state(part, self.filter(part) if wanted is True else answer, count)
            for part, answer in zip(state, wanted if isinstance(wanted, tuple) else (wanted,) * len(state))
        ]
        return type(state)(*parts) if hasattr(state, "_fields") else tuple(parts)


def _drops_all_but_c(state: Any) -> Any:
    return LSTMStateTuple(False, True) if isinstance(state, LSTMStateTuple) else True


class SeededDropout(nn.Module):
    """Dropout whose masks follow each other from a seed.

    Args:
        p: the probability that a number is dropped.
        seed: of the first mask.
    """

    def __init__(self, p: float, seed: int) -> None:
        super().__init__()
        self.p, self.seed = p, seed
        self._generator: torch.Generator | None = None

    def forward(self, x: Tensor, *, layer: int = 0) -> Tensor:
        """Drops in training."""
        if not self.training or not self.p:
            return x
        if self._generator is None or self._generator.device != x.device:
            self._generator = torch.Generator(x.device).manual_seed(self.seed)
        kept = torch.empty_like(x).bernoulli_(1 - self.p, generator=self._generator)
        return x * kept / (1 - self.p)
