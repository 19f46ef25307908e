"""Which settings of a search combine: the table that validation refuses from and the documentation shows.

`READ_BY` has the methods that read a key, for keys that not all methods read. `EXCLUSIONS` has what has no meaning
together for another reason. Everything that neither refuses combines.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

Method = Literal["beam", "sampling", "mbr"]
METHODS: tuple[Method, ...] = get_args(Method)
DRAWS: tuple[Method, ...] = ("sampling", "mbr")
READ_BY: Mapping[str, tuple[Method, ...]] = {
    **dict.fromkeys(("beam", "length_penalty", "alpha"), ("beam",)),
    **dict.fromkeys(("temperature", "top_k", "top_p", "min_p", "typical_p", "seed"), DRAWS),
    **dict.fromkeys(("num_samples", "utility"), ("mbr",)),
}
JUDGED_IN_FILES = frozenset(name for name, methods in READ_BY.items() if "beam" not in methods)
"""Keys of another method that are refused in a file. A preset names those of the beam, which may stay when a setting
chooses sampling."""


@dataclass(frozen=True, slots=True)
class Exclusion:
    """Settings that have no meaning together.

    Args:
        key: the key whose value an error names.
        first, second: what does not combine, as the documentation names it.
        applies: whether settings have both.
        reason: why not.
        remedy: what to do.
    """

    key: str
    first: str
    second: str
    applies: Callable[[Any], bool]
    reason: str
    remedy: str


def _is_greedy(search: Any) -> bool:
    return bool(search.method == "beam" and search.beam == 1)


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
        "num_best",
        "`method: mbr`",
        "`num_best` above `num_samples`",
        lambda search: search.method == "mbr" and search.num_best > search.num_samples,
        "the outputs are chosen among num_samples samples",
        "raise num_samples",
    ),
)
"""What validation refuses, in this order."""


def refusal_of(search: Any, judged: Collection[str], defaults: Mapping[str, Any]) -> tuple[str, str] | None:
    """The key and the reason of the first refusal of settings; None if they combine.

    Args:
        judged: the keys that are refused if the method does not read them.
        defaults: by key, the value that is never refused.
    """
    for name, methods in READ_BY.items():
        if name in judged and search.method not in methods and (value := getattr(search, name)) != defaults[name]:
            read = f"method {methods[0]} reads" if len(methods) == 1 else f"methods {' and '.join(methods)} read"
            return name, f"{name} is {value}, but only {read} it, and method is {search.method}"
    return excluded(search, EXCLUSIONS)


def excluded(search: Any, exclusions: tuple[Exclusion, ...]) -> tuple[str, str] | None:
    """The key and the reason of the first exclusion that applies."""
    for exclusion in exclusions:
        if exclusion.applies(search):
            value = getattr(search, exclusion.key)
            return exclusion.key, f"{exclusion.key} is {value}, but {exclusion.reason}; {exclusion.remedy}"
    return None
