"""Checks plain values against the schema, and converts pydantic's errors to problems with places."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from regard.config.conditions import unread
from regard.config.document import holds_text, is_integer
from regard.config.keys import Key, keys, kinds
from regard.config.place import Entry, KeyPath, Problem, cut, dotted, error_of
from regard.config.schema import SCHEMAS, Config
from regard.config.search import Search
from regard.config.spelling import did_you_mean, nearest
from regard.errors import Option

_SIGNS = ("#", "!", "&")


def misreadings(key: Key, value: Any, entries: Mapping[KeyPath, Entry]) -> Iterator[Problem]:
    """The problems of values that YAML reads as comments, numbers, switches or null where a text is expected."""
    if not holds_text(key):
        return
    values: dict[KeyPath, Any] = {key.path: value}
    types = {member.type for member in key.members}
    if isinstance(value, list):
        values = {(*key.path, index): item for index, item in enumerate(value)}
        types = {item.type for member in key.members for item in member.items}
    for path, item in values.items():
        entry = entries.get(path) or entries[key.path]
        if what := _misreading(item, types, entry.written or "", in_list=path != key.path):
            yield Problem(entry.value, key.path, what, entry.override)


def _misreading(value: Any, types: set[Any], written: str, *, in_list: bool) -> str | None:
    shown = cut(written, 40)
    if value == "" and written in ("|", ">"):
        return f"{written} begins a block of lines in YAML; write '{written}' in quotes to mean the text"
    if value == "" and Path in types and str not in types:
        return f"expected a file name; got ''{'; write null, or leave the key out' if type(None) in types else ''}"
    if value is None and written.startswith(_SIGNS) and not written[1:2].isspace():
        sign = {"#": "a comment", "!": "a tag", "&": "an anchor"}[written[0]]
        return f"'{shown}' is {sign} in YAML, so there is no value; put a text in quotes, or write null"
    if not written or isinstance(value, str):
        return None
    is_other_number = type(value) is int and int in types and not is_integer(written)
    if is_other_number or (in_list and type(value) not in types):
        read = "null" if value is None else str(value).lower()
        number = f"write {read} for the number, or " if is_other_number else "write "
        return (
            f"YAML reads {shown} as {'a number' if read == written else read}; {number}'{shown}' in quotes to mean "
            "the text"
        )
    return None


_FAMILIAR = {
    "lr": "learning_rate", "optim": "optimizer", "batch_size": "batch_tokens", "patience": "early_stopping",
    "grad_clip": "clip_norm", "num_epochs": "epochs", "max_epochs": "epochs", "hidden": "size", "hidden_size": "size",
    "num_layers": "layers", "num_layer": "layers", "emb_size": "embedding_size", "rnn_type": "cell", "valid": "dev",
    "validation": "dev", "eval": "dev", "beam_size": "beam", "beam_width": "beam", "n_best": "num_best",
    "fp16": "precision", "src": "source", "tgt": "target", "type": "recipe",
}  # fmt: skip

UNKNOWN, MISSING = "unknown key", "missing"
"""Beginnings of messages."""
LISTED = 20
"""The most keys of a section that are listed for an unknown key without a similar one."""
Keys = Mapping[KeyPath, Key]


def validate(values: Any, entries: Mapping[KeyPath, Entry], problems: list[Problem]) -> Config:
    """Checks values against the schema.

    Args:
        values: nested dicts, as read from YAML; relative paths are made absolute, from the folder of their entry.

    Raises:
        ConfigError: for all problems at once, one per line, in the order of reading.
    """
    problems = list(problems)
    if not isinstance(values, dict | None):
        entry = entries[()]
        raise error_of(
            [*problems, Problem(entry.value, (), f"expected sections (data, model, …), got {_shown(values)}")]
        )
    values = {"data": None, **(values or {})}  # with an empty data section, the error names data.train
    schema = SCHEMAS[_task(values, entries, problems)]
    known = keys(schema, values)
    misread = [
        problem
        for path in filter(entries.__contains__, known)
        for problem in misreadings(known[path], value_at(path, values), entries)
    ]
    problems += misread
    values = _complete(values, (), entries, known)
    try:
        config = schema.model_validate(values, context=frozenset())
    except ValidationError as error:
        misplaced = {p.path for p in problems if p.path in entries and entries[p.path].value == p.place}
        misplaced |= {p.path for p in misread}
        reported: set[KeyPath] = set()
        for detail in error.errors():
            path = _key_path(detail["loc"], values, known)
            if any(path[:n] in misplaced for n in range(1, len(path) + 1)) or path in reported:
                continue
            if problem := _problem(detail, path, values, entries, known):
                problems.append(problem)
                reported.add(path)
        misspelt = [p for p in problems if p.what.startswith(UNKNOWN)]
        raise error_of(
            [p for p in problems if not (p.what.startswith(MISSING) and _is_meant(p.path, misspelt))]
        ) from None
    if problems:
        raise error_of(problems)
    return config


def unread_settings(config: Config, entries: Mapping[KeyPath, Entry], inherited: str | None) -> tuple[Problem, ...]:
    """The keys that the user has set but that nothing reads.

    Args:
        inherited: the origin of values that the user has not set: a preset, or the configuration of a saved model.
    """

    def is_set(path: KeyPath) -> bool:
        return path in entries and entries[path].key.origin != inherited

    keys_unread = [*unread(config, is_set)]
    if isinstance(search := config.decoding, Search):
        names = [name for name in type(search).model_fields if is_set(("decoding", name))]
        keys_unread += [(("decoding", name), what) for name, what in search.unread(names)]
    return tuple(Problem(entries[path].key, path, what, entries[path].override) for path, what in keys_unread)


def _task(values: dict[str, Any], entries: Mapping[KeyPath, Entry], problems: list[Problem]) -> str:
    """The task of the values; for an unknown name, the most similar one, so that the other keys are checked.

    Raises:
        ConfigError: for a name that is similar to none.
    """
    task = values.get("task", next(iter(SCHEMAS)))
    if isinstance(task, str) and task in SCHEMAS:
        return task
    entry = entries["task",]
    if any(problem.path == ("task",) for problem in problems):  # the value could not be read
        raise error_of(problems)
    names = f"one of {', '.join(SCHEMAS)}" if len(SCHEMAS) > 1 else repr(next(iter(SCHEMAS)))
    meant = nearest(task, SCHEMAS) if isinstance(task, str) else None
    hint = "" if meant is None else f"; {did_you_mean(meant)}"
    problems.append(Problem(entry.value, ("task",), f"expected {names}; got {_shown(task, entry.written)}{hint}"))
    if meant is None:
        raise error_of(problems)
    values["task"] = meant
    return meant


def _is_meant(path: KeyPath, misspelt: list[Problem]) -> bool:
    """Whether a missing key is among the suggestions for an unknown one."""
    return any(
        repr(dotted(path)) in problem.what or (problem.path[:-1] == path[:-1] and repr(path[-1]) in problem.what)
        for problem in misspelt
    )


def place_of(path: KeyPath, entries: Mapping[KeyPath, Entry]) -> Entry | None:
    """The entry of the key or of the nearest section around it; None if there is none."""
    return next((entries[path[:n]] for n in range(len(path), 0, -1) if path[:n] in entries), None)


def value_at(path: KeyPath, values: Any) -> Any:
    """The value of a key in nested dicts; None if there is none."""
    for part in path:
        values = values.get(part) if isinstance(values, dict) else None
    return values


def with_value(values: Any, path: KeyPath, value: Any) -> Any:
    """Nested dicts with one value replaced, and new sections where the path needs them."""
    if not path:
        return value
    section = values if isinstance(values, dict) else {}
    return {**section, path[0]: with_value(section.get(path[0]), path[1:], value)}


def _complete(values: dict[str, Any], path: KeyPath, entries: Mapping[KeyPath, Entry], known: Keys) -> dict[str, Any]:
    """Makes paths absolute, and replaces an empty section (`training:` without keys) by one of defaults."""
    result = {}
    for name, value in values.items():
        key_path = (*path, name)
        key = known.get(key_path)
        if key and key.section and value is None and not key.may_be_null:
            value = {}
        if isinstance(value, dict) and key and key.section:
            value = _complete(value, key_path, entries, known)
        elif key and key.is_path and value != "":  # no file, not the folder
            folder = entries[key_path].folder
            value = [_absolute(item, folder) for item in value] if isinstance(value, list) else _absolute(value, folder)
        result[name] = value
    return result


def _absolute(value: Any, folder: Path) -> Any:
    """The absolute path of a text, relative to a folder; other values are returned unchanged."""
    return Path(os.path.abspath(folder / os.path.expanduser(value))) if isinstance(value, str) else value


def _key_path(location: tuple[str | int, ...], values: Any, known: Keys) -> KeyPath:
    """Pydantic's location without its names for members of unions and without positions in lists."""
    path: KeyPath = ()
    for part in location:
        if (*path, part) in known or (isinstance(values, dict) and part in values):
            path, values = (*path, part), values.get(part) if isinstance(values, dict) else None
    return path


def _problem(
    detail: Any, path: KeyPath, values: dict[str, Any], entries: Mapping[KeyPath, Entry], known: Keys
) -> Problem | None:
    entry = place_of(path, entries) or entries[()]
    key, value = known.get(path), detail["input"]
    if detail["type"] == "missing" and not isinstance(value_at(path, values), list):
        return Problem(entry.key, path, _missing(path, key, entry))
    if detail["type"] == "extra_forbidden":
        return Problem(entry.key, path, f"{UNKNOWN}; {_other_key(path, entry.override, known)}", entry.override)
    if detail["type"] == "value_error":
        error = detail["ctx"]["error"]
        key_path = (*path, *getattr(error, "path", ()))
        if key_path in entries:  # the key of the section that the error is about
            path, entry = key_path, entries[key_path]
        return Problem(entry.key, path, str(error), entry.override)
    if key is None:
        return Problem(entry.value, path, detail["msg"], entry.override)
    if detail["type"] == "union_tag_invalid":
        return _wrong_kind(key, value, entries)
    whole = value_at(path, values)
    if key.section and isinstance(whole, dict):
        return None  # another member of the union was meant, and has an error of its own
    if isinstance(whole, list):
        value = whole
    hint = _hint(value, entry.written, key)
    return Problem(
        entry.value, path, f"expected {key.expected}; got {_shown(value, entry.written)}{hint}", entry.override
    )


def _wrong_kind(key: Key, value: dict[str, Any], entries: Mapping[KeyPath, Entry]) -> Problem:
    """The problem of a section with an unknown discriminator."""
    name = str(key.field.discriminator)
    path = (*key.path, name)
    entry, names = entries[path], [str(kind) for section in key.sections for kind in kinds(section, name)]
    hint = f"; {did_you_mean(similar)}" if (similar := nearest(str(value[name]), names)) else ""
    shown = _shown(value[name], entry.written)
    return Problem(entry.value, path, f"expected one of {', '.join(names)}; got {shown}{hint}", entry.override)


def _missing(path: KeyPath, key: Key | None, entry: Entry) -> str:
    name = dotted(path)
    meaning = f" ({key.field.description})" if key and key.field.description else ""
    advice = Option(f"--set {name}=…", f"settings={{{name!r}: …}}")
    return f"{MISSING}{meaning}; set it {'here or ' if entry.key.line else ''}with {advice}"


def _other_key(path: KeyPath, override: KeyPath | None, known: Keys) -> str:
    """The advice for an unknown key: tasks that have it, the same name elsewhere, a similar key, or all keys."""
    section, name = path[:-1], str(path[-1])
    if (kinds_with := _kinds_with(path, known)) is not None:
        return kinds_with
    if tasks := [task for task, schema in SCHEMAS.items() if path in keys(schema)]:
        *others, last = tasks
        having = f"{', '.join(others)} and {last} have" if others else f"{last} has"
        return f"{having} it: is `task:` right?"
    neighbours = [str(key[-1]) for key in known if key[:-1] == section]
    familiar = _FAMILIAR.get(name.lower(), name)
    elsewhere = [key for key in known if key[-1] == familiar]
    if (*section, familiar) in known:
        meant = [(*section, familiar)]
    elif elsewhere:
        meant = elsewhere[:3]
    elif similar := nearest(name, neighbours):
        meant = [(*section, similar)]
    elif section and len(neighbours) <= LISTED:
        meant = []
    else:
        other = nearest(name, [str(key[-1]) for key in known])
        meant = [key for key in known if key[-1] == other][:3]
    if not meant:
        return f"{dotted(section) or 'the configuration'} has {', '.join(neighbours)}"
    if override:  # an override names the whole key, and so does the suggestion, if there is such a key
        rest = override[len(path) :]
        return did_you_mean(*(dotted((*key, *rest) if (*key, *rest) in known else key) for key in meant))
    return did_you_mean(*(str(key[-1]) if key[:-1] == section else dotted(key) for key in meant))


def _kinds_with(path: KeyPath, known: Keys) -> str | None:
    """The kinds of a section above with this key, if it has others."""
    for n in range(len(path) - 1, 0, -1):
        key = known.get(path[:n])
        if key is None or not isinstance(name := key.field.discriminator, str):
            continue
        having = [kind for section in key.sections if path[n:] in keys(section) for kind in kinds(section, name)]
        if having:
            return f"it belongs to {name}: {' or '.join(map(str, having))}"
    return None


def _shown(value: Any, written: str | None = None) -> str:
    if isinstance(value, dict):
        return "a section"
    if isinstance(value, list):
        return f"a list of {len(value)}: {cut(str(value))}"
    if isinstance(value, str | Path):
        return repr(cut(str(value)))
    return cut(written or ("null" if value is None else str(value)))


def _hint(value: Any, written: str | None, key: Key) -> str:
    is_switch = isinstance(value, bool) and written and written.lower() not in ("true", "false")
    if is_switch or (isinstance(value, int | float) and any(m.type is str for m in key.members)):
        word = f"; write '{cut(written or str(value))}' in quotes to mean the word"
        read = f", which YAML reads as {str(value).lower()}" if is_switch else ""
        return read + (word if any(m.type is str for m in key.members) else "")
    if value is None and "none" in key.choices:
        return "; " + did_you_mean("none")
    if isinstance(value, float) and value.is_integer() and any(m.type is int for m in key.members):
        return f"; write {cut(str(int(value)))}"
    if not isinstance(value, str):
        return ""
    if similar := nearest(value, key.choices):
        return "; " + did_you_mean(similar)
    if value.lower() in ("none", "null", "") and key.may_be_null:
        return "; write null"
    if any(m.items for m in key.members) and not any(m.type is str for m in key.members):
        return f"; write [{cut(value)}]"
    if written is None and any(m.type in (int, float, bool) for m in key.members):
        return "; write it without quotes"
    return ""
