"""Training items whose decoder states are nearest to a state of an output, as Seq2Seq-Vis shows them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data.text import EOS
from regard.errors import UnsupportedError
from regard.models import EnsembleDecoder, PointerDecoder, RecurrentDecoder, TransformerDecoder
from regard.models.pointer import features_of
from regard.runs.former_data import FormerData

if TYPE_CHECKING:
    from regard.tasks.text_generation.evaluation import WrittenItem
    from regard.tasks.text_generation.model import AbstractWriter

MOST_ITEMS = 2_000
"""The most training items whose states are kept."""
MOST_BYTES = 64 << 20
"""The most bytes of states."""
SECONDS = 10.0
"""After this time no further items are read."""
BATCH = 64
"""Items of a batch."""


@dataclass(frozen=True, slots=True)
class NearState:
    """A state of the decoder at a training item.

    Args:
        distance: Euclidean, from the state that was asked about.
        place: the item's, such as `train.tsv:3`.
        input: the item's, as text.
        tokens: the symbols of its output, with the end symbol.
        step: the number of the symbol that the state predicts, from 1.
    """

    distance: float
    place: str
    input: str
    tokens: tuple[str, ...]
    step: int

    def record(self) -> dict[str, Any]:
        """The state as a JSON object."""
        return {**asdict(self), "tokens": list(self.tokens)}


@dataclass(frozen=True, eq=False)
class TrainingStates:
    """The states of a decoder over training items by teacher forcing.

    Args:
        states: (M, D), what the decoder's head reads at each step.
        owners, steps: (M,), the index of each state's item, and its step, from 1.
        items: place, input and symbols of each item.
        num_found: the number of all training items that were found.
    """

    states: Tensor
    owners: NDArray[np.int64]
    steps: NDArray[np.int64]
    items: Sequence[tuple[str, str, tuple[str, ...]]]
    num_found: int

    @classmethod
    def of(cls, model: AbstractWriter[Any, Any]) -> TrainingStates:
        """The states of a model over the items that it was trained on, evenly chosen if they are many.

        Raises:
            UnsupportedError: if the data are not found or are not those of the training, and for decoders of other
                kinds.
        """
        check_decoder(model)
        if model.folder is None:
            raise UnsupportedError(f"{model.name} was not loaded from a run folder, so its training data are unknown.")
        located = FormerData.locate(model.folder)
        parts = [model.training_data(each.read()) for each in located if each.has_train]
        if not parts:
            notes = "; ".join(note for each in located for note in each.notes)
            raise UnsupportedError(f"The training data of {model.name} are not found: {notes}.")
        found = sum(map(len, parts))
        every = max(1, -(-found // MOST_ITEMS))
        items = [item for part in parts for item in model.items(part[::every])]
        order = np.random.default_rng(0).permutation(len(items))  # of less time, still an even choice
        states, owners, steps, kept = list[Tensor](), list[int](), list[int](), list[tuple[str, str, tuple[str, ...]]]()
        end, room = monotonic() + SECONDS, MOST_BYTES
        for start in range(0, len(order), BATCH):
            batch = [items[i] for i in order[start : start + BATCH]]
            for item, tokens, each in _states(model, batch):
                room -= each.numel() * each.element_size()
                if room < 0:
                    break
                states.append(each)
                owners += [len(kept)] * len(each)
                steps += range(1, len(each) + 1)
                kept.append((item.place, str(item.source), tokens))
            if room < 0 or monotonic() > end:
                break
        if not kept:
            raise UnsupportedError(f"None of the training items of {model.name} can be read.")
        return cls(torch.cat(states), np.array(owners), np.array(steps), kept, found)

    def nearest(self, state: Tensor, count: int) -> list[NearState]:
        """The `count` items with the nearest states, nearest first; of each item its nearest state.

        Args:
            state: (D,).
        """
        distances = (self.states - state).norm(dim=1)
        found: dict[int, NearState] = {}
        for index in distances.argsort(stable=True).tolist():
            owner = int(self.owners[index])
            if owner not in found:
                found[owner] = NearState(float(distances[index]), *self.items[owner], step=int(self.steps[index]))
            if len(found) == count:
                break
        return list(found.values())


def check_decoder(model: AbstractWriter[Any, Any]) -> None:
    """Refuses decoders whose states are not known."""
    decoder = model.module.decoder
    if not isinstance(decoder, RecurrentDecoder | TransformerDecoder | PointerDecoder):
        several = isinstance(decoder, EnsembleDecoder)
        kind = "several decoders are not compared" if several else f"a {type(decoder).__name__} are unknown"
        raise UnsupportedError(f"The states of {kind}; ask for those of one model of regard's decoders.")


def states_of(model: AbstractWriter[Any, Any], given: Any, output: str) -> tuple[tuple[str, ...], Tensor] | None:
    """The symbols of an output, with the end symbol, and the states (T, D) that predict them.

    None if the model cannot read the input or the output.
    """
    sources, symbols = model.listed([given]), [model.target.split(output)]
    return next(((tokens, states) for _, tokens, states in _forced(model, sources, symbols)), None)


def _states(
    model: AbstractWriter[Any, Any], items: Sequence[WrittenItem]
) -> Iterator[tuple[WrittenItem, tuple[str, ...], Tensor]]:
    """The items that can be read, with symbols and states as of `states_of`."""
    symbols = [model.target.split(item.references[0]) for item in items]
    for index, tokens, states in _forced(model, [item.source for item in items], symbols):
        yield items[index], tokens, states


def _forced(
    model: AbstractWriter[Any, Any], inputs: Sequence[Any], outputs: Sequence[Sequence[str]]
) -> Iterator[tuple[int, tuple[str, ...], Tensor]]:
    """The index of each input that can be read, its output's symbols in writing order, and their states (T, D)."""
    from regard.tasks.text_generation.model import END, max_symbols

    sources = model.sources(inputs)
    most = max_symbols(model.module.decoder)
    decoder: Any = model.module.decoder
    for rows in model.batches(sources, model.config.decoding):
        batch = [i for i in rows.tolist() if len(outputs[i]) <= most]
        if not batch:
            continue
        written = [list(outputs[i])[::-1] if model.is_reversed else list(outputs[i]) for i in batch]
        ids = [sources[i].spelling.ids(symbols).tolist() for i, symbols in zip(batch, written, strict=True)]
        fed = torch.full((len(ids), max(map(len, ids)) + 1), EOS)
        for row, each in zip(fed, ids, strict=True):
            row[: len(each) + 1] = torch.tensor([model.begin, *each])
        fed, memory = fed.to(model.device), model.encode([sources[i] for i in batch]).memory
        with torch.inference_mode():
            if isinstance(decoder, PointerDecoder):
                features = decoder.features(fed, memory)
            else:
                features = features_of(decoder)(fed, memory).values
            features = features.float().cpu()
        for i, symbols, states in zip(batch, written, features, strict=True):
            yield i, (*symbols, END), states[: len(symbols) + 1].clone()
