"""The processors that the options of a search name."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from regard.config.search import Search
from regard.decoding.constraint import Constraints, ExcludedPhrases, ForcedPrefix
from regard.decoding.processor import (
    AttentionStop,
    EosThreshold,
    NoRepeat,
    Processor,
    RepetitionPenalty,
    UnknownPenalty,
)
from regard.errors import ConfigError


def processors_of(
    options: Search,
    further: Sequence[Processor] = (),
    *,
    unk: int | None = None,
    constraints: Sequence[Constraints] | None = None,
    device: torch.device | None = None,
) -> tuple[Processor, ...]:
    """The processors that options and constraints name, with further ones before those that decide alone.

    Args:
        unk: the id of the unknown token.
        constraints: those of every sentence.
        device: that of the search, for constraints.

    Raises:
        ConfigError: for a penalty of unknown tokens without `unk`.
    """
    processors: list[Processor] = []
    if options.no_repeat_ngram_size:
        processors.append(NoRepeat(options.no_repeat_ngram_size))
    if options.repetition_penalty != 1:
        processors.append(RepetitionPenalty(options.repetition_penalty))
    if options.unknown_penalty:
        if unk is None:
            raise ConfigError(
                "unknown_penalty needs the id of the unknown token: search(unk=...).", ("decoding", "unknown_penalty")
            )
        processors.append(UnknownPenalty(unk, options.unknown_penalty))
    place = torch.device("cpu") if device is None else device
    if constraints is not None and any(row.exclude for row in constraints):
        processors.append(ExcludedPhrases([row.exclude for row in constraints], place))
    if options.eos_threshold is not None:
        processors.append(EosThreshold(options.eos_threshold))
    processors.extend(further)
    if options.attention_stop is not None:
        processors.append(AttentionStop(options.attention_stop))
    if constraints is not None and any(row.prefix for row in constraints):
        processors.append(ForcedPrefix([row.prefix for row in constraints], place))
    return tuple(processors)
