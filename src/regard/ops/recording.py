"""Calls that are recorded as CUDA graphs, one for each form of their inputs, and replayed with new values."""

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
"""Records and makes a call; returns its outputs, which every replay overwrites, and a function that replays it."""

MOST = 64
"""The most recordings that are kept; the least recently used one is dropped."""


@dataclass(frozen=True, slots=True)
class Recording:
    """A recorded call.

    Args:
        inputs: the tensors that it reads.
        outputs: the tensors that it writes.
        replay: repeats it.
        sources: the tensors that were copied into the inputs last.
    """

    inputs: list[Tensor]
    outputs: Any
    replay: Callable[[], object]
    sources: list[weakref.ref[Tensor]]

    def read(self, inputs: list[Tensor], owned: set[int]) -> None:
        """Copies inputs, except those that were copied last.

        Args:
            owned: ids of tensors that recordings overwrite.
        """
        changed = [
            i
            for i, (own, x, source) in enumerate(zip(self.inputs, inputs, self.sources, strict=True))
            if own is not x and (source() is not x or id(x) in owned)
        ]
        if changed:
            torch._foreach_copy_([self.inputs[i] for i in changed], [inputs[i] for i in changed], non_blocking=True)
        self.sources[:] = [weakref.ref(x) for x in inputs]


class Recordings:
    """Calls whose operations follow from a form: its first call is ordinary, its second recorded, later ones replayed.

    The first call allocates what a recording cannot: libraries' workspaces, compiled kernels, the optimiser's state. A
    form that cannot be recorded is always called, and `failures` has the reason.

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
        """The outputs of a function, a tree of tensors that is valid until the next call.

        Args:
            form: determines the operations of the function, with shapes and types of the inputs.
            inputs: a tree of tensors that are not changed in place, as the last call's are not copied again.
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
            except RuntimeError as error:  # an operation that cannot be recorded
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
    """Records CUDA graphs, which share their memory, as they are replayed one after the other."""
    pool = torch.cuda.graph_pool_handle()

    def capture(function: Callable[[], Any]) -> tuple[Any, Callable[[], object]]:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
            outputs = function()
        graph.replay()
        return outputs, graph.replay

    return capture
