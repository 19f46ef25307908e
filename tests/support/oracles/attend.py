"""A whole mechanism from the oracles of its parts: every sentence, head and step by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from regard.attention import Divided
from support.oracles.story import Matrix, Story, Vector, ask


def attend(
    mechanism: Any,
    memory: Matrix,
    queries: Sequence[Vector],
    *,
    keys: Matrix | None = None,
    inputs: Sequence[Vector] | None = None,
    grid: tuple[int, int] | None = None,
) -> tuple[Matrix, list[Matrix]]:
    """The contexts and weights of a mechanism for one sentence without padding.

    There is no state: every step is computed from all queries and all earlier weights. Plain floats are as precise as
    float64, so the parameters should be float64.

    Args:
        mechanism: a `Mechanism` whose parts have oracles, or a `Divided` around one.
        memory, keys: (S, M), and (S, M2) or None for the memory itself.
        queries, inputs: (T, Q), and (T, F) if the mechanism reads the decoder's inputs.
        grid: (h, w), if the positions are the cells of an image.

    Returns:
        contexts (T, V) and weights (T, H, S).
    """
    if isinstance(mechanism, Divided):
        parts = [_parts(h, mechanism.sizes) for h in memory]
        query_parts = [_parts(h, mechanism.sizes)[0] for h in queries]
        values, key_parts = [h[min(1, len(h) - 1)] for h in parts], [h[0] for h in parts]
        return attend(mechanism.mechanism, values, query_parts, keys=key_parts, inputs=inputs, grid=grid)
    heads = range(mechanism.num_heads)
    energies: list[list[Vector]] = [[] for _ in heads]
    supports: list[list[list[bool]]] = [[] for _ in heads]
    weights: list[list[Vector]] = [[] for _ in heads]
    contexts: Matrix = []
    for step in range(len(queries)):
        past = None if inputs is None else inputs[: step + 1]
        for h in heads:
            story = Story(
                h, memory, keys or memory, queries[: step + 1], past, tuple(weights[h]), tuple(contexts), grid
            )
            seen = ask(mechanism.window, story)
            supports[h].append(seen.allowed)
            scores = ask(mechanism.score, story)
            energies[h].append([e + prior for e, prior in zip(scores, seen.prior or [0.0] * len(scores), strict=True)])
            aligned = ask(mechanism.alignment, story, energies[h], supports[h])
            weights[h].append([w * gain for w, gain in zip(aligned, seen.gain or [1.0] * len(aligned), strict=True)])
        contexts.append(ask(mechanism.read, story, [weights[h][-1] for h in heads]))
    return contexts, [[weights[h][step] for h in heads] for step in range(len(queries))]


def _parts(h: Vector, sizes: Sequence[int]) -> Matrix:
    """The parts k, v and p of h."""
    starts = [sum(sizes[:index]) for index in range(len(sizes))]
    return [h[start : start + size] for start, size in zip(starts, sizes, strict=True)]


def attend_in_parallel(
    parallel: Any, memories: Sequence[Matrix], queries: Sequence[Vector]
) -> tuple[Matrix, list[list[Matrix]]]:
    """The contexts (T, V) of a `Parallel` for one sentence, and the weights (T, H, S) of each mechanism."""
    looks = [
        attend(mechanism, memory, queries) for mechanism, memory in zip(parallel.mechanisms, memories, strict=True)
    ]
    alignments = [weights for _, weights in looks]
    if parallel.combination is None:
        return [[x for contexts, _ in looks for x in contexts[t]] for t in range(len(queries))], alignments
    combined: Matrix = []
    over_sources: list[Matrix] = []
    for t, query in enumerate(queries):
        contexts, weights = attend(parallel.combination, [contexts[t] for contexts, _ in looks], [query])
        combined += contexts
        over_sources += weights
    return combined, [*alignments, over_sources]
