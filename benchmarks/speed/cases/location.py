"""Location-sensitive attention as in Tacotron 2: each step depends on the alignments of those before it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention import location_sensitive
from speed import arithmetic
from speed.case import OURS, PLAIN, Aim, Answer, Case, Contest, draw, with_gradients


def contest(
    dtype: torch.dtype, *, backward: bool = True, B: int, T: int, S: int, Q: int, M: int, D: int, W: int, F: int
) -> Contest:
    """T steps with F filters of width W, by the mechanism and written by hand in torch."""
    torch.manual_seed(1)
    mechanism = location_sensitive(query_size=Q, memory_size=M, size=D, num_filters=F, kernel_size=W).to(dtype)
    score: Any = mechanism.score
    queries, values = (x.float().to(dtype).requires_grad_() for x in (draw(B, T, Q), draw(B, S, M, seed=1)))
    probe = draw(B, T, M, seed=9).float().to(dtype)
    leaves = {"queries": queries, "values": values, **dict(mechanism.named_parameters())}

    def answer(attend: Callable[[], Tensor]) -> Answer:
        if not backward:
            with torch.no_grad():
                return {"contexts": attend()}
        return with_gradients("contexts", attend(), leaves, probe)

    sides = {
        OURS: lambda: mechanism(queries, mechanism.prepare(values))[0].context,
        PLAIN: lambda: by_hand(score, queries, values),
    }
    return Contest({name: partial(answer, side) for name, side in sides.items()}, shares_terms=backward)


def by_hand(score: Any, queries: Tensor, values: Tensor) -> Tensor:
    """Contexts (B, T, M): in each step the features of all positions, their projection, tanh, a product with v."""
    content, filters, projection = score.content, score.filters.weight, score.location_projection[0]
    keys = F.linear(values, content.key_projection.weight)
    projected = F.linear(queries, content.query_projection.weight, content.query_projection.bias)
    cumulative, contexts = torch.zeros_like(keys[..., 0]), []
    for query in projected.unbind(1):
        features = F.conv1d(cumulative[:, None], filters, padding=filters.shape[2] // 2)
        located = features.transpose(1, 2) @ projection
        weights = torch.softmax(torch.tanh(query[:, None] + keys + located) @ content.v[0], -1)
        cumulative = cumulative + weights
        contexts.append(torch.bmm(weights[:, None], values)[:, 0])
    return torch.stack(contexts, 1)


_SIZES = {"B": 32, "T": 20, "S": 120, "Q": 1024, "M": 512, "D": 128, "W": 31, "F": 32}
_QUICK = {"B": 4, "T": 6, "S": 20, "Q": 16, "M": 16}

LOCATION = (
    Case(
        "location-energies",
        "location-sensitive attention, steps forward and backward",
        contest,
        _SIZES,
        _QUICK,
        aims=(Aim(PLAIN, 1.5),),
        work=partial(arithmetic.location, backward=True),
        measures_memory=True,
    ),
    Case(
        "location-energies-forward",
        "location-sensitive attention, steps forward",
        partial(contest, backward=False),
        _SIZES,
        _QUICK,
        aims=(Aim(PLAIN, 2),),
        work=arithmetic.location,
    ),
)
