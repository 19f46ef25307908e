"""A recording on a tape of operations, in place of a CUDA graph: numbers of Python are frozen in both."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

READS = (
    "aten._local_scalar_dense",
    "aten.nonzero",
    "aten.masked_select",
    "aten._unique2",
    "aten.repeat_interleave.Tensor",
)
"""Operations that wait for a GPU, as what follows depends on values."""


def refused(name: str, args: Any, kwargs: dict[str, Any]) -> str | None:
    """Why an operation may not be recorded: it reads values of its tensors, or copies from one device to another."""
    masked = name.startswith(("aten.index.", "aten.index_put")) and any(
        x is not None and x.dtype == torch.bool for x in args[1]
    )
    if masked or name.startswith(READS):
        return f"{name} waits for the device"
    if name.startswith(("aten._to_copy", "aten.copy_")):
        devices = {x.device.type for x in tensors((args, kwargs))}
        devices |= {torch.device(kwargs["device"]).type} if kwargs.get("device") is not None else set()
        return f"{name} copies between devices" if len(devices) > 1 else None
    return None


class Watched(TorchDispatchMode):
    """Within it fails what may not be recorded."""

    def __torch_dispatch__(self, function: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        if (reason := refused(str(function), args, kwargs or {})) is not None:
            raise RuntimeError(reason)
        return function(*args, **(kwargs or {}))


class Tape(TorchDispatchMode):
    """Notes every operation while a function is called."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.entries: list[tuple[Any, Any, Any, Any]] = []
        self.read: dict[int, Tensor] = {}
        """By address what was read before it was written, which must be there when it is read again."""
        self._written: set[int] = set()

    def __torch_dispatch__(self, function: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        if (reason := refused(str(function), args, kwargs or {})) is not None:
            raise RuntimeError(reason)
        given = tree_map(aliased, (args, kwargs or {}))
        for x in tensors(given):
            if (place := x.untyped_storage().data_ptr()) not in self._written:
                self.read.setdefault(place, x)
        result = function(*args, **(kwargs or {}))
        self._written.update(x.untyped_storage().data_ptr() for x in tensors(result))
        self.entries.append((function, *given, tree_map(aliased, result)))
        return result

    def replay(self) -> None:
        """Makes every operation again, with its results where the first ones stand."""
        with torch.no_grad():
            for function, args, kwargs, result in self.entries:
                again = function(*tree_map(aliased, args), **tree_map(aliased, kwargs))
                given = {x.untyped_storage().data_ptr() for x in tensors((args, kwargs)) if x.numel()}
                for old, new in zip(tree_leaves(result), tree_leaves(again), strict=False):
                    if (
                        isinstance(old, Tensor)
                        and isinstance(new, Tensor)
                        and old.numel()
                        and old.untyped_storage().data_ptr() not in given
                    ):
                        old.copy_(new)


def aliased(x: Any) -> Any:
    """A tensor of the same memory, whose shape stays when that of the other is changed in place."""
    return x.detach() if isinstance(x, Tensor) else x


def tensors(tree: Any) -> list[Tensor]:
    """The tensors of arguments or results."""
    return [x for x in tree_leaves(tree) if isinstance(x, Tensor)]


def capture(function: Callable[[], Any]) -> tuple[Any, Callable[[], object]]:
    """As `regard.ops.recording.graphs()` captures."""
    tape = Tape()
    with tape:
        outputs = function()
    return outputs, tape.replay


def strangers(recording: Any, owned: Iterable[Tensor]) -> list[Tensor]:
    """What a recording reads beside its inputs and the tensors of its owner; it may be freed before a replay."""
    there = {x.untyped_storage().data_ptr() for x in (*recording.inputs, *owned)}
    read = recording.replay.__self__.read
    return [x for place, x in read.items() if x.dim() and x.numel() and place not in there]
