"""Strings and bytes that programs stumble over."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from random import Random

STRINGS = (
    "", " ", "\t", "\n", "\r", "\r\n", "\x00", "\x1b[31mred", "\x7f", "\x85", "\u2028", "\u00a0", "\ufeff", "\ufffe",
    "\ud800", "\udcff", "a\ud83d", "\U0010ffff", "\u202eabc", "\u200d", "\u0301\u0301", "e" + "\u0301" * 200,
    "👨\u200d👩\u200d👧", "می\u200cخواهم", "क्ष", "한국어", "日本語", "𐍈", "İ", "ß", "ﬀ", "ǆ", "ς", "½", "①",
    "</s>", "<pad>", "<s>", "<unk>", "▁", "▁▁a", "$x^2$", "$\\frac", "%s", "%n", "{}", "{0}", "{{data}}", "\\", "'",
    '"', "`", "null", "None", "NaN", "nan", ".nan", ".inf", "-.inf", "1e999", "-1", "0", "0x1F", "1_000", "1e3", "yes",
    "true", "~", "-", "--", "-o", "--help", "=", "a=b", "#", "# a", ": ", "a: b", "[", "]", "{", "}", "&a", "*a", "!!",
    "!!python/name:os.system", "|", ">", "?", "@", "..", "../../x", "/", "//", "/dev/null", "/dev/full", "/etc/passwd",
    "~root", "C:\\x", "con", "a/b", ".", "x.png", "abc", "fedcba", "aaaa", "ABC", "a b c", "<script>alert(1)</script>",
)  # fmt: skip

NUMBERS = (
    "0", "1", "-1", "2", "3", "7", "0.5", "-0.5", "1.0", "1e-3", "1e-400", "1e400", "1e5", "nan", "inf", "-inf", "NaN",
    "-0", "1_0", "٣", "0x10", "2147483648", "9223372036854775808", "1" + "0" * 30, "9" * 400, "9" * 5000, "1e", "--1",
    "", " 1", "1 ", "1,5", "true", "null", "[1]", "{}",
)  # fmt: skip


def string(random: Random) -> str:
    """A hostile string, or a few of them after each other."""
    count = random.choice((1, 1, 1, 2, 3))
    text = "".join(random.choice(STRINGS) for _ in range(count))
    return text * random.choice((1, 1, 1, 1, 1, 1, 1, 50, 400))


def argument(random: Random) -> str:
    """A string that a command line can hold: no NUL."""
    return string(random).replace("\x00", "0")[:1500]


def number(random: Random) -> str:
    """Something that stands where a number should."""
    if random.random() < 0.2:
        return str(random.choice((-1, 1)) * random.randrange(10 ** random.randrange(1, 12)))
    return random.choice(NUMBERS)


def word(random: Random, letters: str = "abcdef", most: int = 8) -> str:
    """A harmless word."""
    return "".join(random.choice(letters) for _ in range(random.randrange(1, most + 1)))


def encoded(text: str) -> bytes:
    """UTF-8, lone surrogates included."""
    return text.encode("utf-8", "surrogatepass")


def damaged(random: Random, content: bytes) -> bytes:
    """A file's bytes after an accident."""
    way = random.randrange(12)
    at = random.randrange(len(content) + 1)
    if way == 0:
        return b""
    if way == 1:
        return content[:at]
    if way == 2:
        return content[at:]
    if way == 3 and content:
        flipped = bytearray(content)
        for _ in range(random.choice((1, 1, 2, 8))):
            place = random.randrange(len(flipped))
            flipped[place] ^= 1 << random.randrange(8)
        return bytes(flipped)
    if way == 4:
        return content[:at] + bytes(random.randrange(256) for _ in range(random.choice((1, 4, 64)))) + content[at:]
    if way == 5:
        return content[:at] + b"\x00" * random.choice((1, 16, 4096)) + content[at:]
    if way == 6:
        return content + content
    if way == 7:
        return bytes(random.randrange(256) for _ in range(random.choice((1, 16, 300))))
    if way == 8:
        return content.replace(b"\n", random.choice((b"\r", b"\r\n", b"", b"\n\n")))
    if way == 9:
        return random.choice((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\x1f\x8b", b"PK\x03\x04")) + content
    if way == 10:
        return content.decode("utf-8", "replace").encode(random.choice(("utf-16", "utf-32", "utf-16-le")))
    return encoded(content.decode("utf-8", "replace").replace(word(random, "abc:,", 1), string(random)))


MISSING = ("NaN", "nan", "NA", "N/A", "-999", "-", "?", "null", "inf", "1e400", "", "1,5", "1 000", "0x1F", "#REF!")
"""What stands in cells that have no number."""
TIMES = (
    "%d/%m/%Y %H:%M", "%m/%d/%y", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M+02:00", "%Y%m%d%H", "%s", "%H:%M",
    "%d.%m.%Y %H.%M", "2024-02-30 %H:%M", "%Y-%m-%d 24:00", "%B %d, %Y %I:%M %p", "%Y-W%W-%u",
)  # fmt: skip
"""How other programs write a time, and times that there are not."""
_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d")
_NUMBER = re.compile(r"-?\d+\.\d+")


def mistaken(random: Random, content: bytes) -> bytes:
    """A table or text after what people and spreadsheets do to its columns, cells, times, names and encoding."""
    lines = content.decode("utf-8", "replace").splitlines()
    delimiter = next((each for each in "\t,|" if any(each in line for line in lines)), " ")
    chosen = range(len(lines)) if random.random() < 0.5 else [random.randrange(len(lines))] if lines else []

    def each(change: Callable[[str], str]) -> list[str]:
        return [change(line) if number in chosen else line for number, line in enumerate(lines)]

    def cells(change: Callable[[list[str]], list[str]]) -> list[str]:
        return each(lambda line: delimiter.join(change(line.split(delimiter))))

    other = random.choice(("\t", ",", ";", "|", " ", "  "))
    missing, form = random.choice(MISSING), random.choice(TIMES)
    name = random.choice(("missing-", "../", "/", "WAVS/", "a\\", " "))
    ways: tuple[Callable[[], list[str]], ...] = (
        lambda: each(lambda line: line.replace(delimiter, other)),
        lambda: cells(lambda row: row[1:]),
        lambda: cells(lambda row: row[::-1]),
        lambda: cells(lambda row: [*row, row[-1]]),
        lambda: cells(lambda row: [*row, ""]),
        lambda: cells(lambda row: [f'"{cell}"' for cell in row]),
        lambda: cells(lambda row: [f'"{row[0]}', *row[1:]]),
        lambda: cells(lambda row: [f" {cell} " for cell in row]),
        lambda: cells(lambda row: [name + row[0], *row[1:]]),
        lambda: each(lambda line: _NUMBER.sub(missing, line)),
        lambda: each(lambda line: _TIME.sub(lambda time: _time(time[0]).strftime(form), line)),
        lambda: [line for line in lines for _ in range(2)],
        lambda: random.sample(lines, len(lines)),
        lambda: lines[:1],
        lambda: lines[1:],
        lambda: [*lines[:1], *lines],
        lambda: [
            delimiter.join(("id", "text", "label", "x")[: 1 + lines[0].count(delimiter)]) if lines else "",
            *lines,
        ],
        lambda: [line + "\n" for line in lines],
        lambda: ["# a comment", *lines],
        lambda: each(str.upper),
        lambda: each(lambda line: line.replace("e", "\u00e9").replace(" ", "\u00a0")),
        lambda: [],
    )
    result = random.choice(ways)()
    end = random.choice(("\n", "\n", "\n", "\r\n", "\r"))
    joined = end.join(result) + random.choice((end, end, ""))
    return joined.encode(random.choice(("utf-8", "utf-8", "utf-8", "utf-8-sig", "cp1252", "utf-16")), "replace")


def _time(written: str) -> datetime:
    return datetime.strptime(written, "%Y-%m-%d %H:%M").replace(tzinfo=UTC)


def mistyped(random: Random, name: str) -> str:
    """A word with the slip of a finger."""
    at = random.randrange(len(name))
    before, letter, after = name[:at], name[at], name[at + 1 :]
    slips = (before + after, before + letter + name[at:], before + letter + "x" + after, name.replace("_", "-"))
    slips += (name.capitalize(), f"{name}s", before + after[:1] + letter + after[1:])
    return random.choice([slip for slip in slips if slip and slip != name])


def same(random: Random, content: bytes, *, ends: bool) -> bytes:
    """A text file that another editor has saved: nothing that it says is different.

    Args:
        ends: whether the last line has to end.
    """
    lines = content.decode("utf-8").splitlines()
    end = random.choice(("\n", "\r\n"))
    text = end.join(lines) + ("" if random.random() < 0.25 and not ends else end)
    return text.encode(random.choice(("utf-8", "utf-8-sig")))


def json_value(random: Random, depth: int = 0) -> object:
    """Some JSON value."""
    way = random.randrange(9 if depth < 3 else 7)
    if way == 7:
        return [json_value(random, depth + 1) for _ in range(random.randrange(4))]
    if way == 8:
        return {string(random)[:20]: json_value(random, depth + 1) for _ in range(random.randrange(4))}
    return (None, True, random.randrange(-5, 100), 1e308 * 10, 0.5, string(random)[:50], 10**30)[way]
