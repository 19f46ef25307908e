"""Settings of a search that do not combine: tables for validation and documentation.

`READ_BY` has the methods that read a key, for keys that not all methods read; `READ_WITH` keys that are read only with
a value of another one; `EXCLUSIONS` settings that have no meaning together for other reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from regard.config.place import yaml_text

Method = Literal["beam", "sampling", "mbr"]
METHODS: tuple[Method, ...] = get_args(Method)
DRAWS: tuple[Method, ...] = ("sampling", "mbr")
READ_BY: Mapping[str, tuple[Method, ...]] = {
    **dict.fromkeys(("beam", "length_penalty", "alpha", "length_counts_begin", "coverage_penalty", "beta"), ("beam",)),
    **dict.fromkeys(("num_groups", "diversity", "stop", "patience", "keep_finished"), ("beam",)),
    **dict.fromkeys(("temperature", "top_k", "top_p", "min_p", "typical_p", "seed"), DRAWS),
    **dict.fromkeys(("num_samples", "utility"), ("mbr",)),
}
READ_WITH: Mapping[str, tuple[str, tuple[Any, ...]]] = {
    "alpha": ("length_penalty", ("gnmt", "power")),
    "length_counts_begin": ("length_penalty", ("average", "gnmt", "power")),
    "beta": ("coverage_penalty", ("gnmt", "summary", "tfa")),
    "diversity": ("num_groups", ()),
    "patience": ("stop", ("patience",)),
    **dict.fromkeys(("ensemble_weights", "ensemble_average", "ensemble_alignment"), ("ensemble", ())),
    "reranker_weight": ("reranker", ()),
}
"""By key, another key and the values of it with which the key is read; if there are none, all but its default."""


@dataclass(frozen=True, slots=True)
class Exclusion:
    """Settings that have no meaning together.

    Args:
        key: the key whose value an error names.
        first, second: the two settings, as the documentation names them.
        applies: whether settings have both.
        harmless_with: another key; if only that one is set by the caller, the exclusion is ignored.
    """

    key: str
    first: str
    second: str
    applies: Callable[[Any], bool]
    reason: str
    remedy: str
    harmless_with: str | None = None


def _is_greedy(search: Any) -> bool:
    return bool(search.method == "beam" and search.beam == 1 and not _keeps(search))


def _keeps(search: Any) -> bool:
    return bool(search.method == "beam" and getattr(search, "keep_finished", False))


def _reranks(search: Any) -> bool:
    return getattr(search, "reranker", None) is not None


def _joins(search: Any) -> bool:
    return bool(getattr(search, "joint", False))


EXCLUSIONS: tuple[Exclusion, ...] = (
    Exclusion(
        "num_best",
        "greedy search",
        "`num_best` above 1",
        lambda search: _is_greedy(search) and search.num_best > 1,
        "greedy search (beam 1) finds only one output",
        "raise beam",
    ),
    Exclusion(
        "stop",
        "greedy search",
        "`stop` other than `optimal`",
        lambda search: _is_greedy(search) and search.stop != "optimal",
        "greedy search (beam 1) has only one hypothesis",
        "raise beam, or leave stop out",
        harmless_with="beam",
    ),
    Exclusion(
        "num_groups",
        "`num_groups`",
        "a `beam` that it does not divide",
        lambda search: search.method == "beam" and search.beam % search.num_groups,
        "the groups have equal shares of the beam",
        "give beam a multiple of num_groups",
    ),
    Exclusion(
        "num_groups",
        "`keep_finished`",
        "`num_groups` above 1",
        lambda search: _keeps(search) and search.num_groups > 1,
        "an output that keeps its place would choose the end symbol again at every step, and later groups avoid it",
        "set it to 1",
    ),
    Exclusion(
        "stop",
        "`keep_finished`",
        "`stop` other than `optimal`",
        lambda search: _keeps(search) and search.stop != "optimal",
        "the search ends when the whole beam has ended",
        "leave it out",
    ),
    Exclusion(
        "num_best",
        "`keep_finished`",
        "`num_best` above `beam`",
        lambda search: _keeps(search) and search.num_best > search.beam,
        "outputs are the hypotheses of the last beam",
        "raise beam",
    ),
    Exclusion(
        "num_best",
        "`method: mbr`",
        "`num_best` above `num_samples`",
        lambda search: search.method == "mbr" and search.num_best > search.num_samples,
        "the outputs are chosen among num_samples samples",
        "raise num_samples",
    ),
    Exclusion(
        "reranker",
        "`reranker`",
        "greedy search, a single sample",
        lambda search: _reranks(search) and search.width == 1,
        "there is only one hypothesis to rank",
        "raise beam, or num_best of samples",
    ),
    Exclusion(
        "reranker",
        "`reranker`",
        "`method: mbr`",
        lambda search: _reranks(search) and search.method == "mbr",
        "minimum Bayes risk ranks by the expected utility",
        "leave it out",
    ),
    Exclusion(
        "joint",
        "`joint`",
        "`method: sampling`, `method: mbr`",
        lambda search: _joins(search) and search.method != "beam",
        "only hypotheses of a beam are ranked by both directions",
        "leave it out",
    ),
    Exclusion(
        "joint",
        "`joint`",
        "`reranker`",
        lambda search: _joins(search) and _reranks(search),
        "the other direction ranks already",
        "leave out one of them",
    ),
    Exclusion(
        "direction",
        "`joint`",
        "`direction`",
        lambda search: _joins(search) and search.direction is not None,
        "joint searches in both",
        "leave out one of them",
    ),
)
"""What validation refuses, in this order."""


STREAM_EXCLUSIONS: tuple[Exclusion, ...] = (
    Exclusion(
        "method",
        "streaming",
        "`method: mbr`",
        lambda search: search.method == "mbr",
        "nothing is certain before all samples are whole",
        "stream a beam or a sample",
    ),
    Exclusion(
        "num_best",
        "streaming",
        "`num_best` above 1",
        lambda search: search.num_best > 1,
        "the order of several outputs is known at the end only",
        "set it to 1",
    ),
    Exclusion(
        "num_groups",
        "streaming",
        "`num_groups` above 1",
        lambda search: getattr(search, "num_groups", 1) > 1,
        "the outputs of groups are compared at the end",
        "set it to 1",
    ),
    Exclusion(
        "reranker",
        "streaming",
        "`reranker`",
        _reranks,
        "outputs are reranked when they are whole",
        "leave it out",
    ),
    Exclusion(
        "joint",
        "streaming",
        "`joint`",
        _joins,
        "the other direction scores whole outputs",
        "leave it out",
    ),
)
"""What streaming refuses in addition."""


TREE_EXCLUSIONS: tuple[Exclusion, ...] = (
    Exclusion(
        "method",
        "the tree of a search",
        "`method: sampling`, `method: mbr`",
        lambda search: search.method != "beam",
        "samples do not compete for places, so nothing is kept or pruned",
        "take method beam",
    ),
    Exclusion(
        "reranker",
        "the tree of a search",
        "`reranker`",
        _reranks,
        "another model orders the outputs when the search is over",
        "leave it out",
    ),
    Exclusion(
        "joint",
        "the tree of a search",
        "`joint`",
        _joins,
        "there are two searches, one in each direction",
        "leave it out, and set direction",
    ),
)
"""What the tree of a search refuses in addition."""


def refusal_of(search: Any, judged: Collection[str], defaults: Mapping[str, Any]) -> tuple[str, str] | None:
    """The key and the reason of the first refusal of settings; None if they combine."""
    exclusions = [each for each in EXCLUSIONS if each.harmless_with not in judged or each.key in judged]
    return next(unread_keys(search, judged, defaults), None) or excluded(search, exclusions)


def unread_keys(search: Any, judged: Collection[str], defaults: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The keys that nothing reads, with the reasons.

    Args:
        judged: the keys that are refused if nothing reads them.
        defaults: by key, the value that is never refused.
    """
    for name, reason in search.never_read.items():
        if name in judged and (value := getattr(search, name)) != defaults[name]:
            yield name, f"{name} is {yaml_text(value)}, but {reason}"
    for name, methods in READ_BY.items():
        if name in judged and search.method not in methods and (value := getattr(search, name)) != defaults[name]:
            read = f"method {methods[0]} reads" if len(methods) == 1 else f"methods {' and '.join(methods)} read"
            yield name, f"{name} is {yaml_text(value)}, but only {read} it, and method is {search.method}"
    for name, (other, values) in READ_WITH.items():
        if name not in defaults:
            continue
        value, present = getattr(search, name), getattr(search, other)
        reads = present in values if values else present != defaults[other]
        if name in judged and value != defaults[name] and not reads:
            yield name, f"{name} is {yaml_text(value)}, but it is not read where {other} is {yaml_text(present)}"


def excluded(search: Any, exclusions: Sequence[Exclusion]) -> tuple[str, str] | None:
    """The key and the reason of the first exclusion that applies."""
    for exclusion in exclusions:
        if exclusion.applies(search):
            value = yaml_text(getattr(search, exclusion.key))
            return exclusion.key, f"{exclusion.key} is {value}, but {exclusion.reason}; {exclusion.remedy}"
    return None
