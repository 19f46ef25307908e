"""A whole mechanism from the oracles of its parts: every sentence, head and step by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from regard.testing.oracles.alignments import ALIGNMENTS
from regard.testing.oracles.reads import READS
from regard.testing.oracles.scores import SCORES, Matrix, Vector
from regard.testing.oracles.windows import WINDOWS


def attend(mechanism: Any, memory: Matrix, queries: Sequence[Vector]) -> tuple[Matrix, list[Matrix]]:
    """What a mechanism sees of one sentence without padding.

    Nothing is carried from step to step: every step is computed from all queries and all earlier weights. Uses plain
    floats, so parameters in float64 give float64.

    Args:
        mechanism: a `Mechanism` whose parts are listed in SCORES, WINDOWS, ALIGNMENTS and READS.
        memory: (S, M).
        queries: (T, Q).

    Returns:
        contexts (T, V) and weights (T, H, S).
    """
    heads = range(mechanism.num_heads)
    score, window = SCORES[type(mechanism.score)], WINDOWS[type(mechanism.window)]
    alignment, read = ALIGNMENTS[type(mechanism.alignment)], READS[type(mechanism.read)]
    energies: list[list[Vector]] = [[] for _ in heads]
    supports: list[list[list[bool]]] = [[] for _ in heads]
    weights: list[list[Vector]] = [[] for _ in heads]
    contexts: Matrix = []
    for step in range(len(queries)):
        so_far = queries[: step + 1]
        for h in heads:
            supports[h].append(window(mechanism.window, h, step, len(memory), weights[h]))
            energies[h].append(score(mechanism.score, h, so_far, memory, weights[h]))
            found = alignment(mechanism.alignment, h, energies[h], supports[h], so_far, memory)
            weights[h].append(found)
        contexts.append(read(mechanism.read, [weights[h][-1] for h in heads], memory))
    return contexts, [[weights[h][step] for h in heads] for step in range(len(queries))]


def attend_in_parallel(
    parallel: Any, memories: Sequence[Matrix], queries: Sequence[Vector]
) -> tuple[Matrix, list[list[Matrix]]]:
    """What a `Parallel` sees of one sentence in every memory: contexts (T, V), and a (T, H, S) for each mechanism."""
    looks = [
        attend(mechanism, memory, queries) for mechanism, memory in zip(parallel.mechanisms, memories, strict=True)
    ]
    alignments = [weights for _, weights in looks]
    if parallel.combination is None:
        return [[x for contexts, _ in looks for x in contexts[t]] for t in range(len(queries))], alignments
    combined: Matrix = []
    over_sources: list[Matrix] = []
    for t, query in enumerate(queries):
        contexts, weights = attend(parallel.combination, [own[t] for own, _ in looks], [query])
        combined += contexts
        over_sources += weights
    return combined, [*alignments, over_sources]
