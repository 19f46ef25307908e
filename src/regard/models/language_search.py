"""A decoder-only Transformer's step in a search: keys and values stay where they were written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor

from regard.layers.eligibility import module_reason
from regard.models import transformer_search
from regard.models.contract import DecoderOutput
from regard.models.language_model import NOTHING, by_position
from regard.models.transformer_language_model import CausalLayer, TransformerLanguageModel
from regard.models.transformer_search import SearchMemory, TransformerSteps


@dataclass(frozen=True, slots=True)
class LanguageSearchState:
    """Where the tokens of hypotheses stand.

    Args:
        slots: (R, T) of 32 bits; a row's tokens are its last `position` columns, those before them are padding.
        position: (R,) long, how many tokens each row has read.
        pending: as in `LanguageState`.
    """

    slots: Tensor
    position: Tensor
    pending: Tensor


def unsupported_reason(model: Any, memory: Any = None) -> str | None:
    """Why the searches of a `TransformerLanguageModel` have no such step, or None; without a memory, whether ever."""
    reason = module_reason(model, "the model", TransformerLanguageModel)
    return reason or transformer_search.unsupported_reason(model, CausalLayer, memory)


class PackedLanguageCopy:
    """Takes the steps of a `TransformerLanguageModel` for one search; what was read of the context is copied once.

    Args:
        model: a `TransformerLanguageModel`.
        memory: the `LanguageState` that it prepared.
        rows: as many as there will be, about.
    """

    def __init__(self, model: Any, memory: Any, rows: int) -> None:
        self.steps = TransformerSteps(model, CausalLayer, None, rows)
        caches = [cache.memory for cache in memory.cache]
        self.slots = self.steps.layers.fill(
            tuple(cache.score for cache in caches), tuple(cache.read for cache in caches)
        )
        self.first = memory

    def begin(self) -> SearchMemory:
        """The memory that the steps read."""
        return SearchMemory(torch.arange(len(self.slots)))

    def initial_state(self, memory: SearchMemory, num_hypotheses: int = 1) -> LanguageSearchState:
        """As the model's."""
        rows = memory.sentences.repeat_interleave(num_hypotheses)
        return LanguageSearchState(self.slots[rows], self.first.position[rows], self.first.pending[rows])

    def step(
        self,
        inputs: Tensor,
        memory: SearchMemory,
        state: LanguageSearchState,
        *,
        alignment: bool = False,
        generator: Generator | None = None,
    ) -> tuple[DecoderOutput, LanguageSearchState]:
        """As the model's."""
        position, steps = state.position, state.slots.shape[1]
        ids = torch.where(state.pending == NOTHING, inputs, state.pending)
        x = self.steps.embed(ids, steps, position)
        # a row attends to the columns of its own tokens, as far back as the window reaches
        reach = steps + 1 if self.steps.reach is None else self.steps.reach
        begins = steps + 1 - (position + 1).clamp(max=min(reach, steps + 1))
        slots, weights = self.steps.run(x, state.slots, begins, position, "self" if alignment else None)
        alignments = {
            f"self.{index}": by_position(layer[:, :, None], position)[:, :, 0]
            for index, layer in enumerate(() if weights is None else weights)
        }
        log_probabilities = self.steps.head(self.steps.norm(x))
        after = LanguageSearchState(slots, position + 1, torch.full_like(state.pending, NOTHING))
        return DecoderOutput(log_probabilities=log_probabilities, alignments=alignments), after
