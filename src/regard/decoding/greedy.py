"""Greedy search: the most probable token at every step."""

from __future__ import annotations

from regard.config.search import Search
from regard.decoding.constraint import checked
from regard.decoding.frontier import MinimumLengths, length_limits
from regard.decoding.options import processors_of
from regard.decoding.penalty import penalty_of, require_source
from regard.decoding.request import Request
from regard.decoding.rollout import roll_out
from regard.decoding.steps import Steps
from regard.ops import largest


def greedy_steps(request: Request, options: Search) -> Steps:
    """Takes the most probable token at every step, the lower id among equals; one hypothesis per sentence."""
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
