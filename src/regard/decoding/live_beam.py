"""The live beam of a search: its live hypotheses, their state, and the sentences that they belong to."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import torch
from torch import Generator, Tensor
from torch.nn.functional import pad

from regard import tree
from regard.decoding import recorded
from regard.decoding.expansion import accumulated
from regard.decoding.history import ROOT, History, StepNodes
from regard.decoding.processor import SearchSource, SearchState, uses_weights
from regard.decoding.request import Request
from regard.decoding.result import main_name
from regard.errors import RegardError, ShapeError, UnsupportedError
from regard.models.contract import Tree
from regard.models.loop import for_search
from regard.ops import over_steps
from regard.ops.over_steps import Storage
from regard.ops.recording import Recordings
from regard.shapes import Bool, Int, describe

TreeT = TypeVar("TreeT")
CHANGING = (
    "memory",
    "state",
    "sentences",
    "inputs",
    "nodes",
    "weights",
    "weights_before",
    "finished",
    "_least",
    "items",
    "_source",
)
"""The attributes of a live beam that a recorded step reads and writes."""


class LiveBeam:
    """B sentences of `width` hypotheses each, which the decoder extends step by step. It belongs to one search.

    The decoder's `step`, or what its class has in its place for searches (`models.loop`), is called within a loop
    (`ops.over_steps`). If all hypotheses begin alike, the first step is taken only once per sentence.

    The memory has a row per sentence. When hypotheses are extended, the rows of the state follow their parents; when
    sentences are finished, memory and state drop their rows, so `sentences` maps the rows of the memory to the original
    sentences.

    If weights are kept, `weights` (R, S) is the sum of the main attention over all steps, `weights_before` that without
    the last one. Hypotheses that are `finished` (R,) but keep their places add nothing to it.

    On a GPU the steps are recorded where nothing is in the way (`decoding.recorded`): all that changes is in tensors,
    `step` included, sentences that have ended stay for a while, and `leaving` asks for them now and then.

    Args:
        request: what is searched for.
        min_length: of all sentences, beside the request's.
        keep_tokens: whether processors or phrases read the tokens so far.
        readers: penalty and processors, which may ask for the weights of the attention.
        generator: for decoders that draw.
        constant: beside the request, all that the steps of the search depend on, or None if that is not known.
    """

    def __init__(
        self,
        request: Request,
        *,
        width: int,
        min_length: int,
        begins_alike: bool = False,
        keep_tokens: bool = False,
        readers: Sequence[object] = (),
        generator: Generator | None = None,
        storage: Storage = "float32",
        constant: Hashable = None,
    ) -> None:
        decoder, memory, eos = request.decoder, request.memory, request.eos
        count = tree.rows(memory)
        device = next(tree.leaves(memory)).device
        self._named, self.items = decoder, request.items
        self._source = checked_source(request.source, count, device)
        self._minimum = MinimumLengths(request.min_length, min_length, memory)
        self._least = self._minimum.least
        self._recordings: Recordings | None = None
        if constant is not None and not (keep_tokens or request.streaming):
            found = recorded.recordings_of(decoder, next(tree.leaves(memory))) if storage == "float32" else None
            self._recordings, weights = (None, None) if found is None else found
            # as text, which keeps its hash
            self._form = repr((constant, eos, width, request.alignment, weights, self._minimum.longest > 1))
        # what a loop shares is made in a step, and would be frozen into a recording
        self.loop = over_steps.Loop(storage, is_idle=self.is_recorded)
        with self.loop:
            self.decoder, memory = for_search(decoder, memory, count * width)
        width = 1 if begins_alike else width
        self.memory, self.width, self.eos = memory, width, eos
        self.longest = int(length_limits(request.max_length, memory).max())
        self.state = self.decoder.initial_state(memory, width)
        if self.is_recorded:
            self.state = recorded.with_room(self.state, self.longest)
        self.sentences = torch.arange(count, device=device)
        self.inputs = torch.full((count * width,), request.bos, dtype=torch.long, device=device)
        self.nodes = torch.full((count, width), ROOT, dtype=torch.long, device=device)
        self.tokens = self.inputs.new_zeros(count * width, 0) if keep_tokens else None
        self.precision = torch.float32 if device.type == "mps" else torch.float64
        self.history = History()
        self.step: int | Tensor = 0
        self.num_steps = 0
        self._first: int | Tensor = 0  # the number of the next node
        self._level = StepNodes()
        self._nodes: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
        self.weights: Tensor | None = None
        self.weights_before: Tensor | None = None
        self.finished: Tensor | None = None
        keep_weights = any(map(uses_weights, readers))
        self._keeps_weights = keep_weights
        self._peaks = self.inputs.new_zeros(count * width, 0) if keep_weights and keep_tokens else None
        self._keeps_alignments = request.alignment
        self._arguments: dict[str, Any] = {"alignment": request.alignment or keep_weights}
        if generator is not None:
            self._arguments["generator"] = generator

    def __len__(self) -> int:
        return len(self.sentences)

    @property
    def is_recorded(self) -> bool:
        """Whether steps are recorded, so that nothing in them may wait for the device."""
        return self._recordings is not None

    def take(self, step: Callable[[TreeT], TreeT], own: TreeT) -> TreeT:
        """Takes a step of the search, which calls `advance`, `grow` and `move`.

        Args:
            step: from what the search keeps, a tree of tensors, to what it keeps then.
        """
        self.num_steps += 1
        if self._recordings is None:
            own = step(own)
        elif self.num_steps == 1:
            before = recorded.widths(self.state)
            own = step(own)
            if recorded.widths(self.state) != before:  # every step has a form of its own
                self._recordings, self.loop = None, over_steps.Loop()
        else:
            own = self._recorded(step, own)
        self.history.add(replace(self._level, nodes=tuple(self._nodes)))
        return own

    def _recorded(self, step: Callable[[TreeT], TreeT], own: TreeT) -> TreeT:
        assert self._recordings is not None
        device = self.sentences.device
        numbers = tuple(torch.as_tensor(x, device=device) for x in (self.step, self._first))
        inputs = {name: getattr(self, name) for name in CHANGING}, own, numbers

        def make(inputs: Any) -> Any:
            vars(self).update(inputs[0])
            self.step, self._first = inputs[2]
            after = step(inputs[1])
            nodes = tuple(self._nodes)
            return {name: getattr(self, name) for name in CHANGING}, after, (self.step, self._first), self._level, nodes

        outputs = recorded.called(self._recordings, self._form, inputs, make)
        changed, own, (self.step, self._first), level, nodes = outputs
        vars(self).update(changed)
        self._level, self._nodes = tree.map(torch.clone, (level, nodes))
        return own

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
        if self.num_steps == 1:
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
        self._level = StepNodes(alignments, dict(output.auxiliary)) if self._keeps_alignments else StepNodes()
        self._nodes = []
        self.step = self.step + 1
        if self._keeps_weights:
            self._add(alignments)
        return result

    def grow(self, parents: Tensor, tokens: Tensor, log_probabilities: Tensor, rows: Tensor) -> Tensor:
        """Adds nodes to the step's level; all arguments have one shape. Returns their numbers, in that shape."""
        self._nodes.append((parents.flatten(), tokens.flatten(), log_probabilities.flatten(), rows.flatten()))
        count = parents.numel()
        added = torch.arange(count, device=parents.device).view(parents.shape) + self._first
        self._first = self._first + count
        return added

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
        if self._peaks is not None:
            self._peaks = torch.cat([self._peaks, latest.argmax(1, keepdim=True)], 1)

    @property
    def mask(self) -> Tensor | None:
        """(B, 1, S): the real source positions of the sentences that are left."""
        source = self._source
        return None if source is None or source.mask is None else source.mask[self.sentences, None]

    def rows(self) -> Tensor:
        """(R,): the number of each row's sentence in the batch."""
        return self.sentences.repeat_interleave(self.width)

    def may_end(self) -> Bool[Tensor, "B 1"] | bool:
        """Whether the token of this step may be the end: of all sentences, of none, or of each."""
        return self._minimum.reached(self._least, self.sentences, self.step)

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
            self.items,
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

    def leaving(self, over: Int[Tensor, " B"]) -> Bool[Tensor, " B"] | None:
        """Which sentences are over, as `over` tells, or None where there are none or it is not time to ask.

        Raises:
            RegardError: for NaN, with which a search is meaningless.
        """
        if not recorded.looks(self.num_steps, self.longest, is_recorded=self.is_recorded):
            return None
        left = over != 0
        if not bool(left.any()):
            return None
        if bool((over < 0).any()):
            place = int((over < 0).nonzero()[0, 0])
            raise RegardError(
                f"The decoder returned NaN at step {-int(over[place])}, sentence {int(self.sentences[place])} of the "
                "batch. Did training diverge, or is a source empty or fully masked?"
            )
        return left

    def over(self, before: Int[Tensor, " B"], leaving: Bool[Tensor, " B"], chosen: Tensor) -> Int[Tensor, " B"]:
        """The step at which each sentence was over, 0 for those that go on, and below 0 for NaN.

        Args:
            before: the same before this step.
            leaving: which sentences are over.
            chosen: (B, …), log-probabilities among which NaN may be.
        """
        broken = chosen.isnan().flatten(1).any(1)
        over = torch.where(broken, -self.step, leaving * self.step)
        return torch.where(before == 0, over, before) if self.is_recorded else over

    @staticmethod
    def settled(now: TreeT, kept: TreeT | None, over: Int[Tensor, " B"], before: Int[Tensor, " B"]) -> TreeT:
        """The results of sentences: those of this step where they are over since, else what was kept.

        Args:
            over, before: as of `over`.
        """
        ends = (over != 0) & (before == 0)
        rows = lambda new, old: torch.where(ends.view(-1, *[1] * (new.dim() - 1)), new, old)  # noqa: E731
        return now if kept is None else tree.map(rows, now, kept)

    def move(self, rows: Tensor | None, tokens: Tensor, nodes: Tensor) -> None:
        """Replaces the hypotheses by others that extend them.

        Args:
            rows: (B, K), the flat rows of the state that the new hypotheses extend; None for all as they stand.
            tokens: (B, K), the inputs of the next step.
            nodes: (B, K), the nodes of the new hypotheses in the history.
        """
        self.inputs, self.nodes, self.width = tokens.flatten(), nodes, nodes.shape[1]
        if rows is not None:
            self._take_rows(rows.flatten())
        if self.tokens is not None:
            self.tokens = torch.cat([self.tokens, self.inputs[:, None]], 1)

    def without(self, leaving: Bool[Tensor, " B"], own: TreeT) -> TreeT:
        """Leaves out sentences that are over, here and in what the search keeps; returns the latter."""
        staying = recorded.staying(leaving, is_recorded=self.is_recorded)
        if staying is None:
            return own
        rows = (staying[:, None] * self.width + torch.arange(self.width, device=staying.device)).flatten()
        self.sentences, self.nodes, self.inputs = self.sentences[staying], self.nodes[staying], self.inputs[rows]
        self.memory = tree.reorder(self.memory, staying)
        self._take_rows(rows)
        return tree.map(lambda leaf: leaf[staying], own)

    def _take_rows(self, rows: Int[Tensor, " R"]) -> None:
        if self.is_recorded:
            self.state = tree.map(lambda leaf: leaf.index_select(0, rows), self.state)
        else:
            self.state = tree.reorder(self.state, rows)
        names = ("tokens", "_peaks", "weights")
        vars(self).update({name: None if (x := getattr(self, name)) is None else x[rows] for name in names})


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
        self.least = given.long().expand(count).clamp(min=floor)
        self._shortest, self.longest = (int(self.least.min()), int(self.least.max())) if count else (0, 0)

    def reached(
        self, least: Int[Tensor, " B"], sentences: Int[Tensor, " B2"], step: int | Tensor
    ) -> Bool[Tensor, "B2 1"] | bool:
        """Whether the token of a step may be the end: of all of these sentences, of none, or of each.

        Args:
            least: the fewest tokens of all sentences.
            step: a tensor after the first step of a search that is recorded.
        """
        if self.longest <= 1 if isinstance(step, Tensor) else step > self.longest:
            return True
        if not isinstance(step, Tensor) and step <= self._shortest:
            return False
        return (least[sentences] < step)[:, None]


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
