"""Makes many hostile inputs and counts what becomes of them.

    python benchmarks/fuzz/run.py --count 10000 --output results.md

The inputs are those of `tests/hostile`, drawn with a seed: input n is the same in every run with that seed, and
`--only n` makes it again and prints all of it. A child process makes one after another; the parent looks at its clock,
ends it when an input takes too long, and starts another for the rest, so that hangs and crashes are counted too.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

VERDICTS = ("worked", "clear error", "raw exception", "hang", "crash", "lost file", "ignored", "executed")
GOOD = VERDICTS[:2]
MEMORY = 6 << 30
"""Bytes of addresses that the child may use: what asks for more fails at once."""
PATIENCE = 30
"""Seconds on the clock for each CPU second of the limit: on a busy machine, or where an input only waits."""
TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Made:
    """An input that was made: its number, its verdict, the details, what was hostile, and the CPU seconds it took."""

    number: int
    verdict: str
    detail: str
    about: str
    seconds: float


def work(connection: Connection, numbers: list[int], seed: int) -> None:
    """The child: sends (number, about) before each input, and (number, verdict, detail) after it."""
    import torch

    from hostile import models
    from hostile.kinds import drawn
    from hostile.trial import judge

    torch.set_num_threads(1)
    models.finished()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    for number in numbers:
        folder = Path(tempfile.mkdtemp(prefix="regard-fuzz-"))
        try:
            connection.send((number, ""))
            trial = drawn(number, folder, seed)
            connection.send((number, trial.about))
            verdict = judge(trial, folder)
            connection.send((number, verdict.kind, verdict.detail))
        except Exception:
            connection.send((number, "crash", traceback.format_exc()))
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def seconds_of(process: multiprocessing.process.BaseProcess) -> float:
    """CPU seconds that a process has used, or what the clock says where /proc does not."""
    try:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return time.monotonic()
    return (int(fields[11]) + int(fields[12])) / TICK


def make(numbers: list[int], seed: int, limit: float) -> Iterator[Made]:
    """Makes inputs in a child, and in another one after each that hangs or crashes."""
    context = multiprocessing.get_context("spawn")
    left = list(numbers)
    while left:
        ours, theirs = context.Pipe()
        child = context.Process(target=work, args=(theirs, left, seed), daemon=True)
        child.start()
        theirs.close()
        for made in _watch(child, ours, limit):
            left.remove(made.number)
            yield made
        child.kill()
        child.join()


def _watch(child: multiprocessing.process.BaseProcess, connection: Connection, limit: float) -> Iterator[Made]:
    """What a child makes, until it ends or has to be ended."""
    number, about, begun, since = -1, "", 0.0, time.monotonic()
    while True:
        try:
            if connection.poll(1.0):
                message = connection.recv()
                if len(message) == 2:
                    (number, about), begun, since = message, seconds_of(child), time.monotonic()
                else:
                    yield Made(message[0], message[1], message[2], about, seconds_of(child) - begun)
                    number = -1
            elif number >= 0:
                spent = seconds_of(child) - begun
                if spent > limit or time.monotonic() - since > PATIENCE * limit:
                    yield Made(number, "hang", "", about, spent)
                    return
        except EOFError:
            child.join()
            if number >= 0:
                yield Made(number, "crash", f"status {child.exitcode}", about, 0.0)
            elif child.exitcode:
                raise SystemExit(f"A child ended between inputs with status {child.exitcode}.") from None
            return


def table(found: list[Made]) -> str:
    """A Markdown table of kinds of inputs by verdicts."""
    from hostile.kinds import SHARES, kind_of

    counts = Counter((kind_of(made.number), made.verdict) for made in found)
    rows = [f"| inputs | all | {' | '.join(VERDICTS)} |", "|---|" + "---:|" * (len(VERDICTS) + 1)]
    for name in (*SHARES, "all"):
        cells = [sum(n for (kind, v), n in counts.items() if name in (kind, "all") and v == one) for one in VERDICTS]
        rows.append(f"| {name} | {' | '.join(f'{cell:,}' for cell in (sum(cells), *cells))} |")
    return "\n".join(rows)


def main() -> None:
    """Reads the command line."""
    from hostile.kinds import kind_of

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000, metavar="N")
    parser.add_argument("--seed", type=int, default=1, metavar="N")
    parser.add_argument("--limit", type=float, default=20.0, metavar="X", help="CPU seconds before an input hangs")
    parser.add_argument("--only", type=int, nargs="*", metavar="N", help="these inputs alone, with all that they say")
    parser.add_argument("--kind", help="inputs of this kind only")
    parser.add_argument("--output", type=Path, help="a file for the table, beside stdout")
    parser.add_argument("--failures", type=Path, help="a file for what was not good, written as it happens")
    options = parser.parse_args()
    numbers = options.only or [n for n in range(options.count) if options.kind in (None, kind_of(n))]
    started, found = time.monotonic(), []
    if options.failures:
        options.failures.write_text("", encoding="utf-8")
    for made in make(numbers, options.seed, options.limit):
        found.append(made)
        if made.verdict not in GOOD or options.only:
            text = f"## {made.number} {kind_of(made.number)}: {made.verdict}\n{made.about}\n\n{made.detail}\n\n"
            if options.failures:
                with options.failures.open("a", encoding="utf-8", errors="backslashreplace") as file:
                    file.write(text)
            if options.only:
                print(text.encode("utf-8", "backslashreplace").decode())
        if len(found) % 500 == 0:
            print(f"{len(found):,} of {len(numbers):,}", file=sys.stderr, flush=True)
    bad = sum(made.verdict not in GOOD for made in found)
    longest, spent = max(made.seconds for made in found), sum(made.seconds for made in found)
    text = (
        f"{table(found)}\n\n{len(found):,} inputs of seed {options.seed}, {spent:,.0f} CPU seconds "
        f"({time.monotonic() - started:,.0f} on the clock); the longest took {longest:.1f}."
    )
    print(text)
    if options.output:
        options.output.write_text(text + "\n", encoding="utf-8")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
