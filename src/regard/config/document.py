"""Reads YAML into plain values, with the place of every key and value.

Scalars follow YAML 1.1, with three exceptions: `1e-3` is a number, `010` is ten, `12:30` and dates are text. Anchors
and aliases work; tags, merge keys and repeated keys are errors.

A value on a command line (`--set`, a flag of `predict`) is YAML if its key has numbers or sections; if the key has
texts, the value is that text itself.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import yaml

from regard.config.keys import Key, Member
from regard.config.place import Entry, KeyPath, Place, Problem, cut, error_of

MAX_VALUES = 20_000
MAX_DIGITS = 1_000  # Python refuses to convert far longer numbers

_INTEGER = re.compile(r"[-+]?(?:[0-9][0-9_]*|0x[0-9a-fA-F]+|0o[0-7]+)\Z")
_FLOAT = re.compile(
    r"(?:[-+]?(?:\.[0-9][0-9_]*|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z"
)
_BOOLEAN = re.compile(r"(?:yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF)\Z")
_NULL = re.compile(r"(?:~|null|Null|NULL|)\Z")
_QUOTED = re.compile(r"""\s*("(?:[^"\\]|\\.)*"|'(?:[^']|'')*')\s*\Z""", re.DOTALL)
_ITEM = re.compile(r"""\s*("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^,]*?)\s*(?:,|\Z)""", re.DOTALL)
_TAG = "tag:yaml.org,2002:"


class Loader(yaml.SafeLoader):
    """PyYAML's safe loader with the resolvers of this module; only its nodes are used."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012


for _name, _pattern, _first in (
    ("bool", _BOOLEAN, list("yYnNtTfFoO")),
    ("int", _INTEGER, list("-+0123456789")),
    ("float", _FLOAT, list("-+.0123456789")),
    ("null", _NULL, ["~", "n", "N", ""]),
):
    Loader.add_implicit_resolver(_TAG + _name, _pattern, _first)


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """A YAML text: its values by key, its entries by path (the whole document at `()`), and its problems."""

    values: Any
    entries: dict[KeyPath, Entry]
    problems: list[Problem] = field(default_factory=list)


def parse(
    text: str, *, origin: str, folder: Path, order: int = 0, override: KeyPath | None = None, lines: bool = True
) -> YamlDocument:
    """Reads one YAML document.

    Args:
        origin: the beginning of places, for example the file's name.
        folder: the folder that relative paths start from.
        order: problems in documents of lower order are reported first.
        override: the key whose value the text is, if it is an override.
        lines: whether places have line and column.

    Raises:
        ConfigError: if the text is not YAML, with line and column. Smaller problems are listed in the document.
    """
    line = column = 0
    try:
        node = Loader(text).get_single_node()
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        line, column = before.count("\n") + 1, error.position - before.rfind("\n")
        what = _unreadable(text, error)
    except yaml.MarkedYAMLError as error:
        if mark := error.problem_mark or error.context_mark:
            line, column = mark.line + 1, mark.column + 1
        what = _syntax(error)
    except RecursionError:
        what = "the sections are nested too deeply"
    else:
        rest = text[0 if node is None else node.end_mark.index :].strip()
        if lines or not rest.startswith("#"):
            return _YamlReader(text, origin, folder, order, override, lines).document(node)
        what = f"{cut(rest, 40)!r} is a comment in YAML, which ends the value; leave it out, or put the value in quotes"
    place = Place(order, line, column, origin) if lines else Place(order, 0, 0, origin)
    raise error_of([Problem(place, (), what)])


def parse_value(
    text: str, key: Key | None, *, origin: str, folder: Path, order: int = 0, override: KeyPath | None = None
) -> YamlDocument:
    """Reads the value of one key from a command line.

    For a key of texts, names of files or one of several words, the value is the text itself, even `#`, `|`, `NO` or
    `12:30`; `null` is null if the key may be null, a text in quotes is read as YAML, and `[a, b]` is a list if the key
    may have one. For any other key the value is YAML.

    Args:
        text: the value.
        key: the key of the schema; None for an unknown key.
        origin, folder, order, override: as in `parse`.

    Raises:
        ConfigError: for a text that is not YAML, or not a list.
    """
    is_section = key is not None and bool(key.sections) and text.lstrip().startswith("{")
    if key is None or is_section or not holds_text(key):
        return parse(text, origin=origin, folder=folder, order=order, override=override, lines=False)
    place = Place(order, 0, 0, origin)
    path = override or ()
    try:
        Loader(text)  # characters that no file can have are refused
        value = _text_value(text, key.members)
    except (ValueError, yaml.reader.ReaderError) as error:
        what = _unreadable(text, error) if isinstance(error, yaml.reader.ReaderError) else str(error)
        raise error_of([Problem(place, path, what, override)]) from None
    entries = {path[:n]: Entry(place, place, None, folder, override) for n in range(len(path) + 1)}
    return YamlDocument(value, entries)


def holds_text(key: Key) -> bool:
    """Whether a value of the key may be a text, or a list of texts."""
    return any(map(_is_text, key.members))


def _is_text(member: Member) -> bool:
    """Whether a value of this type is a text, or a list of texts."""
    return member.type in (str, Path) or _is_word(member) or any(map(_is_text, member.items))


def _is_word(member: Member) -> bool:
    return bool(member.choices) and all(isinstance(choice, str) for choice in get_args(member.type))


def _text_value(text: str, members: Sequence[Member]) -> Any:
    """The value of a text where values may have these types.

    Raises:
        ValueError: for a list that has no end, or an empty entry.
    """
    types, bare = {member.type for member in members}, text.strip()
    items = [item for member in members if _is_text(member) for item in member.items]
    if bare == "null" and type(None) in types:
        return None
    if items and bare.startswith("["):
        return [_text_value(item, items) for item in _entries(bare)]
    if _QUOTED.match(text):
        node = Loader(bare).get_single_node()
        assert isinstance(node, yaml.ScalarNode)
        return node.value
    if int in types and is_integer(bare):
        return int(bare)
    if bool in types and _BOOLEAN.match(bare):
        return _SCALARS[_TAG + "bool"](bare)
    return text if types & {str, Path} else bare


def is_integer(text: str) -> bool:
    """Whether a text is a whole number in its usual form, without leading zeros or signs that names may have."""
    return re.fullmatch(r"-?(?:0|[1-9][0-9]{0,17})", text) is not None


def _entries(text: str) -> Iterator[str]:
    """The entries of a list `[a, b]`; only an entry with a comma or blanks around it needs quotes."""
    if not text.endswith("]"):
        raise ValueError("a list ends with ]; put a text that begins with [ in quotes")
    inside, position = text[1:-1].strip(), 0
    while position < len(inside):
        item = _ITEM.match(inside, position)
        if item is None or not item[1]:
            raise ValueError("an entry of the list is empty, or continues after its quotes; separate entries by commas")
        yield item[1]
        position = item.end()


def _unreadable(text: str, error: yaml.reader.ReaderError) -> str:
    return f"the character U+{ord(text[error.position]):04X} is not allowed in YAML; remove it"


def _syntax(error: yaml.MarkedYAMLError) -> str:
    problem = error.problem or "this is not YAML"
    if "'\\t'" in problem:
        return "a tab; indentation in YAML must be spaces"
    if "mapping values are not allowed" in problem:
        return "a second ': ' in a line; put the value in quotes, or indent this line like the one above"
    context = f" {error.context}" if error.context else ""
    signs = "cannot start any token", "sequence entries are not allowed", "expected alphabetic or numeric character"
    hint = "; put a text with such a character in quotes" if any(sign in problem for sign in signs) else ""
    return f"not YAML: {problem}{context}{hint}"


class _YamlReader:
    def __init__(
        self, source: str, origin: str, folder: Path, order: int, override: KeyPath | None, lines: bool
    ) -> None:
        self.source = source
        self.origin, self.folder, self.order, self.override, self.lines = origin, folder, order, override, lines
        self.entries: dict[KeyPath, Entry] = {}
        self.problems: list[Problem] = []
        self.count = 0

    def document(self, node: yaml.Node | None) -> YamlDocument:
        path = self.override or ()
        start = Place(self.order, int(self.lines), int(self.lines), self.origin)
        for length in range(len(path) + 1):
            self.entries[path[:length]] = Entry(start, start, None, self.folder, self.override)
        value = None if node is None else self.value(node, path, start, ())
        return YamlDocument(value, self.entries, self.problems)

    def place(self, node: yaml.Node) -> Place:
        if not self.lines:
            return Place(self.order, 0, 0, self.origin)
        return Place(self.order, node.start_mark.line + 1, node.start_mark.column + 1, self.origin)

    def problem(self, place: Place, path: KeyPath, what: str) -> None:
        self.problems.append(Problem(place, path, what, self.override))

    def value(self, node: yaml.Node, path: KeyPath, key: Place, parents: tuple[yaml.Node, ...]) -> Any:
        place = self.place(node)
        self.count += 1
        if any(node is parent for parent in parents) or self.count > MAX_VALUES:
            reason = "an alias that contains itself" if self.count <= MAX_VALUES else f"more than {MAX_VALUES} values"
            raise error_of([*self.problems, Problem(place, path, reason, self.override)])
        self.entries[path] = Entry(key, place, self.written(node), self.folder, self.override)
        if isinstance(node, yaml.MappingNode) and node.tag == _TAG + "map":
            return self.mapping(node, path, (*parents, node))
        if isinstance(node, yaml.SequenceNode) and node.tag == _TAG + "seq":
            return [
                self.value(item, (*path, i), self.place(item), (*parents, node)) for i, item in enumerate(node.value)
            ]
        if isinstance(node, yaml.ScalarNode) and node.tag in _SCALARS:
            return _SCALARS[node.tag](self.text(node.value, place, path))
        self.problem(place, path, f"the tag {node.tag.replace(_TAG, '!!')} is not allowed; write a plain value")
        return None

    def written(self, node: yaml.Node) -> str | None:
        """The text of a plain scalar; for an empty value, a comment, tag, anchor or `|` in its place."""
        if not isinstance(node, yaml.ScalarNode) or (node.style and (node.value or node.style not in "|>")):
            return None
        sign = self.source[node.start_mark.index :].partition("\n")[0].strip()
        return node.style or node.value or (sign if sign.startswith(("#", "!", "&")) else "")

    def text(self, written: str, place: Place, path: KeyPath) -> str:
        r"""The text of a scalar; two escaped surrogates, as in JSON (`\ud83d\ude00`), are one character."""
        if not any("\ud800" <= character <= "\udfff" for character in written):
            return written
        try:
            return written.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            self.problem(place, path, f"half a surrogate pair in {written!a:.60}; write the whole character")
            return ""

    def mapping(self, node: yaml.MappingNode, path: KeyPath, parents: tuple[yaml.Node, ...]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            place = self.place(key_node)
            if not isinstance(key_node, yaml.ScalarNode):
                self.problem(place, path, "a key must be a word, not a list or a section")
                continue
            key = self.text(key_node.value, place, path)
            if not key and key_node.value:
                continue
            if key == "<<":
                self.problem(place, (*path, key), "merge keys are not supported; write the keys out")
            elif key in result:
                first = self.entries[(*path, key)].key
                earlier = f" (first at line {first.line})" if first.line else ""
                self.problem(place, (*path, key), f"the key occurs twice{earlier}; remove one")
            else:
                result[key] = self.value(value_node, (*path, key), place, parents)
        return result


def _integer(text: str) -> int | float:
    digits = text.replace("_", "")
    prefix = digits.lstrip("+-")[:2]
    base = {"0x": 16, "0o": 8}.get(prefix, 10)
    if len(digits) < MAX_DIGITS:
        return int(digits, base)
    return float(digits) if base == 10 else math.inf


def _number(text: str) -> int | float:
    digits = text.replace("_", "").lower()
    if digits.lstrip("+-") in (".inf", ".nan"):
        return float(digits.replace(".", ""))
    number = float(digits)
    return int(number) if "." not in digits and number.is_integer() else number  # 1e5 can count steps, as 100000 can


_SCALARS: dict[str, Any] = {
    _TAG + "null": lambda text: None,
    _TAG + "bool": lambda text: text.lower() in ("yes", "true", "on"),
    _TAG + "int": _integer,
    _TAG + "float": _number,
    _TAG + "str": str,
}
