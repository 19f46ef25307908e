"""The greatest length of an output, and constraints on it, as texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.config.search import Search
from regard.config.texts import TextDecodingConfig
from regard.data.text import UNKNOWN, Encoding, Field
from regard.decoding import AbstractPenalty, Candidates, Constraints, Hypothesis, NoPenalty, penalty_of
from regard.errors import ConfigError, DataError, InputError

EXTRA_SYMBOLS = 10
"""Symbols that an output may have in addition to what its input, or its constraints, lead to expect."""


def within(
    hypotheses: Sequence[Hypothesis], limit: int, options: Search, weights: Callable[[Hypothesis], Tensor]
) -> list[Hypothesis]:
    """Hypotheses of at most `limit` symbols, best first.

    Args:
        weights: the sums of a hypothesis's main attention, (S,), if the penalty reads them.

    A search has room for `limit` symbols and the end symbol. A hypothesis that has not ended there has one symbol too
    many, which is cut off; its score then has no processors, only the penalty. Of the hypotheses of a search that are
    then equal only one is kept, and finished ones stay in front. All samples are kept. Those that minimum Bayes risk
    has chosen keep their order and their scores.
    """
    penalty = penalty_of(options) if options.method == "beam" else NoPenalty()
    too_long = [h for h in hypotheses if h.stop_reason == "length" and len(h.tokens) > limit]
    whole = [h for h in hypotheses if h.stop_reason == "eos" or len(h.tokens) <= limit]
    cut = [_cut(hypothesis, limit, penalty, weights) for hypothesis in too_long]
    if options.method == "mbr":
        scored = sorted([*whole, *(replace(c, score=h.score) for c, h in zip(cut, too_long))], key=lambda h: -h.score)
        kept = {tuple(hypothesis.tokens.tolist()): hypothesis for hypothesis in reversed(scored)}
        return sorted(kept.values(), key=lambda h: -h.score)
    if options.method == "sampling":
        return sorted(whole + cut, key=lambda hypothesis: -hypothesis.score)
    distinct = {tuple(hypothesis.tokens.tolist()): hypothesis for hypothesis in reversed(cut)}
    return whole + sorted(distinct.values(), key=lambda hypothesis: -hypothesis.score)


def _cut(
    hypothesis: Hypothesis, limit: int, penalty: AbstractPenalty, weights: Callable[[Hypothesis], Tensor]
) -> Hypothesis:
    total = hypothesis.log_probability - float(hypothesis.token_log_probabilities[limit:].sum())
    cut = replace(
        hypothesis,
        tokens=hypothesis.tokens[:limit],
        log_probability=total,
        token_log_probabilities=hypothesis.token_log_probabilities[:limit],
        alignments={name: rows[:, :limit] for name, rows in hypothesis.alignments.items()},
        auxiliary={name: values[:limit] for name, values in hypothesis.auxiliary.items()},
    )
    coverage = weights(cut) if penalty.uses_weights else None
    ranked = Candidates(torch.tensor(total, dtype=torch.float64), limit, ended=False, weights=coverage)
    return replace(cut, score=float(penalty.score(ranked)))


KEYS = ("prefix", "include", "exclude")


def encoded(
    decoding: TextDecodingConfig,
    given: Sequence[Mapping[str, Any] | None] | None,
    field: Field,
    count: int,
    *,
    ids_of: Callable[[Encoding, int], NDArray[np.int64]],
    by_input: bool,
    has_beam: bool,
) -> list[Constraints] | None:
    """The constraints of every input in ids: those of the configuration, and further ones of single inputs.

    Args:
        given: for each input an object with some of `prefix` (in place of the configuration's), `include` and `exclude`
            (in addition), or None.
        ids_of: the ids of an output of the input with this index.
        by_input: whether they depend on the input, as those of symbols that a pointer copies do.
        has_beam: whether texts can be included.
    """
    if given is not None and len(given) != count:
        raise DataError(f"constraints: give one for each of the {count} inputs, or None; got {len(given)}.")
    own = {"prefix": decoding.prefix, "include": decoding.include, "exclude": decoding.exclude}
    if given is None or not any(given):
        if not any(own.values()) or not count:
            return None
        if not by_input:
            try:
                return [_constraints(own, field, ids_of, 0)] * count
            except DataError as error:
                raise ConfigError(str(error), ("decoding",)) from None
    results = []
    for index, extra in enumerate(given or [None] * count):
        try:
            mine = _checked(extra or {})
            if mine.get("include") and not has_beam:
                raise DataError("include needs a search with a beam of at least 2.")
            lists = {name: (*texts(own[name]), *texts(mine.get(name, ()))) for name in KEYS[1:]}
            whole = {"prefix": mine.get("prefix", own["prefix"]), **lists}
            results.append(_constraints(whole, field, ids_of, index))
        except DataError as error:
            raise InputError(index, f"constraints: {error}") from None
    return results


def backwards(asked: Sequence[Constraints]) -> list[Constraints]:
    """The constraints of outputs that are written from right to left."""
    for index, each in enumerate(asked):
        if each.prefix:
            raise InputError(index, "constraints: the model writes from right to left, so no output has a prefix.")
    turned = ([[phrase[::-1] for phrase in phrases] for phrases in (each.include, each.exclude)] for each in asked)
    return [Constraints((), include, exclude) for include, exclude in turned]


def with_room(
    limits: NDArray[np.int64], asked: Sequence[Constraints], decoding: TextDecodingConfig, most: int
) -> NDArray[np.int64]:
    """The limits, large enough for the constraints if they follow from the inputs.

    Args:
        most: the most symbols that the decoder can say.
    """
    largest = most if decoding.max_length is None else min(decoding.max_length, most)
    name = "max_length" if largest == decoding.max_length else "the decoder's greatest length"
    for index, each in enumerate(asked):
        longest = max(map(len, (each.prefix, *each.include)))
        if longest > largest:
            raise InputError(index, f"constraints have {longest} symbols in a row, but {name} is {largest}")
    if decoding.max_length is not None:
        return limits
    needed = np.array([len(each.prefix) + sum(map(len, each.include)) for each in asked], np.int64)
    return np.minimum(np.maximum(limits, needed + EXTRA_SYMBOLS), most)


def texts(value: Any) -> tuple[str, ...]:
    """Several texts, or one."""
    return (value,) if isinstance(value, str) else tuple(value)


def _checked(given: Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise DataError(f"expected an object with {', '.join(KEYS)}; got {given!r:.60}.")
    for name, value in given.items():
        if name not in KEYS:
            raise DataError(f"unknown key {name!r}; there are {', '.join(KEYS)}.")
        several = isinstance(value, Sequence) and name != "prefix"
        if not (isinstance(value, str) or (several and all(isinstance(text, str) for text in value))):
            raise DataError(f"{name} is {'a text' if name == 'prefix' else 'a list of texts'}; got {value!r:.60}.")
    return given


def _constraints(
    given: Mapping[str, Any], field: Field, ids_of: Callable[[Encoding, int], NDArray[np.int64]], index: int
) -> Constraints:
    prefix, include, exclude = (
        [ids for text in texts(given[name]) if (ids := _ids(text, name, field, ids_of, index))] for name in KEYS
    )
    return Constraints(prefix[0] if prefix else (), include, exclude)


def _ids(
    text: str, name: str, field: Field, ids_of: Callable[[Encoding, int], NDArray[np.int64]], index: int
) -> list[int]:
    """The ids of a text; none if it is the empty prefix, or if no output can have it that must not."""
    encoding = field.encode(text)
    if encoding.refusal or (not encoding.tokens and (name != "prefix" or text)):
        raise DataError(f"{name} {text!r:.60}: {encoding.refusal or 'the text is empty'}")
    ids: list[int] = ids_of(encoding, index).tolist() if encoding.tokens else []
    unknown = [token for token, number in zip(encoding.tokens, ids, strict=True) if number == UNKNOWN]
    if unknown and name == "exclude":
        return []
    if unknown:
        raise DataError(
            f"{name} {text!r:.60} has symbols that no output has: {', '.join(map(repr, dict.fromkeys(unknown)))}"
        )
    return ids
