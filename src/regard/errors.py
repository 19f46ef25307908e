"""The errors of the package, which are all `ValueError`, and the texts of messages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unicodedata import category


def printable(text: str) -> str:
    """A text with escapes for control characters and halves of surrogate pairs.

    >>> print(printable("a" + chr(27) + "[2J"))
    a\\x1b[2J
    """
    return text if text.isprintable() else "".join(map(_escaped, text))


def one_line(text: str) -> str:
    """A text on one line, with escapes for all characters that are not printable.

    >>> print(one_line("a" + chr(10) + chr(0x202E)))
    a\\n\\u202e
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def counted(count: int, text: str) -> str:
    """A number and the text after it, in which `singular|plural` are the two forms of a word.

    >>> counted(1, "pair|pairs of dev is|are empty"), counted(2000, "step|steps")
    ('1 pair of dev is empty', '2,000 steps')
    """
    return f"{count:,} " + re.sub(r"(\w+)\|(\w+)", lambda forms: forms[1 if count == 1 else 2], text)


def _escaped(character: str) -> str:
    if character in "\n\t" or category(character) not in ("Cc", "Cs"):
        return character
    return character.encode("unicode_escape").decode()


def first_of(names: Sequence[str], most: int = 3) -> str:
    """The first names, and an ellipsis if there are more.

    >>> first_of("abcd")
    'a, b, c, …'
    """
    return ", ".join(names[:most]) + ", …" * (len(names) > most)


def without_long_words(text: str) -> str:
    """A text in which words of more than 400 characters are cut in the middle.

    >>> without_long_words("no file " + "x" * 9000)[:40]
    'no file xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'
    >>> len(without_long_words("no file " + "x" * 9000))
    169
    """
    return re.sub(r"\S{401,}", lambda word: f"{word[0][:100]}…{word[0][-60:]}", text)


_names_flags = False


@contextmanager
def naming_flags() -> Iterator[None]:
    """Inside the block messages name options by their flags, for commands."""
    global _names_flags
    before, _names_flags = _names_flags, True
    try:
        yield
    finally:
        _names_flags = before


@dataclass(frozen=True, slots=True)
class Option:
    """The name of an option in a message: its flag in a command, else what Python writes.

    >>> print(Option("--overwrite", "overwrite=True"))
    overwrite=True
    >>> with naming_flags():
    ...     print(Option("--overwrite", "overwrite=True"))
    --overwrite
    """

    flag: str
    argument: str

    def __str__(self) -> str:
        return self.flag if _names_flags else self.argument


OUTPUT_OPTION, OVERWRITE_OPTION = Option("--output", "folder"), Option("--overwrite", "overwrite=True")


class RegardError(ValueError):
    """Base of every error of the package; its text is `printable` and without very long words."""

    def __str__(self) -> str:
        return without_long_words(printable(super().__str__()))

    def _render_traceback_(self) -> list[str]:
        """The lines that IPython shows in place of a traceback: the message, and the line that called the package."""
        from traceback import extract_tb

        package, lines = str(Path(__file__).parent), f"{type(self).__name__}: {self}".splitlines()
        frames = extract_tb(self.__traceback__)
        inside = next((i for i, frame in enumerate(frames) if frame.filename.startswith(package)), len(frames))
        if inside:
            caller = frames[inside - 1]
            is_cell = "ipykernel" in caller.filename or caller.filename.startswith("<")
            where = f"line {caller.lineno} of the cell" if is_cell else f"{caller.filename}:{caller.lineno}"
            lines.append(f"  {where}: {caller.line}".removesuffix(": "))
        return lines


class ShapeError(RegardError):
    """Tensors whose sizes or types do not fit together."""


class ConfigError(RegardError):
    """A configuration that cannot be read or has wrong values.

    Args:
        message: the expected value, the actual value and a remedy.
        path: the key, as `("model", "encoder", "size")`, for which `regard.config.Configuration.located` finds the line
            and column of the file.
    """

    def __init__(self, message: str, path: tuple[str | int, ...] = ()) -> None:
        super().__init__(message)
        self.path = path


class DataError(RegardError):
    """Data that cannot be read; the text names file, line, field and value."""


class InputError(DataError):
    """An input of several that cannot be handled.

    Args:
        index: the number of the input, from 0.
    """

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(f"input {index + 1}: {reason}")
        self.index, self.reason = index, reason


def newer_format(path: Path, number: int, supported: int) -> DataError:
    """The error for a file of a newer format."""
    return DataError(
        f"{path}: format {number} is newer than {supported}, the latest that this version of regard reads.\n"
        "  Update it: pip install --upgrade regard"
    )


class UnsupportedError(RegardError):
    """An unsupported combination; the text has the reason and an alternative."""


class ElsewhereError(RegardError):
    """An error that another process of the same run has already reported."""
