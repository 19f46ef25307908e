"""Work on tensors that is recorded and then replayed without Python: on a GPU, as CUDA graphs.

A loop of small kernels takes as long as it takes to launch them. A graph launches all of them at once, on the addresses
that they had when it was recorded. So a recording keeps its tensors, and what changes from batch to batch is copied
into them:

    forward:   inputs → static buffers,        replay,  results → copies for the caller
    backward:  grad_results → static buffers,  replay,  grad_inputs → copies for the caller

Between its forward and its backward pass a recording holds what the backward pass needs. It is reserved for one node of
the autograd graph meanwhile, and other passes of the same shapes take other recordings.
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

from regard.ops.eligibility import TENSOR_TYPES

MAX_RECORDINGS = 8
"""Recordings that are kept, each with the buffers of a whole pass: 50 steps of 64 rows and 512 units take about 150 MB.
A shape is recorded when it comes for the second time; one that does not come again among as many others leaves before
that. With 0 nothing is recorded."""

Result = TypeVar("Result")
Tensors = Sequence[Tensor | None]
Forward = Callable[[Tensors], tuple[Any, Sequence[Tensor]]]
"""From the inputs to what the backward pass needs, and the results."""
Backward = Callable[[Any, Sequence[Tensor], Tensors], Tensors]
"""From those two and the gradients of the results, or None, to the gradients of the inputs, or None."""

_LOCK = RLock()
_keeps_graph: Callable[[], bool] = getattr(
    torch._C._autograd, "_get_current_graph_task_keep_graph", lambda: True
)  # without it a recording is reserved until its node is freed


class AbstractRecorder(ABC):
    """Records work, so that it can be replayed in the same memory.

    All that one recorder records shares memory for what lies between inputs and results. So it must be replayed in the
    order in which it was recorded: a forward pass, then its backward pass.
    """

    @abstractmethod
    def __init__(self, device: torch.device) -> None: ...

    @staticmethod
    @abstractmethod
    def circumstances(device: torch.device) -> Hashable | None:
        """What recorded work depends on beside tensors; None where nothing may be recorded or replayed."""

    @abstractmethod
    def record(self, work: Callable[[], Result]) -> tuple[Result, Callable[[], None]]:
        """What the work returns, whose numbers come with the first replay, and the replay."""


class CudaRecorder(AbstractRecorder):
    """Records CUDA graphs, for the stream that is current."""

    def __init__(self, device: torch.device) -> None:
        self.current = torch.cuda.current_stream(device)
        self.side = _side(self.current)
        self.pool = torch.cuda.graph_pool_handle()

    @staticmethod
    def circumstances(device: torch.device) -> Hashable | None:
        """The stream, since another one would not wait for the buffers, and settings by which torch chooses kernels."""
        if torch.is_autocast_enabled("cuda") or torch.cuda.is_current_stream_capturing():
            return None
        precision = torch.backends.cuda.matmul.fp32_precision
        return torch.cuda.current_stream(device), precision, torch.are_deterministic_algorithms_enabled()

    def record(self, work: Callable[[], Result]) -> tuple[Result, Callable[[], None]]:
        """Does the work once on another stream, which loads libraries and kernels, and then captures it there.

        Other threads, as one that pins memory, may go on meanwhile.
        """
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.stream(self.current):  # is current again afterwards, also if the capture fails
            self.side.wait_stream(self.current)
            # outside of the capture, since loading may wait for the device, which a capture refuses
            with torch.cuda.stream(self.side):
                work()
            self.current.wait_stream(self.side)
            # captured, not computed: nothing runs before the first replay
            with torch.cuda.graph(graph, pool=self.pool, stream=self.side, capture_error_mode="thread_local"):
                result = work()
        return result, graph.replay


@cache
def _side(current: torch.cuda.Stream) -> torch.cuda.Stream:
    """A second stream for each one: libraries keep scratch memory for a stream, and graphs keep its address."""
    return torch.cuda.Stream(current.device)


RECORDERS: dict[str, type[AbstractRecorder]] = {"cuda": CudaRecorder}
"""By type of device. Other devices launch quickly enough."""


class Recording:
    """A function of tensors and its derivative, recorded for tensors of certain shapes.

    Parameters are read at their own addresses. All other tensors, also weights that were computed, are copied.

    Args:
        recorder: of this recording only, as several may wait for their backward passes in any order.
        forward: the function.
        backward: its derivative.
        inputs: the tensors of the first call.
        forget: called when the recording is of no more use, as when a parameter has been freed.
    """

    def __init__(
        self,
        recorder: AbstractRecorder,
        forward: Forward,
        backward: Backward,
        inputs: Tensors,
        forget: Callable[[], Any],
    ) -> None:
        self._recorder, self._backward, self._forget = recorder, backward, forget
        # the graph reads these tensors in every replay; a parameter's is the parameter's own memory
        static_inputs = [x.detach() if isinstance(x, Parameter) else _copied(x) for x in inputs]
        (self._passed, self._results), self._replay = recorder.record(lambda: forward(static_inputs))
        self._static_inputs = static_inputs
        # by circumstances and by which results have gradients: buffers of grad_results, grad_inputs, and the replay
        self._backwards: dict[Hashable, tuple[Tensors, Tensors, Callable[[], None]]] = {}
        self._owner: list[weakref.ref[Any]] = []
        self._weights = [weakref.ref(x, lambda _: forget()) for x in inputs if isinstance(x, Parameter)]

    @property
    def is_free(self) -> bool:
        """Whether no backward pass is waiting for it."""
        return not self._owner or self._owner[0]() is None

    def reserve(self, owner: Any) -> None:
        """Reserves this recording for a node, until it is freed or has run backward without `retain_graph`."""
        self._owner[:] = [weakref.ref(owner)]

    def forward(self, inputs: Tensors) -> tuple[Tensor, ...]:
        """The results, copied, since the next replay writes over its own."""
        for buffer, x in zip(self._static_inputs, inputs, strict=True):
            if buffer is not None and x is not None and not isinstance(x, Parameter):
                buffer.copy_(x)
        self._replay()
        return tuple(x.clone() for x in self._results)

    def backward(self, grad_results: Tensors, needed: Sequence[bool]) -> Tensors:
        """The gradients of the inputs, where needed; called by the owner in its backward pass."""
        recorded = self._recorded(grad_results)
        if recorded is None:
            grad_inputs = self._backward(self._passed, self._results, grad_results)
        else:
            static_grads, replayed, replay = recorded
            for buffer, x in zip(static_grads, grad_results, strict=True):
                if buffer is not None and x is not None:
                    buffer.copy_(x)
            replay()
            grad_inputs = [_copied(x) if need else None for x, need in zip(replayed, needed, strict=True)]
        # without retain_graph no second pass will come for what the forward pass left: free for another node
        if not _keeps_graph():
            self._owner.clear()
        return grad_inputs

    def _recorded(self, grad_results: Tensors) -> tuple[Tensors, Tensors, Callable[[], None]] | None:
        """The recorded backward pass of those results that have gradients; None where it cannot be recorded."""
        device = self._results[0].device
        circumstances = self._recorder.circumstances(device)
        if circumstances is None:
            return None
        key = circumstances, tuple(x is None for x in grad_results)
        with _LOCK:
            if key not in self._backwards:
                static_grads = [_copied(x) for x in grad_results]
                try:
                    work = self._recorder.record(lambda: self._backward(self._passed, self._results, static_grads))
                except RuntimeError as error:
                    _give_up(device, error)
                    self._forget()
                    return None
                self._backwards[key] = (static_grads, *work)
            return self._backwards[key]


class Recordings:
    """The recordings of the shapes that came last; the one that was used longest ago leaves, unless it is reserved.

    A slot is a key of shapes and circumstances with a number, since several passes of one key may wait at once. It
    holds None after the first pass, and a recording from the second on.
    """

    def __init__(self) -> None:
        self._slots: OrderedDict[Hashable, Recording | None] = OrderedDict()

    def reserve(
        self, owner: Any, settings: Hashable, forward: Forward, backward: Backward, inputs: Tensors
    ) -> Recording | None:
        """A recording for such inputs, reserved for the owner; made when they come for the second time. Else None.

        Args:
            owner: the node of the graph.
            settings: all that the work depends on beside tensors.
            inputs: the first one's device counts.
        """
        assert inputs[0] is not None
        device = inputs[0].device
        kind = RECORDERS.get(device.type)
        circumstances = None if kind is None else kind.circumstances(device)
        if kind is None or circumstances is None or any(type(x) not in (*TENSOR_TYPES, type(None)) for x in inputs):
            return None
        key = settings, circumstances, tuple(_key(x) for x in inputs)
        with _LOCK:
            # the first free recording of the key; a slot that is not there yet is remembered for the next time
            for slot in ((key, index) for index in count()):
                if slot not in self._slots:
                    self._remember(slot)
                    return None
                recording = self._slots[slot]
                if recording is None:
                    forget = partial(self._slots.pop, slot, None)
                    try:
                        recording = self._slots[slot] = Recording(kind(device), forward, backward, inputs, forget)
                    except RuntimeError as error:
                        _give_up(device, error)
                        self._slots.clear()
                        return None
                if recording.is_free:
                    self._slots.move_to_end(slot)
                    recording.reserve(owner)
                    return recording
        return None

    def _remember(self, slot: Hashable) -> None:
        # the slots stand in the order of use; reserved ones may not leave, as their backward passes are still to come
        idle = [key for key, recording in list(self._slots.items()) if recording is None or recording.is_free]
        excess = len(self._slots) + 1 - MAX_RECORDINGS
        if excess <= len(idle):
            for key in idle[: max(excess, 0)]:
                del self._slots[key]
            self._slots[slot] = None


def _key(x: Tensor | None) -> Hashable:
    """What a recording depends on in a tensor: a parameter is read at its address, of others only the shape counts."""
    address = (x.data_ptr(), x.stride()) if isinstance(x, Parameter) else None
    return None if x is None else (x.dtype, x.device, x.shape, address)


def _copied(x: Tensor | None) -> Tensor | None:
    return None if x is None else x.detach().clone(memory_format=torch.contiguous_format)


def _give_up(device: torch.device, error: RuntimeError) -> None:
    """Warns with the reason; nothing is recorded on this type of device any more."""
    RECORDERS.pop(device.type, None)
    warnings.warn(
        f"The steps of recurrent decoders could not be recorded on {device}, so they are launched one by one: {error}",
        RuntimeWarning,
        stacklevel=2,
    )
