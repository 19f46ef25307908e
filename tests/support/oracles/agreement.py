"""Agreement of a mechanism with the oracles of its parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from regard.attention import Parallel
from regard.testing.mechanism import move_weights
from regard.testing.subject import Subject
from support.oracles.attend import attend, attend_in_parallel

if TYPE_CHECKING:
    from support.cases.case import MechanismCase

LENGTHS = (6, 1, 4)
STEPS = 4
TOLERANCE = 1e-11


def require_agreement(case: MechanismCase, num_hypotheses: int = 1) -> None:
    """Compares contexts and weights of a loop of steps with the oracles, sentence by sentence, in float64.

    Raises:
        AssertionError: if they differ by more than 1e-11.
    """
    mechanism = case.make().double().eval()
    move_weights(mechanism)
    several = isinstance(mechanism, Parallel)
    sizes = (case.memory_size,) if isinstance(case.memory_size, int) else case.memory_size
    subject = Subject(mechanism, case.query_size, sizes, several, case.input_size, case.key_size)
    sources = subject.sources(LENGTHS)
    queries = subject.queries(num_hypotheses * len(LENGTHS), STEPS)
    with torch.no_grad():
        looks = subject.loop(subject.prepare(sources), queries, num_hypotheses=num_hypotheses)
    inputs, keys = subject.inputs(queries), subject.keys(sources)
    for row, query in enumerate(queries.tolist()):
        sentence = row // num_hypotheses
        real = [values[sentence][mask[sentence]].tolist() for values, mask in zip(sources.values, sources.masks)]
        weights: list[Any]
        if several:
            contexts, weights = attend_in_parallel(mechanism, real, query)
        else:
            options: dict[str, Any] = {} if inputs is None else {"inputs": inputs[row].tolist()}
            if keys is not None:
                options["keys"] = keys[sentence][sources.masks[0][sentence]].tolist()
            contexts, alignment = attend(mechanism, real[0], query, **options)
            weights = [alignment]
        torch.testing.assert_close(looks.contexts[row].tolist(), contexts, rtol=0, atol=TOLERANCE)
        for ours, theirs in zip(looks.alignments, weights, strict=True):
            expected = torch.tensor(theirs, dtype=torch.float64).transpose(0, 1)
            torch.testing.assert_close(ours[row, ..., : expected.shape[-1]], expected, rtol=0, atol=TOLERANCE)
