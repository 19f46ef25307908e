"""Work on tensors that is recorded and then done again without Python: on a GPU, as CUDA graphs.

A loop of small kernels takes as long as it takes to launch them. A graph launches all of them at once, with the
addresses that they had when it was recorded; so what changes from batch to batch is copied to where it stood then.
"""

from __future__ import annotations

import warnings
import weakref
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from functools import cache, partial
from itertools import count
from threading import RLock
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn import Parameter

MOST = 8
"""Recordings that are kept, each with the buffers of a whole pass: 50 steps of 64 rows and 512 units take about 150 MB.
A shape that does not come again among as many others is not recorded, since it would leave before it paid. With 0
nothing is recorded."""

Found = TypeVar("Found")
Given = Sequence[Tensor | None]
There = Callable[[Given], tuple[Any, Sequence[Tensor]]]
"""From tensors to what the backward pass needs, and the results."""
Back = Callable[[Any, Sequence[Tensor], Given], Given]
"""From those and what the results get, or None, to what the given tensors get, or None."""

_LOCK = RLock()
_keeps_graph: Callable[[], bool] = getattr(
    torch._C._autograd, "_get_current_graph_task_keep_graph", lambda: True
)  # without it a recording is taken until its node is gone


class AbstractRecorder(ABC):
    """Records work, so that it can be done again in the same memory.

    What one recorder records shares memory for what is between inputs and results. It has to be done again in the
    order in which it was recorded.
    """

    @abstractmethod
    def __init__(self, device: torch.device) -> None: ...

    @staticmethod
    @abstractmethod
    def circumstances(device: torch.device) -> Hashable | None:
        """What recorded work depends on beside tensors; None where nothing may be recorded or done again."""

    @abstractmethod
    def record(self, work: Callable[[], Found]) -> tuple[Found, Callable[[], None]]:
        """What the work gives, whose numbers come with the first replay, and the replay."""


class CudaRecorder(AbstractRecorder):
    """Records CUDA graphs, for the stream that is current."""

    def __init__(self, device: torch.device) -> None:
        self.current = torch.cuda.current_stream(device)
        self.side = _side(self.current)
        self.pool = torch.cuda.graph_pool_handle()

    @staticmethod
    def circumstances(device: torch.device) -> Hashable | None:
        """The stream, since another one would not wait for buffers, and how torch chooses kernels."""
        if torch.is_autocast_enabled("cuda") or torch.cuda.is_current_stream_capturing():
            return None
        precision = torch.backends.cuda.matmul.fp32_precision
        return torch.cuda.current_stream(device), precision, torch.are_deterministic_algorithms_enabled()

    def record(self, work: Callable[[], Found]) -> tuple[Found, Callable[[], None]]:
        """Does the work once on the side, where libraries and kernels are loaded, and then captures it.

        Other threads, as one that pins memory, may go on meanwhile.
        """
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.stream(self.current):  # is current again afterwards, also if the capture fails
            self.side.wait_stream(self.current)
            with torch.cuda.stream(self.side):
                work()
            self.current.wait_stream(self.side)
            with torch.cuda.graph(graph, pool=self.pool, stream=self.side, capture_error_mode="thread_local"):
                found = work()
        return found, graph.replay


@cache
def _side(current: torch.cuda.Stream) -> torch.cuda.Stream:
    """One beside each stream: libraries keep scratch memory for a stream, and graphs keep its address."""
    return torch.cuda.Stream(current.device)


RECORDERS: dict[str, type[AbstractRecorder]] = {"cuda": CudaRecorder}
"""By type of device. Others launch quickly enough."""


class Recording:
    """A function of tensors and its derivative, recorded for tensors of certain shapes.

    Parameters are read where they stand. All others, also weights that were computed, are copied.

    Args:
        recorder: only for this recording, as several may wait for their derivatives in any order.
        forget: called when the recording is of no use any more, as when a parameter is gone.
    """

    def __init__(
        self, recorder: AbstractRecorder, there: There, back: Back, given: Given, forget: Callable[[], Any]
    ) -> None:
        self._recorder, self._back, self._forget = recorder, back, forget
        places = [x.detach() if isinstance(x, Parameter) else _copied(x) for x in given]
        (self._passed, self._results), self._replay = recorder.record(lambda: there(places))
        self._places = places
        self._backs: dict[Hashable, tuple[Given, Given, Callable[[], None]]] = {}
        self._owner: list[weakref.ref[Any]] = []
        self._weights = [weakref.ref(x, lambda _: forget()) for x in given if isinstance(x, Parameter)]

    @property
    def is_free(self) -> bool:
        """Whether nobody will ask for derivatives any more."""
        return not self._owner or self._owner[0]() is None

    def take(self, owner: Any) -> None:
        """For a node of the graph, until it is gone or has gone back without being kept."""
        self._owner[:] = [weakref.ref(owner)]

    def forward(self, given: Given) -> tuple[Tensor, ...]:
        """The results, which are the caller's."""
        for place, x in zip(self._places, given, strict=True):
            if place is not None and x is not None and not isinstance(x, Parameter):
                place.copy_(x)
        self._replay()
        return tuple(x.clone() for x in self._results)

    def backward(self, grad_results: Given, needed: Sequence[bool]) -> Given:
        """The gradients of the inputs, where needed; for the owner in its backward pass."""
        recorded = self._recorded(grad_results)
        if recorded is None:
            found = self._back(self._passed, self._results, grad_results)
        else:
            places, standing, replay = recorded
            for place, x in zip(places, grad_results, strict=True):
                if place is not None and x is not None:
                    place.copy_(x)
            replay()
            found = [_copied(x) if need else None for x, need in zip(standing, needed, strict=True)]
        if not _keeps_graph():
            self._owner.clear()
        return found

    def _recorded(self, grad_results: Given) -> tuple[Given, Given, Callable[[], None]] | None:
        """The backward pass of those results that have gradients; None where it cannot be recorded."""
        device = self._results[0].device
        circumstances = self._recorder.circumstances(device)
        if circumstances is None:
            return None
        key = circumstances, tuple(x is None for x in grad_results)
        with _LOCK:
            if key not in self._backs:
                places = [_copied(x) for x in grad_results]
                try:
                    work = self._recorder.record(lambda: self._back(self._passed, self._results, places))
                except RuntimeError as error:
                    _give_up(device, error)
                    self._forget()
                    return None
                self._backs[key] = (places, *work)
            return self._backs[key]


class Recordings:
    """The recordings of the tensors that came last; what has not been used for longest leaves, unless it is taken."""

    def __init__(self) -> None:
        self._slots: OrderedDict[Hashable, Recording | None] = OrderedDict()

    def take(self, owner: Any, what: Hashable, there: There, back: Back, given: Given) -> Recording | None:
        """A recording for such tensors that nobody else has, made when they come for the second time; or None.

        Args:
            owner: the node of the graph.
            what: all that the work depends on beside tensors.
            given: the first one says on which device.
        """
        assert given[0] is not None
        device = given[0].device
        kind = RECORDERS.get(device.type)
        circumstances = None if kind is None else kind.circumstances(device)
        if kind is None or circumstances is None or any(type(x) not in _PLAIN for x in given):
            return None
        key = what, circumstances, tuple(_key(x) for x in given)
        with _LOCK:
            for slot in ((key, index) for index in count()):  # as many as wait at once
                if slot not in self._slots:
                    self._remember(slot)
                    return None
                found = self._slots[slot]
                if found is None:
                    forget = partial(self._slots.pop, slot, None)
                    try:
                        found = self._slots[slot] = Recording(kind(device), there, back, given, forget)
                    except RuntimeError as error:
                        _give_up(device, error)
                        self._slots.clear()
                        return None
                if found.is_free:
                    self._slots.move_to_end(slot)
                    found.take(owner)
                    return found
        return None

    def _remember(self, slot: Hashable) -> None:
        idle = [known for known, one in list(self._slots.items()) if one is None or one.is_free]
        excess = len(self._slots) + 1 - MOST
        if excess <= len(idle):
            for known in idle[: max(excess, 0)]:
                del self._slots[known]
            self._slots[slot] = None


_PLAIN = (Tensor, Parameter, type(None))


def _key(x: Tensor | None) -> Hashable:
    """What a recording knows of a tensor."""
    place = (x.data_ptr(), x.stride()) if isinstance(x, Parameter) else None
    return None if x is None else (x.dtype, x.device, x.shape, place)


def _copied(x: Tensor | None) -> Tensor | None:
    return None if x is None else x.detach().clone(memory_format=torch.contiguous_format)


def _give_up(device: torch.device, error: RuntimeError) -> None:
    """Says why, and does not try again."""
    RECORDERS.pop(device.type, None)
    warnings.warn(
        f"The steps of recurrent decoders could not be recorded on {device}, so they are launched one by one: {error}",
        RuntimeWarning,
        stacklevel=2,
    )
