"""The processes that train, or predict, together; `torchrun` starts them. One alone needs none of this.

All of them make the same calls in the same order. What is shared travels between the CPUs (gloo); gradients travel
between GPUs where there are some (nccl).
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, redirect_stderr
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch import distributed as dist

from regard.errors import ConfigError, ElsewhereError, RegardError

ValueT = TypeVar("ValueT")

WAIT = timedelta(hours=6)
"""How long a process waits for another that lives. For one that has died nobody waits."""


def asked() -> int:
    """How many processes were started together, whether or not they have joined."""
    return size() if _joined() else int(os.environ.get("WORLD_SIZE", "1"))


def size() -> int:
    """How many processes have joined; 1 for one alone."""
    return dist.get_world_size() if _joined() else 1


def rank() -> int:
    """This one's number, from 0."""
    return dist.get_rank() if _joined() else 0


def is_first() -> bool:
    """Whether this one speaks and writes."""
    return rank() == 0


@contextmanager
def joined(device: torch.device) -> Iterator[None]:
    """Inside of the block the processes that were started together work together, and from then on to their end.

    Nothing happens for one process alone, or where a process group exists already.

    Args:
        device: of this process.

    Raises:
        RegardError: when another process has ended.
    """
    if not _joined() and asked() > 1:
        _join(device)
    try:
        yield
    except RuntimeError as error:
        if size() == 1 or not _is_broken(error):
            raise
        raise RegardError(
            f"Process {rank() + 1} of {size()}: another process of this run has ended, and this one with it. Look "
            "above and below for the reason. The same command continues from the last checkpoint."
        ) from error


def _join(device: torch.device) -> None:
    if not dist.is_available():
        raise RegardError(f"This build of torch ({torch.__version__}) cannot work in several processes.")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo", timeout=WAIT)
    atexit.register(_leave)


def _leave() -> None:
    if _joined():
        dist.destroy_process_group()


@contextmanager
def silence() -> Iterator[None]:
    """Inside of the block nobody but the first writes to the standard error."""
    if is_first():
        yield
        return
    with open(os.devnull, "w", encoding="utf-8") as nowhere, redirect_stderr(nowhere):
        yield


@contextmanager
def held(make: Callable[[], AbstractContextManager[ValueT]]) -> Iterator[ValueT | None]:
    """Inside of the block the first process has entered a context; the others get None.

    Raises:
        ElsewhereError: in the others, if it cannot be entered.
    """
    with ExitStack() as stack:
        entered: list[ValueT] = []
        first(lambda: entered.append(stack.enter_context(make())))
        yield entered[0] if entered else None


def local_device(kind: str) -> torch.device:
    """The device of a kind, cpu or cuda, that this process uses: of several processes on a machine each has its GPU.

    Raises:
        ConfigError: for more processes than GPUs.
    """
    if kind != "cuda" or asked() == 1:
        return torch.device(kind)
    index, found = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
    if index >= found:
        raise ConfigError(
            f"Process {index + 1} of this machine has no GPU: there are {found}. Start at most as many processes "
            "(torchrun --nproc-per-node), or train on CPUs (training.device: cpu).",
            ("training", "device"),
        )
    return torch.device("cuda", index)


def total(values: Sequence[float]) -> list[float]:
    """The sums over all processes, in float64."""
    if size() == 1:
        return list(values)
    return summed(torch.tensor(values, dtype=torch.float64)).tolist()


def summed(values: Tensor) -> Tensor:
    """The sums over all processes of a tensor, which is changed if it is on the CPU."""
    if size() == 1:
        return values
    here = values.to("cpu")
    dist.all_reduce(here)
    return here.to(values.device)


def anywhere(*flags: bool) -> tuple[bool, ...]:
    """Of each flag, whether it is up in any process."""
    return tuple(count > 0 for count in total([float(flag) for flag in flags]))


def gathered(value: ValueT) -> list[ValueT]:
    """The values of all processes, in their order."""
    if size() == 1:
        return [value]
    values: list[Any] = [None] * size()
    dist.all_gather_object(values, value)
    return values


def first(function: Callable[[], ValueT]) -> ValueT:
    """What a function returns that only the first process calls, while the others wait.

    Raises:
        ElsewhereError: in the others, if it fails in the first.
    """
    if size() == 1:
        return function()
    told: list[Any] = [None, None]
    if not is_first():
        dist.broadcast_object_list(told)
        if told[1] is not None:
            raise ElsewhereError(told[1])
        return told[0]
    try:
        told[0] = function()
    except BaseException as error:
        dist.broadcast_object_list([None, f"{type(error).__name__}: {error}"])
        raise
    dist.broadcast_object_list(told)
    return told[0]


def share(values: Sequence[ValueT]) -> Sequence[ValueT]:
    """This process's share: every so many-th value."""
    return values[rank() :: size()]


def merged(shares: Sequence[Sequence[ValueT]]) -> list[ValueT]:
    """All values in their order, from the shares of all processes.

    >>> merged([[0, 2, 4], [1, 3]])
    [0, 1, 2, 3, 4]
    """
    whole: list[Any] = [None] * sum(map(len, shares))
    for number, part in enumerate(shares):
        whole[number :: len(shares)] = part
    return whole


def _is_broken(error: RuntimeError) -> bool:
    """Whether what went wrong is that another process is not there any more."""
    told = str(error).lower()
    return isinstance(error, dist.DistError) or "gloo" in told or "nccl" in told or "connection closed" in told


def _joined() -> bool:
    return dist.is_available() and dist.is_initialized()
