"""Where a search stands: the rows that are alive, their state, and the sentences they belong to."""

from __future__ import annotations

from typing import Any

import torch
from torch import Generator, Tensor

from regard import tree
from regard.decoding.history import ROOT, History
from regard.errors import RegardError, ShapeError, UnsupportedError
from regard.models.contract import Decoder, Tree
from regard.shapes import describe


class Frontier:
    """B sentences of `width` hypotheses, fed to the decoder step by step. One search owns it; nothing outlives it.

    A decoder that has a twin for searches (`for_search`) is asked for one of so many rows, with its memory, unless it
    has been given a step of its own. Where hypotheses begin alike, the twin takes the first step for one of each
    sentence.

    The memory keeps a row per sentence. When hypotheses move, the state's rows follow their parents; when sentences
    leave, memory and state lose their rows, so `sentences` says which of the original ones each row of memory is.
    """

    def __init__(
        self,
        decoder: Decoder,
        memory: Tree,
        *,
        bos: int,
        eos: int,
        width: int,
        alignment: bool,
        begins_alike: bool = False,
        keep_tokens: bool = False,
        generator: Generator | None = None,
    ) -> None:
        count = tree.rows(memory)
        device = next(tree.leaves(memory)).device
        self.decoder = decoder
        offered = getattr(type(decoder), "for_search", None)
        if offered is not None and "step" not in getattr(decoder, "__dict__", {}):
            self.decoder, memory = offered(decoder, memory, count * width)
            width = 1 if begins_alike and self.decoder is not decoder else width
        self.memory, self.width, self.eos = memory, width, eos
        self.state = self.decoder.initial_state(memory, width)
        self.sentences = torch.arange(count, device=device)
        self.inputs = torch.full((count * width,), bos, dtype=torch.long, device=device)
        self.nodes = torch.full((count, width), ROOT, dtype=torch.long, device=device)
        self.tokens = self.inputs.new_zeros(count * width, 0) if keep_tokens else None
        self.precision = torch.float32 if device.type == "mps" else torch.float64
        self.history = History()
        self.step = 0
        self._arguments: dict[str, Any] = {"alignment": alignment}
        if generator is not None:
            self._arguments["generator"] = generator

    def __len__(self) -> int:
        return len(self.sentences)

    def advance(self) -> Tensor:
        """Takes one step of the decoder: log-probabilities (R, N), in float32 or float64.

        Raises:
            ShapeError, UnsupportedError, RegardError: for an output that cannot be searched.
        """
        output, self.state = self.decoder.step(self.inputs, self.memory, self.state, **self._arguments)
        result = output.log_probabilities
        if result is None:
            raise UnsupportedError("The decoder returns values, not tokens; only log-probabilities can be searched.")
        rows = len(self.inputs)
        if result.dim() != 2 or len(result) != rows:
            raise ShapeError(
                f"A step must return log-probabilities (R, N), R = {len(self)} sentences x {self.width} hypotheses = "
                f"{rows}.\n" + describe({"inputs": ("R", self.inputs), "log_probabilities": ("R N", result)})
            )
        result = result if result.dtype == torch.float64 else result.float()
        if self.step == 0:
            self._check(result)
        alignments = dict(output.alignments) if self._arguments["alignment"] else {}
        for name, weights in alignments.items():
            if weights.dim() != 3 or len(weights) != rows:
                raise ShapeError(
                    f"A step's alignments must be (R={rows}, H, S).\n" + describe({name: ("R H S", weights)})
                )
        self.history.open_level(alignments)
        self.step += 1
        return result

    def _check(self, log_probabilities: Tensor) -> None:
        if not 0 <= self.eos < log_probabilities.shape[1]:
            raise RegardError(f"eos={self.eos} is no token: the decoder knows N={log_probabilities.shape[1]} tokens.")
        total = float(log_probabilities.logsumexp(1).exp().max())
        if total > 1.1:
            raise RegardError(
                f"The probabilities of the first step sum to {total:.3g}, not 1. Does the decoder return logits? "
                "Then apply log_softmax(-1)."
            )

    def require_numbers(self, chosen: Tensor) -> None:
        """Refuses NaN among the chosen log-probabilities, (B, ...): a search through them would mean nothing."""
        if bool(chosen.isnan().any()):
            sentence = int(self.sentences[chosen.isnan().flatten(1).any(1).nonzero()[0, 0]])
            raise RegardError(
                f"The decoder returned NaN at step {self.step}, sentence {sentence} of the batch. Did training "
                "diverge, or is a source empty or fully masked?"
            )

    def move(self, rows: Tensor, tokens: Tensor, nodes: Tensor, kept: Tensor | None = None) -> None:
        """Goes on with hypotheses that extend `rows`.

        Args:
            rows: (B', K) flat rows of the present state that the new hypotheses follow.
            tokens: (B', K) what is fed to the next step.
            nodes: (B', K) where the new hypotheses stand in the history.
            kept: (B',) which of the present sentences stay; None: all.
        """
        if kept is not None:
            self.sentences = self.sentences[kept]
            self.memory = tree.reorder(self.memory, kept)
        self.state = tree.reorder(self.state, rows.flatten())
        self.inputs = tokens.flatten()
        self.nodes = nodes
        self.width = nodes.shape[1]
        if self.tokens is not None:
            self.tokens = torch.cat([self.tokens[rows.flatten()], self.inputs[:, None]], 1)


def length_limits(max_length: int | Tensor, memory: Tree) -> Tensor:
    """(B,) long: the most tokens of each sentence.

    Raises:
        ShapeError: for a tensor that is not (B,) integers.
        RegardError: for a length below 1.
    """
    count, device = tree.rows(memory), next(tree.leaves(memory)).device
    limits = torch.as_tensor(max_length, device=device)
    if limits.is_floating_point() or limits.dtype == torch.bool or limits.shape not in ((), (count,)):
        raise ShapeError(
            f"max_length must be an int or (B={count},) integers.\n" + describe({"max_length": ("B", limits)})
        )
    if count and int(limits.min()) < 1:
        raise RegardError(f"max_length={int(limits.min())}: a sentence needs room for 1 token at least.")
    return limits.long().expand(count)
