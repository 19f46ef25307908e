"""One hostile input, and the judgement on what became of it."""

from __future__ import annotations

import hashlib
import io
import os
import sys
import traceback
import unicodedata
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import regard
from regard.cli.application import UNREAD, run
from regard.cli.standard import WRONG
from regard.errors import RegardError

PACKAGE = str(Path(regard.__file__).parent)
LONGEST = 6000
"""Characters that a message may have: more than that nobody reads."""
CANARY = "canary"
"""A file of this name appears in the working folder when an input's code was executed."""


@dataclass
class Trial:
    """What is done with a hostile input.

    Args:
        about: what is hostile about it, in a line.
        act: does it, in the working folder; returns what was ignored or wrong, if anything was.
        replaced: relative paths, or folders' paths ending in "/", that a success may change.
        records: what even a failure may change: where a run writes down what became of it. Only old checkpoints go.
        survivors: files among all these that must stay even so.
    """

    about: str
    act: Callable[[], str | None]
    replaced: set[str] = field(default_factory=set)
    records: set[str] = field(default_factory=set)
    survivors: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Verdict:
    """What became of a trial.

    Args:
        kind: `worked`, `clear error`, `raw exception`, `lost file`, `ignored`, `executed`.
        detail: the error's text, the traceback, the files lost.
    """

    kind: str
    detail: str = ""

    @property
    def is_good(self) -> bool:
        return self.kind in ("worked", "clear error")


class RawError(Exception):
    """A command ended as no command should."""


class Refused(Exception):
    """A command ended with a status above 0 and words."""


def judge(trial: Trial, folder: Path) -> Verdict:
    """Makes a trial in its working folder."""
    before = contents(folder)
    with inside(folder), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        verdict = _attempt(trial)
    after = contents(folder)
    if (folder / CANARY).exists():
        return Verdict("executed", verdict.detail)
    free = trial.records if verdict.kind == "clear error" else trial.records | trial.replaced
    lost = [
        name
        for name, digest in before.items()
        if after.get(name) != digest
        and (name in trial.survivors or not _may_change(name, free) or (name in trial.records and name not in after))
    ]
    if lost and verdict.is_good:
        return Verdict("lost file", f"{', '.join(sorted(lost))}; then: {verdict.kind} {verdict.detail}")
    return verdict


def _may_change(name: str, free: set[str]) -> bool:
    return any(name.startswith(one) if one.endswith("/") else name == one for one in free)


def _attempt(trial: Trial) -> Verdict:
    try:
        complaint = trial.act()
    except (RegardError, Refused) as error:
        return _read(str(error))
    except OSError as error:
        if error.filename is not None and error.strerror:  # as `open` says it: which file, and why
            return Verdict("clear error", f"{error.filename}: {error.strerror}")
        return Verdict("raw exception", "".join(traceback.format_exception(error))[-4000:])
    except BaseException as error:
        if isinstance(error, TypeError | IndexError) and _is_on_purpose(error):
            return Verdict("clear error", str(error))
        return Verdict("raw exception", "".join(traceback.format_exception(error))[-4000:])
    return Verdict("ignored", complaint) if complaint else Verdict("worked")


def _read(message: str) -> Verdict:
    """What a user can do with a message."""
    if not message.strip():
        return Verdict("raw exception", "no words")
    if len(message) > LONGEST:
        return Verdict("raw exception", f"a message of {len(message)} characters: {message[:500]}")
    if odd := {letter for letter in message if unicodedata.category(letter) in ("Cc", "Cs") and letter not in "\n\t"}:
        return Verdict("raw exception", f"a message with {sorted(odd)!r}: {message[:500]!r}")
    return Verdict("clear error", message)


def _is_on_purpose(error: BaseException) -> bool:
    """Whether regard itself raised it, as it does for a misuse of Python's own conventions."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return frame.filename.startswith(PACKAGE) and (frame.line or "").startswith("raise ")


def contents(folder: Path) -> dict[str, str]:
    """A digest of every file and the target of every link, by relative path."""
    found = {}
    for path in folder.rglob("*"):
        name = os.fsencode(path.relative_to(folder)).decode("utf-8", "backslashreplace")
        if path.is_symlink():
            found[name] = os.readlink(path)
        elif path.is_file():
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


@contextmanager
def inside(folder: Path) -> Iterator[None]:
    """The working directory, for a while."""
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def command(*arguments: str, stdin: bytes | None = b"", stdout: Any = None, stderr: Any = None) -> str:
    """What a command prints, run in this process.

    Args:
        stdin: what it reads; None for a stream that is closed.
        stdout, stderr: other streams than those whose text is kept.

    Raises:
        Refused: it failed with words of its own.
        RawError: it failed with an exception that nobody foresaw, or without a word.
    """
    kept, said = _stream(), _stream()
    saved = sys.stdin, sys.stdout, sys.stderr
    sys.stdin = None if stdin is None else io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
    sys.stdout = kept if stdout is None else stdout() if callable(stdout) else stdout
    sys.stderr = said if stderr is None else stderr() if callable(stderr) else stderr
    try:
        status = run(arguments)
    finally:
        sys.stdin, sys.stdout, sys.stderr = saved
    words, debug = _text(said), "--debug" in arguments
    if debug and status == WRONG:  # asked for tracebacks, of errors that regard raises on purpose
        raise Refused("a traceback that was asked for")
    if "Traceback" in words or "regard failed with" in words or status not in (0, 1, 2, 130, 141, 143):
        raise RawError(f"{arguments}: status {status}: {_traced(arguments, stdin) or words[-3000:]}")
    if status in (1, 2) and not (words.strip() or _text(kept).strip()) and stdout is stderr is None:
        raise RawError(f"{arguments}: status {status} without a word")
    if status and status != UNREAD:  # nobody reads on, as after `head`: it ends without a word
        raise Refused(
            words
            if words.strip() or (stdout is stderr is None and not _text(kept).strip())
            else _text(kept) or "unheard"
        )
    return _text(kept)


def _traced(arguments: tuple[str, ...], stdin: bytes | None) -> str:
    """The same command again, for its traceback."""
    said, saved = _stream(), (sys.stdin, sys.stdout, sys.stderr)
    sys.stdin = None if stdin is None else io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
    sys.stdout, sys.stderr = _stream(), said
    try:
        run(["--debug", *arguments])
    finally:
        sys.stdin, sys.stdout, sys.stderr = saved
    return _text(said)[-3000:]


def _stream() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace", write_through=True)


def _text(stream: io.TextIOWrapper) -> str:
    if stream.closed:
        return ""
    stream.flush()
    stream.seek(0)
    return stream.read()
