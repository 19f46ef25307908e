"""The ranges of a search for settings, and the configurations with values of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from regard.config.configuration import Configuration
from regard.config.keys import Key, keys, keys_of, places
from regard.config.place import KeyPath, Problem, cut, dotted, error_of, yaml_text
from regard.config.validation import unread_settings, validate, value_at, with_value
from regard.errors import ConfigError

SWEEP = "sweep"
RANGES: KeyPath = (SWEEP, "ranges")
NUMBERS = ("low", "high")
PARTS = (*NUMBERS, "log", "step")
"""The keys of a range of numbers."""
FORM = "expected a range, as {low: 1, high: 10}, or a list of choices"
DIGITS, STEP_DIGITS = 4, 10
"""The significant digits of a drawn number, without a step and with one."""
FIXED = {
    "task": "it decides what is learned",
    "select": "it decides what is compared",
    "sweep": "it is the search itself",
}
"""Keys that cannot vary, with the reasons."""
HELD_OUT = "dev", "split"
"""The beginnings of keys of `data` that choose the held-out data."""


@dataclass(frozen=True, eq=False)
class Range:
    """The values of a key in a search.

    Args:
        path: the key.
        place: the place of the range in the configuration, below `sweep.ranges`.
        choices: the possible values; empty for a range of numbers.
        low, high: the smallest and the largest number.
        log: whether numbers are drawn evenly in their logarithm.
        step: the distance between possible numbers; None: every number, or every whole number.
        whole: whether numbers are whole.
    """

    path: KeyPath
    place: KeyPath
    choices: tuple[Any, ...] = ()
    low: float = 0
    high: float = 0
    log: bool = False
    step: float | None = None
    whole: bool = False

    @property
    def name(self) -> str:
        """The dotted key."""
        return dotted(self.path)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The choices as texts, which are different."""
        return tuple(label(choice) for choice in self.choices)

    @property
    def size(self) -> float:
        """The number of possible values; inf for real numbers without a step."""
        if self.choices:
            return len(self.choices)
        step = self.step or (1 if self.whole else 0)
        return math.floor((self.high - self.low) / step + 1e-9) + 1 if step else math.inf

    def rounded(self, number: float) -> float:
        """A number with few digits within the limits."""
        if self.whole:
            return number
        digits = DIGITS if self.step is None else STEP_DIGITS
        return min(max(float(f"{number:.{digits}g}"), self.low), self.high)

    @property
    def tested(self) -> Iterator[tuple[Any, KeyPath]]:
        """The values that have to be possible, with their places: all choices, or both ends."""
        if self.choices:
            yield from ((choice, (*self.place, number)) for number, choice in enumerate(self.choices))
        else:
            yield from ((getattr(self, end), (*self.place, end)) for end in NUMBERS)

    def place_of(self, value: Any) -> KeyPath:
        """The place of a choice; of a number, that of the range."""
        if value in self.choices:
            return (*self.place, self.choices.index(value))
        return self.place


def label(value: Any) -> str:
    """A value as a short text.

    >>> label({"recipe": "luong", "size": 8}), label("luong"), label(None)
    ('{recipe: luong, size: 8}', 'luong', 'null')
    """
    return yaml_text(value)


def ranges(configuration: Configuration) -> list[Range]:
    """The ranges of a configuration, in its order.

    Raises:
        ConfigError: for ranges of another form, with their places.
    """
    document = configuration.document
    if document is None or configuration.config.sweep is None:
        return []
    result: list[Range] = []
    problems: list[Problem] = []
    find = _keys(configuration)
    for path, place, value in _leaves(value_at(RANGES, document.values), (), RANGES, find):
        made = _range(path, place, value, find)
        known = [each for each in result if each.path == path]
        if isinstance(made, Range) and known:
            made = place, f"{dotted(path)} has two ranges; leave out one of them"
        if isinstance(made, Range):
            result.append(made)
        else:
            where, what = made
            entry = document.entries[where]
            problems.append(Problem(entry.value, where, what, entry.override))
    if not result and not problems:
        entry = document.entries[RANGES]
        problems.append(Problem(entry.value, RANGES, f"there are no ranges; {FORM} for a key", entry.override))
    if problems:
        raise error_of(problems)
    return result


def chosen(
    configuration: Configuration, values: Mapping[Range, Any] | Sequence[tuple[Range, Any, KeyPath]] = ()
) -> Configuration:
    """The configuration without its search, with other values of the keys of ranges.

    The values of a preset for the options of a recipe of attention are left out if another recipe is chosen.

    Args:
        values: by range; or ranges with values and the places to which errors refer.

    Raises:
        ConfigError: for values that do not fit, alone or together.
    """
    document = configuration.document
    assert document is not None
    if isinstance(values, Mapping):
        values = [(each, value, each.place_of(value)) for each, value in values.items()]
    nested = {name: value for name, value in document.values.items() if name != SWEEP}
    entries = {path: entry for path, entry in document.entries.items() if path[:1] != (SWEEP,)}
    for each, value, place in values:
        path = each.path
        section = value_at(path[:-1], nested)
        if path[-1] == "recipe" and isinstance(section, dict) and section.get("recipe") != value:
            own = {
                name: other
                for name, other in section.items()
                if name == "recipe" or entries[*path[:-1], name].key.origin != configuration.inherited
            }
            nested = with_value(nested, path[:-1], own)
        nested = with_value(nested, path, value)
        entry = document.entries[place]
        if place == each.place and not each.choices:
            entry = replace(entry, written=None)  # a number within the range, which is not written there
        entries = {known: one for known, one in entries.items() if known[: len(path)] != path}
        entries |= {
            (*path, *inner[len(place) :]): one
            for inner, one in document.entries.items()
            if inner[: len(place)] == place and inner != place and each.choices
        }
        entries[path] = entry
        entries |= {path[:length]: entry for length in range(1, len(path))}  # errors of sections refer to the range
    config = validate(nested, entries, [])
    unread = unread_settings(config, entries, configuration.inherited)
    return replace(
        configuration, config=config, entries=entries, unread=unread, document=replace(document, values=nested)
    )


def check_ranges(
    configuration: Configuration, check: Callable[[Configuration], object] = Configuration.check_unread
) -> None:
    """Raises ConfigError for ranges with a value that is refused, alone and with any choice of another range.

    Args:
        check: raises ConfigError for a configuration whose values fit the schema but not each other.
    """
    problems: list[ConfigError] = []
    every = ranges(configuration)
    for each in every:
        reasons = set[str]()
        others = [(other, *tested) for other in every if other != each and other.choices for tested in other.tested]
        for value, place in each.tested:
            error = refusal(configuration, [(each, value, place)], check)
            reason = str(error).partition(": ")[2]  # without the place
            if error is None or reason in reasons:
                continue
            if all(refusal(configuration, [other, (each, value, place)], check) is not None for other in others):
                reasons.add(reason)
                problems.append(error)
    if problems:
        raise ConfigError("\n".join(map(str, problems)))


def refusal(
    configuration: Configuration,
    values: Mapping[Range, Any] | Sequence[tuple[Range, Any, KeyPath]],
    check: Callable[[Configuration], object],
) -> ConfigError | None:
    """The error of a configuration with these values, or None."""
    try:
        result = chosen(configuration, values)
    except ConfigError as error:
        return error
    try:
        check(result)
    except ConfigError as error:
        return result.located(error)
    return None


def _leaves(
    values: Any, path: KeyPath, place: KeyPath, find: Callable[[KeyPath], Key | None]
) -> Iterator[tuple[KeyPath, KeyPath, Any]]:
    """The key, the place and the value of each range in nested sections; names may have periods."""
    for name, value in values.items():
        inner, where = (*path, *str(name).split(".")), (*place, name)
        key = find(inner)
        is_leaf = not isinstance(value, dict) or (key is not None and not key.section) or set(value) & set(NUMBERS)
        if is_leaf or not value:
            yield inner, where, value
        else:
            yield from _leaves(value, inner, where, find)


def _keys(configuration: Configuration) -> Callable[[KeyPath], Key | None]:
    """A function that finds a key of the schema: of the sections that the configuration has, or of another kind."""
    assert configuration.document is not None
    schema = type(configuration.config)
    known: dict[KeyPath, Key] = {}
    for place in places(schema):
        for key in keys_of(place.section, place.path):
            known.setdefault(key.path, key)
    known |= keys(schema, configuration.document.values)
    return known.get


def _range(
    path: KeyPath, place: KeyPath, value: Any, find: Callable[[KeyPath], Key | None]
) -> Range | tuple[KeyPath, str]:
    """The range of a value; or the place of a problem, and the problem."""
    if (path[0] in FIXED and len(path) == 1) or path[0] == SWEEP:
        return place, f"{dotted(path)} cannot vary: {FIXED[str(path[0])]}"
    if len(path) > 1 and path[0] == "data" and str(path[1]).startswith(HELD_OUT):
        return place, f"{dotted(path)} cannot vary: the held-out data have to be the same in all trainings"
    if isinstance(value, list):
        if len({label(choice) for choice in value}) < max(len(value), 2):
            return place, "a list of choices has at least two, which are all different"
        return Range(path, place, tuple(value))
    if not isinstance(value, dict):
        return place, f"{FORM}; got {cut(label(value))}"
    for name in value:
        if name not in PARTS:
            return (*place, name), f"unknown key; a range has {', '.join(PARTS)}"
    for end in NUMBERS:
        if end not in value:
            return place, f"{end} is missing; {FORM}"
    for name, part in value.items():
        if name != "log" and (isinstance(part, bool) or not isinstance(part, int | float) or not math.isfinite(part)):
            return (*place, name), f"expected a number; got {cut(label(part))}"
    parts: list[Any] = [value.get(name) for name in PARTS]
    low, high, log, step = parts
    if not isinstance(log, bool | None):
        return (*place, "log"), f"expected true or false; got {cut(label(log))}"
    if low >= high:
        return (*place, "high"), f"high is {label(high)}; it must be above low, {label(low)}"
    if log and low <= 0:
        return (*place, "low"), f"low is {label(low)}; with log: true it must be above 0"
    if step is not None and (log or not 0 < step <= high - low):
        reason = "a range with log: true has no step" if log else "it must be above 0 and at most high - low"
        return (*place, "step"), f"step is {label(step)}; {reason}"
    key = find(path)
    is_real = key is not None and any(member.type is float for member in key.members)
    numbers = [low, high, *([] if step is None else [step])]
    whole = not is_real and all(isinstance(number, int) for number in numbers)
    if not whole:
        low, high = float(low), float(high)
    return Range(path, place, (), low, high, bool(log), step, whole)
