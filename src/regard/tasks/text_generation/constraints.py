"""The limits on the lengths of outputs, and constraints given as texts."""

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
from regard.data.text.vocabulary import SPECIALS
from regard.decoding import AbstractPenalty, Candidates, Constraints, Hypothesis, NoPenalty, penalty_of
from regard.errors import ConfigError, DataError, InputError

EXTRA_SYMBOLS = 10
"""Symbols that an output may have in addition to those of its constraints."""


def within(
    hypotheses: Sequence[Hypothesis], limit: int, options: Search, weights: Callable[[Hypothesis], Tensor]
) -> list[Hypothesis]:
    """Hypotheses of at most `limit` symbols, best first.

    Args:
        weights: the sums of a hypothesis's main attention, (S,), if the penalty reads them.

    A search has room for `limit` symbols and the end symbol. A hypothesis without an end symbol has one symbol too
    many, which is cut off; its score then includes the penalty but no processors. Of hypotheses of a search that are
    equal then, one remains, and finished ones come first. All samples remain. Hypotheses that minimum Bayes risk has
    chosen keep their order and their scores.
    """
    penalty = penalty_of(options) if options.method == "beam" else NoPenalty()
    too_long = [h for h in hypotheses if h.stop_reason == "length" and len(h.tokens) > limit]
    whole = [h for h in hypotheses if h.stop_reason == "eos" or len(h.tokens) <= limit]
    cut = [_cut(hypothesis, limit, penalty, weights) for hypothesis in too_long]
    if options.method == "mbr":
        scored = sorted([*whole, *(replace(c, score=h.score) for c, h in zip(cut, too_long))], key=lambda h: -h.score)
        return _distinct(scored)
    if options.method == "sampling":
        return sorted(whole + cut, key=lambda h: -h.score)
    return whole + _distinct(cut)


def _distinct(hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
    """The first hypothesis of each sequence of symbols, best first."""
    first = {tuple(hypothesis.tokens.tolist()): hypothesis for hypothesis in reversed(hypotheses)}
    return sorted(first.values(), key=lambda h: -h.score)


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
    candidate = Candidates(torch.tensor(total, dtype=torch.float64), limit, ended=False, weights=coverage)
    return replace(cut, score=float(penalty.score(candidate)))


KEYS = ("prefix", "include", "exclude")


def constraints_in_ids(
    decoding: TextDecodingConfig,
    constraints: Sequence[Mapping[str, Any] | None] | None,
    field: Field,
    count: int,
    *,
    ids_of: Callable[[Encoding, int], NDArray[np.int64]],
    depends_on_inputs: bool,
    has_beam: bool,
) -> list[Constraints] | None:
    """The constraints of every input in ids: those of the configuration, and further ones of single inputs.

    Args:
        constraints: for each input an object with some of `prefix` (in place of the configuration's; a text or a list
            of symbols), `include` and `exclude` (in addition), or None.
        ids_of: the ids of an output of the input with this index.
        depends_on_inputs: whether ids depend on the input, as those of symbols that a pointer copies.
        has_beam: whether texts can be included.
    """
    if constraints is not None and len(constraints) != count:
        raise DataError(f"constraints: give one for each of the {count} inputs, or None; got {len(constraints)}.")
    configured = {"prefix": decoding.prefix, "include": decoding.include, "exclude": decoding.exclude}
    if constraints is None or not any(constraints):
        if not any(configured.values()) or not count:
            return None
        if not depends_on_inputs:
            try:
                return [_constraints(configured, field, ids_of, 0)] * count
            except DataError as error:
                raise ConfigError(str(error), ("decoding",)) from None
    results = []
    for index, each in enumerate(constraints or [None] * count):
        try:
            further = _checked(each or {})
            if further.get("include") and not has_beam:
                raise DataError("include needs a search with a beam of at least 2.")
            lists = {name: (*texts(configured[name]), *texts(further.get(name, ()))) for name in KEYS[1:]}
            whole = {"prefix": further.get("prefix", configured["prefix"]), **lists}
            results.append(_constraints(whole, field, ids_of, index))
        except DataError as error:
            raise InputError(index, f"constraints: {error}") from None
    return results


def reversed_constraints(constraints: Sequence[Constraints]) -> list[Constraints]:
    """The constraints of outputs that are written from right to left."""
    for index, each in enumerate(constraints):
        if each.prefix:
            raise InputError(index, "constraints: the model writes from right to left, so no output has a prefix.")
    phrases = (([p[::-1] for p in each.include], [p[::-1] for p in each.exclude]) for each in constraints)
    return [Constraints((), include, exclude) for include, exclude in phrases]


def extended_limits(
    limits: NDArray[np.int64], constraints: Sequence[Constraints], decoding: TextDecodingConfig, most: int
) -> NDArray[np.int64]:
    """The limits on outputs, raised to fit the constraints unless the configuration sets them.

    Args:
        most: the most symbols of the decoder's outputs.
    """
    largest = most if decoding.max_length is None else min(decoding.max_length, most)
    name = "max_length" if largest == decoding.max_length else "the decoder's greatest length"
    for index, each in enumerate(constraints):
        longest = max(map(len, (each.prefix, *each.include)))
        if longest > largest:
            raise InputError(index, f"constraints have {longest} symbols in a row, but {name} is {largest}")
    if decoding.max_length is not None:
        return limits
    needed = np.array([len(each.prefix) + sum(map(len, each.include)) for each in constraints], np.int64)
    return np.minimum(np.maximum(limits, needed + EXTRA_SYMBOLS), most)


def texts(value: Any) -> tuple[str, ...]:
    """Several texts, or one."""
    return (value,) if isinstance(value, str) else tuple(value)


def _checked(constraints: Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(constraints, Mapping):
        raise DataError(f"expected an object with {', '.join(KEYS)}; got {constraints!r:.60}.")
    for name, value in constraints.items():
        if name not in KEYS:
            raise DataError(f"unknown key {name!r}; there are {', '.join(KEYS)}.")
        if not (isinstance(value, Sequence) and all(isinstance(text, str) for text in value)):
            kind = "a text, or a list of symbols" if name == "prefix" else "a list of texts"
            raise DataError(f"{name} is {kind}; got {value!r:.60}.")
    return constraints


def _constraints(
    phrases: Mapping[str, Any], field: Field, ids_of: Callable[[Encoding, int], NDArray[np.int64]], index: int
) -> Constraints:
    given = phrases["prefix"]
    prefix = _ids(given, "prefix", field, ids_of, index) if isinstance(given, str) else _spelled(given, ids_of, index)
    include, exclude = (
        [ids for text in texts(phrases[name]) if (ids := _ids(text, name, field, ids_of, index))] for name in KEYS[1:]
    )
    return Constraints(prefix, include, exclude)


def _spelled(symbols: Sequence[str], ids_of: Callable[[Encoding, int], NDArray[np.int64]], index: int) -> list[int]:
    """The ids of the symbols of a prefix, which may be the unknown symbol."""
    ids: list[int] = ids_of(Encoding(np.empty(0, np.int64), list(symbols), []), index).tolist() if symbols else []
    unknown = {each for each, number in zip(symbols, ids, strict=True) if number == UNKNOWN} - {SPECIALS[UNKNOWN]}
    if unknown:
        raise DataError(f"prefix has symbols that no output has: {', '.join(map(repr, sorted(unknown)))}")
    return ids


def _ids(
    text: str, name: str, field: Field, ids_of: Callable[[Encoding, int], NDArray[np.int64]], index: int
) -> list[int]:
    """The ids of a text; none for an empty prefix, or an excluded text that no output can have."""
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
