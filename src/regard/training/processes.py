"""Communication between the processes that `torchrun` starts, which train or predict together.

All processes make the same calls in the same order; with a single process every function returns immediately. Values
are exchanged between CPUs (gloo), gradients between GPUs if there are any (nccl).
"""

from __future__ import annotations

import atexit
import os
import socket
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, redirect_stderr, suppress
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch import distributed as dist

from regard.errors import ConfigError, ElsewhereError, RegardError
from regard.files import checksum

ValueT = TypeVar("ValueT")

LATE = 120.0
"""The longest time, in seconds, after which a change of a shared folder is seen by all machines."""
SILENT = 120
"""Seconds after which a machine that does not answer, for example without power, counts as failed."""
WAIT = timedelta(hours=6)
"""The longest time that a process waits for another running one."""


def num_started() -> int:
    """The number of processes that were started together, before or after joining."""
    return size() if _joined() else int(os.environ.get("WORLD_SIZE", "1"))


def size() -> int:
    """The number of processes that have joined; 1 for a single process."""
    return dist.get_world_size() if _joined() else 1


def rank() -> int:
    """The number of this process, from 0."""
    return dist.get_rank() if _joined() else 0


def is_first() -> bool:
    """Whether this is the process that prints and writes."""
    return rank() == 0


@contextmanager
def joined(device: torch.device) -> Iterator[None]:
    """Joins the processes that were started together into a group, until they end.

    Does nothing for a single process, or if there is a process group already.
    """
    if not _joined() and num_started() > 1:
        _join(device)
    try:
        yield
    except RuntimeError as error:
        if size() == 1 or not _is_broken(error):
            raise
        raise RegardError(
            f"Process {rank() + 1} of {size()} ends because another process of this run has ended; its messages have "
            "the reason. The same command continues from the last checkpoint."
        ) from error


def _join(device: torch.device) -> None:
    if not dist.is_available():
        raise RegardError(f"torch {torch.__version__} is built without torch.distributed; start only one process.")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo", timeout=WAIT)
    _notice_failures()
    atexit.register(_leave)


def _notice_failures() -> None:
    """Breaks connections to a machine that has failed; the others would wait for it until `WAIT` has passed.

    gloo's sockets ask for no signs of life, and it has no option for them, so they are set on all sockets of this
    process, on Linux.
    """
    if not os.path.isdir("/proc/self/fd"):
        return
    options = {"TCP_KEEPIDLE": SILENT // 4, "TCP_KEEPINTVL": SILENT // 8, "TCP_KEEPCNT": 6}
    for number in map(int, os.listdir("/proc/self/fd")):  # files that are no sockets raise OSError
        with suppress(OSError), socket.fromfd(number, socket.AF_INET, socket.SOCK_STREAM) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in {**options, "TCP_USER_TIMEOUT": 1000 * SILENT}.items():
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _leave() -> None:
    if _joined():
        dist.destroy_process_group()


@contextmanager
def silence() -> Iterator[None]:
    """Inside the context only the first process writes to the standard error."""
    if is_first():
        yield
        return
    with open(os.devnull, "w", encoding="utf-8") as null, redirect_stderr(null):
        yield


@contextmanager
def held(make: Callable[[], AbstractContextManager[ValueT]]) -> Iterator[ValueT | None]:
    """Enters a context in the first process only, and yields its value; None in the others.

    Raises:
        ElsewhereError: in the others, if entering fails in the first.
    """
    with ExitStack() as stack:
        entered: list[ValueT] = []
        first(lambda: entered.append(stack.enter_context(make())))
        yield entered[0] if entered else None


def local_device(kind: str) -> torch.device:
    """The device of this process, cpu or cuda; several processes on a machine use one GPU each."""
    if kind != "cuda" or num_started() == 1:
        return torch.device(kind)
    index, num_gpus = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
    if index >= num_gpus:
        raise ConfigError(
            f"Process {index + 1} of this machine has no GPU: there are {num_gpus}. Start at most that many processes "
            "(torchrun --nproc-per-node), or train on CPUs (training.device: cpu).",
            ("training", "device"),
        )
    return torch.device("cuda", index)


def summed(values: Tensor) -> Tensor:
    """The sum of a tensor over all processes; on the CPU it is computed in place."""
    if size() == 1:
        return values
    here = values.to("cpu")
    dist.all_reduce(here)
    return here.to(values.device)


def anywhere(*flags: bool) -> tuple[bool, ...]:
    """For each flag, whether it is set in any process."""
    counts = summed(torch.tensor(flags, dtype=torch.float64))
    return tuple(count > 0 for count in counts.tolist())


def gathered(value: ValueT) -> list[ValueT]:
    """The values of all processes, in the order of their ranks."""
    if size() == 1:
        return [value]
    values: list[Any] = [None] * size()
    dist.all_gather_object(values, value)
    return values


def first(function: Callable[[], ValueT]) -> ValueT:
    """Calls a function in the first process only, and returns its result in all."""
    if size() == 1:
        return function()
    message: list[Any] = [None, None]  # the result and the error's text
    if not is_first():
        dist.broadcast_object_list(message)
        if message[1] is not None:
            raise ElsewhereError(message[1])
        return message[0]
    try:
        message[0] = function()
    except BaseException as error:
        dist.broadcast_object_list([None, f"{type(error).__name__}: {error}"])
        raise
    dist.broadcast_object_list(message)
    return message[0]


def wait_until_same(path: Path) -> None:
    """Waits until all processes read the same content of a file that the first has written.

    Machines that share a folder may show each other's changes late; those of NFS keep names and attributes for seconds.

    Raises:
        RegardError: after `LATE` seconds.
    """
    deadline = time.monotonic() + LATE
    while len(sums := set(gathered(checksum(path) if path.is_file() else None))) > 1:
        if first(lambda: time.monotonic() > deadline):
            raise RegardError(f"{path}: after {LATE:.0f} s processes still read {len(sums)} different contents.")
        time.sleep(1)


def local_part(values: Sequence[ValueT]) -> Sequence[ValueT]:
    """This process's part of the values: every n-th, for n processes."""
    return values[rank() :: size()]


def merged(parts: Sequence[Sequence[ValueT]]) -> list[ValueT]:
    """All values in order, from the local parts of all processes.

    >>> merged([[0, 2, 4], [1, 3]])
    [0, 1, 2, 3, 4]
    """
    whole: list[Any] = [None] * sum(map(len, parts))
    for number, part in enumerate(parts):
        whole[number :: len(parts)] = part
    return whole


def _is_broken(error: RuntimeError) -> bool:
    """Whether the cause of the error is the end of another process."""
    text = str(error).lower()
    return isinstance(error, dist.DistError) or "gloo" in text or "nccl" in text or "connection closed" in text


def _joined() -> bool:
    return dist.is_available() and dist.is_initialized()


ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


def in_order(items: Iterable[ItemT], work: Callable[[ItemT], ResultT]) -> Generator[ResultT, None, None]:
    """The result of `work` for each item, in order, in the first process; the others also work, but yield nothing.

    Only the first process reads the stream. Each process works on one item at a time, so memory does not grow with the
    stream. All processes end when the first one stops iterating or any of them fails.

    Args:
        items: the stream, read in the first process only.
        work: called in any process; items and results are pickled to travel between processes.

    Raises:
        Exception: in the first process, the error of `work`, after all results that come before it in order.
        ElsewhereError: in the others, if the first process cannot read the stream.
    """
    if size() == 1:
        yield from map(work, items)
        return
    stream = iter(items)
    while batch := first(lambda: list(islice(stream, size()))):
        results = gathered(_tried(work, batch))
        has_failed = any(error is not None for _, error in results)
        for result, error in results if is_first() else ():
            if error is not None:
                raise error
            try:
                yield from result or ()
            except GeneratorExit:
                if not has_failed:  # the others are waiting for items
                    first(list)
                raise
        if has_failed:
            return


def _tried(work: Callable[[Any], Any], batch: list[Any]) -> tuple[tuple[Any] | None, Exception | None]:
    """The result of this process, if it has an item, or its error."""
    if rank() >= len(batch):
        return None, None
    try:
        return (work(batch[rank()]),), None
    except Exception as error:
        return None, error
