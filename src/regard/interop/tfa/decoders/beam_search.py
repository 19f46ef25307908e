"""Beam search over a cell: `BeamSearchDecoder`."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.decoding.keep_finished import all_scores, expand
from regard.decoding.live_beam import accumulated
from regard.decoding.penalty import AbstractPenalty, CoveragePenalty, GnmtPenalty, NoPenalty
from regard.errors import ConfigError, ShapeError, UnsupportedError
from regard.interop.tfa.cells.contract import as_cell
from regard.interop.tfa.decoders.basic import OutputLayer
from regard.interop.tfa.decoders.beams import gather_tree, placed
from regard.interop.tfa.decoders.loop import BaseDecoder
from regard.interop.tfa.layers.deferred import tensors
from regard.interop.tfa.layers.dense import width_of
from regard.interop.tfa.samplers.contract import tokens_and_end
from regard.interop.tfa.samplers.embedding import embedding_of
from regard.interop.tfa.structure import TensorArray, flatten, map_structure
from regard.ops.softmax import log_softmax

TENSORFLOW_1: tuple[str, ...] = (
    "embedding",
    "start_tokens",
    "end_token",
    "initial_state",
    "beam_width",
    "output_layer",
)
TENSORFLOW_1 += ("length_penalty_weight", "coverage_penalty_weight", "reorder_tensor_arrays")
ADDONS: tuple[str, ...] = (
    "beam_width",
    "embedding_fn",
    "output_layer",
    "length_penalty_weight",
    "coverage_penalty_weight",
)
ADDONS += ("reorder_tensor_arrays", "output_all_scores")


class BeamSearchDecoderState(NamedTuple):
    """The state of a `BeamSearchDecoder`, K hypotheses of each of B sentences.

    Args:
        cell_state: of the cell, (B, K, …) instead of (B K, …).
        log_probs: (B, K).
        finished: (B, K) bool.
        lengths: (B, K) long; the end token counts.
        accumulated_attention_probs: (B, K, S), summed over steps; () without a coverage penalty.
    """

    cell_state: Any
    log_probs: Tensor
    finished: Tensor
    lengths: Tensor
    accumulated_attention_probs: Any


class BeamSearchDecoderOutput(NamedTuple):
    """The outputs of a step.

    Args:
        scores: (B, K) of the selected hypotheses, or (B, K, N) of all tokens with `output_all_scores`.
        predicted_ids: (B, K), their new tokens.
        parent_ids: (B, K), the places of the hypotheses that they extend.
    """

    scores: Any
    predicted_ids: Any
    parent_ids: Any


class FinalBeamSearchDecoderOutput(NamedTuple):
    """The result of a search.

    Args:
        predicted_ids: (B, T, K), the tokens of whole hypotheses, best first; end tokens after the first.
        beam_search_decoder_output: of all steps, (B, T, K, …).
    """

    predicted_ids: Tensor
    beam_search_decoder_output: BeamSearchDecoderOutput


class BeamSearchDecoder(BaseDecoder):
    """Beam search in which finished hypotheses keep their places, with the step of `Search(keep_finished=True)`.

    The form of tensorflow-addons, `BeamSearchDecoder(cell, beam_width, embedding_fn, …)`, is called with an embedding
    or None, `start_tokens`, `end_token` and `initial_state`. That of TensorFlow 1,
    `BeamSearchDecoder(cell, embedding, start_tokens, end_token, initial_state, beam_width, …)`, has these and is passed
    to `dynamic_decode`. Memory, its lengths and the first state have a row for each hypothesis: `tile_batch`.

    It differs from the original where that is wrong. Hypotheses are traced from the last step, so ids, lengths, scores
    and `log_probs` of a place belong together; the original traces from the last length of a sentence and misses
    reranking after all of its hypotheses had finished. Tensor arrays in the state are ordered by the hypotheses before
    each step, for which they were written; the original orders them by those after it, one choice late. As in the
    original, finished hypotheses are ranked again while other sentences of the batch continue, with lengths that then
    include the end token; the search of `regard.decoding` does not.

    Args:
        cell: as in `BasicDecoder`.
        beam_width: K.
        embedding_fn: from ids (B, K) to inputs (B, K, E).
        output_layer: from the cell's outputs (B, K, D) to logits (B, K, N).
        length_penalty_weight: α of ((5 + length) / 6)^α, by which log-probabilities are divided.
        coverage_penalty_weight: β of the coverage penalty `tfa`. The state must have alignments, as that of an
            `AttentionWrapper`, or be a tuple with such states; their mean is used.
        reorder_tensor_arrays: whether tensor arrays in the cell's state, such as alignment histories, are returned
            stacked in the order of the hypotheses instead of unchanged.
        output_all_scores: whether outputs have the scores of all tokens.
        embedding, start_tokens, end_token, initial_state: as in `initialize`, in the form of TensorFlow 1.
        **kwargs: those of `BaseDecoder`.

    Raises:
        ConfigError: for a beam below 1.
        TypeError: for arguments of neither form.

    Source: tensorflow-addons 0.23, `BeamSearchDecoder`; Wu et al. 2016, section 7.
    """

    def __init__(self, cell: Any, *arguments: Any, **options: Any) -> None:
        named = _named(arguments, options)
        beam_width = named.pop("beam_width", None)
        embedding_fn: Callable[[Tensor], Any] | None = named.pop("embedding_fn", None)
        output_layer: OutputLayer | None = named.pop("output_layer", None)
        alpha, beta = (float(named.pop(f"{name}_penalty_weight", 0.0)) for name in ("length", "coverage"))
        reorder, everything = named.pop("reorder_tensor_arrays", True), named.pop("output_all_scores", False)
        start = {name: named.pop(name) for name in TENSORFLOW_1[:4] if name in named}
        super().__init__(**named)
        if isinstance(beam_width, Tensor):
            beam_width = int(beam_width)
        if not isinstance(beam_width, int) or beam_width < 1:
            raise ConfigError(f"beam_width is {beam_width!r}; it must be a whole number, 1 or more.")
        self.cell = as_cell(cell)
        self.output_layer = output_layer
        self._beam_width, self._embedding_fn, self._start = beam_width, embedding_fn, start
        self._reorder_tensor_arrays, self._output_all_scores = reorder, everything
        ranking: AbstractPenalty = GnmtPenalty(alpha) if alpha else NoPenalty()
        self._penalty = CoveragePenalty(ranking, "tfa", beta) if beta else ranking
        self._batch_size: int | None = None

    @property
    def beam_width(self) -> int:
        """K."""
        return self._beam_width

    @property
    def batch_size(self) -> int:
        assert self._batch_size is not None
        return self._batch_size

    @property
    def tracks_own_finished(self) -> bool:
        """True, since hypotheses change places."""
        return True

    @property
    def output_size(self) -> BeamSearchDecoderOutput:
        """(K,) each, or (K, N) of all scores."""
        places = torch.Size([self._beam_width])
        width = width_of(self.output_layer, self.cell.output_size) if self._output_all_scores else None
        return BeamSearchDecoderOutput(places if width is None else torch.Size([*places, width]), places, places)

    @property
    def output_dtype(self) -> BeamSearchDecoderOutput:
        """That of the state, and long."""
        return BeamSearchDecoderOutput(self._dtype, torch.long, torch.long)

    def forward(  # type: ignore[override]
        self,
        embedding: Any = None,
        start_tokens: Any = None,
        end_token: Any = None,
        initial_state: Any = None,
        training: bool | None = None,
        **kwargs: Any,
    ) -> tuple[Any, Any, Tensor]:
        """Searches by `dynamic_decode`.

        Args:
            embedding, start_tokens, end_token, initial_state: as in `initialize`.
            training: as in `dynamic_decode`.
            **kwargs: for the `initialize` of a subclass.
        """
        kwargs |= {"start_tokens": start_tokens, "end_token": end_token}
        return super().forward(embedding, initial_state, training, **kwargs)

    def initialize(  # type: ignore[override]
        self, embedding: Any = None, start_tokens: Any = None, end_token: Any = None, initial_state: Any = None
    ) -> tuple[Tensor, Any, BeamSearchDecoderState]:
        """Starts a search, with one live hypothesis per sentence.

        Args:
            embedding: (N, E), or a function from ids to inputs, without `embedding_fn`.
            start_tokens: (B,) ids.
            end_token: one id.
            initial_state: of the cell, B · K rows.

        Raises:
            RegardError: without an embedding.
            ShapeError: for tokens of another shape, or a state of other rows.
        """
        start = self._start
        embedding = start.get("embedding") if embedding is None else embedding
        start_tokens = start.get("start_tokens") if start_tokens is None else start_tokens
        end_token = start.get("end_token") if end_token is None else end_token
        initial_state = start.get("initial_state") if initial_state is None else initial_state
        embedding, initial_state = tensors(embedding), tensors(initial_state)
        leaves = [leaf for leaf in flatten(initial_state) if isinstance(leaf, Tensor)]
        if not leaves:
            raise ShapeError("initial_state is missing: the cell's first state with a row for each hypothesis.")
        device, self._dtype = leaves[0].device, leaves[0].dtype
        self._embed = embedding_of(self._embedding_fn if embedding is None else None, embedding)
        starts, self._end_token = tokens_and_end(start_tokens, end_token, device, embedding)
        self._batch_size, width = len(starts), self._beam_width
        cell_state = map_structure(self._split, initial_state)
        self._start_inputs = self._embed(starts[:, None].expand(-1, width))
        finished = torch.ones(len(starts), width, dtype=torch.bool, device=device)
        finished[:, 0] = False
        state = BeamSearchDecoderState(
            cell_state,
            torch.zeros(len(starts), width, dtype=self._dtype, device=device).masked_fill(finished, -torch.inf),
            finished,
            torch.zeros(len(starts), width, dtype=torch.long, device=device),
            self._attention(cell_state) if self._penalty.uses_weights else (),
        )
        return finished, self._start_inputs, state

    def step(
        self, time: int, inputs: Any, state: BeamSearchDecoderState, training: bool | None = None
    ) -> tuple[BeamSearchDecoderOutput, BeamSearchDecoderState, Any, Tensor]:
        """A step of the cell and the choice of the next beam.

        Args:
            time: its number, from 0.
            inputs: (B, K, …).
            state: of the previous step.
            training: without effect; `dynamic_decode` sets the modes of modules.

        Raises:
            ConfigError: for an end token that has no logit.
        """
        outputs, cell_state = self.cell(map_structure(_merged, inputs), map_structure(_merged, state.cell_state))
        logits = self._split(outputs)
        if self.output_layer is not None:
            logits = self.output_layer(logits)
        if not 0 <= self._end_token < logits.shape[-1]:
            raise ConfigError(f"end_token={self._end_token} is none of the N={logits.shape[-1]} ids of the logits.")
        log_probabilities = self._normalised(logits, outputs)
        weights = None
        if self._penalty.uses_weights:
            attention = self._split(self._attention(cell_state))
            weights = accumulated(state.accumulated_attention_probs, attention, state.finished)
        impossible = torch.finfo(logits.dtype).min
        before = (log_probabilities, state.log_probs, state.finished, state.lengths, self._penalty)
        beam = expand(*before, width=self._beam_width, eos=self._end_token, weights=weights, impossible=impossible)
        first = torch.arange(0, beam.parents.numel(), self._beam_width, device=logits.device)[:, None]
        rows = (beam.parents + first).flatten()
        next_state = BeamSearchDecoderState(
            map_structure(lambda leaf: self._split(_chosen(leaf, rows)), cell_state),
            beam.totals,
            beam.finished,
            beam.lengths,
            () if weights is None else _chosen(weights.flatten(0, 1), rows).view(weights.shape),
        )
        scores = beam.scores
        if self._output_all_scores:
            scores = all_scores(*before, eos=self._end_token, weights=weights, impossible=impossible)
        output = BeamSearchDecoderOutput(scores, beam.tokens, beam.parents)
        over = bool(beam.finished.all())
        return output, next_state, self._start_inputs if over else self._embed(beam.tokens), beam.finished

    def finalize(
        self, outputs: BeamSearchDecoderOutput, final_state: BeamSearchDecoderState, sequence_lengths: Tensor
    ) -> tuple[FinalBeamSearchDecoderOutput, BeamSearchDecoderState]:
        """Whole hypotheses, and the tensor arrays of the state in their order.

        Args:
            outputs: of all steps, time-major.
            final_state: of the last.
            sequence_lengths: not read; the state has lengths.
        """
        tokens, parents = outputs.predicted_ids, outputs.parent_ids
        num_steps, count, _ = tokens.shape
        steps = torch.full((count,), num_steps, device=tokens.device)
        ids = gather_tree(tokens, parents, steps, self._end_token)
        if self._reorder_tensor_arrays:
            rows = gather_tree(parents, parents, steps, -1)
            ordered = map_structure(lambda leaf: self._ordered(leaf, rows), final_state.cell_state)
            final_state = final_state._replace(cell_state=ordered)
        return FinalBeamSearchDecoderOutput(ids, outputs), final_state

    def _split(self, leaf: Any) -> Any:
        """(B K, …) as (B, K, …)."""
        if not isinstance(leaf, Tensor) or leaf.dim() == 0:
            return leaf
        if len(leaf) != self.batch_size * self._beam_width:
            raise ShapeError(
                f"A tensor of the state or of the cell's output has {len(leaf)} rows, and the beam has "
                f"B={self.batch_size} sentences x K={self._beam_width} hypotheses.\n  Give the cell's first state a "
                "row for each hypothesis: tile_batch(encoder_state, multiplier=beam_width), or "
                "get_initial_state(batch_size=batch_size * beam_width)."
            )
        return leaf.view(self.batch_size, self._beam_width, *leaf.shape[1:])

    def _normalised(self, logits: Tensor, outputs: Tensor) -> Tensor:
        """Log-probabilities (B, K, N); in place if the logits are a tensor of the output layer only."""
        apart = logits.untyped_storage().data_ptr() != outputs.untyped_storage().data_ptr()
        if apart and not logits.requires_grad:
            return log_softmax(logits.flatten(0, 1)).view(logits.shape)
        return logits.log_softmax(-1)

    def _attention(self, cell_state: Any) -> Tensor:
        """The mean of the alignments of a state, or of the states in it."""
        states = [cell_state] if hasattr(cell_state, "alignments") else cell_state
        several = [s.alignments for s in states if hasattr(s, "alignments")] if isinstance(states, tuple | list) else []
        if not several:
            raise UnsupportedError(
                "coverage_penalty_weight needs alignments, which the state does not have. Wrap the cell in an "
                "AttentionWrapper, or leave the penalty out."
            )
        means = [torch.stack(each).mean(0) if isinstance(each, tuple) else each for each in several]
        return means[0] if len(means) == 1 else torch.stack(means).mean(0)

    def _ordered(self, leaf: Any, rows: Tensor) -> Any:
        """A tensor array stacked, in the order of the hypotheses."""
        if not isinstance(leaf, TensorArray):
            return leaf
        num_steps, count, width = rows.shape
        shapes = {tuple(step.shape) for step in leaf.steps}
        first = shapes.pop() if len(shapes) == 1 else ()
        fits = first[:1] == (count * width,) or first[:2] == (count, width)
        if not fits or leaf.size() != num_steps:
            warnings.warn(
                f"A tensor array of the state with {leaf.size()} steps {first} is returned unchanged: reordering needs "
                f"T={num_steps} steps of (B K={count * width}, …). reorder_tensor_arrays=False avoids this warning.",
                stacklevel=2,
            )
            return leaf
        return placed(leaf.stack(), rows)


def _merged(leaf: Any) -> Any:
    """(B, K, …) as (B K, …)."""
    return leaf.flatten(0, 1) if isinstance(leaf, Tensor) and leaf.dim() >= 2 else leaf


def _chosen(leaf: Any, rows: Tensor) -> Any:
    """Rows of a tensor; tensor arrays and scalars are unchanged."""
    return leaf.index_select(0, rows) if isinstance(leaf, Tensor) and leaf.dim() else leaf


def _named(arguments: tuple[Any, ...], options: dict[str, Any]) -> dict[str, Any]:
    """The arguments of either form by name."""
    first = arguments[0] if arguments else None
    is_old = bool({"embedding", "start_tokens", "end_token", "initial_state"} & set(options))
    is_old = is_old or (bool(arguments) and not isinstance(first, int) and not _is_count(first))
    names = TENSORFLOW_1 if is_old else ADDONS
    if len(arguments) > len(names):
        raise TypeError(f"BeamSearchDecoder takes cell, {', '.join(names)}; got {len(arguments)} arguments after cell.")
    named = dict(zip(names, arguments))
    if twice := sorted(set(named) & set(options)):
        raise TypeError(f"BeamSearchDecoder got {', '.join(twice)} twice.")
    return {**named, **options}


def _is_count(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dim() == 0 and not value.is_floating_point()
