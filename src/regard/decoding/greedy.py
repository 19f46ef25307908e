"""Greedy search: the most probable token at every step."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from regard.config.search import Search
from regard.decoding.constraint import Constraints, checked
from regard.decoding.frontier import MinimumLengths, length_limits
from regard.decoding.options import processors_of
from regard.decoding.penalty import AbstractPenalty, penalty_of, require_source
from regard.decoding.processor import Processor, SearchSource
from regard.decoding.request import Request
from regard.decoding.result import Hypothesis
from regard.decoding.rollout import roll_out
from regard.decoding.steps import Steps, exhausted
from regard.errors import ConfigError
from regard.models.contract import Decoder, Tree
from regard.ops import largest


def greedy_search(
    decoder: Decoder,
    memory: Tree,
    options: Search | None = None,
    *,
    bos: int,
    eos: int,
    max_length: int | Tensor,
    alignment: bool = False,
    penalty: AbstractPenalty | None = None,
    processors: Sequence[Processor] = (),
    items: Tensor | None = None,
    source: SearchSource | None = None,
    min_length: int | Tensor | None = None,
    unk: int | None = None,
    constraints: Sequence[Constraints | None] | None = None,
) -> list[list[Hypothesis]]:
    """Takes the most probable token at every step, the lower id among equals; one hypothesis per sentence.

    Args and Raises: as in `search`. A beam other than 1 is an error.
    """
    options = Search(beam=1) if options is None else options
    return exhausted(
        greedy_steps(
            Request(
                decoder=decoder,
                memory=memory,
                bos=bos,
                eos=eos,
                max_length=max_length,
                alignment=alignment,
                penalty=penalty,
                processors=processors,
                items=items,
                source=source,
                min_length=min_length,
                unk=unk,
                constraints=constraints,
            ),
            options,
        )
    )


def greedy_steps(request: Request, options: Search) -> Steps:
    """Greedy search, step by step."""
    if options.method != "beam" or options.beam != 1 or options.keep_finished:
        got = f"beam={options.beam}" if options.method == "beam" else f"method={options.method!r}"
        got += ", keep_finished" if options.keep_finished else ""
        raise ConfigError(f"Greedy search is beam=1; got {got}. Call search.", ("decoding", "beam"))
    penalty = penalty_of(options, request.penalty)
    require_source(penalty, request.source)
    limits = length_limits(request.max_length, request.memory)
    rows = checked(
        request.constraints,
        len(limits),
        eos=request.eos,
        limits=limits,
        no_include="a beam of at least 2; greedy search (beam 1) has only one hypothesis",
    )
    return roll_out(
        request,
        lambda log_probabilities, frontier: largest(log_probabilities, 1)[1],
        penalty,
        processors_of(options, request.processors, unk=request.unk, constraints=rows, device=limits.device),
        width=1,
        min_length=MinimumLengths(request.min_length, options.min_length, request.memory),
        storage=options.weights,
    )
