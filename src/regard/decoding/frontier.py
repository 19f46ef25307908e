"""The frontier of a search: its live hypotheses, their state, and the sentences that they belong to."""

from __future__ import annotations

from typing import Any

import torch
from torch import Generator, Tensor
from torch.nn.functional import pad

from regard import tree
from regard.decoding.expansion import accumulated
from regard.decoding.history import ROOT, History
from regard.decoding.processor import SearchSource, SearchState
from regard.decoding.result import main_name
from regard.errors import RegardError, ShapeError, UnsupportedError
from regard.models.contract import Decoder, Tree
from regard.models.loop import for_search
from regard.ops import over_steps
from regard.ops.over_steps import Storage
from regard.shapes import describe


class Frontier:
    """B sentences of `width` hypotheses each, which the decoder extends step by step. It belongs to one search.

    The decoder's `step`, or what its class has in its place for searches (`models.loop`), is called within a loop
    (`ops.over_steps`). If all hypotheses begin alike, the first step is taken only once per sentence.

    The memory has a row per sentence. When hypotheses are extended, the rows of the state follow their parents; when
    sentences are finished, memory and state drop their rows, so `sentences` maps the rows of the memory to the original
    sentences.

    If weights are kept, `weights` (R, S) is the sum of the main attention over all steps, `weights_before` that without
    the last one. Hypotheses that are `finished` (R,) but keep their places add nothing to it.
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
        keep_weights: bool = False,
        items: Tensor | None = None,
        source: SearchSource | None = None,
        generator: Generator | None = None,
        storage: Storage = "float32",
    ) -> None:
        count = tree.rows(memory)
        device = next(tree.leaves(memory)).device
        self._named, self._items, self._source = decoder, items, checked_source(source, count, device)
        self.loop = over_steps.Loop(storage)
        with self.loop:
            self.decoder, memory = for_search(decoder, memory, count * width)
        width = 1 if begins_alike else width
        self.memory, self.width, self.eos = memory, width, eos
        self.state = self.decoder.initial_state(memory, width)
        self.sentences = torch.arange(count, device=device)
        self.inputs = torch.full((count * width,), bos, dtype=torch.long, device=device)
        self.nodes = torch.full((count, width), ROOT, dtype=torch.long, device=device)
        self.tokens = self.inputs.new_zeros(count * width, 0) if keep_tokens else None
        self.precision = torch.float32 if device.type == "mps" else torch.float64
        self.history = History()
        self.step = 0
        self.weights: Tensor | None = None
        self.weights_before: Tensor | None = None
        self.finished: Tensor | None = None
        self._peaks = self.inputs.new_zeros(count * width, 0) if keep_weights else None
        self._keeps_alignments = alignment
        self._arguments: dict[str, Any] = {"alignment": alignment or keep_weights}
        if generator is not None:
            self._arguments["generator"] = generator

    def __len__(self) -> int:
        return len(self.sentences)

    def advance(self) -> Tensor:
        """Takes one step of the decoder: log-probabilities (R, N), in float32 or float64.

        Raises:
            ShapeError, UnsupportedError, RegardError: for an output that cannot be searched.
        """
        with self.loop:
            output, self.state = self.decoder.step(self.inputs, self.memory, self.state, **self._arguments)
        result = output.log_probabilities
        if result is None:
            raise UnsupportedError(
                "The decoder returns values, not tokens; only log-probabilities can be searched. Use free_run."
            )
        rows = len(self.inputs)
        if result.dim() != 2 or len(result) != rows:
            raise ShapeError(
                f"A step must return log-probabilities (R, N), R = {len(self)} sentences x {self.width} hypotheses = "
                f"{rows}.\n" + describe({"inputs": ("R", self.inputs), "log_probabilities": ("R N", result)})
            )
        result = result if result.dtype == torch.float64 else result.float()
        if self.step == 0:
            self._check(result)
            if self.loop.stores_bytes and self.decoder is self._named and not self.loop.has_shared:
                kind = type(self._named).__name__
                raise UnsupportedError(f"weights: int8 is impossible here: {kind} multiplies by no `Linear` of regard.")
        alignments = dict(output.alignments) if self._arguments["alignment"] else {}
        for name, weights in alignments.items():
            if weights.dim() != 3 or len(weights) != rows:
                raise ShapeError(
                    f"A step's alignments must be (R={rows}, H, S).\n" + describe({name: ("R H S", weights)})
                )
        if self._keeps_alignments:
            self.history.open_level(alignments, output.auxiliary)
        else:
            self.history.open_level({})
        self.step += 1
        if self._peaks is not None:
            self._add(alignments)
        return result

    def _add(self, alignments: dict[str, Tensor]) -> None:
        """Adds the main attention of a step to the weights; a source that grows gets zeros for the steps before."""
        if not alignments:
            raise UnsupportedError(
                "A penalty or processor reads the weights of the attention, but the decoder returns none."
            )
        latest = alignments[main_name(alignments, self._named)].mean(1).to(self.precision)
        if (mask := self.mask) is not None and mask.shape[-1] != latest.shape[1]:
            raise UnsupportedError(
                "A penalty or processor reads the weights of the attention over the source, but the decoder's main "
                f"attention has {latest.shape[1]} positions, and the source has {mask.shape[-1]}."
            )
        before = latest.new_zeros(len(latest), 0) if self.weights is None else self.weights
        self.weights_before = widened(before, latest.shape[1], 0.0)
        self.weights = accumulated(self.weights_before, latest, self.finished)
        assert self._peaks is not None
        self._peaks = torch.cat([self._peaks, latest.argmax(1, keepdim=True)], 1)

    @property
    def mask(self) -> Tensor | None:
        """(B, 1, S): the real source positions of the sentences that are left."""
        source = self._source
        return None if source is None or source.mask is None else source.mask[self.sentences, None]

    def rows(self) -> Tensor:
        """(R,): the number of each row's sentence in the batch."""
        return self.sentences.repeat_interleave(self.width)

    def seen(
        self, log_probabilities: Tensor, *, ended: Tensor | None = None, may_end: Tensor | None = None
    ) -> SearchState:
        """What processors are told at this step; without the last two, no row has ended and all may end."""
        assert self.tokens is not None
        if ended is None:
            ended = torch.zeros(len(log_probabilities), dtype=torch.bool, device=log_probabilities.device)
        if may_end is None:
            may_end = ~ended
        return SearchState(
            self.tokens,
            log_probabilities,
            self.rows(),
            ended,
            may_end,
            self.eos,
            self._items,
            self._source,
            self.weights,
            self._peaks,
        )

    def _check(self, log_probabilities: Tensor) -> None:
        if not 0 <= self.eos < log_probabilities.shape[1]:
            raise RegardError(f"eos={self.eos} is not a token: the decoder has N={log_probabilities.shape[1]} tokens.")
        total = float(log_probabilities.logsumexp(1).exp().max())
        if total > 1.1:
            raise RegardError(
                f"The probabilities of the first step sum to {total:.3g}, not 1. Does the decoder return logits? "
                "Then apply log_softmax(-1)."
            )

    def require_numbers(self, chosen: Tensor) -> None:
        """Raises an error for NaN among the chosen log-probabilities, (B, ...), with which a search is meaningless."""
        if bool(chosen.isnan().any()):
            sentence = int(self.sentences[chosen.isnan().flatten(1).any(1).nonzero()[0, 0]])
            raise RegardError(
                f"The decoder returned NaN at step {self.step}, sentence {sentence} of the batch. Did training "
                "diverge, or is a source empty or fully masked?"
            )

    def move(self, rows: Tensor, tokens: Tensor, nodes: Tensor, staying: Tensor | None = None) -> None:
        """Replaces the hypotheses by others that extend them.

        Args:
            rows: (B', K), the flat rows of the state that the new hypotheses extend.
            tokens: (B', K), the inputs of the next step.
            nodes: (B', K), the nodes of the new hypotheses in the history.
            staying: (B',), the indices of the sentences that go on; all if None.
        """
        if staying is not None:
            self.sentences = self.sentences[staying]
            self.memory = tree.reorder(self.memory, staying)
        self.state = tree.reorder(self.state, rows.flatten())
        self.inputs = tokens.flatten()
        self.nodes = nodes
        self.width = nodes.shape[1]
        if self.tokens is not None:
            self.tokens = torch.cat([self.tokens[rows.flatten()], self.inputs[:, None]], 1)
        if self._peaks is not None and self.weights is not None:
            self._peaks, self.weights = self._peaks[rows.flatten()], self.weights[rows.flatten()]


def widened(rows: Tensor, width: int, value: float) -> Tensor:
    """Rows with at least `width` columns, filled with `value`."""
    return rows if rows.shape[-1] >= width else pad(rows, (0, width - rows.shape[-1]), value=value)


def checked_source(source: SearchSource | None, count: int, device: torch.device) -> SearchSource | None:
    """The source on the device of the search.

    Raises:
        ShapeError: for ids or a mask that are not (B, S).
    """
    if source is None:
        return None
    for name, tensor in (("ids", source.ids), ("mask", source.mask)):
        if tensor is not None and (tensor.dim() != 2 or len(tensor) != count):
            raise ShapeError(f"source.{name} must be (B={count}, S).\n" + describe({name: ("B S", tensor)}))
    if source.mask is not None and source.mask.dtype != torch.bool:
        raise ShapeError(f"source.mask must be bool, True at real positions; got {source.mask.dtype}.")
    return SearchSource(*(None if x is None else x.to(device) for x in (source.ids, source.mask)))


class MinimumLengths:
    """The fewest tokens of each sentence before its end.

    Args:
        least: a number, or (B,) integers, one per sentence.
        floor: that of all.

    Raises:
        ShapeError: for a tensor that is not (B,) integers.
    """

    def __init__(self, least: int | Tensor | None, floor: int, memory: Tree) -> None:
        count, device = tree.rows(memory), next(tree.leaves(memory)).device
        given = torch.as_tensor(floor if least is None else least, device=device)
        if given.is_floating_point() or given.dtype == torch.bool or given.shape not in ((), (count,)):
            raise ShapeError(
                f"min_length must be an int or (B={count},) integers.\n" + describe({"min_length": ("B", given)})
            )
        self._least = given.long().expand(count).clamp(min=floor)
        self._shortest, self._longest = (int(self._least.min()), int(self._least.max())) if count else (0, 0)

    def reached(self, sentences: Tensor, step: int) -> Tensor | bool:
        """Whether the token of this step may be the end: of all of these sentences, of none, or of each (B', 1)."""
        if step > self._longest:
            return True
        return False if step <= self._shortest else (self._least[sentences] < step)[:, None]


def length_limits(max_length: int | Tensor, memory: Tree) -> Tensor:
    """(B,) long: the largest number of tokens, or of steps, of each sentence.

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
        raise RegardError(f"max_length={int(limits.min())}: a sentence needs room for at least 1 token.")
    return limits.long().expand(count)
