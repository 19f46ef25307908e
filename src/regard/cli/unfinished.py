"""The outputs of a prediction until it is complete: a file that grows, and a journal from which a command continues."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from errno import ENOSPC
from pathlib import Path
from time import monotonic
from typing import IO, Any, TextIO

from regard.cli.standard import Terminated, naming, results, say, target_of
from regard.errors import RegardError, counted
from regard.files import sync

RECORD_EVERY = 2.0
"""The fewest seconds between two records, each of which waits for the disk."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What a prediction has done.

    Args:
        inputs: the number of inputs whose outputs are complete.
        checksum: of these inputs.
        size: of these outputs, in bytes.
        failed, withheld: how many of them have no output, or are left empty for their confidence.
        chunk_rows: the most inputs of the next chunk, which the last digits of outputs and draws depend on; 0: of the
            first one.
        is_complete: whether there are no further inputs.
    """

    inputs: int = 0
    checksum: int = 0
    size: int = 0
    failed: int = 0
    withheld: int = 0
    chunk_rows: int = 0
    is_complete: bool = False


class Unfinished:
    """The files `OUTPUT.partial`, with the lines of the outputs so far, and `OUTPUT.partial.jsonl`, the journal.

    The first line of the journal has the settings of the command, each further one a `Progress`, written when the
    outputs that it counts are on the disk. So, whenever the command is killed, the last whole line of the journal is
    true of the first bytes of the other file. stdout, pipes and devices are written directly and have neither file.

    Args:
        output: the file to write; None: stdout.
    """

    def __init__(self, output: Path | None) -> None:
        self.progress = Progress()
        self._output, self._partial = output, None
        if output is not None and str(output) != "-":
            self._target = target_of(output)
            if self._target.is_file() or not self._target.exists():
                self._partial = self._target.with_name(f"{self._target.name}.partial")
                self._journal_path = self._target.with_name(f"{self._partial.name}.jsonl")
        self._settings: Mapping[str, Any] = {}
        self._recorded, self._length, self._is_resumed = self.progress, 0, False

    @property
    def has_ended(self) -> bool:
        """Whether the output has its name already, and only the journal is left."""
        return self._partial is not None and self.progress.is_complete and not self._partial.is_file()

    def read(self) -> None:
        """Reads the progress of the stopped command.

        Raises:
            RegardError: if there is none.
        """
        if self._partial is None:
            raise RegardError("--resume continues a file: add the --output FILE of the stopped command.")
        records: list[tuple[Progress, int]] = []
        length = 0
        with suppress(FileNotFoundError, ValueError, TypeError), self._journal_path.open("rb") as journal:
            for line in journal:  # a kill may have cut the last one
                value = json.loads(line if line.endswith(b"\n") else b"")
                length += len(line)
                if not self._length:
                    self._settings, self._length = dict(value), length
                else:
                    records.append((Progress(**value), length))
        if self._partial.is_file():
            size = self._partial.stat().st_size
            if size and not self._length:
                raise RegardError(
                    f"--resume: {self._journal_path}, the journal of {self._partial}, is missing or damaged.\n"
                    "  Leave out --resume to begin again."
                )
            records = [each for each in records if each[0].size <= size]
        elif not (records and records[-1][0].is_complete and self._target.is_file()):
            raise RegardError(f"--resume: there is no {self._output}.partial of a stopped prediction.")
        self._is_resumed = True
        if records:
            self.progress, self._length = records[-1]
            self._recorded = self.progress

    def require(self, settings: Mapping[str, Any]) -> None:
        """Sets the settings of this command.

        Args:
            settings: by name of the flag; `model` is a description of the model, which messages do not show.

        Raises:
            RegardError: if the stopped command had others.
        """
        before, self._settings = self._settings, json.loads(json.dumps(settings, default=str))
        if not before or before == self._settings:
            return
        names = sorted(name for name in {**before, **self._settings} if before.get(name) != self._settings.get(name))
        if (name := names[0]) == "model":
            said = "another model; its weights or its configuration are different"
        else:
            old, new = (_flag(name, values.get(name)) for values in (before, self._settings))
            said = f"{old}, and this command has {new}"
        raise RegardError(
            f"--resume: {self._partial} was written with {said}.\n"
            "  Give the same command, or leave out --resume to begin again."
        )

    @contextmanager
    def opened(self, convert: Callable[[Path, Path], object] | None = None) -> Iterator[TextIO]:
        """The stream for lines of outputs; at its end the file gets its name.

        Args:
            convert: writes the output from a file with the lines.

        Raises:
            RegardError: if another process writes the file.
            OSError: if it cannot be written; the error has the name of the output.
        """
        if self._partial is None:
            with results(self._output) as self._stream:
                yield self._stream
            return
        assert self._output is not None
        self._target.parent.mkdir(parents=True, exist_ok=True)
        with naming(self._output, self._partial, self._journal_path):
            self._open_journal()
            try:
                with self._journal:
                    with self._partial.open("a", encoding="utf-8", errors="backslashreplace", newline="\n") as stream:
                        self._stream = stream
                        yield from self._written()
                    self._publish(convert)
            except BaseException as error:
                self._stop(error)
                raise

    def _open_journal(self) -> None:
        from regard.training.lock import is_locked

        assert self._partial is not None
        if not self._is_resumed and self._partial.is_file() and self._partial.stat().st_size:
            say(f"{self._partial}, the outputs of a stopped prediction, is replaced, since there is no --resume.")
        self._journal = self._journal_path.open("ab", buffering=0)
        if is_locked(self._journal) or not _is_at(self._journal, self._journal_path):
            self._journal.close()
            raise RegardError(f"{self._output}: another process is writing {self._partial}. Wait for it, or stop it.")

    def _written(self) -> Iterator[TextIO]:
        """Yields the stream, and records the progress at the end, whatever it is."""
        try:
            self._cut()
            self._next = monotonic() + RECORD_EVERY
            yield self._stream
            self.advance(replace(self.progress, is_complete=True))
            self._record()
        except BaseException:
            with suppress(OSError):
                self._stream.flush()
            with suppress(OSError):
                self._cut()  # on a full disk, room for the journal
                self._record()
            raise

    def _cut(self) -> None:
        """Cuts both files to what the progress says."""
        os.ftruncate(self._stream.fileno(), self.progress.size)
        self._journal.truncate(self._length)
        if not self._length:
            self._write(self._settings)

    def advance(self, progress: Progress) -> None:
        """Sets the progress, except its size, after the outputs that it counts are written."""
        self._stream.flush()
        if self._partial is None:
            self.progress = progress
            return
        self.progress = replace(progress, size=os.fstat(self._stream.fileno()).st_size)
        if monotonic() >= self._next:
            self._record()
            self._next = monotonic() + RECORD_EVERY

    def _record(self) -> None:
        if self.progress != self._recorded:
            os.fsync(self._stream.fileno())
            self._write(asdict(self.progress))
            self._recorded = self.progress

    def _write(self, value: Any) -> None:
        line = json.dumps(value).encode() + b"\n"
        if self._journal.write(line) < len(line):
            raise OSError(ENOSPC, os.strerror(ENOSPC))
        os.fsync(self._journal.fileno())
        self._length += len(line)

    def _publish(self, convert: Callable[[Path, Path], object] | None) -> None:
        """Gives the output its name."""
        assert self._partial is not None
        if convert is None:
            os.replace(self._partial, self._target)
            return
        converted = self._partial.with_name(f"{self._partial.name}{self._target.suffix}")
        try:
            convert(self._partial, converted)
            sync(converted)
            os.replace(converted, self._target)
        finally:
            converted.unlink(missing_ok=True)
        self._partial.unlink()

    def _stop(self, error: BaseException) -> None:
        """Says where the outputs of a prediction are that ends early, or removes the files if there are none."""
        assert self._partial is not None
        done = counted(self.progress.inputs, "input|inputs")
        if self.progress.inputs:
            say(f"stopped: the outputs of {done} are in {self._partial}; the same command with --resume continues.")
            return
        self.forget()
        self._partial.unlink(missing_ok=True)
        if isinstance(error, (KeyboardInterrupt, Terminated)):
            say(f"stopped after {done}; nothing is kept.")

    def forget(self) -> None:
        """Removes the journal, when the output is complete and its messages are said."""
        if self._partial is not None:
            self._journal_path.unlink(missing_ok=True)


def _is_at(file: IO[Any], path: Path) -> bool:
    """Whether the open file is still the one of this name."""
    return path.is_file() and os.path.samestat(os.fstat(file.fileno()), path.stat())


def _flag(name: str, value: Any) -> str:
    flag = f"--{name.replace('_', '-')}"
    return f"no {flag}" if value in (None, False) else flag if value is True else f"{flag} {value}"
