"""A device that is not the CPU, on a machine that has none: torch's place for backends, filled with tensors of the CPU.

What a GPU refuses is refused: an operator that is given numbers of two devices, or a generator of the CPU; lengths of
packed rows that are not on the CPU. Who imports this has the device for good, so tests do it in a process of their own.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.backend_registration import _DummyBackendModule, _setup_privateuseone_for_python_backend


class _Backend(_DummyBackendModule):
    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16]


_setup_privateuseone_for_python_backend("elsewhere", _Backend())
DEVICE = torch.device("elsewhere:0")


class Elsewhere(Tensor):
    """A tensor on the device, whose numbers are those of `inner` on the CPU."""

    inner: Any

    @staticmethod
    def __new__(cls, inner: Tensor) -> Elsewhere:
        options = {"strides": inner.stride(), "storage_offset": inner.storage_offset(), "dtype": inner.dtype}
        make: Any = Tensor._make_wrapper_subclass
        return make(cls, inner.size(), device=DEVICE, **options)

    def __init__(self, inner: Tensor) -> None:
        self.inner = inner

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["inner"], None

    @staticmethod
    def __tensor_unflatten__(parts: dict[str, Tensor], context: None, size: Any, stride: Any) -> Elsewhere:
        return Elsewhere(parts["inner"])

    def tolist(self) -> Any:
        return self.inner.tolist()

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        return _run(function, args, kwargs or {})


def _empty_strided(size: Any, stride: Any, *, dtype: Any = None, **options: Any) -> Tensor:
    return Elsewhere(torch.empty_strided(size, stride, dtype=dtype, device="cpu"))


def _copy_from(source: Any, target: Any, non_blocking: bool = False) -> Tensor:
    target.inner.copy_(source.inner if isinstance(source, Elsewhere) else source)
    return target


# what torch calls behind Python's back, as `torch.tensor` does
_LIBRARY = torch.library.Library("aten", "IMPL")
_LIBRARY.impl("empty_strided", _empty_strided, "PrivateUse1")
_LIBRARY.impl("_copy_from", _copy_from, "PrivateUse1")


def _lstm(x: Tensor, s: Tensor, c: Tensor, *biases: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    i, f, g, o = sum(biases, x + s).chunk(4, 1)
    gates = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    after = gates[1] * c + gates[0] * gates[2]
    return gates[3] * after.tanh(), after, torch.cat(gates, 1)


def _lstm_backward(grad_h: Any, grad_c: Any, before: Tensor, after: Tensor, gates: Tensor, has_bias: bool) -> Any:
    i, f, g, o = gates.chunk(4, 1)
    tangent = after.tanh()
    grad_h, grad_c = (torch.zeros_like(before) if x is None else x for x in (grad_h, grad_c))
    grad_c = grad_c + grad_h * o * (1 - tangent**2)
    parts = (
        grad_c * g * i * (1 - i),
        grad_c * before * f * (1 - f),
        grad_c * i * (1 - g**2),
        grad_h * tangent * o * (1 - o),
    )
    grad = torch.cat(parts, 1)
    return grad, grad_c * f, grad.sum(0) if has_bias else None


def _gru(x: Tensor, s: Tensor, h: Tensor, *biases: Tensor) -> tuple[Tensor, Tensor]:
    x, s = (x + biases[0], s + biases[1]) if biases else (x, s)
    (xr, xz, xn), (sr, sz, sn) = x.chunk(3, 1), s.chunk(3, 1)
    r, z = (xr + sr).sigmoid(), (xz + sz).sigmoid()
    n = (xn + r * sn).tanh()
    return (1 - z) * n + z * h, torch.cat((r, z, n, h, sn), 1)


def _gru_backward(grad: Tensor, workspace: Tensor, has_bias: bool) -> Any:
    r, z, n, h, s = workspace.chunk(5, 1)
    grad_n = grad * (1 - z) * (1 - n**2)
    grad_r, grad_z = grad_n * s * r * (1 - r), grad * (h - n) * z * (1 - z)
    of_x, of_s = torch.cat((grad_r, grad_z, grad_n), 1), torch.cat((grad_r, grad_z, grad_n * r), 1)
    return of_x, of_s, grad * z, of_x.sum(0) if has_bias else None, of_s.sum(0) if has_bias else None


FUSED: dict[str, Any] = {
    "_thnn_fused_lstm_cell": _lstm,
    "_thnn_fused_lstm_cell_backward_impl": _lstm_backward,
    "_thnn_fused_gru_cell": _gru,
    "_thnn_fused_gru_cell_backward": _gru_backward,
}
"""Operators that torch does not have for the CPU."""


class OtherDevice(TorchDispatchMode):
    """Within it there is the device."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(function, args, kwargs or {})


def _run(function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    name = function.overloadpacket.__name__
    leaves = pytree.tree_leaves((args, kwargs))
    tensors = [x for x in leaves if isinstance(x, Tensor)]
    lengths = args[1] if "pack" in name and "padded_sequence" in name else None
    if isinstance(lengths, Elsewhere):
        raise RuntimeError(f"{name} takes lengths on the CPU")
    here = [x for x in tensors if not isinstance(x, Elsewhere) and x.dim() and x is not lengths]
    elsewhere = len(here) < len(tensors) and any(isinstance(x, Elsewhere) for x in tensors)
    if elsewhere and here and name not in ("copy_", "_to_copy"):
        raise RuntimeError(f"{name} is given tensors of two devices, one {tuple(here[0].shape)} of the CPU")
    if (wanted := kwargs.get("device")) is not None:
        elsewhere = torch.device(wanted).type == DEVICE.type
        kwargs = {**kwargs, "device": torch.device("cpu")}
    if elsewhere and any(isinstance(x, torch.Generator) and x.device.type == "cpu" for x in leaves):
        raise RuntimeError(f"{name} is given a generator of the CPU")
    inner, options = pytree.tree_map_only(Elsewhere, lambda x: x.inner, (args, kwargs))
    if name in FUSED:
        result = FUSED[name](*(x for x in inner if x is not None or "backward" in name))
    else:
        result = function(*inner, **options)
    if name in ("_local_scalar_dense", "equal", "is_same_size") or not elsewhere:
        return result
    is_in_place = name.startswith("__i") if name.startswith("__") else name.endswith("_")
    if is_in_place and isinstance(args[0], Elsewhere):
        return args[0]
    if name == "_pack_padded_sequence":
        return Elsewhere(result[0]), result[1]
    given = {id(x.inner): x for x in tensors if isinstance(x, Elsewhere)}
    return pytree.tree_map_only(Tensor, lambda x: given[id(x)] if id(x) in given else Elsewhere(x), result)
