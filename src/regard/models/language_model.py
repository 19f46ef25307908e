"""The base of language models: decoders whose source is the preceding text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor, nn

from regard import tree
from regard.attention.contract import Tree
from regard.attention.memory import widened
from regard.errors import ShapeError
from regard.layers import recorders
from regard.layers.module_weights import overridden
from regard.models.contract import DecoderOutput, Encoded
from regard.models.outputs import all_steps, cross_entropy_by, cross_entropy_of, one_step
from regard.shapes import Bool, Float, Int, describe, keep_right_padding

NOTHING = -1
"""`LanguageState.pending` of a row that has no pending token."""


@dataclass(frozen=True, slots=True)
class LanguageState:
    """The state of a language model after some tokens; R rows in every leaf.

    Args:
        cache: of its layers.
        position: (R,) long, the number of tokens read.
        pending: (R,) long, the last token of the context, which the next step reads instead of its input; -1 if none.
    """

    cache: Tree
    position: Int[Tensor, " R"]
    pending: Int[Tensor, " R"]


class AbstractLanguageModel(nn.Module):
    """p(x_t | x_1 … x_{t-1}), with the methods of a decoder whose source is the preceding text, the left context.

    - Training calls `cross_entropy(inputs, None, targets, mask)` with windows of text. Each starts with its left
      context, whose targets are masked, so no state is carried from batch to batch.
    - For generation `prepare` reads a prompt, which every search of `regard.decoding` continues. The prompt's last
      token then replaces the first input, a search's `bos`.

    `forward` and `cross_entropy` compute all steps together and agree with the loop of `step`. Padding is on the right
    and does not affect the tokens before it. The columns of alignments are positions of the text: those of the context,
    then those of the inputs; a step has a column for each token up to its own.

    Args:
        embedding: from ids to features; has `size`.
        head: from features to log-probabilities.
    """

    main_attention: str | None = None
    """The name of the alignment that a prediction shows, if any."""

    def __init__(self, embedding: Any, head: nn.Module) -> None:
        super().__init__()
        self.embedding = embedding
        self.head = head

    def begin(self, num_rows: int, like: Tensor) -> Tree:
        """The cache before the first token: R rows in every leaf, with the type and device of `like`."""
        raise NotImplementedError

    def read(
        self,
        inputs: Int[Tensor, "R T"],
        cache: Tree,
        position: Int[Tensor, " R"] | None,
        *,
        mask: Bool[Tensor, "R T"] | None = None,
        alignment: bool = False,
        keep: bool = True,
        generator: Generator | None = None,
    ) -> tuple[Float[Tensor, "R T D"], Mapping[str, Tensor], Tree]:
        """Reads T tokens: features for the head, alignments by name if requested, and the new cache.

        Args:
            position: the number of tokens in the cache; None if it is empty.
            mask: right-padded; only for the first tokens, whose features are not used.
            keep: whether to return the new cache, else None.
        """
        raise NotImplementedError

    def take(
        self,
        inputs: Int[Tensor, " R"],
        cache: Tree,
        position: Int[Tensor, " R"],
        *,
        alignment: bool = False,
        generator: Generator | None = None,
    ) -> tuple[Float[Tensor, "R D"], Mapping[str, Tensor], Tree]:
        """`read` of one token."""
        raise NotImplementedError

    def prepare(self, encoded: Encoded | Int[Tensor, "B S"]) -> LanguageState:
        """Reads the left context, which may be empty (S = 0 or an empty row).

        Args:
            encoded: ids (B, S), or an `Encoded` whose memory is ids and whose mask is True at the real ones.

        Raises:
            ShapeError: for a context that is not ids, or is not right-padded.
        """
        ids = encoded.memory if isinstance(encoded, Encoded) else encoded
        mask = encoded.mask if isinstance(encoded, Encoded) else None
        if not isinstance(ids, Tensor) or ids.dim() != 2 or ids.is_floating_point():
            shown = "\n" + describe({"ids": ("B S", ids)}) if isinstance(ids, Tensor) else ""
            raise ShapeError(f"The context of a language model must be ids (B, S).{shown}")
        mask = keep_right_padding(ids, mask, name="ids")
        rows, width = ids.shape
        lengths = ids.new_full((rows,), width) if mask is None else mask.sum(1)
        pending = ids.new_full((rows,), NOTHING)
        cache = self.begin(rows, next(self.parameters()))
        if width > 0:
            last = ids.gather(1, (lengths - 1).clamp(min=0)[:, None])[:, 0]
            pending = torch.where(lengths > 0, last, pending)
        if width > 1:
            real = None if mask is None else mask[:, 1:]
            ids = ids[:, :-1] if real is None else ids[:, :-1].masked_fill(~real, 0)
            _, _, cache = self.read(ids, cache, None, mask=real)
        return LanguageState(cache, (lengths - 1).clamp(min=0), pending)

    def initial_state(self, memory: LanguageState, num_hypotheses: int = 1) -> LanguageState:
        """The state after the context: R = B · num_hypotheses rows."""
        memory = widened(memory, next(self.parameters()))
        if num_hypotheses == 1:
            return memory
        return tree.map(lambda leaf: leaf.repeat_interleave(num_hypotheses, 0), memory)

    def step(
        self,
        inputs: Tensor,
        memory: LanguageState,
        state: LanguageState,
        *,
        alignment: bool = False,
        generator: Generator | None = None,
    ) -> tuple[DecoderOutput, LanguageState]:
        """One step from inputs (R,) ids."""
        if inputs.dim() != 1 or inputs.is_floating_point():
            raise ShapeError(one_step(inputs))
        ids = torch.where(state.pending == NOTHING, inputs, state.pending)
        features, weights, cache = self.take(ids, state.cache, state.position, alignment=alignment, generator=generator)
        after = LanguageState(cache, state.position + 1, torch.full_like(state.pending, NOTHING))
        return DecoderOutput(log_probabilities=self.head(features), alignments=weights), after

    def forward(
        self,
        inputs: Tensor,
        memory: LanguageState | None = None,
        *,
        alignment: bool = False,
        generator: Generator | None = None,
    ) -> DecoderOutput:
        """All steps, teacher-forced: inputs (B, T) ids, after the context of the memory if given."""
        features, weights = self._run(inputs, memory, alignment, generator)
        return DecoderOutput(log_probabilities=self.head(features), alignments=weights)

    def cross_entropy(
        self,
        inputs: Tensor,
        memory: LanguageState | None,
        targets: Int[Tensor, "B T"],
        mask: Bool[Tensor, "B T"] | None = None,
        *,
        smoothing: float = 0.0,
        generator: Generator | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The sums of `losses.cross_entropy` over all steps, without log-probabilities where possible.

        Args:
            inputs: (B, T) ids, the targets shifted by one.
            memory: of the context before the inputs, if any.
            mask: True at the targets that are scored.
        """
        if overridden(self, AbstractLanguageModel, "forward"):
            return cross_entropy_of(self(inputs, memory, generator=generator), targets, mask, smoothing=smoothing)
        features, _ = self._run(inputs, memory, False, generator)
        return cross_entropy_by(self.head, features, targets, mask, smoothing=smoothing)

    def _run(
        self, inputs: Tensor, memory: LanguageState | None, alignment: bool, generator: Generator | None
    ) -> tuple[Tensor, Mapping[str, Tensor]]:
        if inputs.dim() != 2 or inputs.is_floating_point():
            raise ShapeError(all_steps(inputs))
        like = next(self.parameters())
        if memory is None:
            cache, position = self.begin(len(inputs), like), None
        else:
            memory = widened(memory, like)
            cache, position = memory.cache, memory.position
            is_first = torch.arange(inputs.shape[1], device=inputs.device) == 0
            pending = memory.pending[:, None]
            inputs = torch.where(is_first & (pending != NOTHING), pending, inputs)
        features, weights, _ = self.read(inputs, cache, position, alignment=alignment, keep=False, generator=generator)
        return features, weights


def by_position(weights: Float[Tensor, "R H T S"], position: Int[Tensor, " R"] | None) -> Float[Tensor, "R H T S2"]:
    """Weights over all positions of the text, from weights over cached tokens and the T new ones.

    Args:
        weights: the last T columns are the new tokens, those before them the cached ones, ending with the token at
            `position` - 1.
        position: the number of tokens read before; None for 0.

    >>> by_position(torch.tensor([[[[0.0, 0.3, 0.7, 0.0]]]]), torch.tensor([2]))
    tensor([[[[0.3000, 0.7000, 0.0000]]]])
    """
    rows, heads, steps, columns = weights.shape
    if position is None:
        return weights[..., columns - steps :]
    width = steps + (int(position.max()) if rows else 0)
    # column c of the weights is position c + position - (columns - steps)
    index = torch.arange(width, device=weights.device) + (columns - steps - position)[:, None]
    real = (index >= 0) & (index < columns)
    index = index.clamp(min=0, max=columns - 1)[:, None, None].expand(rows, heads, steps, width)
    return weights.gather(-1, index).masked_fill(~real[:, None, None], 0)


def recorded_by_position(
    position: Int[Tensor, " R"] | None, *, is_left_padded: bool = False
) -> AbstractContextManager[None]:
    """Inside the context, recorded weights have the columns of `by_position`.

    Args:
        is_left_padded: whether the new tokens are padded on the left, by -`position`; then steps are shifted, too.
    """

    def change(weights: Tensor) -> Tensor:
        weights = by_position(weights, position)
        if not is_left_padded or position is None:
            return weights
        steps = weights.shape[2]
        index = torch.arange(steps, device=weights.device) - position[:, None]
        moved = weights.gather(2, index.clamp(max=steps - 1)[:, None, :, None].expand_as(weights))
        return moved.masked_fill((index >= steps)[:, None, :, None], 0)

    return recorders.changed(change)


def last_positions(leaf: Tensor, count: int, mask: Bool[Tensor, "R T"] | None = None) -> Tensor:
    """The last `count` real positions of (R, count + T, …), whose last T positions are right-padded."""
    if mask is None:
        return leaf[:, leaf.shape[1] - count :]
    index = mask.sum(1)[:, None] + torch.arange(count, device=leaf.device)
    return leaf[torch.arange(len(leaf), device=leaf.device)[:, None], index]


def negative_log_likelihood(model: AbstractLanguageModel, batches: Iterable[tuple[Any, Any, Any]]) -> tuple[float, int]:
    """The negative log-likelihood of all scored tokens in nats, and their number. Call `model.eval()` first.

    Args:
        batches: inputs (B, T), targets (B, T) and the mask of the scored targets, as tensors or arrays.
    """
    device = next(model.parameters()).device
    nats, count = 0.0, 0
    with torch.inference_mode():
        for batch in batches:
            inputs, targets, mask = (torch.as_tensor(part, device=device) for part in batch)
            _, loss = model.cross_entropy(inputs.long(), None, targets.long(), mask)
            nats += float(loss)
            count += int(mask.sum())
    return nats, count
