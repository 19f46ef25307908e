"""Attention to several memories."""

from __future__ import annotations

from regard import attention as a
from support.cases.case import MechanismCase
from support.cases.mechanisms.location import LOCATION

CASES: tuple[MechanismCase, ...] = (
    MechanismCase(
        "parallel",
        (a.Parallel,),
        lambda: a.Parallel(
            [
                a.bahdanau(query_size=5, memory_size=6, size=4),
                a.location_sensitive(query_size=5, memory_size=4, **LOCATION),
            ]
        ),
        (6, 4),
    ),
    MechanismCase(
        "parallel, combined",
        (a.Parallel,),
        lambda: a.Parallel(
            [a.luong(query_size=5, memory_size=6), a.mocha(query_size=5, memory_size=6, size=4)],
            combination=a.bahdanau(query_size=5, memory_size=6, size=4),
        ),
        (6, 6),
    ),
)
