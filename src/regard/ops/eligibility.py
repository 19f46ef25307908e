"""Why kernels cannot compute some inputs: one question, one function, each answers with the reason or None.

An implementation's `unsupported_reason` joins those that concern it by `or`, `kernel_reason` first: where a compiler
looks, nothing else may be asked. Inputs that are None are not asked about, so without inputs they say whether the
implementation can be used here at all. Instead of tensors they take `StandIn`s, by which `explain` asks about work that
is not there, as that of a GPU.
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
"""What most kernels compute in."""
TENSOR_TYPES = frozenset((Tensor, torch.nn.Parameter))
_MACHINES = {"cpu": "the CPU", "cuda": "a GPU"}


@dataclass(frozen=True)
class StandIn:
    """What is asked of a tensor, without one; of a GPU it is supposed that it is there, with what its kernels need.

    Args:
        device: cpu or cuda.
        shape: its sizes.
        requires_grad: whether it is a part of what is differentiated.
    """

    device: torch.device
    shape: tuple[int, ...] = ()
    dtype: torch.dtype = torch.float32
    requires_grad: bool = False

    def __len__(self) -> int:
        return self.shape[0]

    def dim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def numel(self) -> int:
        """The number of numbers."""
        return prod(self.shape)

    def is_contiguous(self) -> bool:
        """It has no gaps."""
        return True

    def is_floating_point(self) -> bool:
        """Whether it holds real numbers."""
        return self.dtype.is_floating_point

    def element_size(self) -> int:
        """Bytes of a number."""
        return self.dtype.itemsize


@cache
def stand_in(device: str) -> StandIn:
    """One that tells only its type of device."""
    return StandIn(device=torch.device(device))


_LOADED: ContextVar[Container[str] | None] = ContextVar("kernels that are loaded; None where more may be", default=None)


@contextmanager
def only_loaded_kernels(loaded: Container[str] = sys.modules) -> Iterator[None]:
    """Within it, kernels for the CPU that this process has not loaded yet are refused, and the plain ways are taken.

    For work that is known to be small: loading numba and the first kernels takes most of a second, even when the
    kernels are compiled already and only read from disk.

    Args:
        loaded: the names of modules that count as loaded.
    """
    token = _LOADED.set(loaded)
    try:
        yield
    finally:
        _LOADED.reset(token)


def compiles() -> bool:
    """Whether torch.compile or torch.export looks at what is called, and not at a derivative or a batch of it."""
    return torch.compiler.is_compiling() and not torch._C._are_functorch_transforms_active()


def kernel_reason(*inputs: Any) -> str | None:
    """No kernel of ours may compute these inputs.

    A kernel gives the values of plain tensors and, through `torch.autograd.Function`, their gradients. Whatever else
    torch asks of an operation (a graph of it, a derivative in forward mode, a batched form, a result without numbers)
    it gets from the reference, whose operations are torch's. Every operation asks here first.

    Args:
        inputs: those of the operation; what is not a tensor is not looked at.
    """
    if torch.compiler.is_compiling():
        return "the compiler cannot see into kernels"
    if (reason := switched_off()) is not None:
        return reason
    if torch._C._are_functorch_transforms_active():
        return "torch.func cannot see into kernels"
    if torch._C._get_tracing_state() is not None:
        return "torch.jit.trace cannot see into kernels"
    if torch._C._len_torch_dispatch_stack() > 0:
        return "a dispatch mode (make_fx, FakeTensorMode, FlopCounterMode, ...) cannot see into kernels"
    if forward_ad._current_level >= 0:
        return "kernels have no derivatives in forward mode"
    for x in inputs:
        if isinstance(x, Tensor) and type(x) not in TENSOR_TYPES:
            return f"the kernels take plain tensors and not {type(x).__name__}"
    return None


def device_reason(device: str, *inputs: Any) -> str | None:
    """Some input is not on this type of device."""
    for x in inputs:
        if x is not None and x.device.type != device:
            return f"the inputs are on {x.device.type} and the kernels for {_MACHINES.get(device, device)}"
    return None


def type_reason(*inputs: Any, types: tuple[torch.dtype, ...] = FLOATS) -> str | None:
    """The first input is of none of these types, or a floating one after it of another type than it is."""
    first = None
    for x in inputs:
        if x is None or (first is not None and not x.dtype.is_floating_point):
            continue
        if x.dtype not in types or x.dtype != (first or x.dtype):
            return f"it computes in {' and '.join(map(_named, types))}, all inputs alike; one is {_named(x.dtype)}"
        first = x.dtype
    return None


def autocast_reason(*inputs: Any) -> str | None:
    """Autocast is on for the device of the first input, or without one for the CPU."""
    device = next((x.device.type for x in inputs if x is not None), "cpu")
    return "autocast asks for half types" if autocasts(device) else None


def gradient_reason(*inputs: Any) -> str | None:
    """Gradients of some input are asked for."""
    if torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in inputs):
        return "gradients are asked for"
    return None


def empty_reason(*inputs: Any) -> str | None:
    """Some input has no numbers."""
    return "there is nothing to compute" if any(x is not None and not x.numel() for x in inputs) else None


def numba_reason(module: str, *inputs: Any) -> str | None:
    """A module of compiled loops for the CPU cannot take these inputs, or be used here."""
    if (reason := device_reason("cpu", *inputs[:1])) is not None:
        return reason
    if "NUMBA_DISABLE_JIT" in os.environ and os.environ["NUMBA_DISABLE_JIT"] not in ("", "0"):  # `get` is slower
        return "NUMBA_DISABLE_JIT says that nothing shall be compiled"
    if (loaded := _LOADED.get()) is not None and module not in loaded:
        return "the kernels are not loaded yet, and loading them takes longer than the work"
    return unavailable("numba", module)


def compiled_reason(module: str, *inputs: Any) -> str | None:
    """Compiled loops for one floating type on the CPU cannot take these inputs, or be used here."""
    return (
        kernel_reason(*inputs)
        or type_reason(*inputs)
        or autocast_reason(*inputs)
        or empty_reason(*inputs)
        or numba_reason(module, *inputs)
    )


def triton_reason(module: str, *inputs: Any) -> str | None:
    """A module of kernels for a GPU cannot take these inputs, or be used here."""
    if (reason := device_reason("cuda", *inputs[:1])) is not None:
        return reason
    if inputs and isinstance(inputs[0], StandIn):
        return None
    if not torch.cuda.is_available():
        return "there is no GPU that torch can use"
    if os.environ.get("TRITON_INTERPRET") == "1":
        return "TRITON_INTERPRET=1 would run the kernels in Python"
    return unavailable("triton", module)


@cache
def unavailable(package: str, module: str) -> str | None:
    """A module of kernels cannot be imported, as it needs a package that is not here or fails."""
    if find_spec(package) is None:
        return f"{package} is not installed"
    try:
        import_module(module)
    except ImportError as error:
        return f"{package} cannot be imported: {error}"
    return None


def _named(kind: torch.dtype) -> str:
    return str(kind).removeprefix("torch.")
