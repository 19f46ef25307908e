"""Calls that are recorded on a GPU, one for each form of their inputs, and replayed with new numbers (CUDA graphs)."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from threading import Lock
from typing import Any

import torch
from torch import Tensor

from regard import tree

Capture = Callable[[Callable[[], Any]], tuple[Any, Callable[[], object]]]
"""Records a call and makes it; returns its outputs, tensors that every replay writes again, and what replays it."""

MOST = 64
"""Recordings that are kept; the one that was used the longest ago goes first."""


@dataclass(frozen=True, slots=True)
class Recording:
    """A recorded call.

    Args:
        inputs: the tensors that it reads, whatever is copied into them.
        outputs: the tensors that it writes.
        replay: makes it again.
        given: what was copied into the inputs last.
    """

    inputs: list[Tensor]
    outputs: Any
    replay: Callable[[], object]
    given: list[weakref.ref[Tensor]]

    def read(self, inputs: list[Tensor], owned: set[int]) -> None:
        """Copies what is not the tensor that was copied before.

        Args:
            owned: the ids of tensors that recordings change.
        """
        changed = [
            i
            for i, (kept, x, last) in enumerate(zip(self.inputs, inputs, self.given, strict=True))
            if kept is not x and (last() is not x or id(x) in owned)
        ]
        if changed:
            torch._foreach_copy_([self.inputs[i] for i in changed], [inputs[i] for i in changed], non_blocking=True)
        self.given[:] = [weakref.ref(x) for x in inputs]


class Recordings:
    """Makes calls whose operations follow from a form: the first one as it is, the second recorded, others replayed.

    The first call sets up what may not be set up in a recording: libraries' workspaces, compiled kernels, the
    optimiser's state. A form that cannot be recorded is always called as it is, and `failures` tells why.

    Args:
        capture: records a call; `graphs()` on a GPU.
    """

    def __init__(self, capture: Capture) -> None:
        self._capture = capture
        self._kept: OrderedDict[Hashable, Recording] = OrderedDict()
        self._seen: set[Hashable] = set()
        self._lock = Lock()
        self._owned: set[int] = set()
        self.failures: dict[Hashable, str] = {}

    def call(self, form: Hashable, inputs: Any, function: Callable[[Any], Any]) -> Any:
        """The outputs of a function, a tree of tensors as the inputs are; they last until the next call.

        Args:
            form: what decides the operations of the function, the shapes and types of the inputs included.
            inputs: not changed in place from call to call, as a tensor that was the input before is not copied again.
        """
        with self._lock:
            leaves = list(tree.leaves(inputs))
            if (recording := self._kept.get(form)) is not None:
                self._kept.move_to_end(form)
                recording.read(leaves, self._owned)
                recording.replay()
                return recording.outputs
            if form in self.failures or form not in self._seen:
                self._seen.add(form)
                return function(inputs)
            own = tree.map(torch.clone, inputs)
            try:
                outputs, replay = self._capture(lambda: function(own))
            except RuntimeError as error:  # an operation that no recording may have
                self.failures[form] = f"{type(error).__name__}: {error}"
                return function(inputs)
            self._kept[form] = Recording(list(tree.leaves(own)), outputs, replay, [weakref.ref(x) for x in leaves])
            if len(self._kept) > MOST:
                self._kept.popitem(last=False)
            self._owned.clear()
            for each in self._kept.values():
                self._owned.update(map(id, (*each.inputs, *tree.leaves(each.outputs))))
            return outputs


def graphs() -> Capture:
    """Recording as CUDA graphs, which share their memory, as they are replayed one after the other."""
    pool = torch.cuda.graph_pool_handle()

    def capture(function: Callable[[], Any]) -> tuple[Any, Callable[[], object]]:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
            outputs = function()
        graph.replay()
        return outputs, graph.replay

    return capture
