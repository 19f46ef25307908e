"""Minimum Bayes risk decoding: the output with the highest expected utility against samples of the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from regard.config.search import UtilityName
from regard.decoding.result import Hypothesis
from regard.decoding.utility import Output, Utility, utilities
from regard.errors import ConfigError, ShapeError

Text = Callable[[Sequence[int]], str]
"""From the tokens of an output, without the end of sentence, to its text."""
Texts = Text | Sequence[Text]
"""A function for all sentences, or one for each."""


def minimum_bayes_risk(
    candidates: Sequence[Sequence[Hypothesis]],
    references: Sequence[Sequence[Hypothesis]] | None = None,
    *,
    utility: UtilityName | Utility = "chrf",
    num_best: int = 1,
    text: Texts | None = None,
) -> list[list[Hypothesis]]:
    """The candidates of every sentence with the greatest expected utility, the mean of u(c, r) over references r.

    Repeated references count repeatedly. Of equal candidates the one with the highest log-probability is kept; ties of
    expected utility are broken by log-probability.

    Args:
        candidates: for each of B sentences, samples or the hypotheses of a beam.
        references: for each sentence, samples of the model; the candidates themselves if None.
        utility: a name (`regard.decoding.utility.utilities`), or a function of the outputs of a sentence.
        num_best: the number of candidates that are returned, best first; there may be fewer.
        text: converts tokens to text, for all sentences or one function for each. If given, `chrf` and functions
            compare texts; other utilities always compare tokens.

    Returns:
        The hypotheses with the expected utility as their score. Utilities ignore the end of sentence.

    Raises:
        ConfigError: for a sentence with candidates and no references.
        ShapeError: for lists of different lengths, or a function that returns another shape.

    Source: Eikema and Aziz 2022, Sampling-Based Approximations to Minimum Bayes Risk Decoding for Neural Machine
    Translation (arXiv 2108.04718), sections 2.3 and 3; references other than the candidates: their section 4, and
    Fernandes et al. 2022 (arXiv 2205.00978).
    """
    references = candidates if references is None else references
    if len(candidates) != len(references):
        raise ShapeError(
            f"candidates and references must be lists of equal length B; got {len(candidates)} and {len(references)}."
        )
    if lacking := [b for b, (c, r) in enumerate(zip(candidates, references)) if c and not r]:
        raise ConfigError(f"Sentence {lacking[0]} has candidates but no references; draw at least one sample.")
    best = [_distinct(hypotheses) for hypotheses in candidates]
    counts = [Counter(map(_symbols, hypotheses)) for hypotheses in references]
    shown: Sequence[Callable[[tuple[int, ...]], Output]] = [tuple] * len(candidates)
    if text is not None and (utility == "chrf" or callable(utility)):
        shown = [text] * len(candidates) if callable(text) else text
        if len(shown) != len(candidates):
            raise ShapeError(
                f"text must be a function, or one for each of {len(candidates)} sentences; got {len(shown)}."
            )
    results = []
    for distinct, count, matrix in zip(best, counts, _matrices(best, counts, utility, shown), strict=True):
        weights = np.array(list(count.values()), np.float64)
        means = (matrix @ weights / weights.sum()).tolist() if len(weights) else []
        ranked = [replace(h, score=mean) for h, mean in zip(distinct.values(), means)]
        results.append(sorted(ranked, key=lambda h: (-h.score, -h.log_probability))[:num_best])
    return results


def _symbols(hypothesis: Hypothesis) -> tuple[int, ...]:
    tokens: list[int] = hypothesis.tokens.tolist()
    return tuple(tokens[:-1] if hypothesis.stop_reason == "eos" else tokens)


def _distinct(hypotheses: Sequence[Hypothesis]) -> dict[tuple[int, ...], Hypothesis]:
    """Of equal outputs the one with the highest log-probability, in the order of their first occurrence."""
    distinct: dict[tuple[int, ...], Hypothesis] = {}
    for hypothesis in hypotheses:
        symbols = _symbols(hypothesis)
        kept = distinct.setdefault(symbols, hypothesis)
        if hypothesis.log_probability > kept.log_probability:
            distinct[symbols] = hypothesis
    return distinct


def _matrices(
    candidates: Sequence[dict[tuple[int, ...], Hypothesis]],
    references: Sequence[Counter[tuple[int, ...]]],
    utility: UtilityName | Utility,
    shown: Sequence[Callable[[tuple[int, ...]], Output]],
) -> list[NDArray[np.float64]]:
    """The utilities (C, M) of each sentence, of distinct candidates and distinct references."""
    if callable(utility):
        matrices = []
        for ours, theirs, show in zip(candidates, references, shown, strict=True):
            matrix = np.asarray(utility(list(map(show, ours)), list(map(show, theirs))), np.float64)
            if matrix.shape != (len(ours), len(theirs)):
                raise ShapeError(
                    f"A utility must return (candidates, references) = ({len(ours)}, {len(theirs)}); got "
                    f"{matrix.shape}."
                )
            matrices.append(matrix)
        return matrices
    together = [list(dict.fromkeys([*ours, *theirs])) for ours, theirs in zip(candidates, references, strict=True)]
    places: list[dict[Hashable, int]] = [{output: i for i, output in enumerate(outputs)} for outputs in together]
    return [
        matrix[np.ix_([place[c] for c in ours], [place[r] for r in theirs])]
        for matrix, place, ours, theirs in zip(
            utilities(utility, [list(map(show, outputs)) for show, outputs in zip(shown, together)]),
            places,
            candidates,
            references,
        )
    ]
