"""Calls that are recorded on a GPU, one for each form of their inputs, and replayed with new numbers (CUDA graphs)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import torch

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
    """

    inputs: Any
    outputs: Any
    replay: Callable[[], object]


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
        self.failures: dict[Hashable, str] = {}

    def call(self, form: Hashable, inputs: Any, function: Callable[[Any], Any]) -> Any:
        """The outputs of a function, trees of tensors as the inputs are.

        Args:
            form: what decides the operations of the function, the shapes and types of the inputs included.
        """
        if form in self.failures:
            return function(inputs)
        if form not in self._seen:
            self._seen.add(form)
            return function(inputs)
        recording = self._kept.get(form)
        if recording is None:
            own = tree.map(torch.clone, inputs)
            try:
                outputs, replay = self._capture(lambda: function(own))
            except RuntimeError as error:  # an operation that no recording may have
                self.failures[form] = f"{type(error).__name__}: {error}"
                return function(inputs)
            recording = Recording(own, outputs, replay)
            self._kept[form] = recording
            if len(self._kept) > MOST:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(form)
            tree.map(lambda kept, new: kept.copy_(new, non_blocking=True), recording.inputs, inputs)
            recording.replay()
        return tree.map(torch.clone, recording.outputs)


def graphs() -> Capture:
    """Recording as CUDA graphs, which share their memory, as they are replayed one after the other."""
    pool = torch.cuda.graph_pool_handle()

    def capture(function: Callable[[], Any]) -> tuple[Any, Callable[[], object]]:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            outputs = function()
        graph.replay()
        return outputs, graph.replay

    return capture
