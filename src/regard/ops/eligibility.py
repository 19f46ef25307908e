"""Why kernels cannot compute some inputs: functions that return a reason or None.

An implementation's `unsupported_reason` joins those that concern it by `or`, `kernel_reason` first, as the others must
not be called while torch compiles. Inputs that are None are ignored; without inputs the functions return why an
implementation is unavailable on this machine. `StandIn`s in place of tensors describe inputs that do not exist, such as
those on a GPU.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Container, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from regard.ops.autograd import autocasts
from regard.ops.switch import switched_off

FLOATS = (torch.float32, torch.float64)
"""The types of most kernels."""
TENSOR_TYPES = frozenset((Tensor, torch.nn.Parameter))
_MACHINES = {"cpu": "the CPU", "cuda": "a GPU"}


@dataclass(frozen=True)
class StandIn:
    """The attributes of a tensor that reasons read, without a tensor; a GPU and its packages are assumed to exist."""

    device: torch.device
    shape: tuple[int, ...] = ()
    dtype: torch.dtype = torch.float32
    requires_grad: bool = False

    def __len__(self) -> int:
        return self.shape[0]

    def dim(self) -> int:
        """As of a tensor."""
        return len(self.shape)

    def numel(self) -> int:
        """As of a tensor."""
        return prod(self.shape)

    def is_contiguous(self) -> bool:
        """As of a tensor."""
        return True

    def is_floating_point(self) -> bool:
        """As of a tensor."""
        return self.dtype.is_floating_point

    def element_size(self) -> int:
        """As of a tensor."""
        return self.dtype.itemsize


@cache
def stand_in(device: str) -> StandIn:
    """A `StandIn` without axes on a type of device."""
    return StandIn(device=torch.device(device))


_LOADED: ContextVar[Container[str] | None] = ContextVar(
    "modules of kernels that may be used; None for all", default=None
)


@contextmanager
def only_loaded_kernels(loaded: Container[str] = sys.modules) -> Iterator[None]:
    """Within it, kernels for the CPU are used only if this process has loaded them.

    For small work: loading numba and the first kernels takes most of a second, even if compiled kernels are read from
    disk.

    Args:
        loaded: the names of modules that count as loaded.
    """
    token = _LOADED.set(loaded)
    try:
        yield
    finally:
        _LOADED.reset(token)


def compiles() -> bool:
    """Whether torch.compile or torch.export traces the call itself, and not a derivative or a batch of it."""
    return torch.compiler.is_compiling() and not torch._C._are_functorch_transforms_active()


def kernel_reason(*inputs: Any) -> str | None:
    """Why no kernel of ours can compute these inputs, or None.

    Kernels compute values of plain tensors and, by `torch.autograd.Function`, their gradients. Graphs of operations,
    derivatives in forward mode, batches of torch.vmap and shapes without values are those of the reference, which
    consists of torch's operations.

    Args:
        inputs: of the operation; others than tensors are ignored.
    """
    if torch.compiler.is_compiling():
        return "torch.compile cannot trace kernels"
    if (reason := switched_off()) is not None:
        return reason
    if torch._C._are_functorch_transforms_active():
        return "torch.func cannot transform kernels"
    if torch._C._get_tracing_state() is not None:
        return "torch.jit.trace cannot trace kernels"
    if torch._C._len_torch_dispatch_stack() > 0:
        return "dispatch modes (make_fx, FakeTensorMode, FlopCounterMode, ...) cannot trace kernels"
    if forward_ad._current_level >= 0:
        return "kernels have no derivatives in forward mode"
    for x in inputs:
        if isinstance(x, Tensor) and type(x) not in TENSOR_TYPES:
            return f"kernels take plain tensors, not {type(x).__name__}"
    return None


def device_reason(device: str, *inputs: Any) -> str | None:
    """Why inputs are not on this type of device, or None."""
    for x in inputs:
        if x is not None and x.device.type != device:
            return f"the inputs are on {x.device.type}, the kernels are for {_MACHINES.get(device, device)}"
    return None


def type_reason(*inputs: Any, types: tuple[torch.dtype, ...] = FLOATS) -> str | None:
    """Why the first input is of none of these types, or a further floating one of another type than it; or None."""
    first = None
    for x in inputs:
        if x is None or (first is not None and not x.dtype.is_floating_point):
            continue
        if x.dtype not in types or x.dtype != (first or x.dtype):
            return f"it computes in {' and '.join(map(_named, types))}, all inputs alike; one is {_named(x.dtype)}"
        first = x.dtype
    return None


def autocast_reason(*inputs: Any) -> str | None:
    """Why autocast on the device of the first input, or on the CPU without inputs, prevents kernels; or None."""
    device = next((x.device.type for x in inputs if x is not None), "cpu")
    return "autocast is on" if autocasts(device) else None


def gradient_reason(*inputs: Any) -> str | None:
    """Why gradients of some input are required, or None."""
    if torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in inputs):
        return "gradients are required"
    return None


def empty_reason(*inputs: Any) -> str | None:
    """Why some input is empty, or None."""
    return "an input is empty" if any(x is not None and not x.numel() for x in inputs) else None


def numba_reason(module: str, *inputs: Any) -> str | None:
    """Why a module of compiled loops for the CPU cannot be used for these inputs, or on this machine; or None."""
    if (reason := device_reason("cpu", *inputs[:1])) is not None:
        return reason
    if "NUMBA_DISABLE_JIT" in os.environ and os.environ["NUMBA_DISABLE_JIT"] not in ("", "0"):  # `get` is slower
        return "NUMBA_DISABLE_JIT is set, which disables compilation"
    if (loaded := _LOADED.get()) is not None and module not in loaded:
        return "the kernels are not loaded yet, and loading them takes longer than the work"
    return unavailable("numba", module)


def compiled_reason(module: str, *inputs: Any) -> str | None:
    """The same of a module whose loops take inputs of one floating type."""
    return (
        kernel_reason(*inputs)
        or type_reason(*inputs)
        or autocast_reason(*inputs)
        or empty_reason(*inputs)
        or numba_reason(module, *inputs)
    )


def triton_reason(module: str, *inputs: Any) -> str | None:
    """Why a module of kernels for a GPU cannot be used for these inputs, or on this machine; or None."""
    if (reason := device_reason("cuda", *inputs[:1])) is not None:
        return reason
    if inputs and isinstance(inputs[0], StandIn):
        return None
    if not torch.cuda.is_available():
        return "there is no GPU that torch can use"
    if os.environ.get("TRITON_INTERPRET") == "1":
        return "TRITON_INTERPRET=1 runs kernels in Python"
    return unavailable("triton", module)


@cache
def unavailable(package: str, module: str) -> str | None:
    """Why a module of kernels cannot be imported, or None: a package is missing or fails."""
    if find_spec(package) is None:
        return f"{package} is not installed"
    try:
        import_module(module)
    except ImportError as error:
        return f"{package} cannot be imported: {error}"
    return None


def _named(kind: torch.dtype) -> str:
    return str(kind).removeprefix("torch.")
