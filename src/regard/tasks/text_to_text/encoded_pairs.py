"""Pairs of texts as the ids of both sides, padded to batches."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray
from torch import Tensor

from regard.data.text import BOS, EOS
from regard.data.text.survey import Survey
from regard.tasks.encoded import encoded_side
from regard.tasks.text_to_text.copying import PointerSources
from regard.tasks.text_to_text.model import TextToText


class EncodedPairs:
    """The ids of both sides of surveyed pairs, and the extended ids of a pointer."""

    def __init__(self, pairs: Survey, model: TextToText) -> None:
        self.source = encoded_side(pairs.source)
        self.target = encoded_side(pairs.target, is_reversed=model.is_reversed)
        self.begin, self.end = model.source_begin, model.source_end
        self.copies = None
        if model.extended is not None:
            self.copies = PointerSources(pairs.pairs, model.extended, is_reversed=model.is_reversed)

    @property
    def lengths(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """(pairs,) symbols of each source and of each target."""
        return self.source.lengths, self.target.lengths

    def pad(self, indices: Any) -> dict[str, Tensor]:
        """Padded ids and masks of some of the pairs."""
        source, source_mask = self.source.pad(indices, begin=self.begin, end=self.end)
        inputs, _ = self.target.pad(indices, begin=BOS)
        targets, mask = self.target.pad(indices, end=EOS)
        batch = {"source": source, "source_mask": source_mask, "inputs": inputs, "targets": targets, "mask": mask}
        return batch if self.copies is None else {**batch, **self.copies.pad(indices)}
