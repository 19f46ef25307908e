"""The loop over the steps of a search, and its live beam: the unfinished hypotheses with their decoder states."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Any, ClassVar, Generic, TypeVar

import torch
from torch import Tensor
from torch.nn.functional import pad

from regard import tree
from regard.config.search import Search
from regard.decoding import recorded
from regard.decoding.history import ROOT, History, StepNodes
from regard.decoding.processor import SearchSource, SearchState, process, uses_weights
from regard.decoding.request import Ended, Request, SearchProgress, Steps, per_sentence
from regard.decoding.result import Hypothesis, main_name
from regard.decoding.rules import SearchRules
from regard.decoding.stopping import check_stop
from regard.errors import RegardError, ShapeError, UnsupportedError
from regard.models.loop import for_search
from regard.ops import over_steps
from regard.ops.recording import Recordings
from regard.shapes import Bool, Int, describe

TreeT = TypeVar("TreeT")
CHANGING = (
    "memory",
    "state",
    "sentences",
    "remaining",
    "inputs",
    "nodes",
    "weights",
    "weights_before",
    "finished",
    "items",
    "_least",
    "_source",
)
"""The attributes of a live beam that a recorded step reads and writes."""


@dataclass(frozen=True, slots=True)
class _Progress(Generic[TreeT]):
    """The state of a search between two steps.

    Args:
        state: the search method's own.
        over: (B,), the step at which each sentence was over, 0 for those that continue, below 0 for NaN.
        results: of recorded searches, the results of the sentences that are over.
    """

    state: TreeT
    over: Tensor
    results: tuple[Tensor, ...] | None = None


class AbstractSearch(ABC, Generic[TreeT]):
    """A search method: a step and the results of sentences, as functions of a state that is a tree of tensors."""

    live_beam: LiveBeam
    num_returned: int
    """The largest number of hypotheses that each of G groups of a sentence returns."""
    is_frozen: ClassVar[bool] = False
    """Whether the states of sentences that are over stay as they are while others continue."""

    @abstractmethod
    def step(self, state: TreeT) -> tuple[TreeT, Bool[Tensor, " B"], Tensor]:
        """Takes a step with `LiveBeam.advance`, `grow` and `move`.

        Returns:
            The new state, the sentences that are over, and log-probabilities (B, …) that are checked for NaN.
        """

    @abstractmethod
    def results(self, state: TreeT) -> tuple[Tensor, Tensor, Tensor]:
        """The results of all sentences if their searches ended now: scores, last nodes, and which have ended.

        All are (B, G, C), best first in each group; a score of -inf means that there is no hypothesis.
        """

    @abstractmethod
    def possible(self, state: TreeT) -> tuple[Tensor, Tensor]:
        """The last nodes of hypotheses that may still become the best ones, (B, C), and which of them exist."""

    def run(self, state: TreeT) -> Steps:
        """Takes steps until all sentences are over."""
        beam, count = self.live_beam, len(self.live_beam)
        progress = _Progress(state, torch.zeros_like(beam.sentences))
        results: tuple[Tensor, ...] = ()
        while len(beam):
            check_stop()
            progress = beam.take(self._advance, progress)
            if (over := beam.sentences_over(progress.over)) is not None:
                sentences = beam.sentences[over]
                now = self.results(progress.state) if progress.results is None else progress.results
                results = results or tuple(rows.new_zeros(count, *rows.shape[1:]) for rows in now)
                for whole, rows in zip(results, now, strict=True):
                    whole[sentences] = rows[over]
                if beam.is_streaming:
                    scores, nodes, ended = (whole[sentences, 0] for whole in results)
                    first = (scores > -inf).int().argmax(1, keepdim=True)
                    yield Ended(beam.history, sentences, *(x.gather(1, first)[:, 0] for x in (nodes, scores, ended)))
                progress = beam.without(over, progress)
            if beam.is_streaming and len(beam):
                yield SearchProgress(beam.history, beam.sentences, *self.possible(progress.state))
        return partial(self._read, *results)

    def _read(self, scores: Tensor, nodes: Tensor, ended: Tensor) -> list[list[Hypothesis]]:
        """The hypotheses of each sentence, group by group."""
        exists = scores > -inf
        chosen = (exists & (exists.cumsum(2) <= self.num_returned)).nonzero(as_tuple=True)
        hypotheses = self.live_beam.history.read(nodes[chosen], scores[chosen].tolist(), ended[chosen].tolist())
        results: list[list[Hypothesis]] = [[] for _ in scores]
        for sentence, hypothesis in zip(chosen[0].tolist(), hypotheses, strict=True):
            results[sentence].append(hypothesis)
        return results

    def _advance(self, progress: _Progress[TreeT]) -> _Progress[TreeT]:
        beam = self.live_beam
        state, leaving, chosen = self.step(progress.state)
        over = torch.where(chosen.isnan().flatten(1).any(1), -beam.step, leaving * beam.step)
        if not beam.is_recorded:
            return _Progress(state, over)
        # sentences that are over stay for some recorded steps
        over = torch.where(progress.over == 0, over, progress.over)
        if self.is_frozen:
            return _Progress(state, over)
        results: tuple[Tensor, ...] = self.results(state)
        if progress.results is not None:
            ends = (over != 0) & (progress.over == 0)
            results = tuple(
                torch.where(ends.view(-1, *[1] * (new.dim() - 1)), new, old)
                for new, old in zip(results, progress.results, strict=True)
            )
        return _Progress(state, over, results)


class LiveBeam:
    """B sentences with `width` hypotheses each, which the decoder extends step by step. It belongs to one search.

    The decoder's `step`, or its replacement for searches (`models.loop.for_search`), is called within a loop
    (`ops.over_steps`). If all hypotheses begin alike, the first step is computed once per sentence.

    The memory has one row per sentence. When hypotheses are extended, the rows of the state follow their parents; when
    sentences are over, memory and state lose their rows, and `sentences` maps rows of the memory to the batch.

    If a penalty or processor reads attention, `weights` (R, S) is the sum of the main attention over all steps and
    `weights_before` that of all but the last. Rows that are `finished` (R,) but keep their places add nothing.

    On a GPU, steps are recorded if `decoding.recorded` allows it. Then everything that changes is a tensor, `step`
    included, sentences that are over stay for some steps, and `sentences_over` reads them every few steps.

    Args:
        width: hypotheses per sentence.
        begins_alike: whether the first step is that of one hypothesis per sentence.
        keep_tokens: whether the search itself reads the tokens so far, as processors do.
        generator: for decoders that draw.
    """

    def __init__(
        self,
        request: Request,
        options: Search,
        rules: SearchRules,
        *,
        width: int,
        begins_alike: bool = False,
        keep_tokens: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        decoder, memory, count = request.decoder, request.memory, tree.rows(request.memory)
        device = next(tree.leaves(memory)).device
        self._decoder, self._processors = decoder, rules.processors
        self.eos, self.items, self.remaining = request.eos, request.items, rules.limits
        self.is_streaming = request.streaming
        self._source = checked_source(request.source, count, device)
        least = options.min_length if request.min_length is None else request.min_length
        self._least = per_sentence("min_length", least, memory).clamp(min=options.min_length)
        self._shortest, self._longest = int(self._least.min()), int(self._least.max())
        self._num_steps_limit = int(rules.limits.max())
        keep_tokens = keep_tokens or bool(rules.processors)
        self._recordings: Recordings | None = None
        if rules.constant is not None and options.weights == "float32" and not (keep_tokens or request.streaming):
            self._recordings, weights = recorded.recordings_of(decoder, next(tree.leaves(memory))) or (None, None)
            # a string, whose hash is computed once
            self._form = repr((rules.constant, self.eos, width, request.alignment, weights, self._longest > 1))
        # a loop prepares what steps share in the first step, which a recording would freeze
        self.loop = over_steps.Loop(options.weights, is_idle=self.is_recorded)
        with self.loop:
            self.decoder, self.memory = for_search(decoder, memory, count * width)
        self.width = 1 if begins_alike else width
        self.state = self.decoder.initial_state(self.memory, self.width)
        if self.is_recorded:
            self.state = recorded.with_room(self.state, self._num_steps_limit)
        self.sentences = torch.arange(count, device=device)
        self.inputs = torch.full((count * self.width,), request.bos, dtype=torch.long, device=device)
        self.nodes = torch.full((count, self.width), ROOT, dtype=torch.long, device=device)
        self.tokens = self.inputs.new_zeros(len(self.inputs), 0) if keep_tokens else None
        self.precision = torch.float32 if device.type == "mps" else torch.float64
        self.history = History()
        self.step: int | Tensor = 0
        self._num_steps = 0
        self._next_node: int | Tensor = 0
        self._level = StepNodes()
        self._nodes: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
        self.weights: Tensor | None = None
        self.weights_before: Tensor | None = None
        self.finished: Tensor | None = None
        self._keeps_weights = any(map(uses_weights, (rules.penalty, *rules.processors)))
        self._peaks = self.inputs.new_zeros(len(self.inputs), 0) if self._keeps_weights and keep_tokens else None
        self._keeps_alignments = request.alignment
        self._arguments: dict[str, Any] = {"alignment": request.alignment or self._keeps_weights}
        if generator is not None:
            self._arguments["generator"] = generator

    def __len__(self) -> int:
        return len(self.sentences)

    @property
    def is_recorded(self) -> bool:
        """Whether steps are recorded, so that nothing in them may wait for the device."""
        return self._recordings is not None

    def take(self, step: Callable[[TreeT], TreeT], progress: TreeT) -> TreeT:
        """Takes a step of the search, from a tree of tensors to the next one, by a recording where there is one."""
        self._num_steps += 1
        if self._recordings is None:
            progress = step(progress)
        elif self._num_steps == 1:
            before = recorded.widths(self.state)
            progress = step(progress)
            if recorded.widths(self.state) != before:  # the sizes change at each step, and a recording has fixed ones
                self._recordings, self.loop = None, over_steps.Loop()
        else:
            progress = self._take_recorded(self._recordings, step, progress)
        self.history.add(replace(self._level, nodes=tuple(self._nodes)))
        return progress

    def _take_recorded(self, recordings: Recordings, step: Callable[[TreeT], TreeT], progress: TreeT) -> TreeT:
        device = self.sentences.device
        counters = tuple(torch.as_tensor(x, device=device) for x in (self.step, self._next_node))
        inputs = {name: getattr(self, name) for name in CHANGING}, progress, counters

        def function(inputs: Any) -> Any:
            vars(self).update(inputs[0])
            self.step, self._next_node = inputs[2]
            after = step(inputs[1])
            changed = {name: getattr(self, name) for name in CHANGING}
            return changed, after, (self.step, self._next_node), self._level, tuple(self._nodes)

        outputs = recorded.called(recordings, self._form, inputs, function)
        changed, progress, (self.step, self._next_node), level, nodes = outputs
        vars(self).update(changed)
        self._level, self._nodes = tree.map(torch.clone, (level, nodes))
        return progress

    def advance(self) -> Tensor:
        """Takes a step of the decoder and returns log-probabilities (R, N), in float32 or float64.

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
        if self._num_steps == 1:
            self._check_first(result)
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
            self._add_weights(alignments)
        return result

    def _check_first(self, log_probabilities: Tensor) -> None:
        if not 0 <= self.eos < log_probabilities.shape[1]:
            raise RegardError(f"eos={self.eos} is not a token: the decoder has N={log_probabilities.shape[1]} tokens.")
        total = float(log_probabilities.logsumexp(1).exp().max())
        if total > 1.1:
            raise RegardError(
                f"The probabilities of the first step sum to {total:.3g}, not 1. Does the decoder return logits? "
                "Then apply log_softmax(-1)."
            )
        if self.loop.stores_bytes and self.decoder is self._decoder and not self.loop.has_shared:
            name = type(self._decoder).__name__
            raise UnsupportedError(f"weights: int8 is impossible here: {name} has no `Linear` of regard.")

    def _add_weights(self, alignments: dict[str, Tensor]) -> None:
        """Adds a step's main attention to the weights; if the source grows, earlier steps have zeros there."""
        if not alignments:
            raise UnsupportedError(
                "A penalty or processor reads the weights of the attention, but the decoder returns none."
            )
        latest = alignments[main_name(alignments, self._decoder)].mean(1).to(self.precision)
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

    def rows(self) -> Int[Tensor, " R"]:
        """The index of each row's sentence in the batch."""
        return self.sentences.repeat_interleave(self.width)

    def may_end(self) -> Bool[Tensor, "B 1"] | bool:
        """Whether the minimum lengths allow this step's token to be the end: for all sentences, or for each."""
        if isinstance(self.step, Tensor):  # a recording is made for one step, and its form fixes only this
            if self._longest <= 1:
                return True
        elif self.step > self._longest:
            return True
        elif self.step <= self._shortest:
            return False
        return (self._least[self.sentences] < self.step)[:, None]

    def processed(self, log_probabilities: Tensor, ended: Bool[Tensor, "B K"], may_end: Tensor | bool) -> Tensor:
        """(R, N) log-probabilities after the processors.

        Args:
            ended: the hypotheses that have ended or become impossible.
            may_end: those of the others that may end, broadcast to (B, K).
        """
        if not self._processors:
            return log_probabilities
        assert self.tokens is not None
        state = SearchState(
            self.tokens,
            log_probabilities,
            self.rows(),
            ended.flatten(),
            (~ended & may_end).flatten(),
            self.eos,
            self.items,
            self._source,
            self.weights,
            self._peaks,
        )
        return process(log_probabilities, state, self._processors)

    def next_token(self, log_probabilities: Tensor, ended: Bool[Tensor, "B K"]) -> Tensor:
        """(R, N) log-probabilities after processors and minimum lengths, if the end is a token like any other."""
        may_end = self.may_end()
        processed = self.processed(log_probabilities, ended, may_end)
        if may_end is not True:
            barred = torch.as_tensor(may_end, device=ended.device).logical_not().expand_as(ended).flatten()
            processed = processed.clone()
            processed[:, self.eos] = processed[:, self.eos].masked_fill(barred, -inf)
        return processed

    def grow(self, parents: Tensor, tokens: Tensor, log_probabilities: Tensor, rows: Tensor) -> Tensor:
        """Adds nodes to the step's level; all arguments have one shape. Returns their numbers, in that shape."""
        self._nodes.append((parents.flatten(), tokens.flatten(), log_probabilities.flatten(), rows.flatten()))
        count = parents.numel()
        added = torch.arange(count, device=parents.device).view(parents.shape) + self._next_node
        self._next_node = self._next_node + count
        return added

    def move(self, rows: Tensor | None, tokens: Tensor, nodes: Tensor) -> None:
        """Replaces the hypotheses by others that extend them.

        Args:
            rows: (B, K), the rows of the state that the new hypotheses extend; None if each extends its own.
            tokens: (B, K), the inputs of the next step.
            nodes: (B, K), the nodes of the new hypotheses in the history.
        """
        self.inputs, self.nodes, self.width = tokens.flatten(), nodes, nodes.shape[1]
        if rows is not None:
            self._take_rows(rows.flatten())
        if self.tokens is not None:
            self.tokens = torch.cat([self.tokens, self.inputs[:, None]], 1)

    def sentences_over(self, over: Int[Tensor, " B"]) -> Bool[Tensor, " B"] | None:
        """Which sentences are over (`_Progress.over`); None if there are none or it is not time to read them.

        Raises:
            RegardError: for NaN, with which a search is meaningless.
        """
        if not recorded.is_due(self._num_steps, self._num_steps_limit, is_recorded=self.is_recorded):
            return None
        leaving = over != 0
        if not bool(leaving.any()):
            return None
        if bool((over < 0).any()):
            place = int((over < 0).nonzero()[0, 0])
            raise RegardError(
                f"The decoder returned NaN at step {-int(over[place])}, sentence {int(self.sentences[place])} of the "
                "batch. Did training diverge, or is a source empty or fully masked?"
            )
        return leaving

    def without(self, leaving: Bool[Tensor, " B"], progress: TreeT) -> TreeT:
        """Removes sentences that are over from the beam, and returns the search's state without them."""
        staying = recorded.staying(leaving, is_recorded=self.is_recorded)
        if staying is None:
            return progress
        rows = (staying[:, None] * self.width + torch.arange(self.width, device=staying.device)).flatten()
        self.sentences, self.remaining = self.sentences[staying], self.remaining[staying]
        self.nodes, self.inputs = self.nodes[staying], self.inputs[rows]
        self.memory = tree.reorder(self.memory, staying)
        self._take_rows(rows)
        return tree.map(lambda leaf: leaf[staying], progress)

    def _take_rows(self, rows: Int[Tensor, " R"]) -> None:
        if self.is_recorded:
            self.state = tree.map(lambda leaf: leaf.index_select(0, rows), self.state)
        else:
            self.state = tree.reorder(self.state, rows)
        names = ("tokens", "_peaks", "weights")
        vars(self).update({name: None if (x := getattr(self, name)) is None else x[rows] for name in names})


def accumulated(weights: Tensor, alignment: Tensor, finished: Tensor | None = None) -> Tensor:
    """The weights (..., S) summed over steps, to which finished hypotheses (...) add nothing more.

    >>> accumulated(torch.ones(2, 1), torch.ones(2, 1), torch.tensor([False, True]))
    tensor([[2.],
            [1.]])
    """
    return weights + (alignment if finished is None else alignment.masked_fill(finished[..., None], 0))


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
