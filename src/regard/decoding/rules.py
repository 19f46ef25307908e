"""The rules of a search, from its options and its request: penalty, length limits, constraints and processors."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.config.search import Search
from regard.decoding.constraint import Constraints, ExcludedPhrases, ForcedPrefix, checked
from regard.decoding.penalty import AbstractPenalty, CoveragePenalty, penalty_of
from regard.decoding.processor import (
    AttentionStop,
    EosThreshold,
    NoRepeat,
    Processor,
    RepetitionPenalty,
    UnknownPenalty,
)
from regard.decoding.request import Request, length_limits
from regard.errors import ConfigError


@dataclass(frozen=True, slots=True, eq=False)
class SearchRules:
    """The rules by which a search extends and ranks hypotheses.

    Args:
        penalty: ranks hypotheses.
        limits: (B,), the largest numbers of tokens.
        constraints: one for each sentence, or None if there are none.
        processors: in the order in which they are applied.
        constant: what the steps depend on besides tensors and request; None if unknown, as with a user's penalty.
    """

    penalty: AbstractPenalty
    limits: Tensor
    constraints: list[Constraints] | None
    processors: tuple[Processor, ...]
    constant: Hashable


def rules_of(
    request: Request, options: Search, *, penalty: AbstractPenalty | None = None, no_include: str = ""
) -> SearchRules:
    """The rules that options and request define.

    Args:
        penalty: in place of that of the options.
        no_include: what `Constraints.include` needs and the search lacks; empty if it lacks nothing.

    Raises:
        ConfigError: for constraints that the search cannot satisfy, a coverage penalty without a source, or a penalty
            of unknown tokens without `unk`.
        ShapeError, RegardError: for length limits of a wrong shape or below 1.
    """
    penalty = penalty_of(options, request.penalty) if penalty is None else penalty
    if isinstance(penalty, CoveragePenalty) and request.source is None:
        raise ConfigError(
            "A coverage penalty needs to know which source positions are real: search(source=...).",
            ("decoding", "coverage_penalty"),
        )
    limits = length_limits(request.max_length, request.memory)
    constraints = checked(request.constraints, len(limits), eos=request.eos, limits=limits, no_include=no_include)
    processors = _processors(options, request, constraints, limits.device)
    is_known = type(penalty).__module__.startswith("regard.")
    return SearchRules(penalty, limits, constraints, processors, (options, penalty) if is_known else None)


def _processors(
    options: Search, request: Request, constraints: Sequence[Constraints] | None, device: torch.device
) -> tuple[Processor, ...]:
    """The processors of options, request and constraints; those that leave a single token possible come last."""
    processors: list[Processor] = []
    if options.no_repeat_ngram_size:
        processors.append(NoRepeat(options.no_repeat_ngram_size))
    if options.repetition_penalty != 1:
        processors.append(RepetitionPenalty(options.repetition_penalty))
    if options.unknown_penalty:
        if request.unk is None:
            raise ConfigError(
                "unknown_penalty needs the id of the unknown token: search(unk=...).", ("decoding", "unknown_penalty")
            )
        processors.append(UnknownPenalty(request.unk, options.unknown_penalty))
    if constraints is not None and any(row.exclude for row in constraints):
        processors.append(ExcludedPhrases([row.exclude for row in constraints], device))
    if options.eos_threshold is not None:
        processors.append(EosThreshold(options.eos_threshold))
    processors.extend(request.processors)
    if options.attention_stop is not None:
        processors.append(AttentionStop(options.attention_stop))
    if constraints is not None and any(row.prefix for row in constraints):
        processors.append(ForcedPrefix([row.prefix for row in constraints], device))
    return tuple(processors) if request.recorder is None else request.recorder.around(processors)
